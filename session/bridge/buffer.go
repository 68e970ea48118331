package bridge

import "sync"

// Buffer sizes that are kept for reuse. Most messages fit the smallest; what is
// larger than maxPooled is mapped.
var (
	classes = [...]int{4 << 10, 64 << 10, 1 << 20}
	pools   [len(classes)]sync.Pool
)

// maxPooled is the room of the largest buffer that is kept with its memory, in bytes.
const maxPooled = 2 << 20

// Buffer is one message on its way, or the reader's window on a pipe. Its owner
// calls Free once and does not touch it again.
type Buffer struct {
	B      []byte
	mapped []byte // all the memory of a mapped buffer
}

// newBuffer returns an empty buffer with room for n bytes at least.
func newBuffer(n int) *Buffer {
	for i, size := range classes {
		if n > size {
			continue
		}
		if b, ok := pools[i].Get().(*Buffer); ok {
			return b
		}
		return &Buffer{B: make([]byte, 0, size)}
	}
	if n > maxPooled {
		if m := mapping(n); m != nil {
			return &Buffer{B: m[:0], mapped: m}
		}
	}
	return &Buffer{B: make([]byte, 0, n)}
}

// NewBuffer returns an empty buffer with room for n bytes at least.
func NewBuffer(n int) *Buffer { return newBuffer(n) }

// grow gives the buffer twice the room, or limit bytes when that is less. One that is
// to be mapped has room for limit bytes at once: it costs what is written to it.
func (b *Buffer) grow(limit int) {
	n := min(2*cap(b.B), limit)
	if n > maxPooled {
		n = limit
	}
	next := newBuffer(n)
	next.B = append(next.B, b.B...)
	*b, *next = *next, *b
	next.Free()
}

// Free gives the buffer back.
func (b *Buffer) Free() {
	if b.mapped != nil {
		unused(b.mapped)
		b.B, b.mapped = nil, nil
		return
	}
	for i := len(classes) - 1; i >= 0; i-- {
		if cap(b.B) < classes[i] {
			continue
		}
		if cap(b.B) <= 2*classes[i] {
			b.B = b.B[:0]
			pools[i].Put(b)
		}
		return
	}
}

package bridge

import "sync"

// Buffer sizes that are kept for reuse. Most messages fit the smallest; what is
// larger than the largest is left to the collector.
var (
	classes = [...]int{4 << 10, 64 << 10, 1 << 20}
	pools   [len(classes)]sync.Pool
)

// Buffer is one message on its way, or the reader's window on a pipe. Its owner
// calls Free once and does not touch it again.
type Buffer struct{ B []byte }

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
	return &Buffer{B: make([]byte, 0, n)}
}

// NewBuffer returns an empty buffer with room for n bytes at least.
func NewBuffer(n int) *Buffer { return newBuffer(n) }

// grow gives the buffer twice the room, or limit bytes when that is less.
func (b *Buffer) grow(limit int) {
	next := newBuffer(min(2*cap(b.B), limit))
	next.B = append(next.B, b.B...)
	b.B, next.B = next.B, b.B
	next.Free()
}

// Free gives the buffer back.
func (b *Buffer) Free() {
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

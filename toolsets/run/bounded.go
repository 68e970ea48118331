package run

import "fmt"

// Bounded keeps what is written: all of it, or its first and its last half when
// that is more than Max bytes. What a program fails with it mostly says at the end.
type Bounded struct {
	Max int

	buf     []byte
	dropped int // bytes that followed the first half
}

func (b *Bounded) Write(p []byte) (int, error) {
	b.buf = append(b.buf, p...)
	if len(b.buf) > b.Max+b.Max/2 {
		b.squeeze()
	}
	return len(p), nil
}

// squeeze drops the middle, so that Max bytes are left.
func (b *Bounded) squeeze() {
	if over := len(b.buf) - b.Max; over > 0 {
		half := b.Max / 2
		b.buf = append(b.buf[:half], b.buf[half+over:]...)
		b.dropped += over
	}
}

// Cut reports whether something was dropped.
func (b *Bounded) Cut() bool { return b.dropped > 0 || len(b.buf) > b.Max }

// Bytes returns what was kept, with a line of its own for what was not.
func (b *Bounded) Bytes() []byte {
	b.squeeze()
	if b.dropped == 0 {
		return b.buf
	}
	half := b.Max / 2
	out := append([]byte{}, b.buf[:half]...)
	out = fmt.Appendf(out, "\n...[%d bytes were left out here]...\n", b.dropped)
	return append(out, b.buf[half:]...)
}

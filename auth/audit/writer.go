package audit

import (
	"io"
	"sync"
	"time"
)

// Bounds of a Writer. A line waits FlushAfter at most; MaxBuffer bytes may wait.
const (
	FlushAfter = 50 * time.Millisecond
	MaxBuffer  = 256 << 10
	flushSize  = 32 << 10 // is written at once
)

// Writer gathers lines and writes them out in few system calls. It loses none:
// when MaxBuffer bytes are waiting, Write waits as well. Lines are written in
// the order in which they came and never torn.
type Writer struct {
	out io.Writer

	mu      sync.Mutex // guards all below
	room    sync.Cond  // signalled when buf was taken
	buf     []byte
	closed  bool
	err     error
	wake    chan struct{} // one token: there is something to write
	hurry   chan struct{} // one token: do not wait for more
	stopped chan struct{} // closed when the writing goroutine has ended
}

// NewWriter returns a Writer over w. Close must be called.
func NewWriter(w io.Writer) *Writer {
	b := &Writer{out: w, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), stopped: make(chan struct{})}
	b.room.L = &b.mu
	go b.run()
	return b
}

// Write takes p, which is one or more whole lines. After Close it writes
// through. The error is the last one of the writer below.
func (b *Writer) Write(p []byte) (int, error) {
	b.mu.Lock()
	for len(b.buf) > 0 && len(b.buf)+len(p) > MaxBuffer && !b.closed {
		signal(b.hurry)
		b.room.Wait()
	}
	if b.closed {
		b.mu.Unlock()
		<-b.stopped
		return b.out.Write(p)
	}
	b.buf = append(b.buf, p...)
	n, err := len(b.buf), b.err
	b.mu.Unlock()
	if n == len(p) {
		signal(b.wake)
	}
	if n >= flushSize {
		signal(b.hurry)
	}
	return len(p), err
}

// Close writes out what is waiting and returns the last error.
func (b *Writer) Close() error {
	b.mu.Lock()
	already := b.closed
	b.closed = true
	b.room.Broadcast()
	b.mu.Unlock()
	if !already {
		signal(b.hurry)
		signal(b.wake)
	}
	<-b.stopped
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *Writer) run() {
	defer close(b.stopped)
	timer := time.NewTimer(FlushAfter)
	var spare []byte
	for {
		<-b.wake
		timer.Reset(FlushAfter)
		select {
		case <-timer.C:
		case <-b.hurry:
		}
		b.mu.Lock()
		full, closed := b.buf, b.closed
		b.buf = spare[:0]
		b.room.Broadcast()
		b.mu.Unlock()
		if err := b.flush(full); err != nil {
			b.mu.Lock()
			b.err = err
			b.mu.Unlock()
		}
		spare = full
		if closed {
			return
		}
	}
}

func (b *Writer) flush(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := b.out.Write(p)
	return err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

package bridge

import (
	"errors"
	"io"
	"syscall"
	"time"
)

// deadlineWriter is the worker's stdin.
type deadlineWriter interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}

// writer writes whole lines to a worker's stdin. A write that the pipe takes at
// once costs one system call; only one that blocks gets a deadline. The caller
// sees to it that one write runs at a time. Nothing is written after an error,
// because the last line may be half there.
type writer struct {
	dst     deadlineWriter
	raw     syscall.RawConn // nil: dst is no file that does not block
	timeout time.Duration
	try     func(fd uintptr) bool // w.tryWrite, bound once
	failed  error                 // of an earlier write

	// The write under way.
	p   []byte
	n   int
	err error
}

func newWriter(dst deadlineWriter, timeout time.Duration) *writer {
	w := &writer{dst: dst, timeout: timeout, raw: nonBlocking(dst)}
	if w.raw != nil {
		w.try = w.tryWrite
	}
	return w
}

// tryWrite writes what the pipe takes now; it waits for nothing but a worker that keeps
// the pipe locked (see nonBlocking).
func (w *writer) tryWrite(fd uintptr) bool {
	for w.n < len(w.p) {
		n, err := writePipe(fd, w.p[w.n:])
		w.n += n
		if err != nil {
			if err != syscall.EAGAIN {
				w.err = err
			}
			return true
		}
	}
	return true
}

// write writes all of p, in w.timeout at most once the pipe is full. After an
// error n bytes of p were written, and the stream is of no more use.
func (w *writer) write(p []byte) (n int, err error) {
	if w.failed != nil {
		return 0, w.failed
	}
	n, w.failed = w.writeAll(p)
	return n, w.failed
}

func (w *writer) writeAll(p []byte) (n int, err error) {
	if w.raw != nil {
		w.p, w.n, w.err = p, 0, nil
		err := w.raw.Write(w.try)
		w.p = nil
		if err = errors.Join(err, w.err); err != nil || w.n == len(p) {
			return w.n, err
		}
		n = w.n
	}
	if err := w.dst.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return n, err
	}
	m, err := w.dst.Write(p[n:])
	if err != nil {
		return n + m, err
	}
	return n + m, w.dst.SetWriteDeadline(time.Time{})
}

package bridge

import (
	"errors"
	"io"
	"os"
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
// sees to it that one write runs at a time.
type writer struct {
	dst     deadlineWriter
	raw     syscall.RawConn // nil: dst is no file
	timeout time.Duration
	try     func(fd uintptr) bool // w.tryWrite, bound once

	// The write under way.
	p   []byte
	n   int
	err error
}

func newWriter(dst deadlineWriter, timeout time.Duration) *writer {
	w := &writer{dst: dst, timeout: timeout}
	if f, ok := dst.(*os.File); ok {
		if raw, err := f.SyscallConn(); err == nil {
			w.raw, w.try = raw, w.tryWrite
		}
	}
	return w
}

// tryWrite writes what the pipe takes now; it never waits.
func (w *writer) tryWrite(fd uintptr) bool {
	for w.n < len(w.p) {
		n, err := syscall.Write(int(fd), w.p[w.n:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			w.err = err
			return true
		default:
			w.n += n
		}
	}
	return true
}

// write writes all of p, in w.timeout at most once the pipe is full. After an
// error part of p may have been written: the stream is of no more use.
func (w *writer) write(p []byte) error {
	if w.raw != nil {
		w.p, w.n, w.err = p, 0, nil
		err := w.raw.Write(w.try)
		rest := p[w.n:]
		w.p = nil
		if err = errors.Join(err, w.err); err != nil || len(rest) == 0 {
			return err
		}
		p = rest
	}
	if err := w.dst.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return err
	}
	if _, err := w.dst.Write(p); err != nil {
		return err
	}
	return w.dst.SetWriteDeadline(time.Time{})
}

package sessiontest

import (
	"io"
	"os"
	"sync"
	"time"
)

// pipeSize is what a pipe holds before its writer blocks, as on Linux.
const pipeSize = 64 << 10

// pipe is a pipe in memory. Its waits are such that time passes in a testing/synctest
// bubble while they last, which is not so for pipes of the system.
type pipe struct {
	mu       sync.Mutex // guards what follows
	changed  sync.Cond
	buf      []byte
	noReader bool
	noWriter bool
	deadline time.Time // of writes
	timer    *time.Timer
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

type (
	pipeReader struct{ *pipe }
	pipeWriter struct{ *pipe }
)

func (r pipeReader) Read(b []byte) (int, error) {
	p := r.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 && !p.noWriter && !p.noReader {
		p.changed.Wait()
	}
	switch {
	case p.noReader:
		return 0, os.ErrClosed
	case len(p.buf) == 0:
		return 0, io.EOF
	}
	n := copy(b, p.buf)
	p.buf = append(p.buf[:0], p.buf[n:]...)
	p.changed.Broadcast()
	return n, nil
}

func (r pipeReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noReader = true
	r.changed.Broadcast()
	return nil
}

func (w pipeWriter) Write(b []byte) (n int, err error) {
	p := w.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 {
		switch {
		case p.noWriter:
			return n, os.ErrClosed
		case p.noReader:
			return n, io.ErrClosedPipe
		case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
			return n, os.ErrDeadlineExceeded
		case len(p.buf) == pipeSize:
			p.changed.Wait()
			continue
		}
		part := min(len(b), pipeSize-len(p.buf))
		p.buf = append(p.buf, b[:part]...)
		b = b[part:]
		n += part
		p.changed.Broadcast()
	}
	return n, nil
}

func (w pipeWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noWriter = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.changed.Broadcast()
	return nil
}

func (w pipeWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	if w.timer != nil {
		w.timer.Stop()
	}
	if !t.IsZero() {
		w.timer = time.AfterFunc(time.Until(t), w.changed.Broadcast)
	}
	return nil
}

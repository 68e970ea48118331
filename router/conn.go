package router

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"gatehouse/session/rawio"
)

// Limit returns a listener that has at most n connections open at once: those
// beyond wait to be accepted. So idle connections of strangers leave descriptors
// for the workers.
func Limit(ln net.Listener, n int) net.Listener {
	return &limited{ln, make(chan struct{}, n), make(chan struct{}), sync.Once{}}
}

type limited struct {
	net.Listener
	open   chan struct{} // one token for each connection
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a place and then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return newConn(c, l.open), nil
}

// Close closes the listener and ends a waiting Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is an accepted connection. Its reads and writes are those of rawio, which is
// what makes it worth a type of its own.
type conn struct {
	net.Conn
	raw     syscall.RawConn // nil: the connection has no descriptor
	in, out direction
	open    chan struct{}
	once    sync.Once
}

func newConn(c net.Conn, open chan struct{}) *conn {
	w := &conn{Conn: c, open: open}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil && rawio.Ready(raw) {
			w.raw = raw
			w.in.try, w.out.try = w.in.read, w.out.write
		}
	}
	return w
}

// Close closes the connection and gives its place back.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.open })
	return err
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	d := &c.in
	d.mu.Lock()
	defer d.mu.Unlock()
	d.p, d.n, d.err = p, 0, nil
	return d.done("read", c, c.raw.Read(d.try))
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.Conn.Write(p)
	}
	d := &c.out
	d.mu.Lock()
	defer d.mu.Unlock()
	d.p, d.n, d.err = p, 0, nil
	return d.done("write", c, c.raw.Write(d.try))
}

// direction is one of the two of a connection.
type direction struct {
	try func(fd uintptr) bool // read or write, bound once; false: wait, and try again
	mu  sync.Mutex            // guards what follows, the transfer under way
	p   []byte
	n   int
	err error
}

func (d *direction) read(fd uintptr) bool {
	n, err := rawio.Read(fd, d.p)
	switch {
	case err == syscall.EAGAIN:
		return false
	case err == nil && n == 0:
		err = io.EOF
	}
	d.n, d.err = n, err
	return true
}

func (d *direction) write(fd uintptr) bool {
	for d.n < len(d.p) {
		n, err := rawio.Write(fd, d.p[d.n:])
		d.n += n
		if err == syscall.EAGAIN {
			return false
		}
		if err != nil {
			d.err = err
			return true
		}
	}
	return true
}

// done is the result of a transfer, with the errors that net's own connections have;
// net/http tells them apart by their operation.
func (d *direction) done(op string, c *conn, waiting error) (int, error) {
	d.p = nil
	if waiting != nil {
		if e, ok := waiting.(*net.OpError); ok {
			e.Op = op
		}
		return d.n, waiting
	}
	if errno, ok := d.err.(syscall.Errno); ok {
		return d.n, &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
	}
	return d.n, d.err
}

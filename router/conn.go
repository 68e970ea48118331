package router

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
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

// conn is an accepted connection whose deadlines cost something only when there is
// something to wait for: net/http and the door set ten for each request and two for each
// message on a stream, most of which are replaced before anything waits.
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
		if raw, err := s.SyscallConn(); err == nil {
			w.raw = raw
			w.in.try, w.in.limit = w.in.read, c.SetReadDeadline
			w.out.try, w.out.limit = w.out.write, c.SetWriteDeadline
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

// CloseWrite ends what we send. net/http does it when it refuses a body, half a second
// before it closes the connection, so that the client sees the end of the answer and
// the rest of its body does not wipe the answer out.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	n, err := c.in.transfer(p, c.raw.Read)
	return n, c.named("read", err)
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return c.Conn.Write(p)
	}
	n, err := c.out.transfer(p, c.raw.Write)
	return n, c.named("write", err)
}

// named gives an error the form that it has in net's own connections: net/http tells
// them apart by their operation.
func (c *conn) named(op string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *net.OpError:
		e.Op = op
		return e
	case syscall.Errno:
		err = os.NewSyscallError(op, e)
	}
	if err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.raw == nil {
		return c.Conn.SetReadDeadline(t)
	}
	return c.in.set(t)
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.raw == nil {
		return c.Conn.SetWriteDeadline(t)
	}
	return c.out.set(t)
}

// direction is one of the two of a connection.
type direction struct {
	try   func(fd uintptr) bool   // read or write, bound once; false: wait, and try again
	limit func(t time.Time) error // sets the deadline of the connection below

	mu  sync.Mutex // guards what follows, the transfer under way
	p   []byte
	n   int
	err error

	lock     sync.Mutex // guards what follows
	deadline time.Time
	below    time.Time // the deadline of the connection below
	waiting  bool      // the transfer waits, or is about to
}

// set sets the deadline: below too when a transfer waits, else when one has to.
func (d *direction) set(t time.Time) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.deadline = t
	if d.waiting {
		return d.apply()
	}
	return nil
}

// apply has the connection below keep the deadline, d.lock held.
func (d *direction) apply() error {
	if d.below == d.deadline {
		return nil
	}
	d.below = d.deadline
	return d.limit(d.deadline)
}

// transfer reads or writes p; poll calls try until it returns true, and waits between.
func (d *direction) transfer(p []byte, poll func(try func(fd uintptr) bool) error) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.p, d.n, d.err = p, 0, nil
	err := d.check()
	for err == nil {
		if err = poll(d.try); !errors.Is(err, os.ErrDeadlineExceeded) || !d.replaced() {
			break
		}
		err = d.check()
	}
	if err == nil {
		err = d.err
	}
	d.p = nil
	d.lock.Lock()
	d.waiting = false
	d.lock.Unlock()
	return d.n, err
}

// check ends a transfer whose deadline is over, and replaces a deadline below that is.
func (d *direction) check() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	if d.deadline.IsZero() && d.below.IsZero() {
		return nil
	}
	now := time.Now()
	switch {
	case !d.deadline.IsZero() && !now.Before(d.deadline):
		return os.ErrDeadlineExceeded
	case !d.below.IsZero() && !now.Before(d.below):
		return d.apply()
	}
	return nil
}

// replaced says that the connection below keeps a deadline that is no more.
func (d *direction) replaced() bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.below != d.deadline
}

// wait is called before a transfer waits.
func (d *direction) wait() bool {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.waiting = true
	d.err = d.apply()
	return d.err != nil
}

func (d *direction) read(fd uintptr) bool {
	n, err := uninterrupted(syscall.Read, fd, d.p)
	switch {
	case err == syscall.EAGAIN:
		return d.wait()
	case err == nil && n == 0:
		err = io.EOF
	}
	d.n, d.err = n, err
	return true
}

func (d *direction) write(fd uintptr) bool {
	for d.n < len(d.p) {
		n, err := uninterrupted(syscall.Write, fd, d.p[d.n:])
		d.n += n
		if err == syscall.EAGAIN {
			return d.wait()
		}
		if err != nil {
			d.err = err
			return true
		}
	}
	return true
}

// uninterrupted makes a system call again when a signal broke it off.
func uninterrupted(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

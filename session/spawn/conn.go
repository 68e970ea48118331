package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOversize is returned for a message that is larger than MaxFrame.
var ErrOversize = errors.New("read frame: larger than 24 KiB")

// ErrDescriptors is returned for a message with descriptors that the receiver
// does not take. The kernel has closed them already, or the receiver has.
var ErrDescriptors = errors.New("read frame: descriptors attached")

// Conn is one end of the SOCK_SEQPACKET socketpair between front end and
// monitor. One goroutine may read and another one write at the same time.
type Conn struct {
	f      *os.File
	raw    syscall.RawConn
	buf    []byte
	oob    []byte
	closed atomic.Bool
}

// Pair makes a connected pair of close-on-exec sockets: non-blocking a stays
// here, b is for a child process.
func Pair() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// NewConn takes over f, one end of a SOCK_SEQPACKET pair. At most maxFDs
// descriptors are accepted with a message; 0 accepts none, and the kernel never
// installs them.
func NewConn(f *os.File, maxFDs int) (*Conn, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	var kind int
	var kindErr error
	if err := raw.Control(func(fd uintptr) {
		kind, kindErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE)
	}); err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	if kindErr != nil || kind != unix.SOCK_SEQPACKET {
		return nil, errors.New("use socket: descriptor is not a SOCK_SEQPACKET socket")
	}
	if err := f.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("use socket: descriptor is in blocking mode: %w", err)
	}
	c := &Conn{f: f, raw: raw, buf: make([]byte, MaxFrame+1)}
	if maxFDs > 0 {
		c.oob = make([]byte, unix.CmsgSpace(4*maxFDs))
	}
	return c, nil
}

// Read returns the next message, valid until the following Read, and the
// descriptors that came with it, close-on-exec, which the caller owns. It
// returns io.EOF when the other end is closed, os.ErrClosed when this one is.
func (c *Conn) Read() ([]byte, []int, error) {
	var n, oobn, flags int
	var opErr error
	err := c.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, opErr = unix.Recvmsg(int(fd), c.buf, c.oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			if opErr != unix.EINTR {
				return opErr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = opErr
	}
	switch {
	case err == nil:
	case c.closed.Load():
		return nil, nil, os.ErrClosed
	case errors.Is(err, unix.ECONNRESET): // closed with our frames unread
		return nil, nil, io.EOF
	default:
		return nil, nil, fmt.Errorf("read frame: %w", err)
	}
	fds, err := descriptors(c.oob[:oobn])
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0 || (oobn > 0 && len(fds) == 0):
		err = ErrDescriptors
	case flags&unix.MSG_TRUNC != 0 || n > MaxFrame:
		err = ErrOversize
	case n == 0:
		err = io.EOF
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return c.buf[:n], fds, nil
}

// descriptors takes the descriptors out of control messages.
func descriptors(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read frame: control message: %w", err)
	}
	var all []int
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			closeAll(all)
			return nil, ErrDescriptors
		}
		all = append(all, fds...)
	}
	return all, nil
}

// Write sends one message with descriptors, waiting at most until deadline (the
// zero time: for ever). The descriptors stay the caller's.
func (c *Conn) Write(b []byte, fds []int, deadline time.Time) error {
	if len(b) == 0 || len(b) > MaxFrame {
		return errors.New("write frame: size out of range")
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	var sendErr error
	send := func(fd uintptr) (sent bool) {
		for {
			sendErr = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if sendErr != unix.EINTR {
				return sendErr != unix.EAGAIN
			}
		}
	}
	sent := false
	err := c.raw.Control(func(fd uintptr) { sent = send(fd) })
	if err == nil && !sent { // only who has to wait needs a deadline
		if err = c.f.SetWriteDeadline(deadline); err == nil {
			err = c.raw.Write(send)
		}
	}
	if err == nil {
		err = sendErr
	}
	if err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return nil
}

// Close closes the socket; a Read or Write that waits returns.
func (c *Conn) Close() error {
	c.closed.Store(true)
	return c.f.Close()
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

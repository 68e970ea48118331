// Package rawio reads and writes sockets of the network that do not block without a
// word to the scheduler.
//
// An ordinary system call lets another thread have the processor while it lasts, and
// wakes the runtime's watchdog (sysmon) when the process was idle. A call through the
// front end makes some to its client, none of which waits, and between two calls the process
// is idle: the watchdog was woken and put to sleep once or twice a call, which cost
// about a tenth of it.
//
// The watchdog must not sleep while the process is busy, since it takes the processor
// from goroutines that keep it and looks at the network when nobody else does. So one
// call in 256, a few milliseconds of work, is an ordinary one, and so is one that
// moves much.
package rawio

import (
	"sync/atomic"
	"syscall"
)

const (
	often = 256
	much  = 64 << 10 // bytes; copying them takes some 10 µs
)

var calls atomic.Uint32

// ordinary says whether the next call, of n bytes, is to be an ordinary one.
func ordinary(n int) bool { return n > much || calls.Add(1)%often == 0 }

// Read is read(2) of a descriptor that does not block (see Ready), and is done again
// when a signal broke it off. At the end of the file it returns 0 and no error; p must
// not be empty. The error is a syscall.Errno, EAGAIN when there is nothing.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, err := read(fd, p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// Write is write(2) in the same way. It may write less than all of p.
func Write(fd uintptr, p []byte) (int, error) {
	for {
		n, err := write(fd, p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// Ready reports whether a descriptor may be used here: a socket of the network that
// does not block. A processor would be lost for as long as a call waits. A pipe, and a
// socket of this machine alone, may hold a call up in the kernel although they do not
// block: for a lock that whoever has the other end keeps, or for the end of a file
// that it sent along.
func Ready(c syscall.RawConn) bool {
	ready := false
	err := c.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		domain, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_DOMAIN)
		ready = errno == 0 && flags&syscall.O_NONBLOCK != 0 &&
			err == nil && (domain == syscall.AF_INET || domain == syscall.AF_INET6)
	})
	return err == nil && ready
}

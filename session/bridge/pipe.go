package bridge

import (
	"io"
	"os"
	"syscall"
)

// The kernel locks a pipe for every read and write, at either end, and whoever has
// the other end can keep the lock for as long as it likes: splice(2) between the pipe
// and a socket waits for the socket with the pipe locked, and so does a copy to or
// from memory that a file system of the user's own has to fill. A read or write here
// then waits, O_NONBLOCK or not, and no signal ends it. So these are ordinary system
// calls, of which the scheduler knows: such a worker costs its session a thread, and
// nobody else anything (docs/decisions/0008-raw-io.md).

// nonBlocking is the descriptor of a pipe that is never waited for in the kernel, but
// as said above; nil when x is no such file.
func nonBlocking(x any) syscall.RawConn {
	f, ok := x.(*os.File)
	if !ok {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		is = errno == 0 && flags&syscall.O_NONBLOCK != 0
	})
	if err != nil || !is {
		return nil
	}
	return raw
}

// readPipe is read(2), done again when a signal broke it off. The end of the file is
// io.EOF; p must not be empty.
func readPipe(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil && n == 0:
			err = io.EOF
		}
		return max(n, 0), err
	}
}

// writePipe is write(2) in the same way. It may write less than all of p.
func writePipe(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

package proc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrEnded is returned for signals to a child that has ended.
var ErrEnded = errors.New("signal process: it has ended")

// Status is how a child ended.
type Status struct {
	Code   int // -1 when ended by a signal
	Signal int
}

// String says it for a log.
func (s Status) String() string {
	if s.Signal != 0 {
		return fmt.Sprintf("signal %d (%v)", s.Signal, syscall.Signal(s.Signal))
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// Child is a process that a Host started.
type Child struct {
	h    *Host
	pid  int
	done chan struct{}

	mu     sync.Mutex // guards what follows; held while signalling, so that the pid is still ours
	pidfd  *os.File
	second *os.File // for TakePIDFD
	ended  bool
	status Status
}

// newChild is called while the child can't have been reaped.
func newChild(h *Host, pid, pidfd int, twice bool) (*Child, error) {
	if pidfd < 0 {
		return nil, errors.New("start process: this kernel has no pidfd (Linux 5.4 or later is needed)")
	}
	c := &Child{h: h, pid: pid, done: make(chan struct{})}
	if twice {
		fd, err := unix.FcntlInt(uintptr(pidfd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			unix.Close(pidfd)
			return nil, fmt.Errorf("start process: duplicate pidfd: %w", err)
		}
		c.second = os.NewFile(uintptr(fd), "pidfd") // in blocking mode yet: nobody of ours waits on it
	}
	unix.SetNonblock(pidfd, true) // so that the runtime waits for it without a thread
	c.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	rc, err := c.pidfd.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("start process: %w", err)
	}
	go c.wait(rc)
	return c, nil
}

// PID is the child's process id, which is used again some time after Done.
func (c *Child) PID() int { return c.pid }

// Done is closed when the child has ended, was reaped, and its process group was
// killed.
func (c *Child) Done() <-chan struct{} { return c.done }

// Status says how the child ended; valid once Done is closed.
func (c *Child) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// TakePIDFD returns a pidfd of the child, close-on-exec, also when it has ended;
// nil unless Spec.KeepPIDFD asked for one, and the second time. The caller closes
// it.
func (c *Child) TakePIDFD() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.second
	c.second = nil
	return f
}

// Signal signals the child alone.
func (c *Child) Signal(sig syscall.Signal) error { return c.kill(c.pid, sig) }

// SignalGroup signals the child's process group, which it leads.
func (c *Child) SignalGroup(sig syscall.Signal) error { return c.kill(-c.pid, sig) }

func (c *Child) kill(pid int, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrEnded
	}
	return unix.Kill(pid, sig)
}

// wait runs until the child has ended. The child stays a zombie until its process
// group was killed, so that the group's number can't be anybody else's.
func (c *Child) wait(rc syscall.RawConn) {
	err := rc.Read(func(fd uintptr) bool { return hasEnded(int(fd)) })
	if err != nil { // the poller does not take pidfds: spend a thread
		waitBlocking(c.pid)
	}
	c.mu.Lock()
	unix.Kill(-c.pid, unix.SIGKILL)
	c.h.mu.Lock()
	ws := reap(c.pid)
	delete(c.h.children, c.pid)
	c.h.mu.Unlock()
	c.ended = true
	c.status = Status{Code: ws.ExitStatus()}
	if ws.Signaled() {
		c.status = Status{Code: -1, Signal: int(ws.Signal())}
	}
	c.pidfd.Close()
	c.mu.Unlock()
	close(c.done)
}

// hasEnded looks without reaping.
func hasEnded(pidfd int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch err {
		case unix.EINTR:
		case nil:
			return info.Signo == int32(unix.SIGCHLD)
		default: // ECHILD, or EAGAIN of a non-blocking pidfd
			return err != unix.EAGAIN
		}
	}
}

func waitBlocking(pid int) {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}

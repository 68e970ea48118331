package spawn

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// worker is a process that the monitor started for us.
type worker struct {
	c       *Client
	handle  uint64
	pid     int
	uid     int
	account string
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	pidfd   pidfd
	exited  chan struct{}
	stop    sync.Once

	mu     sync.Mutex // guards what follows
	lease  time.Time
	status Status
	ended  bool
	after  func() // of AfterExit
}

var _ Worker = (*worker)(nil)

func newWorker(c *Client, f Spawned, fds []int) *worker {
	file := func(i int, name string) *os.File {
		unix.SetNonblock(fds[i], true) // deadlines need it
		return os.NewFile(uintptr(fds[i]), name)
	}
	return &worker{
		c: c, handle: f.Handle,
		pid: int(f.PID), uid: int(f.UID), account: f.Account, lease: fromMilli(f.Lease),
		stdin: file(0, "worker stdin"), stdout: file(1, "worker stdout"),
		stderr: file(2, "worker stderr"), pidfd: pidfd{fd: fds[3]},
		exited: make(chan struct{}),
	}
}

// pidfd becomes readable when the worker's first process has ended, and can't be used
// to signal it. It is held until then, without an os.File, which would have the
// runtime watch it.
type pidfd struct {
	fd   int
	once sync.Once
}

func (p *pidfd) close() { p.once.Do(func() { unix.Close(p.fd) }) }

func (w *worker) Stdin() *os.File         { return w.stdin }
func (w *worker) Stdout() *os.File        { return w.stdout }
func (w *worker) Stderr() *os.File        { return w.stderr }
func (w *worker) PID() int                { return w.pid }
func (w *worker) UID() int                { return w.uid }
func (w *worker) Account() string         { return w.account }
func (w *worker) Exited() <-chan struct{} { return w.exited }

// AfterExit implements Worker.
func (w *worker) AfterExit(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		go f()
		return
	}
	w.after = f
}

func (w *worker) Lease() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lease
}

func (w *worker) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Renew implements Worker.
func (w *worker) Renew(token string, done func(error)) {
	if token == "" || len(token) > MaxToken {
		done(&Error{Kind: KindToken, Reason: "no token, or longer than 16 KiB"})
		return
	}
	select {
	case <-w.exited:
		done(&Error{Kind: KindRefused, Reason: "the worker has ended"})
		return
	default:
	}
	w.c.request(func(seq uint64) Frame {
		return RenewRequest{Seq: seq, Handle: w.handle, Token: token}
	}, func(a answer) {
		if r, ok := a.frame.(Renewed); ok {
			w.mu.Lock()
			w.lease = fromMilli(r.Lease)
			w.mu.Unlock()
		} else if a.err == nil {
			a.err = w.c.unexpected(a.frame)
		}
		done(a.err)
	})
}

// Stop closes stdin and asks the monitor to see to the rest. It waits for neither.
func (w *worker) Stop() {
	w.stop.Do(func() {
		go w.stdin.Close() // waits while the worker keeps the pipe locked
		select {
		case <-w.exited:
			return
		default:
		}
		go w.c.send(func(seq uint64) Frame { return KillRequest{Seq: seq, Handle: w.handle} })
	})
}

// Interrupt asks the monitor for a SIGINT.
func (w *worker) Interrupt() {
	select {
	case <-w.exited:
	default:
		go w.c.send(func(seq uint64) Frame { return InterruptRequest{Seq: seq, Handle: w.handle} })
	}
}

// discard ends a worker that nobody waits for any more.
func (w *worker) discard() {
	w.closeFiles()
	w.Stop()
}

// closeFiles waits for no pipe that the worker keeps locked.
func (w *worker) closeFiles() {
	for _, f := range []*os.File{w.stdin, w.stdout, w.stderr} {
		go f.Close()
	}
	w.pidfd.close()
}

func (w *worker) end(s Status) {
	w.pidfd.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.ended = s, true
	close(w.exited)
	if w.after != nil {
		go w.after()
	}
}

// Package sessiontest has workers for tests: an in-process Spawner that runs Go
// functions as workers, a small MCP server that can be told to misbehave, and
// workers that are broken from the start.
package sessiontest

import (
	"context"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"gatehouse/session/spawn"
)

// Func is a worker program. It returns its exit code. It should return when In
// ends; when it does not, Killed is closed as the monitor's signals would end it,
// and its pipes break.
type Func func(p *Process) int

// Process is what a worker program sees of the world.
type Process struct {
	In       io.ReadCloser
	Out, Err io.WriteCloser
	Killed   <-chan struct{}
	// Interrupted gets one token for a SIGINT.
	Interrupted <-chan struct{}
	Request     spawn.Request
}

// Spawner runs a Func for each worker. The zero value with a Worker is ready. It
// is safe for concurrent use; the fields must not change once it is used.
type Spawner struct {
	Worker Func
	// InMemory gives workers pipes in memory, for testing/synctest; else they have
	// pipes of the system, as real ones do.
	InMemory bool
	// Fail is asked before each start; what it returns is Spawn's error.
	Fail func(spawn.Request) error
	// Renew is asked when a lease is renewed; the new lease or an error.
	Renew func(token string) (time.Time, error)
	// Lease is the first lease of every worker; zero: never ends.
	Lease time.Time
	// Grace is how long a worker may outlive Stop; 5 s.
	Grace time.Duration

	mu      sync.Mutex // guards what follows
	workers []*worker
	renewed []string
}

var _ spawn.Spawner = (*Spawner)(nil)

// Spawn starts a worker.
func (s *Spawner) Spawn(ctx context.Context, r spawn.Request) (spawn.Worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Fail != nil {
		if err := s.Fail(r); err != nil {
			return nil, err
		}
	}
	w := &worker{spawner: s, lease: s.Lease, exited: make(chan struct{}), stop: make(chan struct{}), killed: make(chan struct{}), interrupt: make(chan struct{}, 1)}
	p := &Process{Killed: w.killed, Interrupted: w.interrupt, Request: r}
	var out spawn.Worker = w
	if s.InMemory {
		in, stdout, stderr := newPipe(), newPipe(), newPipe()
		p.In, p.Out, p.Err = pipeReader{in}, pipeWriter{stdout}, pipeWriter{stderr}
		out = &memoryWorker{worker: w, in: pipeWriter{in}, out: pipeReader{stdout}, err: pipeReader{stderr}}
	} else if err := w.systemPipes(p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.workers = append(s.workers, w)
	s.mu.Unlock()
	go w.run(s.Worker, p)
	return out, nil
}

// Started is how many workers were started so far.
func (s *Spawner) Started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.workers)
}

// Alive is how many of them have not ended.
func (s *Spawner) Alive() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workers {
		select {
		case <-w.exited:
		default:
			n++
		}
	}
	return n
}

// Renewed are the tokens with which leases were renewed so far.
func (s *Spawner) Renewed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.renewed)
}

// Kill ends all live workers, as SIGKILL would.
func (s *Spawner) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workers {
		w.kill()
	}
}

type worker struct {
	spawner *Spawner
	files   [3]*os.File // the front end's ends
	exited  chan struct{}
	stop    chan struct{} // closed by Stop
	killed  chan struct{}

	interrupt chan struct{} // one token: a SIGINT
	stopped   sync.Once
	dead      sync.Once
	status    spawn.Status // set before exited is closed

	mu    sync.Mutex // guards what follows
	after func()     // of AfterExit
	lease time.Time
}

func (w *worker) systemPipes(p *Process) error {
	var err error
	open := func() (r, wr *os.File) {
		if err != nil {
			return nil, nil
		}
		r, wr, err = os.Pipe()
		return r, wr
	}
	in, inW := open()
	outR, out := open()
	errR, stderr := open()
	if err != nil {
		for _, f := range []*os.File{in, inW, outR, out} {
			if f != nil {
				_ = f.Close()
			}
		}
		return err
	}
	w.files = [3]*os.File{inW, outR, errR}
	p.In, p.Out, p.Err = in, out, stderr
	return nil
}

// run runs the program, and ends the process when it returns or is killed.
func (w *worker) run(f Func, p *Process) {
	code := make(chan int, 1)
	go func() { code <- f(p) }()
	grace := w.spawner.Grace
	if grace <= 0 {
		grace = 5 * time.Second
	}
	stop := w.stop
	var deadline <-chan time.Time
	for {
		select {
		case c := <-code:
			w.status = spawn.Status{Code: c}
		case <-w.killed:
			w.status = spawn.Status{Code: -1, Signal: 9}
		case <-deadline:
			w.kill()
			continue
		case <-stop:
			t := time.NewTimer(grace)
			defer t.Stop()
			deadline, stop = t.C, nil
			continue
		}
		break
	}
	_, _, _ = p.In.Close(), p.Out.Close(), p.Err.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.exited)
	if w.after != nil {
		go w.after()
	}
}

// AfterExit implements spawn.Worker.
func (w *worker) AfterExit(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.exited:
		go f()
	default:
		w.after = f
	}
}

func (w *worker) kill() { w.dead.Do(func() { close(w.killed) }) }

func (w *worker) Stdin() *os.File  { return w.files[0] }
func (w *worker) Stdout() *os.File { return w.files[1] }
func (w *worker) Stderr() *os.File { return w.files[2] }
func (w *worker) PID() int         { return 0 }
func (w *worker) UID() int         { return os.Getuid() }
func (w *worker) Account() string  { return "in-process" }
func (w *worker) Stop()            { w.stopped.Do(func() { close(w.stop) }) }
func (w *worker) Interrupt() {
	select {
	case w.interrupt <- struct{}{}:
	default:
	}
}
func (w *worker) Exited() <-chan struct{} { return w.exited }
func (w *worker) Status() spawn.Status    { return w.status }

func (w *worker) Lease() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lease
}

func (w *worker) Renew(token string, done func(error)) {
	s := w.spawner
	s.mu.Lock()
	s.renewed = append(s.renewed, token)
	s.mu.Unlock()
	if s.Renew == nil {
		done(nil)
		return
	}
	lease, err := s.Renew(token)
	if err == nil {
		w.mu.Lock()
		w.lease = lease
		w.mu.Unlock()
	}
	done(err)
}

// memoryWorker is a worker without files.
type memoryWorker struct {
	*worker
	in       pipeWriter
	out, err pipeReader
}

// Pipes are its pipes; see bridge.Piped.
func (w *memoryWorker) Pipes() (stdin interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}, stdout, stderr io.ReadCloser) {
	return w.in, w.out, w.err
}

// Package bridge speaks with one worker over its stdio: newline-delimited JSON-RPC
// (MCP 2025-11-25, basic/transports, stdio). It gives every request an id of its
// own and puts the client's back into the answer, does the same with progress
// tokens and with the worker's own requests, decides which running call a message
// of the worker belongs to, and ends a worker that breaks the protocol.
//
// Lifetime, principals and streams without a call are the affair of package
// session, which a Bridge reaches through Upstream.
package bridge

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"gatehouse/session/spawn"

	"github.com/rs/zerolog"
)

// What the calls of this package return. Compare with errors.Is.
var (
	// ErrBusy: MaxCalls calls are running.
	ErrBusy = errors.New("bridge: too many running calls")
	// ErrGone: the worker ended or was stopped.
	ErrGone = errors.New("bridge: the worker is gone")
	// ErrUnsent: likewise, before it got anything of the message. It is an ErrGone.
	ErrUnsent = fmt.Errorf("%w and got nothing of the message", ErrGone)
	// ErrTimeout: the request timeout passed.
	ErrTimeout = errors.New("bridge: request timeout")
	// ErrCancelled: the client cancelled the call.
	ErrCancelled = errors.New("bridge: cancelled by the client")
	// errAnswered: the final message was taken; Next was called once too often.
	errAnswered = errors.New("bridge: the call was answered")
	// ErrWait: nothing came within the wait.
	ErrWait = errors.New("bridge: nothing yet")
)

// Capability is what a client must have declared for a worker to ask it.
type Capability uint8

// The capabilities of clients (MCP 2025-11-25, basic/lifecycle), as bits.
const (
	CanSample Capability = 1 << iota
	CanElicit
	CanListRoots
	// CanOther stands for requests of other methods, which legacy clients judge themselves.
	CanOther
)

// Upstream takes what belongs to no running call. Its methods are called by whoever
// reads the worker's stdout and must not wait for the worker.
type Upstream interface {
	// Notification takes a notification of the worker, and its buffer.
	Notification(method []byte, b *Buffer)
	// Can are the capabilities of the client that is asked by Ask.
	Can() Capability
	// Ask takes a request of the worker, and its buffer, or returns false and leaves
	// the buffer. Answer or Refuse ends it.
	Ask(id uint64, b *Buffer) bool
	// Withdraw takes back a request that was not delivered yet; false: it was.
	Withdraw(id uint64) bool
	// Ended says once that no call is answered any more and the worker is being
	// stopped; Finished, later, that it is gone and nothing of the Bridge is left.
	Ended(reason string)
	Finished()
}

// Config bounds one worker. Zero values mean the defaults.
type Config struct {
	MaxMessage     int           // longest line of the worker in bytes; 16 MiB
	MaxCalls       int           // running calls; 64
	MaxAsks        int           // requests of the worker that are not answered; 64
	WriteTimeout   time.Duration // how long the worker may leave its stdin unread; 10 s
	RequestTimeout time.Duration // 0: none; progress pushes it out
	// FirstID is the id before the handshake's. A random one makes the handshake's
	// answer a proof that the worker read the question.
	FirstID uint64
	// Interrupt: SIGINT has the worker give its running calls up and live on.
	Interrupt bool
	// Liveness are the members, "method" first, of a request that the worker answers
	// at once in its era; a ping.
	Liveness string
	Now      func() time.Time // for the rates of stderr lines and of calls; time.Now
	// Pace is called by who reads from a worker that floods, again and again, and may
	// wait; nil: it does not.
	Pace func()
}

func (c Config) withDefaults() Config {
	if c.MaxMessage <= 0 {
		c.MaxMessage = 16 << 20
	}
	if c.MaxCalls <= 0 {
		c.MaxCalls = 64
	}
	if c.MaxAsks <= 0 {
		c.MaxAsks = 64
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = 10 * time.Second
	}
	if c.Liveness == "" {
		c.Liveness = `"method":"ping"`
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Times of a worker's end.
const (
	lastWords = 200 * time.Millisecond // for what is still in the pipes of an ended worker
	stopLimit = 10 * time.Second       // for the monitor to say that a stopped worker is gone
)

// Piped is a worker that is no process of its own and has no files: its pipes lie
// in memory. Only tests have such workers.
type Piped interface {
	Pipes() (stdin interface {
		io.WriteCloser
		SetWriteDeadline(t time.Time) error
	}, stdout, stderr io.ReadCloser)
}

// Bridge is the conversation with one worker.
type Bridge struct {
	cfg Config // MaxCalls and RequestTimeout are guarded by mu
	w   spawn.Worker
	up  Upstream
	log func() *zerolog.Logger // made when something is to be said

	in          *writer
	stdin       io.Closer
	out, stderr io.ReadCloser
	src         *source            // over out; used by whoever reads
	onLine      func([]byte) error // b.line, bound once
	writeLock   chan struct{}      // holds the one token while nobody writes

	mu        sync.Mutex // guards what follows
	room      sync.Cond  // held fell, or the worker ended
	reason    string     // why it ended; empty: it did not
	stopped   bool       // it was ended by Stop
	lastID    uint64
	calls     map[uint64]*Call // running in the worker, by our id
	lost      ledger           // ids of calls that were given up
	tasks     tasks            // what goes on although its call was answered
	held      int              // bytes queued for calls or being written to clients
	waiters   []*waiter        // for reuse
	asks      map[uint64]*ask  // of the worker, by the id that the client sees
	lastAsk   uint64
	replies   []byte // lines that must not wait: answers to pings, refusals, cancels
	replying  bool   // a goroutine writes them
	noBatches bool   // the worker's revision is known to have none
	doubt     doubt  // whether the worker still listens
	turn      turn   // who reads the worker's stdout

	workers  sync.WaitGroup // reader, stderr, replies
	done     chan struct{}  // closed when reason is set
	eof      chan struct{}  // closed when the worker's stdout ended
	silent   chan struct{}  // closed when its stderr did
	finished chan struct{}  // closed when nothing is left

	drain stderrDrain // of the stderr goroutine; read when it has ended
}

// New returns a Bridge that owns the worker's pipes. Start comes next, then
// Handshake, and Stop must come at last. log makes the logger, which an idle Bridge
// does not hold.
func New(w spawn.Worker, cfg Config, up Upstream, log func() *zerolog.Logger) *Bridge {
	b := &Bridge{
		cfg: cfg.withDefaults(), w: w, up: up, log: log,
		writeLock: make(chan struct{}, 1),
		lastID:    cfg.FirstID,
		calls:     map[uint64]*Call{},
		done:      make(chan struct{}),
		eof:       make(chan struct{}),
		silent:    make(chan struct{}),
		finished:  make(chan struct{}),
	}
	b.room.L = &b.mu
	b.drain.log, b.drain.now = log, b.cfg.Now
	var dst deadlineWriter
	if p, ok := w.(Piped); ok {
		dst, b.out, b.stderr = p.Pipes()
	} else {
		dst, b.out, b.stderr = w.Stdin(), w.Stdout(), w.Stderr()
	}
	b.in, b.stdin = newWriter(dst, b.cfg.WriteTimeout), dst
	b.writeLock <- struct{}{}
	b.src, b.onLine = newSource(b.out, b.cfg.MaxMessage), b.line
	b.turn.taken = true // by the reader, which Start starts
	return b
}

// Start begins to read what the worker writes.
func (b *Bridge) Start() {
	b.workers.Add(2)
	go b.read()
	go func() {
		defer b.workers.Done()
		b.drain.run(b.stderr)
		close(b.silent)
	}()
	b.w.AfterExit(b.workerEnded)
}

// Limit changes how many calls may run and how long one may take. Calls that run keep
// the time that they have, until progress pushes it out. Zero is as in Config.
func (b *Bridge) Limit(calls int, request time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := Config{MaxCalls: calls, RequestTimeout: request}.withDefaults()
	b.cfg.MaxCalls, b.cfg.RequestTimeout = c.MaxCalls, c.RequestTimeout // and no more: the others are read without mu
}

// Stop ends the worker. It returns at once and may be repeated; reason is for the
// log and only the first counts.
func (b *Bridge) Stop(reason string) { b.end(reason, true) }

// Done is closed when the worker ended or is being stopped: no call is answered
// any more.
func (b *Bridge) Done() <-chan struct{} { return b.done }

// Finished is closed when the worker is gone and nothing of the Bridge is left:
// no goroutine, no open file.
func (b *Bridge) Finished() <-chan struct{} { return b.finished }

// Reason says why the worker ended; empty while it lives.
func (b *Bridge) Reason() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reason
}

// Running says how many calls run in the worker, and how many of them have a
// client that waits.
func (b *Bridge) Running() (all, attended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if c.Aside {
			continue
		}
		all++
		if !c.closed && !c.apart && !c.parked {
			attended++
		}
	}
	return all, attended
}

// end makes the worker's end known: to Upstream first, so that whoever sees its call
// fail finds no session any more, then to the pending calls, which fail at once.
func (b *Bridge) end(reason string, stopped bool) {
	b.mu.Lock()
	if b.reason != "" {
		b.mu.Unlock()
		return
	}
	b.reason, b.stopped = reason, stopped
	b.mu.Unlock()
	b.up.Ended(reason)
	b.mu.Lock()
	for _, c := range b.calls {
		c.finish(ErrGone)
	}
	clear(b.calls)
	clear(b.asks)
	if b.doubt.timer != nil {
		b.doubt.timer.Stop()
	}
	b.endTurn()
	b.mu.Unlock()
	close(b.done)
	b.room.Broadcast()
	b.w.Stop()
	go b.clearUp()
}

// gone reports whether end was called.
func (b *Bridge) gone() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// workerEnded runs once the worker has ended.
func (b *Bridge) workerEnded() {
	within(lastWords, b.eof)
	b.end("the worker ended", false)
}

// clearUp waits for the worker's end and clears up after it.
func (b *Bridge) clearUp() {
	_ = b.stdin.Close() // the worker's end of file; waits while the worker keeps the pipe locked
	if !within(stopLimit, b.w.Exited()) {
		b.log().Error().Msg("a stopped worker was not reported gone")
	}
	within(lastWords, b.eof)
	within(lastWords, b.silent)
	_, _ = b.out.Close(), b.stderr.Close()
	b.workers.Wait()
	b.report()
	b.up.Finished()
	close(b.finished)
}

// within waits for c to be closed, and reports whether it was in time.
func within(limit time.Duration, c <-chan struct{}) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// report logs the worker's end, with the end of its stderr when nobody asked for it.
func (b *Bridge) report() {
	e := b.log().Info()
	if !b.stopped {
		e = b.log().Warn().Str("stderr_tail", shown(b.drain.tail.last(stderrReported)))
	}
	select {
	case <-b.w.Exited():
		s := b.w.Status()
		e.Int("exit_code", s.Code).Int("signal", s.Signal)
		if s.Reason != "" {
			e.Str("monitor", s.Reason)
		}
	default:
	}
	e.Str("reason", b.Reason()).Msg("worker ended")
}

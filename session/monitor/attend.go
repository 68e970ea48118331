package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"gatehouse/session/spawn"
)

const (
	// maxInFlight is how many requests of the front end may be worked on at once.
	maxInFlight = 256
	// maxQueue is how many frames may wait for a front end that does not read.
	maxQueue = 4096
	// sendLimit is how long it may leave its socket full.
	sendLimit = 10 * time.Second
)

// phase is what the front end has done so far.
type phase uint8

const (
	phaseStarting phase = iota // nothing
	phaseServing               // said HELLO
	phaseStopping              // serving, while the service stops
)

// permitted is all that a front end may ask for, and when. A frame that is not in
// its phase's row is an attack: the front end is killed.
var permitted = map[phase]map[spawn.Type]func(*attendant, spawn.Frame) error{
	phaseStarting: {
		spawn.TypeHello: (*attendant).hello,
	},
	phaseServing: {
		spawn.TypeSpawn: (*attendant).spawn,
		spawn.TypeRenew: (*attendant).renew,
		spawn.TypeKill:  (*attendant).kill,

		spawn.TypeInterrupt: (*attendant).interrupt,
		spawn.TypeStatus:    (*attendant).status,
	},
	phaseStopping: {
		spawn.TypeSpawn: (*attendant).refuseStopping,
		spawn.TypeRenew: (*attendant).renew,
		spawn.TypeKill:  (*attendant).kill,

		spawn.TypeInterrupt: (*attendant).interrupt,
		spawn.TypeStatus:    (*attendant).status,
	},
}

// fault is a breach of the protocol: whoever sits in the front end now, it is not
// our program.
type fault struct{ reason string }

func (f *fault) Error() string { return "front end broke the protocol: " + f.reason }

// outgoing is a frame for the front end and the descriptors that go with it, which
// are closed once it is sent.
type outgoing struct {
	frame spawn.Frame
	files []*os.File
}

// done closes the descriptors and waits for none: a worker may keep its pipes locked.
func (o *outgoing) done() {
	if len(o.files) > 0 {
		go closeFiles(o.files)
	}
}

// attendant serves one incarnation of the front end.
type attendant struct {
	m     *Monitor
	conn  *spawn.Conn
	ready chan struct{} // closed at HELLO
	queue chan outgoing
	over  chan struct{} // closed when the conversation is over
	once  sync.Once

	phase    phase  // of the reading goroutine
	lastSeq  uint64 // of the reading goroutine
	inFlight atomic.Int64

	asking sync.Mutex // held by who waits for the answer to a survey

	mu     sync.Mutex         // guards what follows
	last   uint64             // handle given last
	leases map[uint64]*lease  // by handle
	closed bool               // no lease may be added
	survey survey             //
	ctx    context.Context    // ends with the conversation
	cancel context.CancelFunc //
}

func newAttendant(m *Monitor, conn *spawn.Conn) *attendant {
	a := &attendant{
		m: m, conn: conn, ready: make(chan struct{}), over: make(chan struct{}),
		queue: make(chan outgoing, maxQueue), leases: make(map[uint64]*lease),
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	go a.write()
	return a
}

// serve reads what the front end asks for until it hangs up (nil) or breaks the
// protocol (a *fault).
func (a *attendant) serve() error {
	for {
		b, fds, err := a.conn.Read() // fds is always empty: none are accepted
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return &fault{err.Error()}
		case len(fds) > 0:
			return &fault{spawn.ErrDescriptors.Error()}
		}
		if err := a.take(b); err != nil {
			return err
		}
	}
}

// take handles one message.
func (a *attendant) take(b []byte) error {
	f, err := spawn.ParseRequest(b)
	if err != nil {
		return &fault{err.Error()}
	}
	now := a.phase
	if now == phaseServing && a.m.stopping.Load() {
		now = phaseStopping
	}
	handle, ok := permitted[now][f.Type()]
	if !ok {
		return &fault{fmt.Sprintf("%v is not permitted in phase %d", f.Type(), now)}
	}
	return handle(a, f)
}

// ordered demands that sequence numbers only grow.
func (a *attendant) ordered(seq uint64) error {
	if seq <= a.lastSeq {
		return &fault{"sequence number used twice"}
	}
	a.lastSeq = seq
	return nil
}

func (a *attendant) hello(spawn.Frame) error {
	a.phase = phaseServing
	close(a.ready)
	return nil
}

func (a *attendant) refuseStopping(f spawn.Frame) error {
	r := f.(spawn.SpawnRequest)
	if err := a.ordered(r.Seq); err != nil {
		return err
	}
	return a.refused(r.Seq, refuse(spawn.KindDraining, "the service is stopping"))
}

func (a *attendant) spawn(f spawn.Frame) error {
	r := f.(spawn.SpawnRequest)
	if err := a.ordered(r.Seq); err != nil {
		return err
	}
	if int(r.Server) >= len(a.m.cfg.Servers) {
		return &fault{"SPAWN for a server that does not exist"}
	}
	return a.work(r.Seq, func() error { return a.m.spawn(a, r) })
}

func (a *attendant) renew(f spawn.Frame) error {
	r := f.(spawn.RenewRequest)
	if err := a.ordered(r.Seq); err != nil {
		return err
	}
	l, err := a.lookup(r.Handle, spawn.TypeRenew)
	if err != nil {
		return err
	}
	return a.work(r.Seq, func() error {
		if l == nil {
			return refuse(spawn.KindRefused, "the worker has ended")
		}
		return a.m.renew(a, l, r)
	})
}

func (a *attendant) kill(f spawn.Frame) error {
	r := f.(spawn.KillRequest)
	if err := a.ordered(r.Seq); err != nil {
		return err
	}
	l, err := a.lookup(r.Handle, spawn.TypeKill)
	if err == nil && l != nil {
		l.stop("stop requested", a.m.patient())
	}
	return err
}

func (a *attendant) interrupt(f spawn.Frame) error {
	r := f.(spawn.InterruptRequest)
	if err := a.ordered(r.Seq); err != nil {
		return err
	}
	l, err := a.lookup(r.Handle, spawn.TypeInterrupt)
	if err == nil && l != nil {
		l.interrupt()
	}
	return err
}

// lookup finds a lease by its handle: nil for one that has ended, which the front
// end may not know yet, a *fault for one that it was never given.
func (a *attendant) lookup(handle uint64, t spawn.Type) (*lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if handle == 0 || handle > a.last {
		return nil, &fault{fmt.Sprintf("%v for a handle that was never given", t)}
	}
	return a.leases[handle], nil
}

// work does what may take time beside the reading goroutine and answers a
// refusal. A front end that asks for too much at once is refused, not queued.
func (a *attendant) work(seq uint64, do func() error) error {
	if a.inFlight.Add(1) > maxInFlight {
		a.inFlight.Add(-1)
		return a.refused(seq, refuse(spawn.KindLimit, "%d requests are being worked on", maxInFlight))
	}
	go func() {
		defer a.inFlight.Add(-1)
		if err := do(); err != nil {
			a.refused(seq, err)
		}
	}()
	return nil
}

// refused answers a request with what went wrong.
func (a *attendant) refused(seq uint64, err error) error {
	e := &spawn.Error{Kind: spawn.KindInternal, Reason: err.Error()}
	errors.As(err, &e)
	a.send(outgoing{frame: spawn.Refused{
		Seq: seq, Kind: e.Kind, RetryAfter: uint32(e.RetryAfter.Milliseconds()), Reason: shorten(e.Reason, spawn.MaxReason),
	}})
	return nil
}

// adopt gives a lease its handle. It reports false when the front end is gone.
func (a *attendant) adopt(l *lease) (uint64, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, false
	}
	a.last++
	a.leases[a.last] = l
	return a.last, true
}

// dismiss forgets a handle whose worker is gone.
func (a *attendant) dismiss(handle uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.leases, handle)
}

// send queues a frame. A front end that lets the queue fill up is hung up on,
// which makes its supervisor replace it.
func (a *attendant) send(o outgoing) {
	a.mu.Lock()
	sent, full := false, false
	if !a.closed {
		select {
		case a.queue <- o:
			sent = true
		default:
			full = true
		}
	}
	a.mu.Unlock()
	if !sent {
		o.done()
	}
	if full {
		a.close()
	}
}

// write sends the queue.
func (a *attendant) write() {
	for {
		select {
		case <-a.over:
			a.drop()
			return
		case o := <-a.queue:
			err := a.writeOne(o)
			o.done()
			if err != nil {
				a.close()
			}
		}
	}
}

func (a *attendant) writeOne(o outgoing) error {
	b, err := spawn.Encode(o.frame)
	if err != nil {
		return err
	}
	fds, err := numbers(o.files)
	if err != nil {
		return err
	}
	return a.conn.Write(b, fds, time.Now().Add(sendLimit))
}

// drop closes what was never sent.
func (a *attendant) drop() {
	for {
		select {
		case o := <-a.queue:
			o.done()
		default:
			return
		}
	}
}

// close hangs up. It may be repeated.
func (a *attendant) close() {
	a.once.Do(func() {
		a.mu.Lock()
		a.closed = true
		a.mu.Unlock()
		a.cancel()
		close(a.over)
		a.conn.Close()
	})
}

// orphaned ends all workers of a front end that is gone, and those that wait for it.
func (a *attendant) orphaned(reason string) {
	a.close()
	a.mu.Lock()
	list := make([]*lease, 0, len(a.leases))
	for _, l := range a.leases {
		list = append(list, l)
	}
	a.mu.Unlock()
	for _, l := range list {
		l.stop(reason, a.m.patient())
	}
	a.m.leases.endWarm(reason)
}

// numbers returns the descriptors of files without changing their mode.
func numbers(files []*os.File) ([]int, error) {
	fds := make([]int, 0, len(files))
	for _, f := range files {
		rc, err := f.SyscallConn()
		if err == nil {
			err = rc.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		if err != nil {
			return nil, fmt.Errorf("send descriptor: %w", err)
		}
	}
	return fds, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// shorten cuts text to limit bytes of whole UTF-8 characters.
func shorten(s string, limit int) string {
	if !utf8.ValidString(s) {
		s = fmt.Sprintf("%q", s)
	}
	for len(s) > limit {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

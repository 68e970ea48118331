package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// Modern returns the worker that serves c's requests of the modern era, and starts
// it when there is none. All requests of one principal with the same scopes at one
// server share it. fresh says that it was started meanwhile.
//
// Errors: *Error, ctx.Err().
func (t *Table) Modern(ctx context.Context, server uint16, c Caller) (s *Session, fresh bool, err error) {
	var room [256]byte
	scopes := appendShared(room[:0], c)
	t.mu.RLock()
	s = t.sessions[key{c.Principal, server, "", string(scopes)}] // without a copy of scopes
	t.mu.RUnlock()
	if s != nil && s.b.Reason() == "" {
		s.seen(c)
		return s, false, nil
	}
	return t.modernAnew(ctx, key{c.Principal, server, "", string(scopes)}, c)
}

// modernAnew waits for a new worker of that key, and starts it when nobody has.
func (t *Table) modernAnew(ctx context.Context, k key, c Caller) (s *Session, fresh bool, err error) {
	t.mu.Lock()
	if s := t.sessions[k]; s != nil {
		if s.b.Reason() == "" {
			t.mu.Unlock()
			s.seen(c)
			return s, false, nil
		}
		t.unlist(s) // it has ended, and is about to be taken out
	}
	if t.starting == nil {
		t.mu.Unlock()
		return nil, false, &Error{Kind: KindSessionLimit, Reason: "no table"}
	}
	p := t.starting[k]
	if p == nil {
		p = &pending{done: make(chan struct{})}
		t.starting[k] = p
		go t.start(k, c, p)
	}
	t.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if p.err != nil {
		return nil, false, p.err
	}
	p.s.seen(c)
	return p.s, true, nil
}

// appendShared appends the part of the key that a shared worker is found by: the
// scopes, so that a narrow token never drives a worker that was made for a wide one.
func appendShared(dst []byte, c Caller) []byte {
	dst = append(dst, "scopes"...)
	for _, s := range c.Scopes { // which have no spaces in them
		dst = append(append(dst, ' '), s...)
	}
	return dst
}

// shared reports whether the worker serves the modern requests of a principal.
func (s *Session) shared() bool { return s.key.scopes != "" }

// pending is a shared worker that is being started; all who need it wait for it.
type pending struct {
	done chan struct{} // closed when the following are set
	s    *Session
	err  error
}

// start starts a shared worker. It does not end with the request that needed it
// first, because others may wait as well.
func (t *Table) start(k key, c Caller, p *pending) {
	ctx, cancel := context.WithTimeout(t.ctx, t.conf().Lifetime.StartTimeout)
	defer cancel()
	if err := t.deaths.allow(k, t.now()); err != nil {
		p.err = err
	} else {
		p.s, p.err = t.startShared(ctx, k, c)
		if errors.Is(p.err, context.DeadlineExceeded) || errors.Is(p.err, context.Canceled) {
			p.err = &Error{Kind: KindWorkerUnavailable, Reason: "the worker was not ready in time"}
			if t.ctx.Err() != nil {
				p.err = &Error{Kind: KindDraining, Reason: "the server is stopping"}
			}
		}
	}
	t.mu.Lock()
	delete(t.starting, k)
	t.mu.Unlock()
	close(p.done)
}

// startShared finds out the worker's era while it starts it. A worker that did not
// survive the question of one era is asked in the other as a new process.
func (t *Table) startShared(ctx context.Context, k key, c Caller) (*Session, error) {
	first, second := t.eras.order(k.server, eraModern)
	s, again, err := t.greetShared(ctx, k, c, first, second)
	if again {
		s, _, err = t.greetShared(ctx, k, c, second, eraNone)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if err := t.list(s); err != nil {
		s.End("start: " + err.Error())
		return nil, err
	}
	if s.b.Reason() != "" { // it died before it was listed
		t.remove(s)
		return nil, unavailable(s.gone(bridge.ErrGone))
	}
	t.answers.remember(k, true, s.server.Discover(), s.server.TTL, t.now())
	s.log().Info().Str("era", s.eraName()).Msg("shared worker started")
	return s, nil
}

// greetShared starts a process and greets it in the first era, then in the second.
// again says that the second is to be tried with a new process.
func (t *Table) greetShared(ctx context.Context, k key, c Caller, first, second eraKind) (_ *Session, again bool, err error) {
	if err := t.reserve(ctx, c.Principal); err != nil {
		return nil, false, err
	}
	s, err := t.launch(ctx, k, c)
	if err != nil {
		return nil, false, err
	}
	limit := t.conf().Lifetime.StartTimeout
	if second != eraNone {
		limit = min(probeLimit, limit)
	}
	for _, e := range []eraKind{first, second} {
		if e == eraNone {
			continue
		}
		try, cancel := context.WithTimeout(ctx, limit)
		err = s.greet(try, e)
		cancel()
		if err == nil {
			t.eras.learn(k.server, e, true)
			return s, false, nil
		}
		t.eras.learn(k.server, e, false)
		if !errors.Is(err, errOtherEra) {
			break
		}
		limit = t.conf().Lifetime.StartTimeout
	}
	s.End("start: " + err.Error())
	// A stalled or dead process says nothing about the other era.
	again = second != eraNone && !errors.Is(err, errOtherEra) && ctx.Err() == nil
	return nil, again, err
}

// probeLimit is how long a worker may take to answer the question whether it speaks
// an era while there is another to try.
const probeLimit = 5 * time.Second

// errOtherEra: the worker lives and refuses this era.
var errOtherEra = errors.New("session: the worker does not speak this era")

// greet finds out whether the worker speaks an era, and does the handshake on behalf
// of clients that know none.
func (s *Session) greet(ctx context.Context, e eraKind) error {
	if e == eraModern {
		answer, err := s.b.Ask(ctx, mustParse(era.Probe()))
		if err != nil {
			return err
		}
		return s.meet(ctx, answer)
	}
	answer, err := s.b.Handshake(ctx, mustParse(era.Handshake(bridge.Newest)))
	if err != nil {
		return err
	}
	if answer.Refused {
		return errOtherEra
	}
	m, err := jsonrpc.ParseWorker(answer.Response)
	if err != nil {
		return err
	}
	s.server, s.version = era.FromInitialize(m.Result.Of(m.Raw)), era.Modern
	return s.b.Send(ctx, era.Initialized())
}

// meet reads a worker's answer to the modern probe.
func (s *Session) meet(ctx context.Context, answer []byte) error {
	m, err := jsonrpc.ParseWorker(answer)
	if err != nil {
		return err
	}
	if !era.Speaks(&m) {
		return errOtherEra
	}
	if s.server, err = era.FromDiscover(&m); err != nil {
		return &Error{Kind: KindWorkerUnavailable, Reason: err.Error()}
	}
	s.modern.Store(true)
	if s.version == "" {
		s.version = era.Modern
	}
	s.b.SpeaksModern(era.Liveness)
	s.interests.start(ctx, s)
	return nil
}

func (s *Session) eraName() string {
	if s.modern.Load() {
		return "modern"
	}
	return "legacy"
}

// Account is the name of the account that the worker runs as.
func (s *Session) Account() string { return s.worker.Account() }

// eraKind is an era of workers. The zero value is none.
type eraKind uint8

const (
	eraNone eraKind = iota
	eraLegacy
	eraModern
)

// eras remembers what each server's command was found to speak.
type eras struct {
	mu    sync.Mutex
	known map[uint16]map[eraKind]bool
	fixed map[uint16]eraKind // by configuration
}

// order is in which eras to greet a worker that a client of the era want needs.
func (e *eras) order(server uint16, want eraKind) (first, second eraKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.fixed[server]; f != eraNone {
		return f, eraNone
	}
	other := eraLegacy + eraModern - want
	if speaks, asked := e.known[server][want]; asked && !speaks && e.known[server][other] {
		return other, want
	}
	return want, other
}

// speaks reports whether a worker is known to speak an era.
func (e *eras) speaks(server uint16, k eraKind) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[server][k]
}

// learn notes whether a worker spoke an era. What was learnt is no more than the
// order of the next attempt.
func (e *eras) learn(server uint16, k eraKind, speaks bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil {
		e.known = map[uint16]map[eraKind]bool{}
	}
	if e.known[server] == nil {
		e.known[server] = map[eraKind]bool{}
	}
	e.known[server][k] = speaks
}

// deaths make a worker that dies again and again wait before it is started anew.
type deaths struct {
	mu sync.Mutex
	of map[key]death
}

type death struct {
	times int
	until time.Time
}

// What counts as an early death, and the longest wait after many.
const (
	earlyDeath = 10 * time.Second
	longestOff = 30 * time.Second
)

// note counts a death of a worker that lived that long.
func (d *deaths) note(k key, lived time.Duration, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if lived >= earlyDeath {
		delete(d.of, k)
		return
	}
	if d.of == nil || len(d.of) > 1<<12 {
		d.of = map[key]death{}
	}
	e := d.of[k]
	e.times++
	if e.times > 2 {
		e.until = now.Add(min(250*time.Millisecond<<min(e.times, 10), longestOff))
	}
	d.of[k] = e
}

// allow reports when it is too early for another start.
func (d *deaths) allow(k key, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.of[k]; now.Before(e.until) {
		return &Error{Kind: KindWorkerUnavailable, Reason: "the worker dies again and again", RetryAfter: e.until.Sub(now)}
	}
	return nil
}

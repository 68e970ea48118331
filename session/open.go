package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/spawn"
)

// Open starts a worker for c and does the handshake with the client's own
// initialize request. It returns the session and the response for the client,
// which has the client's id. When the worker answers initialize with an error,
// that answer is returned, the session is nil and the worker is stopped.
//
// Errors: a *jsonrpc.Error when the request is not sane, ctx.Err(), else *Error.
func (t *Table) Open(ctx context.Context, server uint16, c Caller, init jsonrpc.Message) (*Session, []byte, error) {
	if err := bridge.CheckInitialize(&init); err != nil {
		return nil, nil, err
	}
	if err := t.reserve(ctx, c.Principal); err != nil {
		return nil, nil, err
	}
	start, cancel := context.WithTimeout(ctx, t.conf().Lifetime.StartTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	s, response, err := t.open(start, server, c, &init)
	switch {
	case err == nil:
		return s, response, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case t.ctx.Err() != nil:
		return nil, nil, &Error{Kind: KindDraining, Reason: "the server is stopping"}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, nil, &Error{Kind: KindWorkerUnavailable, Reason: "no answer to initialize in time"}
	}
	return nil, nil, err
}

// open does the work of Open, with a place taken. A worker that does not take the
// client's handshake is asked whether it is a modern one.
func (t *Table) open(ctx context.Context, server uint16, c Caller, init *jsonrpc.Message) (*Session, []byte, error) {
	id, err := t.newID()
	if err != nil {
		t.release(c.Principal, false)
		return nil, nil, &Error{Kind: KindInternal, Reason: "draw a session id: " + err.Error()}
	}
	k := key{c.Principal, server, id, ""}
	s, err := t.launch(ctx, k, c)
	if err != nil {
		return nil, nil, err
	}
	s.can = bridge.Declared(init) | bridge.CanOther
	g, err := t.welcome(ctx, s, init)
	if errors.Is(err, errAnew) {
		if err = t.reserve(ctx, c.Principal); err != nil {
			return nil, nil, err
		}
		if s, err = t.launch(ctx, k, c); err != nil {
			return nil, nil, err
		}
		s.can = bridge.Declared(init) | bridge.CanOther
		g, err = s.welcomeModern(ctx, init)
	}
	if err == nil && !g.Refused {
		s.version = g.Version
		err = t.list(s)
	}
	switch {
	case err != nil:
		s.End("start: " + err.Error())
		return nil, nil, unavailable(err)
	case g.Refused:
		s.End("the worker refused initialize")
		return nil, g.Response, nil
	}
	if s.b.Reason() != "" { // it died before it was listed
		s.t.remove(s)
		return nil, nil, unavailable(s.gone(bridge.ErrGone))
	}
	s.log().Info().Str("version", s.version).Str("era", s.eraName()).Msg("session opened")
	return s, g.Response, nil
}

// launch starts a worker, with a place taken, and begins to read what it writes.
func (t *Table) launch(ctx context.Context, k key, c Caller) (*Session, error) {
	var seed [4]byte
	if _, err := io.ReadFull(t.cfg.Rand, seed[:]); err != nil {
		t.release(c.Principal, false)
		return nil, &Error{Kind: KindInternal, Reason: "draw an id: " + err.Error()}
	}
	w, err := t.spawner.Spawn(ctx, spawn.Request{Server: k.server, Token: c.Token})
	if err != nil {
		t.release(c.Principal, false)
		return nil, refusal(err)
	}
	s := t.session(w, k, c)
	s.b = bridge.New(w, bridge.Config{
		MaxMessage: t.conf().MaxMessage, MaxCalls: t.conf().MaxCalls, RequestTimeout: t.conf().Lifetime.RequestTimeout,
		// Large enough to be a surprise, small enough for a worker that counts in
		// 32 bits.
		FirstID: uint64(binary.LittleEndian.Uint32(seed[:]) >> 2),
		Now:     t.cfg.Now,
		Pace:    t.pace(c.Principal),

		Interrupt: int(k.server) < len(t.cfg.Interrupt) && t.cfg.Interrupt[k.server],
	}, upstream{s}, s.log)
	s.outbox.refuse = s.b.Refuse
	s.b.Start()
	return s, nil
}

// errAnew: the worker is gone, and the other era is to be tried with a new one.
var errAnew = errors.New("session: the worker did not survive the handshake")

// welcome does a legacy client's handshake, with a worker of whichever era.
func (t *Table) welcome(ctx context.Context, s *Session, init *jsonrpc.Message) (bridge.Greeting, error) {
	first, second := t.eras.order(s.key.server, eraLegacy)
	if first == eraModern {
		g, err := s.welcomeModern(ctx, init)
		if err == nil || second == eraNone {
			return g, err
		}
		t.eras.learn(s.key.server, eraModern, false)
		t.eras.learn(s.key.server, eraLegacy, true) // to be asked first, next time
		return g, err
	}
	g, err := s.b.Handshake(ctx, init)
	switch {
	case err == nil && !g.Refused:
		t.eras.learn(s.key.server, eraLegacy, true)
		return g, nil
	case second == eraNone || ctx.Err() != nil:
		return g, err
	case err != nil: // it left; only what is known to be modern is worth a second process
		if t.eras.speaks(s.key.server, eraModern) {
			s.End("start: " + err.Error())
			return g, errAnew
		}
		return g, err
	}
	probe, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	modern, err := s.welcomeModern(probe, init)
	if err != nil {
		return g, nil // it refused the client, and says why
	}
	t.eras.learn(s.key.server, eraLegacy, false)
	t.eras.learn(s.key.server, eraModern, true)
	return modern, nil
}

// welcomeModern answers a legacy client's handshake for a modern worker.
func (s *Session) welcomeModern(ctx context.Context, init *jsonrpc.Message) (g bridge.Greeting, err error) {
	answer, err := s.b.Ask(ctx, mustParse(era.Probe()))
	if err != nil {
		return g, err
	}
	params := init.Params.Of(init.Raw)
	s.legacy.client = era.NewClient(era.Client{Info: bytes.Clone(jsonrpc.Value(params, "clientInfo")), Capabilities: bytes.Clone(init.Capabilities.Of(init.Raw))})
	if err := s.meet(ctx, answer); err != nil {
		return g, err
	}
	g.Version = bridge.Newest
	if want := string(jsonrpc.Unquote(init.ProtocolVersion.Of(init.Raw))); slices.Contains(bridge.Offered, want) {
		g.Version = want
	}
	g.Response = era.Result(init.IDBytes(), s.server.Initialize(g.Version))
	return g, nil
}

// unavailable is what a failed handshake is to the caller.
func unavailable(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Kind != KindSessionGone || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Kind: KindWorkerUnavailable, Reason: err.Error()}
}

func (t *Table) session(w spawn.Worker, k key, c Caller) *Session {
	s := &Session{
		t: t, key: k, worker: w, created: t.now(), keyID: c.KeyID, shownKey: c.KeyID, ackSignal: make(chan struct{}, 1),
	}
	s.replay.bounds, s.replay.tag, s.replay.now = t.conf().Replay, s.Label(), t.cfg.Now
	if !c.Expiry.IsZero() {
		s.expiry.Store(c.Expiry.UnixNano())
	}
	s.touch()
	return s
}

package session

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"gatehouse/session/bridge"
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
	start, cancel := context.WithTimeout(ctx, t.cfg.Lifetime.StartTimeout)
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

// open does the work of Open, with a place taken.
func (t *Table) open(ctx context.Context, server uint16, c Caller, init *jsonrpc.Message) (*Session, []byte, error) {
	id, err := t.newID()
	var seed [4]byte
	if err == nil {
		_, err = io.ReadFull(t.cfg.Rand, seed[:])
	}
	if err != nil {
		t.release(c.Principal, false)
		return nil, nil, &Error{Kind: KindInternal, Reason: "draw a session id: " + err.Error()}
	}
	w, err := t.spawner.Spawn(ctx, spawn.Request{Server: server, Token: c.Token})
	if err != nil {
		t.release(c.Principal, false)
		return nil, nil, refusal(err)
	}
	s := t.session(w, server, c, id)
	s.can = bridge.Declared(init)
	s.b = bridge.New(w, bridge.Config{
		MaxMessage: t.cfg.MaxMessage, MaxCalls: t.cfg.MaxCalls, RequestTimeout: t.cfg.Lifetime.RequestTimeout,
		// Large enough to be a surprise, small enough for a worker that counts in
		// 32 bits.
		FirstID: uint64(binary.LittleEndian.Uint32(seed[:]) >> 2),
		Now:     t.cfg.Now,

		Interrupt: int(server) < len(t.cfg.Interrupt) && t.cfg.Interrupt[server],
	}, upstream{s}, s.log)
	s.outbox.refuse = s.b.Refuse
	s.b.Start()
	g, err := s.b.Handshake(ctx, init)
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
	s.log.Info().Str("version", s.version).Msg("session opened")
	return s, g.Response, nil
}

// unavailable is what a failed handshake is to the caller.
func unavailable(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Kind != KindSessionGone || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Kind: KindWorkerUnavailable, Reason: err.Error()}
}

func (t *Table) session(w spawn.Worker, server uint16, c Caller, id string) *Session {
	s := &Session{
		t: t, key: key{c.Principal, server, id}, worker: w, created: t.now(), keyID: c.KeyID,
		log: t.log.With().Str("session", label(id)).Uint16("server", server).Str("account", w.Account()).Int("worker", w.PID()).Logger(),
	}
	s.replay.bounds, s.replay.tag, s.replay.now = t.cfg.Replay, s.Label(), t.cfg.Now
	if !c.Expiry.IsZero() {
		s.expiry.Store(c.Expiry.UnixNano())
	}
	s.touch()
	return s
}

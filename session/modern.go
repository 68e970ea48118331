package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// other is an exchange that is more than one call in a worker of the client's era.
type other interface {
	next(ctx context.Context, wait time.Duration) (Item, error)
	close()
}

// canned is an answer that needs no worker.
type canned struct{ item Item }

func (c *canned) next(context.Context, time.Duration) (Item, error) { return c.item, nil }
func (c *canned) close()                                            {}

// BeginModern hands a request of the modern era to a shared worker, in whichever era
// that speaks. m may be reused once it returns. Closing the Exchange before its final
// item cancels the request.
//
// Errors: *Error of KindBusy, KindTimeout, KindDraining, KindWorkerGone, or KindUnsent:
// then Table.Modern has another worker for it; KindState when the request carries a
// requestState that does not fit; a *jsonrpc.Error when the request is not sane;
// ctx.Err().
func (s *Session) BeginModern(ctx context.Context, m jsonrpc.Message, mode Mode) (*Exchange, error) {
	s.touch()
	if s.t.draining.Load() {
		return nil, &Error{Kind: KindDraining, Reason: "the server is stopping"}
	}
	x := &Exchange{s: s, modern: true}
	switch err := s.beginModern(ctx, x, &m, mode); {
	case errors.Is(err, bridge.ErrUnsent):
		return nil, &Error{Kind: KindUnsent, Reason: s.b.Reason()}
	case err != nil:
		return nil, x.gone(err)
	}
	return x, nil
}

func (s *Session) beginModern(ctx context.Context, x *Exchange, m *jsonrpc.Message, mode Mode) (err error) {
	switch {
	case m.Is("server/discover"):
		x.other = &canned{Item{Bytes: era.Result(m.IDBytes(), s.server.Discover()), Final: true}}
	case m.Is("subscriptions/listen"):
		x.other, err = s.listen(ctx, m)
	case s.modern.Load():
		err = s.passModern(ctx, x, m, mode)
	case era.Task(m.Method()):
		x.other = &canned{refused(m, jsonrpc.CodeMethodNotFound, "tasks are not translated between protocol versions")}
	default:
		x.other, err = s.round(ctx, x, m, mode)
	}
	return err
}

// gone is Session.gone in the words of the client's era: the modern one has no
// session that could be gone.
func (x *Exchange) gone(err error) error {
	err = x.s.gone(err)
	if x.modern && errors.Is(err, ErrGone) {
		return &Error{Kind: KindWorkerGone, Reason: x.s.b.Reason()}
	}
	return err
}

// options of a modern call.
func optionsOf(m *jsonrpc.Message, mode Mode) bridge.Options {
	return bridge.Options{Single: mode == ModeSingle, Modern: true, Log: era.LogLevel(m.MetaLogLevel.Of(m.Raw))}
}

// passModern hands a request to a modern worker as it stands. A state that this
// front end wrapped is unwrapped.
func (s *Session) passModern(ctx context.Context, x *Exchange, m *jsonrpc.Message, mode Mode) error {
	asks := era.Asks(m.Method())
	if m.RequestState.Present() {
		var inner []byte
		if asks {
			inner = s.unwrap(m)
		}
		if inner == nil {
			return &Error{Kind: KindState, Reason: "requestState is not one of ours for this request"}
		}
		m = mustParse(jsonrpc.AppendEdited(nil, m.Raw, jsonrpc.Edit{Span: m.RequestState, With: inner}))
	}
	if asks {
		x.digest, x.wraps = digest(m), true
	}
	if x.lists = m.Is("tools/list") && firstPage(m); x.lists {
		x.known = s.tools.changes()
	}
	return s.b.Begin(ctx, &x.call, m, optionsOf(m, mode))
}

// finish is what becomes of a modern worker's final message.
func (x *Exchange) finish(b []byte) []byte {
	switch {
	case x.lists:
		x.s.keepTools(b, x.known)
	case x.wraps && bytes.Contains(b, requestStateName):
		return x.wrap(b)
	}
	return b
}

var requestStateName = []byte(`"requestState"`)

// Kinds of sealed payloads.
const (
	sealedWrapped = 'w' // a modern worker's own state
	sealedHeld    = 'h' // a call that waits in a legacy worker
)

// digest names a request by what must be the same in its next round.
func digest(m *jsonrpc.Message) (d [sha256.Size]byte) {
	h := sha256.New()
	var size [4]byte
	for _, part := range [...][]byte{m.Method(), m.Name.Of(m.Raw), m.URI.Of(m.Raw), m.Arguments.Of(m.Raw)} {
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	h.Sum(d[:0])
	return d
}

// binding is what a sealed state is bound to: the principal with its scopes, the
// server, and the request.
func (s *Session) binding(digest [sha256.Size]byte) []byte {
	var b []byte
	p := &s.key.principal
	for _, part := range [...]string{string(p.Issuer), string(p.Subject), string(p.Client), s.key.scopes} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint16(b, s.key.server)
	return append(b, digest[:]...)
}

// wrap seals the worker's own state in a final message.
func (x *Exchange) wrap(b []byte) []byte {
	m, err := jsonrpc.ParseWorker(b)
	if err != nil || !m.Result.Present() || !m.RequestState.Present() {
		return b
	}
	state, err := x.s.t.sealer.Seal(append([]byte{sealedWrapped}, m.RequestState.Of(m.Raw)...), x.s.binding(x.digest))
	if err != nil {
		return era.Error(m.IDBytes(), jsonrpc.CodeInternal, "internal error", nil)
	}
	return jsonrpc.AppendEdited(nil, b, jsonrpc.Edit{Span: m.RequestState, With: jsonrpc.Quote(state)})
}

// unwrap is the worker's own state, as it stood there; nil when there is none.
func (s *Session) unwrap(m *jsonrpc.Message) []byte {
	if payload := s.unseal(m); len(payload) > 0 && payload[0] == sealedWrapped {
		return payload[1:]
	}
	return nil
}

// unseal opens the state of a request; nil when it does not fit.
func (s *Session) unseal(m *jsonrpc.Message) []byte {
	payload, err := s.t.sealer.Open(string(jsonrpc.Unquote(m.RequestState.Of(m.Raw))), s.binding(digest(m)))
	if err != nil {
		return nil
	}
	return payload
}

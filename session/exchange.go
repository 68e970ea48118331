package session

import (
	"context"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/jsonrpc"
)

// Mode says what the client of a call can take.
type Mode uint8

// The two modes of a call.
const (
	// ModeStream: any number of messages before the response (SSE).
	ModeStream Mode = iota
	// ModeSingle: the response alone (a client that accepts JSON only). Progress is
	// dropped, and nothing the worker asks goes to this call.
	ModeSingle
)

// Item is one message for the client. Bytes is valid until the next call of Next
// or Close, has the client's own id and progress token, and holds neither CR nor
// LF, so that it is one SSE data line.
type Item struct {
	Bytes []byte
	// Final marks the response of the call; nothing follows it.
	Final bool
}

// Exchange is one running call. One goroutine uses it.
type Exchange struct {
	s    *Session
	call bridge.Call
}

// Begin hands a request to the worker. m may be reused once it returns. It may
// wait for the worker to read its input, 10 s at most.
//
// Errors: *Error of KindBusy, KindSessionGone, KindTimeout or KindDraining;
// ErrCancelled when the client cancelled it before it was written; ctx.Err().
func (s *Session) Begin(ctx context.Context, m jsonrpc.Message, mode Mode) (*Exchange, error) {
	s.touch()
	if s.t.draining.Load() {
		return nil, &Error{Kind: KindDraining, Reason: "the server is stopping"}
	}
	x := &Exchange{s: s}
	if err := s.b.Begin(ctx, &x.call, &m, bridge.Options{Single: mode == ModeSingle, Can: s.can}); err != nil {
		return nil, s.gone(err)
	}
	return x, nil
}

// Next returns the next message for the client. It waits at most wait (0: without
// limit) and then returns ErrWait. After the final item, and after any error but
// ErrWait and ctx.Err(), the exchange is over.
//
// Errors: ErrWait, ErrCancelled, ErrGone, ErrTimeout, ctx.Err().
func (x *Exchange) Next(ctx context.Context, wait time.Duration) (Item, error) {
	b, final, err := x.call.Next(ctx, wait)
	if err != nil {
		return Item{}, x.s.gone(err)
	}
	return Item{Bytes: b, Final: final}, nil
}

// Close gives the exchange up. A call that still runs goes on in the worker and
// its answer is discarded: in this era a closed connection is no cancel. It must
// be called once for each Exchange.
func (x *Exchange) Close() {
	x.call.Close()
	x.s.touch()
}

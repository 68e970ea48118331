package session

import (
	"context"
	"crypto/sha256"
	"errors"
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
	// ID is the event's id, valid as long as Bytes; nil when nothing is kept of the stream.
	ID []byte
	// Final marks the response of the call; nothing follows it.
	Final bool
	// Code is the code of a response that is an error; 0: it is none.
	Code int
}

// Exchange is one running call. One goroutine uses it.
type Exchange struct {
	s     *Session
	call  bridge.Call
	track *track // nil: nothing is kept
	done  bool

	other  other  // answers instead of call; nil when both ends speak one era
	modern bool   // of the client: closing cancels
	wraps  bool   // the final message may hold a state of the worker
	lists  bool   // the final message may be kept for the next who asks
	known  uint64 // with lists: which changes of the worker's tools were known at the beginning
	digest [sha256.Size]byte
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
	if s.modern.Load() {
		return x, s.gone(s.toModern(ctx, x, &m, mode))
	}
	if err := s.b.Begin(ctx, &x.call, &m, bridge.Options{Single: mode == ModeSingle, Can: s.can}); err != nil {
		return nil, s.gone(err)
	}
	return x, nil
}

// Next returns the next message for the client. It waits at most wait (0: without
// limit) and then returns ErrWait. After the final item, and after any error but
// ErrWait and ctx.Err(), the exchange is over.
//
// Errors: ErrWait, ErrCancelled, ErrGone (in the modern era *Error of KindWorkerGone),
// ErrTimeout, ctx.Err().
func (x *Exchange) Next(ctx context.Context, wait time.Duration) (Item, error) {
	item, err := x.fetch(ctx, wait)
	switch {
	case err == nil && x.track != nil:
		x.keep(&item)
	case err != nil:
		x.done = !errors.Is(err, ErrWait) && ctx.Err() == nil
		err = x.gone(err)
		if x.done && x.track != nil {
			x.s.replay.finish(x.track, err)
		}
	}
	return item, err
}

// fetch is Next without what is kept.
func (x *Exchange) fetch(ctx context.Context, wait time.Duration) (Item, error) {
	if x.other != nil {
		return x.other.next(ctx, wait)
	}
	b, final, err := x.call.Next(ctx, wait)
	if err != nil {
		return Item{}, err
	}
	if final && x.modern {
		b = x.finish(b)
	}
	return Item{Bytes: b, Final: final, Code: x.call.Code()}, nil
}

// Keep has what Next returns from now on kept for a client that loses its stream, if
// that is the policy, and first, which it has returned already unless it is empty.
// The result is the id of an event without data to begin the stream with; nil for
// none. The modern era has no such streams.
func (x *Exchange) Keep(first *Item) (prime []byte) {
	if x.modern {
		return nil
	}
	id := x.call.ClientID()
	if r, ok := x.other.(*backward); ok {
		id = r.request.IDBytes()
	}
	x.track = x.s.replay.begin(id)
	if x.track != nil && first.Bytes != nil {
		x.keep(first)
	}
	return x.s.primer(x.track)
}

// keep keeps a message, and gives it its id.
func (x *Exchange) keep(item *Item) {
	if seq, kept := x.s.replay.add(x.track, item.Bytes, item.Final); kept {
		item.ID = x.s.replay.name(nil, x.track, seq)
	}
	x.done = item.Final
}

// pump keeps what a call brings after its client's connection broke.
func (x *Exchange) pump() {
	for !x.done {
		_, _ = x.Next(context.Background(), 0)
	}
	r := &x.s.replay
	r.mu.Lock()
	x.track.x = nil
	r.mu.Unlock()
	x.close()
}

// Close gives the exchange up. In the modern era that cancels a call that still runs.
// In the legacy era a closed connection is no cancel: the call goes on in the worker,
// and its answer is kept for a while if Keep was called, else discarded. It must be
// called once for each Exchange.
func (x *Exchange) Close() {
	x.s.touch()
	if x.track == nil || x.done {
		x.close()
		return
	}
	x.detach(true) // without r.mu: it may end the session
	r := &x.s.replay
	r.mu.Lock()
	x.track.x = x
	if x.track.reader != nil {
		x.detach(false)
	}
	r.mu.Unlock()
	go x.pump()
}

// detach says that the client of a legacy call lost its connection and may come back, or
// that it has.
func (x *Exchange) detach(apart bool) {
	switch r, ok := x.other.(*backward); {
	case ok:
		r.detach(apart)
	case x.other != nil: // answered at once
	case apart:
		x.call.Detach()
	default:
		x.call.Attach()
	}
}

// close ends the call as its era has it.
func (x *Exchange) close() {
	switch {
	case x.other != nil:
		x.other.close()
	case x.modern:
		x.call.Cancel(closedStream)
		x.call.Close()
	default:
		x.call.Close()
	}
}

// closedStream is why a call of the modern era is cancelled.
const closedStream = "the client closed the stream"

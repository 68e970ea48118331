package session

import (
	"context"
	"time"

	"gatehouse/session/bridge"
)

// Stream is one open GET stream. One goroutine uses it.
type Stream struct {
	s      *Session
	signal chan struct{} // one token: look again
	cur    *bridge.Buffer
	closed bool
}

func (x *Stream) wake() {
	select {
	case x.signal <- struct{}{}:
	default:
	}
}

// Stream opens the GET stream. The newest wins: an older one gets ErrReplaced.
// lastEventID is what the client sent as Last-Event-ID, empty if nothing; nothing
// is replayed yet, so every stream is a fresh one.
//
// Errors: *Error of KindSessionGone or KindDraining.
func (s *Session) Stream(_ context.Context, lastEventID string) (*Stream, error) {
	s.touch()
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil {
		return nil, o.over
	}
	if o.stream != nil {
		o.stream.wake()
	}
	o.stream, o.had = &Stream{s: s, signal: make(chan struct{}, 1)}, true
	if o.missed > 0 {
		s.log.Info().Int("notifications", o.missed).Msg("the client was away too long and missed some")
		o.missed = 0
	}
	return o.stream, nil
}

// Next is like Exchange.Next; no item is final.
//
// Errors: ErrWait, ErrReplaced, ErrExpired, ErrGone, *Error of KindDraining,
// ctx.Err().
func (x *Stream) Next(ctx context.Context, wait time.Duration) (Item, error) {
	item, ok, err := x.take()
	if ok || err != nil {
		return item, err
	}
	var until time.Time
	if wait > 0 {
		until = time.Now().Add(wait)
	}
	for {
		waited, err := x.sleep(ctx, until)
		if err != nil {
			return Item{}, err
		}
		if item, ok, err := x.take(); ok || err != nil {
			return item, err
		}
		if waited {
			return Item{}, ErrWait
		}
	}
}

// sleep waits for a wake-up, for until (waited; the zero time is never), or for the
// moment at which the credential expires.
func (x *Stream) sleep(ctx context.Context, until time.Time) (waited bool, err error) {
	limit := time.Duration(-1)
	if !until.IsZero() {
		limit, waited = max(time.Until(until), 0), true
	}
	if at := x.s.expiresAt(); !at.IsZero() {
		if left := max(at.Sub(x.s.t.now()), 0); !waited || left < limit {
			limit, waited = left, false
		}
	}
	var timeout <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-x.signal:
		return false, nil
	case <-timeout:
		return waited, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// take returns what is queued, or why nothing comes any more.
func (x *Stream) take() (item Item, ok bool, err error) {
	o := &x.s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if x.cur != nil {
		x.cur.Free()
		x.cur = nil
	}
	at := x.s.expiresAt()
	switch {
	case o.over != nil:
		return item, false, o.over
	case o.stream != x:
		return item, false, ErrReplaced
	case !at.IsZero() && !x.s.t.now().Before(at):
		o.had = false // it is not the client that closes this stream
		return item, false, ErrExpired
	}
	m, ok := o.queue.Pop()
	if !ok {
		return item, false, nil
	}
	x.cur = m.Buf
	return Item{Bytes: m.Buf.B}, true, nil
}

// Close says that the client's stream is closed. It must be called once.
func (x *Stream) Close() {
	s, o := x.s, &x.s.outbox
	o.mu.Lock()
	if x.closed {
		o.mu.Unlock()
		return
	}
	x.closed = true
	if x.cur != nil {
		x.cur.Free()
		x.cur = nil
	}
	last := o.stream == x
	if last {
		o.stream = nil
		for _, id := range o.queue.Asks() {
			o.hold(id)
		}
	}
	lost := last && o.had && o.over == nil
	o.mu.Unlock()
	s.touch()
	if lost {
		s.streamLost()
	}
}

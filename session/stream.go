package session

import (
	"context"
	"time"

	"gatehouse/session/bridge"
)

// Stream is one open GET: the session's stream of messages that belong to no call,
// or the rest of a call's stream. One goroutine uses it.
type Stream struct {
	s      *Session
	signal chan struct{}   // one token: look again
	cur    bridge.Outgoing // handed out and not known to be sent
	closed bool
	track  *track // nil: nothing is kept
	at     uint64 // the event that was handed out last
	prime  []byte
	id     []byte // of the event that was handed out last, used again

	timer *time.Timer // nil until the stream waits for the first time
	rings time.Time   // when timer does; zero: it has
}

func (x *Stream) wake() {
	select {
	case x.signal <- struct{}{}:
	default:
	}
}

// Stream opens a GET stream. The newest wins: an older one gets ErrReplaced.
// lastEventID is what the client sent as Last-Event-ID. When all that followed is
// kept the new stream goes on where that one broke; else it is a fresh one.
//
// Errors: *Error of KindSessionGone or KindDraining.
func (s *Session) Stream(_ context.Context, lastEventID string) (*Stream, error) {
	s.touch()
	t, seq, known := s.replay.find(lastEventID)
	if known && t.call != nil {
		return s.resume(t, seq), nil
	}
	o := &s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil {
		return nil, o.over
	}
	if o.stream != nil {
		o.stream.wake()
	}
	x := &Stream{s: s, signal: make(chan struct{}, 1), track: t, at: seq}
	if !known {
		x.track = s.replay.begin(nil)
		x.prime = s.primer(x.track)
	}
	o.stream, o.had = x, true
	if o.missed > 0 {
		s.log().Info().Int("notifications", o.missed).Msg("the client was away too long and missed some")
		o.missed = 0
	}
	return x, nil
}

// primer is the id of an event without data that begins a stream, so that it can be
// resumed before the first message; nil for none.
func (s *Session) primer(t *track) []byte {
	if t == nil || s.version != primed {
		return nil
	}
	return s.replay.name(nil, t, 0)
}

// resume goes on with the stream of a call.
func (s *Session) resume(t *track, seq uint64) *Stream {
	x := &Stream{s: s, signal: make(chan struct{}, 1), track: t, at: seq}
	r := &s.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.reader != nil {
		t.reader.wake()
	}
	t.reader = x
	if t.x != nil {
		t.x.detach(false)
	}
	return x
}

// Prime is the id of the event without data with which the stream begins; nil for
// none.
func (x *Stream) Prime() []byte { return x.prime }

// Call is the client's id of the call whose stream this is; nil for the session's
// own stream.
func (x *Stream) Call() []byte {
	if x.track == nil {
		return nil
	}
	return x.track.call
}

// Next is like Exchange.Next; only the stream of a call has a final item.
//
// Errors: ErrWait, ErrReplaced, ErrExpired, ErrGone, *Error of KindDraining,
// ctx.Err(); of a call's stream also ErrDone, ErrCancelled and ErrTimeout.
func (x *Stream) Next(ctx context.Context, wait time.Duration) (item Item, err error) {
	var until time.Time
	if wait > 0 {
		until = time.Now().Add(wait)
	}
	for waited := false; ; {
		if ok, err := x.takeNext(&item); ok || err != nil {
			return item, err
		}
		if waited {
			return item, ErrWait
		}
		if waited, err = x.sleep(ctx, until); err != nil {
			return item, err
		}
	}
}

// takeNext is take or takeOfCall. It is not inlined: see timeout.
//
//go:noinline
func (x *Stream) takeNext(item *Item) (ok bool, err error) {
	if x.Call() != nil {
		*item, ok, err = x.takeOfCall()
	} else {
		*item, ok, err = x.take()
	}
	return ok, err
}

// sleep waits for a wake-up, for until (waited; the zero time is never), or for the
// moment at which the credential expires.
func (x *Stream) sleep(ctx context.Context, until time.Time) (waited bool, err error) {
	select {
	case <-x.signal:
		return false, nil
	case <-x.timeout(until):
		x.rings = time.Time{}
		return !until.IsZero() && !time.Now().Before(until), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// timeout rings when sleep has to end at the latest, or earlier: a message puts the end
// off, and the timer is set anew once it has rung instead of at each message. It is not
// inlined: a stream that waits should hold little of the stack.
//
//go:noinline
func (x *Stream) timeout(until time.Time) <-chan time.Time {
	if at := x.s.expiresAt(); !at.IsZero() && x.Call() == nil {
		if expiry := time.Now().Add(at.Sub(x.s.t.now())); until.IsZero() || expiry.Before(until) {
			until = expiry
		}
	}
	if until.IsZero() {
		return nil
	}
	if x.rings.IsZero() || until.Before(x.rings) {
		x.rings = until
		if x.timer == nil {
			x.timer = time.NewTimer(time.Until(until))
		} else {
			x.timer.Reset(time.Until(until))
		}
	}
	return x.timer.C
}

// take returns what is queued, or why nothing comes any more.
func (x *Stream) take() (item Item, ok bool, err error) {
	s, o := x.s, &x.s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	x.sent()
	at := s.expiresAt()
	switch {
	case o.over != nil:
		return item, false, o.over
	case o.stream != x:
		return item, false, ErrReplaced
	case !at.IsZero() && !s.t.now().Before(at):
		o.had = false // it is not the client that closes this stream
		return item, false, ErrExpired
	}
	if ping := o.probe.take(x); ping != nil {
		return Item{Bytes: ping}, true, nil
	}
	if x.track != nil {
		if e, ok, _ := s.replay.after(x.track, x.at); ok {
			x.at = e.seq
			return Item{Bytes: e.b, ID: x.name()}, true, nil
		}
	}
	m, ok := o.queue.Pop()
	if !ok {
		return item, false, nil
	}
	x.cur, item.Bytes = m, m.Buf.B
	if x.track != nil {
		var kept bool
		if x.at, kept = s.replay.add(x.track, item.Bytes, false); kept {
			item.ID = x.name()
		}
	}
	return item, true, nil
}

// name is the id of the event that is handed out.
func (x *Stream) name() []byte {
	x.id = x.s.replay.name(x.id[:0], x.track, x.at)
	return x.id
}

// sent frees what was handed out.
func (x *Stream) sent() {
	if x.cur.Buf != nil {
		x.cur.Buf.Free()
		x.cur = bridge.Outgoing{}
	}
}

// takeOfCall is take for the rest of a call's stream.
func (x *Stream) takeOfCall() (item Item, ok bool, err error) {
	r := &x.s.replay
	e, ok, missed := r.after(x.track, x.at)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case x.track.reader != x, missed:
		return item, false, ErrReplaced
	case ok:
		x.at = e.seq
		return Item{Bytes: e.b, ID: x.name(), Final: e.final}, true, nil
	case x.track.last > x.at: // it came meanwhile
		x.wake()
		return item, false, nil
	}
	return item, false, x.track.over
}

// Close says that the client's stream is closed. It must be called once.
func (x *Stream) Close() {
	if x.closed {
		return
	}
	x.closed = true
	if x.timer != nil {
		x.timer.Stop()
	}
	x.s.touch()
	if x.Call() != nil {
		x.closeCall()
		return
	}
	s, o := x.s, &x.s.outbox
	o.mu.Lock()
	x.putBack()
	last := o.stream == x
	if last {
		o.stream = nil
		for _, id := range o.queue.Asks() {
			o.hold(id)
		}
	}
	lost := last && o.had && o.over == nil
	o.mu.Unlock()
	if lost {
		s.streamLost()
	}
}

// putBack queues again what the client did not get, o.mu held, unless another
// connection goes on with this stream and sends it.
func (x *Stream) putBack() {
	o := &x.s.outbox
	if x.cur.Buf == nil {
		return
	}
	goesOn := x.track != nil && o.stream != nil && o.stream != x && o.stream.track == x.track
	if o.over != nil || goesOn || x.track != nil && !x.s.replay.takeBack(x.track, x.at) {
		x.sent()
		return
	}
	o.queue.PutBack(x.cur)
	x.cur = bridge.Outgoing{}
	if o.stream != nil {
		o.stream.wake()
	}
}

// closeCall says that nobody reads the rest of a call's stream at present.
func (x *Stream) closeCall() {
	r := &x.s.replay
	r.mu.Lock()
	var call *Exchange
	if x.track.reader == x {
		x.track.reader, call = nil, x.track.x
	}
	r.mu.Unlock()
	if call == nil {
		return
	}
	call.detach(true) // without r.mu: it may end the session
	r.mu.Lock()
	if x.track.reader != nil { // somebody came meanwhile
		call.detach(false)
	}
	r.mu.Unlock()
}

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// Options say what the client of a call can take.
type Options struct {
	// Single: the response alone. Progress is dropped, and neither a question nor
	// a log message of the worker goes to this call.
	Single bool
	// Can are the capabilities that the client declared.
	Can Capability
	// Modern: the client's era has no sessions. A log message goes to this call
	// only when it asked for one of its level, which Log says (1 is debug, 8 is
	// emergency; 0: none).
	Modern bool
	Log    uint8
	// Aside: a call of the front end itself, which no message belongs to and for
	// which no client waits: it has no request timeout, and is no client's to cancel.
	Aside bool
	// Over, unless nil, is called on its own goroutine when the worker ends the call by a
	// response or, as it may a subscription, by cancelling it.
	Over func()
	// Translation is how the request and its response are put into the era of the
	// other end; nil: both ends are of one.
	Translation *era.Translation
}

// Bounds on what waits for one call, besides its response.
var callBounds = Bounds{Messages: 256, Bytes: 1 << 20}

// Call is one request in the worker. Begin starts it; one goroutine uses it.
type Call struct {
	b  *Bridge
	id uint64 // ours, and the progress token that the worker sees
	Options
	clientID []byte // as it stands in the client's message
	token    []byte // the client's progress token; nil: none
	task     bool   // it asks for a task, whose progress is reported with the token as well
	inline   [48]byte
	digits   [20]byte // id, as it is written

	cur     *Buffer // handed out by Next
	curHeld int     // what cur counts in b.held
	curCode int     // its error code; 0: it is no error
	curDone bool    // it was translated

	// Guarded by b.mu.
	w      *waiter
	queue  Queue
	over   error // why nothing more comes; nil while the call runs
	sent   bool  // it was written to the worker, or is being written
	closed bool  // the client left
	apart  bool  // it lost its connection and may come back
	parked bool  // it waits for another request of its client
	denied Capability
	timer  *time.Timer
	missed int // notifications that had to make room
}

// waiter is what Next waits on. Waiters are used again and again.
type waiter struct {
	signal chan struct{} // one token: look again
	timer  *time.Timer
}

// arm starts the timer.
func (w *waiter) arm(d time.Duration) <-chan time.Time {
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	return w.timer.C
}

func (w *waiter) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Begin hands the request m to the worker as the call c, which must be new. m is
// not used after it returned. It waits while the worker does not read its stdin:
// WriteTimeout for this message, and for those before it.
//
// Errors: ErrBusy, ErrGone, which is ErrUnsent when the worker got nothing of it,
// ErrCancelled, ctx.Err(). After an error c is good for nothing but Next and Close.
func (b *Bridge) Begin(ctx context.Context, c *Call, m *jsonrpc.Message, o Options) error {
	c.b, c.Options = b, o
	c.copyTokens(m)
	if err := b.admit(c); err != nil {
		c.over, c.closed = err, true // it may be closed all the same
		return err
	}
	line := newBuffer(len(m.Raw) + 64)
	defer line.Free()
	id := strconv.AppendUint(c.digits[:0], c.id, 10)
	if o.Translation != nil {
		line.B = o.Translation.Request(line.B, m, id)
		jsonrpc.FlattenLines(line.B)
		line.B = append(line.B, '\n')
	} else {
		line.B = appendRequest(line.B, m, id, c.token != nil)
	}

	if err := b.lockWrites(ctx, c); err != nil {
		c.forget(err)
		if errors.Is(err, ErrGone) {
			return ErrUnsent
		}
		return err
	}
	if err := b.writeLine(line.B); err != nil {
		c.forget(err)
		return err
	}
	return nil
}

// appendRequest appends the line of a request under our id.
func appendRequest(dst []byte, m *jsonrpc.Message, id []byte, token bool) []byte {
	edits := [2]jsonrpc.Edit{{Span: m.ID, With: id}}
	if token {
		edits[1] = jsonrpc.Edit{Span: m.MetaProgressToken, With: id}
		if edits[1].Span.Start < edits[0].Span.Start {
			edits[0], edits[1] = edits[1], edits[0]
		}
	}
	return jsonrpc.AppendLine(dst, m.Raw, edits[:]...)
}

// copyTokens keeps the client's id and progress token.
func (c *Call) copyTokens(m *jsonrpc.Message) {
	kept := append(c.inline[:0], m.IDBytes()...)
	n := len(kept)
	kept = append(kept, m.MetaProgressToken.Of(m.Raw)...)
	c.clientID = kept[:n:n]
	if len(kept) > n {
		c.token = kept[n:]
		c.task = m.Task.Present() && !c.Modern && c.Translation == nil
	}
}

// admit gives the call its id and enters it.
func (b *Bridge) admit(c *Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reason != "":
		return ErrUnsent
	case len(b.calls) >= b.cfg.MaxCalls:
		return ErrBusy
	}
	b.lastID++
	c.id = b.lastID
	b.calls[c.id] = c
	if n := len(b.waiters); n > 0 {
		c.w, b.waiters = b.waiters[n-1], b.waiters[:n-1]
	} else {
		c.w = &waiter{signal: make(chan struct{}, 1)}
	}
	if b.cfg.RequestTimeout > 0 && !c.Aside {
		c.timer = time.AfterFunc(b.cfg.RequestTimeout, func() { b.expire(c) })
	}
	return nil
}

// finish says that nothing more comes, b.mu held. A call that was answered keeps
// what is queued.
func (c *Call) finish(why error) {
	if c.over == nil {
		c.over = why
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	if !c.closed {
		c.w.wake()
	}
}

// forget takes a call back that Begin could not hand over.
func (c *Call) forget(why error) {
	c.b.mu.Lock()
	if c.b.calls[c.id] == c {
		delete(c.b.calls, c.id)
	}
	c.finish(why)
	c.b.mu.Unlock()
	c.Close()
}

// Next returns the next message for the client. Its bytes are valid until the
// following call of Next or Close and hold neither CR nor LF. It waits at most
// wait, without limit when that is 0. Nothing follows the final message, or an
// error other than ErrWait and ctx.Err().
//
// Errors: ErrWait, ErrCancelled, ErrGone, ErrTimeout, ctx.Err().
func (c *Call) Next(ctx context.Context, wait time.Duration) (msg []byte, final bool, err error) {
	if m, ok, err := c.take(); ok || err != nil {
		return m.bytes(), m.Final, err
	}
	if wait > 0 && wait <= maxOwn && c.b.readOwn(c, wait) {
		m, ok, err := c.take()
		if !ok && err == nil {
			err = cmp.Or(ctx.Err(), ErrWait)
		}
		return m.bytes(), m.Final, err
	}
	c.b.needReader()
	var timeout <-chan time.Time
	if wait > 0 {
		timeout = c.w.arm(wait)
		defer c.w.timer.Stop()
	}
	for {
		select {
		case <-c.w.signal:
		case <-timeout:
			return nil, false, ErrWait
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
		if m, ok, err := c.take(); ok || err != nil {
			return m.bytes(), m.Final, err
		}
	}
}

// take returns what is queued, or why nothing comes any more.
func (c *Call) take() (m Outgoing, ok bool, err error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.release()
	if m, ok = c.queue.Pop(); ok {
		c.cur, c.curHeld, c.curCode, c.curDone = m.Buf, len(m.Buf.B), m.Code, m.Translated
		return m, true, nil
	}
	return m, false, c.over
}

func (m Outgoing) bytes() []byte {
	if m.Buf == nil {
		return nil
	}
	return m.Buf.B
}

// release gives back what Next handed out, b.mu held.
func (c *Call) release() {
	if c.cur == nil {
		return
	}
	c.cur.Free()
	c.cur = nil
	c.b.unhold(c.curHeld)
}

// unhold notes that n bytes less wait for clients, b.mu held.
func (b *Bridge) unhold(n int) {
	over := b.full()
	b.held -= n
	if over && !b.full() {
		b.room.Broadcast()
	}
}

// Close says that the client left. A call that still runs goes on in the worker
// and its answer will be dropped. It may be repeated.
func (c *Call) Close() {
	b := c.b
	b.mu.Lock()
	if c.closed {
		b.mu.Unlock()
		return
	}
	c.closed = true
	if c.missed > 0 {
		b.log().Info().Int("notifications", c.missed).Msg("the client of a call was too slow and missed some")
	}
	c.release()
	unasked := c.discard()
	select {
	case <-c.w.signal:
	default:
	}
	if len(b.waiters) < b.cfg.MaxCalls && b.reason == "" {
		b.waiters = append(b.waiters, c.w)
	}
	c.w = nil
	b.mu.Unlock()
	b.refuseAll(unasked)
}

// ClientID is the client's id of the call, as it stood in its message.
func (c *Call) ClientID() []byte { return append([]byte{}, c.clientID...) }

// Translated reports whether the message that Next returned last is a response that
// was put into the client's era.
func (c *Call) Translated() bool { return c.curDone }

// Detach says that the client lost its connection and may come back: what it should
// answer is asked elsewhere. Attach says that it has.
func (c *Call) Detach() {
	b := c.b
	b.mu.Lock()
	c.apart = true
	unasked := c.queue.Asks()
	for _, id := range unasked {
		if m, ok := c.queue.Withdraw(id); ok {
			b.unhold(len(m.Buf.B))
			m.Buf.Free()
		}
	}
	b.mu.Unlock()
	b.refuseAll(unasked)
}

// Attach undoes Detach.
func (c *Call) Attach() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.apart = false
}

// discard empties the queue, b.mu held, and returns the worker's requests that
// were in it.
func (c *Call) discard() (unasked []uint64) {
	for m, ok := c.queue.Pop(); ok; m, ok = c.queue.Pop() {
		if m.Ask != 0 {
			unasked = append(unasked, m.Ask)
		}
		c.b.unhold(len(m.Buf.B))
		m.Buf.Free()
	}
	return unasked
}

// push queues m for the call, b.mu held, and takes the buffer over unless it
// returns false. A call that was not sent gets nothing, whatever the worker has
// foreseen of its id.
func (c *Call) push(m Outgoing) bool {
	b := c.b
	if !c.sent || c.closed || c.over != nil {
		return false
	}
	before := c.queue.Bytes()
	dropped, ok := c.queue.Push(m, callBounds)
	for _, d := range dropped {
		d.Buf.Free()
	}
	c.missed += len(dropped)
	b.held += c.queue.Bytes() - before
	if ok {
		c.w.wake()
	}
	return ok
}

// giveUp ends a call that runs, for the reason why: a late answer will be dropped.
// It reports whether the worker knows of the call and should be told.
func (b *Bridge) giveUp(c *Call, why error) (tell bool) {
	b.mu.Lock()
	if b.calls[c.id] != c || c.over != nil {
		b.mu.Unlock()
		return false
	}
	delete(b.calls, c.id)
	if c.sent {
		b.lost.add(c.id)
	}
	unasked := c.discard()
	c.finish(why)
	b.breakOff(c)
	b.mu.Unlock()
	b.refuseAll(unasked)
	return c.sent
}

// expire ends a call whose time is over.
func (b *Bridge) expire(c *Call) {
	if b.giveUp(c, ErrTimeout) {
		b.reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"request timeout"}}`, c.id))
		b.suspect()
	}
}

// cancel obeys a client's notifications/cancelled: it ends the newest running call
// of that id, if there is one, and passes the notification on.
func (b *Bridge) cancel(m *jsonrpc.Message) {
	named := m.RequestID.Of(m.Raw)
	var found *Call
	b.mu.Lock()
	for id, c := range b.calls {
		if !c.Aside && jsonrpc.SameToken(c.clientID, named) && (found == nil || id > found.id) {
			found = c
		}
	}
	b.mu.Unlock()
	if found != nil && b.giveUp(found, ErrCancelled) {
		b.reply(m.Raw, jsonrpc.Edit{Span: m.RequestID, With: strconv.AppendUint(nil, found.id, 10)})
		b.suspect()
	}
}

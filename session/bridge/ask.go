package bridge

import (
	"context"
	"strconv"

	"gatehouse/session/jsonrpc"
)

// ask is a request of the worker that its client has to answer.
type ask struct {
	workerID []byte // as it stands in the worker's message
	call     *Call  // whose stream it went down; nil: Upstream took it
}

// Answers of the front end itself to a worker's request.
const (
	pong         = `{"jsonrpc":"2.0","id":0,"result":{}}`
	noCapability = `{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"the client does not support this"}}`
	nobodyThere  = `{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"the client can't be asked at present"}}`
	tooManyAsks  = `{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"too many requests are waiting for the client"}}`
)

// replyTo sends one of them.
func (b *Bridge) replyTo(workerID []byte, answer string) {
	const at = len(`{"jsonrpc":"2.0","id":`)
	b.reply([]byte(answer), jsonrpc.Edit{Span: jsonrpc.Span{Start: uint32(at), End: uint32(at + 1)}, With: workerID})
}

// needs says what a client must have declared for a method.
func needs(method []byte) Capability {
	switch string(method) {
	case "sampling/createMessage":
		return CanSample
	case "elicitation/create":
		return CanElicit
	case "roots/list":
		return CanListRoots
	}
	return CanOther
}

// request handles a request of the worker. A ping asks whether the other end of
// the pipe is there, which is this process; all others go to the oldest running
// call whose client can answer, else to Upstream. No server asks to be initialized:
// that is our own request, written back by a program that is no server, and our
// refusal would come back as the answer to it.
func (b *Bridge) request(m *jsonrpc.Message) error {
	switch {
	case m.Is("ping"):
		b.replyTo(m.IDBytes(), pong)
		return nil
	case m.Is("initialize"):
		return violation("asked to be initialized, as a program does that writes back what it reads")
	}
	need := needs(m.Method())
	b.mu.Lock()
	stale := b.staleAsk()
	if len(b.asks) >= b.cfg.MaxAsks {
		b.mu.Unlock()
		b.replyTo(m.IDBytes(), tooManyAsks)
		return nil
	}
	if stale != nil {
		defer b.replyTo(stale.workerID, nobodyThere)
	}
	b.lastAsk++
	id := b.lastAsk
	a := &ask{workerID: append([]byte(nil), m.IDBytes()...), call: b.oldest(need)}
	if b.asks == nil {
		b.asks = map[uint64]*ask{}
	}
	b.asks[id] = a
	buf := edited(m, jsonrpc.Edit{Span: m.ID, With: strconv.AppendUint(nil, id, 10)})
	if a.call != nil {
		if !a.call.push(Outgoing{Buf: buf, Ask: id}) {
			buf.Free()
			delete(b.asks, id)
			b.mu.Unlock()
			b.replyTo(m.IDBytes(), tooManyAsks)
			return nil
		}
		b.mu.Unlock()
		return nil
	}
	b.deny(need)
	b.mu.Unlock()
	answer := noCapability
	if b.up.Can()&need == need {
		if b.up.Ask(id, buf) {
			return nil
		}
		answer = nobodyThere
	}
	buf.Free()
	b.forgetAsk(id)
	b.replyTo(m.IDBytes(), answer)
	return nil
}

// staleAsk takes out the oldest request whose call is over when there is no room for
// another, b.mu held: its client may still answer, but most do not. nil: there was none
// to take out.
func (b *Bridge) staleAsk() *ask {
	if len(b.asks) < b.cfg.MaxAsks {
		return nil
	}
	oldest := uint64(0)
	for id, a := range b.asks {
		if a.call != nil && a.call.over != nil && (oldest == 0 || id < oldest) {
			oldest = id
		}
	}
	a := b.asks[oldest]
	delete(b.asks, oldest)
	return a
}

// oldest is the oldest running call whose client can be asked, b.mu held. A call
// that waits for its client is asked only when no other runs.
func (b *Bridge) oldest(need Capability) (found *Call) {
	var parked *Call
	alone := true
	for id, c := range b.calls {
		switch {
		case !c.sent || c.Aside:
		case c.parked:
			if c.Can&need == need && (parked == nil || id < parked.id) {
				parked = c
			}
		default:
			alone = false
			if !c.closed && !c.apart && !c.Single && c.Can&need == need && (found == nil || id < found.id) {
				found = c
			}
		}
	}
	if alone {
		return parked
	}
	return found
}

// deny notes in the oldest running call of the modern era that the worker could
// not ask its client, b.mu held.
func (b *Bridge) deny(need Capability) {
	var found *Call
	for id, c := range b.calls {
		if c.sent && c.Modern && !c.parked && c.Can&need != need && (found == nil || id < found.id) {
			found = c
		}
	}
	if found != nil {
		found.denied |= need
	}
}

// edited copies the message, with the edits, into a buffer without line breaks.
func edited(m *jsonrpc.Message, edits ...jsonrpc.Edit) *Buffer {
	buf := newBuffer(len(m.Raw) + 64)
	buf.B = jsonrpc.AppendEdited(buf.B, m.Raw, edits...)
	jsonrpc.FlattenLines(buf.B)
	return buf
}

// Refuse answers a request that Upstream took and could not deliver.
func (b *Bridge) Refuse(id uint64) {
	if a := b.forgetAsk(id); a != nil {
		b.replyTo(a.workerID, nobodyThere)
	}
}

func (b *Bridge) refuseAll(ids []uint64) {
	for _, id := range ids {
		b.Refuse(id)
	}
}

func (b *Bridge) forgetAsk(id uint64) *ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.asks[id]
	delete(b.asks, id)
	return a
}

// Answer passes a client's response on under the worker's own id. One that answers
// nothing outstanding is dropped.
//
// Errors: ErrGone, ctx.Err().
func (b *Bridge) Answer(ctx context.Context, m *jsonrpc.Message) error {
	id, ok := parseID(m.IDBytes())
	if !ok {
		return nil
	}
	a := b.forgetAsk(id)
	if a == nil {
		if b.gone() {
			return ErrGone
		}
		return nil
	}
	return b.forward(ctx, m.Raw, jsonrpc.Edit{Span: m.ID, With: a.workerID})
}

// withdraw handles the worker's notifications/cancelled for a request of its own:
// the client hears of it where it heard the question.
func (b *Bridge) withdraw(m *jsonrpc.Message) {
	named := m.RequestID.Of(m.Raw)
	var id uint64
	b.mu.Lock()
	for i, a := range b.asks {
		if jsonrpc.SameToken(a.workerID, named) && i > id {
			id = i
		}
	}
	a := b.asks[id]
	delete(b.asks, id)
	if a == nil {
		b.mu.Unlock()
		b.tornDown(named)
		return
	}
	buf := edited(m, jsonrpc.Edit{Span: m.RequestID, With: strconv.AppendUint(nil, id, 10)})
	if a.call != nil {
		if !a.call.push(Outgoing{Buf: buf}) {
			buf.Free()
		}
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	if b.up.Withdraw(id) {
		buf.Free()
		return
	}
	b.up.Notification(m.Method(), buf)
}

// tornDown ends a subscription of ours that the worker cancels (2026-07-28,
// basic/patterns/cancellation). No other call is a worker's to cancel.
func (b *Bridge) tornDown(named []byte) {
	id, _ := parseID(named)
	b.mu.Lock()
	c := b.calls[id]
	var over func()
	if c != nil {
		over = c.Over
	}
	b.mu.Unlock()
	if over != nil && b.giveUp(c, ErrCancelled) {
		go over()
	}
}

// parseID reads an id of ours: plain digits.
func parseID(raw []byte) (uint64, bool) {
	if len(raw) == 0 || len(raw) > 19 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, raw[0] != '0' || len(raw) == 1
}

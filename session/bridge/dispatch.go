package bridge

import (
	"slices"
	"strconv"

	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// violation says how a worker broke the protocol; it ends the worker.
type violation string

func (v violation) Error() string { return "the worker " + string(v) }

// line handles one line of the worker.
func (b *Bridge) line(line []byte) error {
	m, err := jsonrpc.ParseWorker(line)
	if err == nil {
		return b.message(&m)
	}
	if len(m.Raw) == 0 {
		return nil // an empty line
	}
	if e, ok := err.(*jsonrpc.Error); ok && e.Batch && b.hasBatches() {
		return b.batch(line)
	}
	return violation("wrote a line that is no message: " + err.Error())
}

func (b *Bridge) hasBatches() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.noBatches
}

// batch handles the messages of an array (MCP 2025-03-26, basic, batching).
func (b *Bridge) batch(line []byte) error {
	for element, err := range jsonrpc.Batch(line) {
		if err != nil {
			return violation("wrote a line that is no batch: " + err.Error())
		}
		m, err := jsonrpc.ParseWorker(element)
		if err != nil {
			return violation("wrote a batch of what is no message: " + err.Error())
		}
		if err := b.message(&m); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bridge) message(m *jsonrpc.Message) error {
	switch m.Kind {
	case jsonrpc.Response:
		return b.response(m)
	case jsonrpc.Request:
		return b.request(m)
	default:
		b.notification(m)
		return nil
	}
}

// response gives an answer to the call that it belongs to.
func (b *Bridge) response(m *jsonrpc.Message) error {
	raw := m.IDBytes()
	if raw == nil || string(raw) == "null" { // an error about no request in particular
		b.log().Debug().Msg("worker reports an error without an id")
		return nil
	}
	id, ok := parseID(raw)
	b.mu.Lock()
	if ok && b.answered(id) {
		b.mu.Unlock()
		return nil
	}
	c := b.calls[id]
	if !ok || c == nil || !c.sent {
		defer b.mu.Unlock()
		switch {
		case !ok || id > b.lastID || id <= b.cfg.FirstID || c != nil:
			return violation("answered an id that it was not given")
		case !b.lost.late(id):
			return violation("answered a request twice")
		}
		return nil
	}
	delete(b.calls, id)
	b.turn.answers++
	closed, clientID, translation := c.closed, c.clientID, c.Translation
	if c.task && m.Task.Present() {
		b.tasks.add(id, c.token)
	}
	b.mu.Unlock()
	out := Outgoing{Final: true, Code: errorCode(m)}
	if !closed {
		out.Buf, out.Translated = b.answer(m, clientID, translation)
	}
	b.mu.Lock()
	if out.Buf != nil && !c.push(out) {
		out.Buf.Free()
	}
	c.finish(errAnswered)
	over := c.Over
	b.mu.Unlock()
	if over != nil {
		go over()
	}
	return nil
}

// answer is a response as the client gets it, and whether it was translated. It may
// take over the memory of m, which is worth nothing afterwards.
func (b *Bridge) answer(m *jsonrpc.Message, clientID []byte, t *era.Translation) (buf *Buffer, translated bool) {
	if t != nil {
		buf = newBuffer(len(m.Raw) + 512)
		if buf.B, translated = t.Response(buf.B, m, clientID); translated {
			jsonrpc.FlattenLines(buf.B)
			return buf, true
		}
		buf.Free()
	}
	if buf = b.src.take(m.Raw); buf == nil {
		return edited(m, jsonrpc.Edit{Span: m.ID, With: clientID}), false
	}
	buf.B = slices.Replace(buf.B, int(m.ID.Start), int(m.ID.End), clientID...) // in place: there is room
	jsonrpc.FlattenLines(buf.B)
	return buf, false
}

// notification gives a notification to the call that it belongs to, else to
// Upstream.
func (b *Bridge) notification(m *jsonrpc.Message) {
	switch string(m.Method()) {
	case "notifications/progress":
		b.progress(m)
		return
	case "notifications/cancelled":
		b.withdraw(m)
		return
	case "notifications/message":
		if b.logMessage(m) {
			return
		}
	}
	b.up.Notification(m.Method(), edited(m))
}

// progress goes to the call whose token it names, and that of a task to Upstream. A
// token of neither is dropped: the client could take it for one of its own.
func (b *Bridge) progress(m *jsonrpc.Message) {
	id, ok := parseID(m.ProgressToken.Of(m.Raw))
	if !ok {
		return
	}
	b.mu.Lock()
	c := b.calls[id]
	if c == nil {
		token := b.tasks.token(id)
		b.mu.Unlock()
		if token != nil {
			b.up.Notification(m.Method(), edited(m, jsonrpc.Edit{Span: m.ProgressToken, With: token}))
		}
		return
	}
	defer b.mu.Unlock()
	if c.token == nil {
		return
	}
	switch limit := b.cfg.RequestTimeout; {
	case c.timer == nil || c.over != nil:
	case limit > 0:
		c.timer.Reset(limit)
	default: // there is none any more
		c.timer.Stop()
	}
	if c.closed || c.Single {
		return
	}
	buf := edited(m, jsonrpc.Edit{Span: m.ProgressToken, With: c.token})
	if !c.push(Outgoing{Buf: buf}) {
		buf.Free()
	}
}

// logMessage gives a log message to the only running call that wants one of its
// level, and reports false when there are none or several: then nobody knows whose
// it is.
func (b *Bridge) logMessage(m *jsonrpc.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var only *Call
	for _, c := range b.calls {
		if !c.sent || c.Aside || c.parked || c.Modern && (c.Log == 0 || era.LogLevel(jsonrpc.Value(m.Params.Of(m.Raw), "level")) < c.Log) {
			continue
		}
		if only != nil {
			return false
		}
		only = c
	}
	if only == nil || only.closed || only.Single {
		return false
	}
	buf := edited(m)
	if !only.push(Outgoing{Buf: buf}) {
		buf.Free()
	}
	return true
}

// errorCode is the code of a response that is an error: 0 when it is none, -32603
// when the error has no code that can be read.
func errorCode(m *jsonrpc.Message) int {
	if !m.Error.Present() {
		return 0
	}
	n, err := strconv.Atoi(string(jsonrpc.Value(m.Error.Of(m.Raw), "code")))
	if err != nil || n == 0 {
		return jsonrpc.CodeInternal
	}
	return n
}

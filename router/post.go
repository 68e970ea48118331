package router

import (
	"errors"
	"net/http"

	"gatehouse/auth"
	"gatehouse/session"
	"gatehouse/session/jsonrpc"
)

// post takes one message from a client (MCP 2025-11-25, Transports, "Sending
// Messages to the Server"). Its steps are in the order of the door's checks.
func (d *Door) post(v *visit, r *http.Request, s *server, c auth.Caller) {
	if ref := checkContent(r.Header); ref != nil {
		v.refuse(ref)
		return
	}
	acc := accepts(r.Header["Accept"])
	if !acc.json && !acc.events {
		v.refuse(&refusal{kind: kindAccept, reason: "Accept admits neither JSON nor events"})
		return
	}
	var err error
	var ref *refusal
	if v.body, ref = readBody(v, r, d.cfg.MaxBody); ref != nil {
		v.refuse(ref)
		return
	}
	m := &v.message
	if *m, err = jsonrpc.Parse(*v.body); err != nil {
		v.refuse(unparsed(m, err))
		return
	}
	v.line.Message = messageName(m)
	where, ref := v.ask(r, m).choose()
	switch where {
	case wayInitialize:
		d.initialize(v, r, s, c, m, acc)
	case wayIgnore:
		v.empty(http.StatusAccepted)
	case waySession:
		d.deliver(v, r, s, c, m, acc)
	case wayModern:
		d.modern(v, r, s, c, m, acc)
	default:
		v.refuse(ref)
	}
}

// unparsed words what the parser refused; m has the id if one was read.
func unparsed(m *jsonrpc.Message, err error) *refusal {
	r := &refusal{kind: kindJSON, reason: err.Error(), id: m.IDBytes(), code: jsonrpc.CodeParse, text: "the body is not a JSON-RPC message"}
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		r.code, r.text = e.Code, e.Text
		if e.Batch {
			r.kind, r.text = kindBatch, ""
		}
	}
	return r
}

// messageName is the method for the audit line, without which a message is a
// response.
func messageName(m *jsonrpc.Message) string {
	if m.Kind == jsonrpc.Response {
		return "response"
	}
	if name, ok := methods[string(m.Method())]; ok {
		return name // without an allocation
	}
	return string(m.Method())
}

// methods are those that clients send all the time.
var methods = func() map[string]string {
	known := map[string]string{}
	for _, m := range []string{"initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "prompts/list",
		"prompts/get", "completion/complete", "server/discover", "subscriptions/listen", "resources/templates/list", "notifications/initialized", "notifications/cancelled"} {
		known[m] = m
	}
	return known
}()

// initialize opens a session. The id goes out with a successful answer and with
// nothing else, so that a worker that fails its handshake leaves nothing behind.
func (d *Door) initialize(v *visit, r *http.Request, s *server, c auth.Caller, m *jsonrpc.Message, acc accepted) {
	v.traceIn()
	id := m.IDBytes()
	if m.Kind != jsonrpc.Request {
		v.refuse(&refusal{kind: kindInitialize, reason: "initialize is no request", id: id})
		return
	}
	if d.draining.Load() {
		v.refuse(&refusal{kind: kindDraining, reason: "stopping", id: id})
		return
	}
	sess, answer, err := d.cfg.Sessions.Open(r.Context(), s.index, session.Caller(c), *m)
	switch {
	case err != nil && r.Context().Err() != nil:
		v.gone(err)
		return
	case err != nil:
		v.failed(fromSession(s, err, id), acc)
		return
	}
	if sess != nil {
		// A key that was withdrawn while the session was opened ended the others
		// under it, and has to end this one.
		if _, refused := s.gate.Admit(r.Context(), r.Header); refused != nil {
			sess.End("token no longer accepted: " + refused.Reason)
			v.refuse(fromGate(s, refused))
			return
		}
		v.line.Session, v.line.Account = sess.Label(), sess.Info().Account
		v.Header()["Mcp-Session-Id"] = []string{sess.ID()}
	}
	v.answer(answer, acc)
}

// deliver takes a message to the session that the request names.
func (d *Door) deliver(v *visit, r *http.Request, s *server, c auth.Caller, m *jsonrpc.Message, acc accepted) {
	sess, ref := d.find(v, r, s, c, m.IDBytes())
	if ref != nil {
		v.refuse(ref)
		return
	}
	var err error
	switch m.Kind {
	case jsonrpc.Request:
		d.call(v, r, s, sess, m, acc)
		return
	case jsonrpc.Notification:
		err = sess.Notify(r.Context(), *m)
	default:
		err = sess.Answer(r.Context(), *m)
	}
	switch {
	case err == nil:
		v.empty(http.StatusAccepted)
	case errors.Is(err, session.ErrGone):
		v.refuse(unknownSession(err.Error(), nil))
	default:
		v.refuse(fromSession(s, err, nil))
	}
}

// find returns the caller's session that the request names.
func (d *Door) find(v *visit, r *http.Request, s *server, c auth.Caller, id []byte) (*session.Session, *refusal) {
	sess, ok := d.cfg.Sessions.Find(s.index, session.Caller(c), r.Header["Mcp-Session-Id"][0])
	if !ok {
		return nil, unknownSession("no such session of this caller", id)
	}
	v.line.Session = sess.Label()
	v.traceIn()
	return sess, nil
}

func unknownSession(reason string, id []byte) *refusal {
	return &refusal{kind: kindUnknownSession, reason: reason, id: id}
}

// call hands a request to the worker and waits for its answer, which decides the
// form: JSON if it comes first and soon, else a stream.
func (d *Door) call(v *visit, r *http.Request, s *server, sess *session.Session, m *jsonrpc.Message, acc accepted) {
	ctx, mode := r.Context(), session.ModeStream
	if !acc.events {
		mode = session.ModeSingle
	}
	x, err := sess.Begin(ctx, *m, mode)
	id := v.keepID()
	if err != nil {
		d.unanswered(v, r, s, id, err, acc)
		return
	}
	defer x.Close()
	d.await(v, r, s, x, id, acc)
}

// await waits for what a call brings, in the form that its first message decides.
func (d *Door) await(v *visit, r *http.Request, s *server, x *session.Exchange, id []byte, acc accepted) {
	ctx := r.Context()
	var item session.Item
	var err error
	if acc.events {
		item, err = x.Next(ctx, v.pace.first)
	} else {
		item, err = x.Next(ctx, 0)
	}
	switch {
	case err == nil && item.Final && v.modern && modernStatus(item.Code) != 0:
		v.json(modernStatus(item.Code), item.Bytes)
	case err == nil && item.Final:
		v.answer(item.Bytes, acc)
	case err == nil || errors.Is(err, session.ErrWait):
		d.follow(v, r, s, x, id, item)
	default:
		d.unanswered(v, r, s, id, err, acc)
	}
}

// unanswered ends a call that got no response, where nothing was sent yet.
func (d *Door) unanswered(v *visit, r *http.Request, s *server, id []byte, err error, acc accepted) {
	switch {
	case errors.Is(err, session.ErrCancelled) && acc.events:
		v.line.Kind = "cancelled"
		v.stream() // which ends at once: there is no response
	case errors.Is(err, session.ErrCancelled):
		v.line.Kind = "cancelled"
		v.empty(http.StatusAccepted)
	case r.Context().Err() != nil:
		v.gone(err)
	default:
		v.failed(fromSession(s, err, id), acc)
	}
}

// failed answers a call with an error. What is said with 200 is said in the form
// that the client takes.
func (v *visit) failed(ref *refusal, acc accepted) {
	if w := words[ref.kind]; w.status == http.StatusOK {
		v.line.Kind, v.line.Reason = w.name, ref.reason
		ref.modern = v.modern
		v.answer(ref.body(w), acc)
		return
	}
	v.refuse(ref)
}

// answer sends one message as the whole response.
func (v *visit) answer(b []byte, acc accepted) {
	if acc.json && !acc.rather {
		v.json(http.StatusOK, b)
		return
	}
	if e, err := v.stream(); err == nil {
		e.message(b) // a client that is gone is nobody to tell
	}
}

// follow sends what a call brings as events until its response. An error that
// comes now stays in the stream.
func (d *Door) follow(v *visit, r *http.Request, s *server, x *session.Exchange, id []byte, item session.Item) {
	prime := x.Keep(&item)
	e, err := v.stream()
	if err == nil {
		err = e.prime(prime)
	}
	for err == nil {
		if item.Bytes != nil {
			if err = e.event(item.Bytes, item.ID); err != nil || item.Final {
				break
			}
		}
		item, err = x.Next(r.Context(), v.pace.keepalive)
		if errors.Is(err, session.ErrWait) {
			item, err = session.Item{}, e.comment()
		} else if err != nil {
			d.broken(v, r, s, e, id, err)
			return
		}
	}
	if err != nil {
		v.gone(err)
	}
}

// gone notes that the client went away.
func (v *visit) gone(err error) {
	v.line.Kind, v.line.Reason = "disconnected", err.Error()
}

// broken ends a stream whose call ended without a response.
func (d *Door) broken(v *visit, r *http.Request, s *server, e *events, id []byte, err error) {
	switch {
	case errors.Is(err, session.ErrCancelled):
		v.line.Kind = "cancelled"
		return
	case r.Context().Err() != nil:
		v.gone(err)
		return
	}
	ref := fromSession(s, err, id)
	ref.modern = v.modern
	w := words[ref.kind]
	v.line.Kind, v.line.Reason = w.name, ref.reason
	e.message(ref.body(w)) // a client that is gone is nobody to tell
}

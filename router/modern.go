package router

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"gatehouse/auth"
	"gatehouse/session"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// modern answers a request that brings its version and its client's capabilities
// itself (MCP 2026-07-28). There is no session: the requests of one principal share
// a worker.
func (d *Door) modern(v *visit, r *http.Request, s *server, c auth.Caller, m *jsonrpc.Message, acc accepted) {
	v.modern = true
	id := m.IDBytes()
	if ref := checkModern(r.Header, m, acc); ref != nil {
		v.refuse(ref)
		return
	}
	if d.draining.Load() {
		v.refuse(&refusal{kind: kindDraining, reason: "stopping", id: id})
		return
	}
	if answer, ok := d.cfg.Sessions.Answer(s.index, session.Caller(c), m); ok {
		v.answer(answer, acc)
		return
	}
	x, ref, err := d.beginModern(v, r, s, c, m, acc)
	for tries := 1; errors.Is(err, session.ErrUnsent) && tries < maxTries; tries++ {
		x, ref, err = d.beginModern(v, r, s, c, m, acc)
	}
	switch {
	case ref != nil:
		v.refuse(ref)
		return
	case err != nil:
		d.unanswered(v, r, s, v.keepID(), err, acc)
		return
	}
	defer x.Close()
	d.await(v, r, s, x, v.keepID(), acc)
}

// maxTries is how many workers a request is offered when each ends before it gets it.
const maxTries = 3

// beginModern hands a request to the caller's worker, which it starts when there is
// none.
func (d *Door) beginModern(v *visit, r *http.Request, s *server, c auth.Caller, m *jsonrpc.Message, acc accepted) (*session.Exchange, *refusal, error) {
	sess, fresh, err := d.cfg.Sessions.Modern(r.Context(), s.index, session.Caller(c))
	if err != nil {
		return nil, nil, err
	}
	if fresh {
		// As for initialize: a key that was withdrawn meanwhile ends this one too.
		if _, refused := s.gate.Admit(r.Context(), r.Header); refused != nil {
			sess.End("token no longer accepted: " + refused.Reason)
			return nil, fromGate(s, refused), nil
		}
	}
	v.line.Session, v.line.Account = sess.Label(), sess.Account()
	v.traceIn()
	if ref, err := checkParams(r, sess, m); ref != nil || err != nil {
		return nil, ref, err
	}
	mode := session.ModeStream
	if !acc.events {
		mode = session.ModeSingle
	}
	x, err := sess.BeginModern(r.Context(), *m, mode)
	return x, nil, err
}

// modernStatus is the status of an error response of a worker, where the revision
// wants another than 200; 0: it does not.
func modernStatus(code int) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case era.CodeHeader, era.CodeCapability, era.CodeVersion:
		return http.StatusBadRequest
	}
	return 0
}

// checkModern wants of a modern request what can be said without a worker: that its
// headers say what its body says (2026-07-28, basic/transports, "Server
// Validation"), that the version is served, that _meta is complete, and that the
// method is not one that the revision removed.
func checkModern(h http.Header, m *jsonrpc.Message, acc accepted) *refusal {
	refuse := func(k kind, text, reason string) *refusal {
		return &refusal{kind: k, text: text, reason: reason, id: m.IDBytes(), modern: true}
	}
	version := jsonrpc.Unquote(m.MetaProtocolVersion.Of(m.Raw))
	if !says(h["Mcp-Protocol-Version"], version) {
		return refuse(kindHeader, "MCP-Protocol-Version must be there once and equal the version in _meta", "version header differs")
	}
	if string(version) != era.Modern {
		ref := refuse(kindVersion, "", "version not served statelessly")
		ref.requested = printable(string(version))
		return ref
	}
	if !says(h["Mcp-Method"], m.Method()) {
		return refuse(kindHeader, "Mcp-Method must be there once and equal the method", "method header differs")
	}
	if span, has := named(m); has {
		value, ok := decoded(h["Mcp-Name"])
		if !ok || !span.Present() || value != string(jsonrpc.Unquote(span.Of(m.Raw))) {
			return refuse(kindHeader, "Mcp-Name must be there once and equal the name or uri in params", "name header differs")
		}
	}
	switch {
	case !m.MetaCapabilities.Present():
		return refuse(kindMeta, "io.modelcontextprotocol/clientCapabilities must be an object", "no client capabilities")
	case m.MetaLogLevel.Present() && era.LogLevel(m.MetaLogLevel.Of(m.Raw)) == 0:
		return refuse(kindMeta, "io.modelcontextprotocol/logLevel is no log level", "unknown log level")
	case era.LegacyOnly(m.Method()):
		return refuse(kindRemoved, "", "a method of the legacy era")
	case m.Is("subscriptions/listen") && !acc.events:
		return refuse(kindAccept, "", "Accept does not admit events")
	}
	return nil
}

// named is what Mcp-Name mirrors, absent when it is no string; false: the method has no
// such thing.
func named(m *jsonrpc.Message) (jsonrpc.Span, bool) {
	switch string(m.Method()) {
	case "tools/call", "prompts/get":
		return m.Name, true
	case "resources/read":
		return m.URI, true
	}
	return jsonrpc.Span{}, false
}

// says reports whether a header was sent once with exactly that value.
func says(fields []string, value []byte) bool {
	return len(fields) == 1 && strings.Trim(fields[0], " \t") == string(value)
}

// The sentinel around values that no header can hold as they are (2026-07-28,
// basic/transports, "Value Encoding").
const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// decoded is the value of a header that was sent once, with the sentinel taken off;
// false when it was not, or holds what it must not.
func decoded(fields []string) (string, bool) {
	if len(fields) != 1 {
		return "", false
	}
	value := strings.Trim(fields[0], " \t")
	inner, starts := strings.CutPrefix(value, sentinelStart)
	inner, ends := strings.CutSuffix(inner, sentinelEnd)
	if starts && ends {
		raw, err := base64.StdEncoding.Strict().DecodeString(inner)
		if err != nil || strings.ContainsAny(inner, "\r\n") || !utf8.Valid(raw) {
			return "", false
		}
		return string(raw), true
	}
	for i := range len(value) {
		if c := value[i]; (c < ' ' || c > '~') && c != '\t' {
			return "", false
		}
	}
	return value, true
}

// checkParams compares the headers that mirror arguments of a tool with those.
func checkParams(r *http.Request, sess *session.Session, m *jsonrpc.Message) (*refusal, error) {
	if !m.Is("tools/call") {
		return nil, nil
	}
	params, err := sess.ToolParams(r.Context(), jsonrpc.Unquote(m.Name.Of(m.Raw)))
	if err != nil {
		return nil, err
	}
	for _, p := range params {
		if !mirrors(r.Header[http.CanonicalHeaderKey("Mcp-Param-"+p.Name)], p, m.Arguments.Of(m.Raw)) {
			return &refusal{kind: kindHeader, text: "a Mcp-Param header must be there once for each argument that the tool's schema marks, and equal it",
				reason: "param header differs", id: m.IDBytes(), modern: true}, nil
		}
	}
	return nil, nil
}

// mirrors reports whether the fields of a header say what the argument says.
func mirrors(fields []string, p era.Param, arguments []byte) bool {
	argument, ok := p.Argument(arguments)
	if !ok || argument == nil {
		return ok && len(fields) == 0
	}
	value, ok := decoded(fields)
	return ok && era.Fits(value, argument)
}

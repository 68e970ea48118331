package router

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"gatehouse/auth"
	"gatehouse/auth/token"
	"gatehouse/session"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// kind is the closed list of what the door refuses. Its index is the row of
// words; the zero value is an internal fault.
type kind uint8

const (
	kindInternal kind = iota
	kindHost
	kindPeer
	kindOrigin
	kindNotFound
	kindMethod
	kindNoCredentials
	kindTwoFields
	kindSyntax
	kindBareToken
	kindDoubledScheme
	kindQuoted
	kindUnexpanded
	kindToken // said with the words of token.Kind
	kindScope
	kindUndecided
	kindContentType
	kindEncoding
	kindAccept
	kindTooLarge
	kindBody
	kindJSON // said with the words of jsonrpc.Error
	kindBatch
	kindNoMeta
	kindMeta
	kindHeader
	kindRemoved
	kindState
	kindVersion
	kindNoSession
	kindTwoSessions
	kindNoStream
	kindPostOnly
	kindUnknownSession
	kindInitialize
	kindSessionLimit
	kindBusy
	kindTimeout
	kindSessionGone
	kindWorker
	kindWorkerGone
	kindRate
	kindNoAccount
	kindClientOwn
	kindDraining
	kinds // how many there are
)

// row is how one kind of refusal is said. The texts are fixed: nothing of the
// request, of a token or of a worker ever stands in one.
type row struct {
	name   string // data.kind, and the audit line's
	status int
	code   int    // of the JSON-RPC error
	text   string // for people; refusal.text is put after it
	oauth  string // error code of the challenge; empty: no challenge
}

// noError stands for a challenge without an error code (RFC 6750 section 3.1).
const noError = "-"

// Codes of errors that are ours or the specification's (2026-07-28, "Error Codes").
const (
	codeOurs    = -32001 // told apart by data.kind
	codeModern  = 1001   // the same where the revision reserves the others
	codeHeader  = era.CodeHeader
	codeVersion = era.CodeVersion
)

// words is every refusal of the door, in the order of its checks.
var words = [kinds]row{
	kindInternal: {"internal", 500, jsonrpc.CodeInternal, "internal error", ""},

	kindHost:   {"host", 403, codeOurs, "this server answers on localhost only: use localhost, 127.0.0.1 or [::1] with its port in the URL", ""},
	kindPeer:   {"peer", 403, codeOurs, "this server answers connections from this machine only", ""},
	kindOrigin: {"origin", 403, codeOurs, "this Origin is not allowed", ""},

	kindNotFound: {"notFound", 404, 0, "not found", ""},
	kindMethod:   {"method", 405, codeOurs, "method not allowed", ""},

	kindNoCredentials: {"unauthorized", 401, codeOurs, "authorization required: send a bearer token", noError},
	kindTwoFields:     {"unauthorized", 400, codeOurs, "more than one Authorization header", "invalid_request"},
	kindSyntax:        {"unauthorized", 400, codeOurs, "the Authorization header must be the word Bearer, a space and one token", "invalid_request"},
	kindBareToken:     {"unauthorized", 401, codeOurs, "the token has no scheme: put Bearer and a space before it", "invalid_token"},
	kindDoubledScheme: {"unauthorized", 401, codeOurs, "the scheme stands twice: send Bearer once", "invalid_token"},
	kindQuoted:        {"unauthorized", 401, codeOurs, "the token stands in quotation marks: remove them", "invalid_token"},
	kindUnexpanded:    {"unauthorized", 401, codeOurs, "a variable was sent instead of a token: it was not expanded", "invalid_token"},
	kindToken:         {"unauthorized", 401, codeOurs, "token refused: ", "invalid_token"},
	kindScope:         {"scope", 403, codeOurs, "the token lacks a scope that this server requires", "insufficient_scope"},
	kindUndecided:     {"undecided", 503, codeOurs, "the token can't be checked at present: try again later", ""},

	kindContentType: {"contentType", 415, codeOurs, "Content-Type must be application/json", ""},
	kindEncoding:    {"contentEncoding", 415, codeOurs, "an encoded body is not taken: send it without Content-Encoding", ""},
	kindAccept:      {"accept", 406, codeOurs, "Accept must admit application/json or text/event-stream", ""},
	kindTooLarge:    {"tooLarge", 413, codeOurs, "the message is larger than this server takes", ""},
	kindBody:        {"body", 400, codeOurs, "the body could not be read to its end", ""},
	kindJSON:        {"json", 400, 0, "", ""},
	kindBatch:       {"batch", 400, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message in each request", ""},

	kindNoMeta:  {"version", 400, jsonrpc.CodeInvalidParams, "this protocol version wants its version in _meta as well", ""},
	kindMeta:    {"meta", 400, jsonrpc.CodeInvalidParams, "_meta: ", ""},
	kindHeader:  {"header", 400, codeHeader, "header mismatch: ", ""},
	kindRemoved: {"method", 404, jsonrpc.CodeMethodNotFound, "method not found", ""},
	kindState:   {"state", 400, jsonrpc.CodeInvalidParams, "requestState does not fit this request, or is too old: send the request without it", ""},
	kindVersion: {"version", 400, codeVersion, "unsupported protocol version", ""},

	kindNoSession:      {"noSession", 400, codeOurs, "Mcp-Session-Id is missing: begin with initialize", ""},
	kindTwoSessions:    {"noSession", 400, codeOurs, "more than one Mcp-Session-Id header", ""},
	kindNoStream:       {"noStream", 405, codeOurs, "no stream without a session: begin with initialize", ""},
	kindPostOnly:       {"method", 405, codeOurs, "this protocol version has no such request: send a POST", ""},
	kindUnknownSession: {"sessionUnknown", 404, codeOurs, "session not found: begin again with initialize", ""},
	kindInitialize:     {"initialize", 400, jsonrpc.CodeInvalidRequest, "initialize must be a request with an id", ""},

	kindSessionLimit: {"sessionLimit", 200, codeOurs, "too many sessions: end one, or try again later", ""},
	kindBusy:         {"busy", 200, codeOurs, "too many calls are running: wait for one to finish", ""},
	kindTimeout:      {"timeout", 200, codeOurs, "the call took longer than this server allows", ""},
	kindSessionGone:  {"sessionGone", 200, codeOurs, "the worker of this session has ended: begin again with initialize", ""},
	kindWorker:       {"workerUnavailable", 200, codeOurs, "the worker could not be started: ask the operator, whose log says why", ""},
	kindWorkerGone:   {"workerGone", 200, codeOurs, "the worker ended during the request, which may have had its effect already: repeat it only if that does no harm", ""},
	kindRate:         {"rate", 429, codeOurs, "too many new sessions in a short time: try again later", ""},
	kindNoAccount:    {"noAccount", 403, codeOurs, "the token is valid, but no account on this server belongs to it: ask the operator", ""},
	kindClientOwn:    {"clientOwn", 403, codeOurs, "the token belongs to a client and to no user: sign in as a user", ""},
	kindDraining:     {"draining", 503, codeOurs, "the server is stopping: try again later", ""},
}

// refusal is one refusal on its way out. Only kind, and the fields that the row
// leaves open, reach the client; reason goes to the log.
type refusal struct {
	kind   kind
	reason string
	id     []byte // the request's id as it stood there; nil: null
	text   string // the words of another closed list, where the row leaves them open
	code   int    // likewise
	retry  time.Duration
	allow  string // Allow, for 405
	server *server
	// requested is the version that was asked for, with kindVersion.
	requested string
	modern    bool // the request is of the modern era
}

// retryAfter is what a client is told when nobody knows how long it takes.
const retryAfter = 5 * time.Second

// refuse answers with r. Nothing may have been written before.
func (v *visit) refuse(r *refusal) {
	w := words[r.kind]
	v.line.Kind, v.line.Reason = w.name, r.reason
	r.modern = r.modern || v.modern
	h := v.Header()
	if r.server != nil {
		r.server.challenge(h, w.oauth, r.description(w))
	}
	switch w.status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", seconds(r.retry))
	case http.StatusMethodNotAllowed:
		h.Set("Allow", r.allow)
	}
	h.Set("Cache-Control", "no-store")
	v.json(w.status, r.body(w))
}

// description is the challenge's error_description (RFC 6750 section 3).
func (r *refusal) description(w row) string {
	if r.text != "" {
		return r.text
	}
	return w.text
}

// body is the JSON-RPC error response, or a plain object where nobody spoke
// JSON-RPC.
func (r *refusal) body(w row) []byte {
	if r.kind == kindNotFound {
		return []byte(`{"error":"not found"}`)
	}
	code := w.code
	if code == 0 {
		code = r.code
	}
	b := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":`...)
	if r.id == nil {
		b = append(b, "null"...)
	} else {
		b = append(b, r.id...)
	}
	ours := code == codeOurs
	if ours && r.modern {
		code = codeModern
	}
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"message":`...)
	b = appendText(b, w.text+r.text)
	switch {
	case ours:
		b = append(b, `,"data":{"kind":"`...)
		b = append(b, w.name...)
		b = append(b, `"}`...)
	case code == codeVersion:
		b = append(b, `,"data":{"supported":`...)
		if r.modern {
			b = append(b, modernJSON...)
		} else {
			b = append(b, supportedJSON...)
		}
		b = append(b, `,"requested":`...)
		b = appendText(b, r.requested)
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("router: a string that JSON can't say") // there is none
	}
	return append(b, quoted...)
}

// seconds is the value of Retry-After: whole seconds, at least one.
func seconds(d time.Duration) string {
	if d <= 0 {
		d = retryAfter
	}
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

// gateKinds says which refusal of the door each of the gate's is.
var gateKinds = map[auth.Kind]kind{
	auth.KindNoCredentials: kindNoCredentials,
	auth.KindTwoFields:     kindTwoFields,
	auth.KindSyntax:        kindSyntax,
	auth.KindBareToken:     kindBareToken,
	auth.KindDoubledScheme: kindDoubledScheme,
	auth.KindQuoted:        kindQuoted,
	auth.KindUnexpanded:    kindUnexpanded,
	auth.KindToken:         kindToken,
	auth.KindScope:         kindScope,
	auth.KindUndecided:     kindUndecided,
}

// fromGate words a refusal of the gate.
func fromGate(s *server, r *auth.Refusal) *refusal {
	out := &refusal{kind: gateKinds[r.Kind], reason: r.Reason, server: s}
	if r.Kind == auth.KindToken {
		out.text = r.Token.Public()
	}
	return out
}

// sessionKinds says which refusal of the door each of the session's is.
var sessionKinds = map[session.Kind]kind{
	session.KindSessionLimit:      kindSessionLimit,
	session.KindBusy:              kindBusy,
	session.KindTimeout:           kindTimeout,
	session.KindSessionGone:       kindSessionGone,
	session.KindWorkerUnavailable: kindWorker,
	session.KindRate:              kindRate,
	session.KindNoAccount:         kindNoAccount,
	session.KindClientOwn:         kindClientOwn,
	session.KindToken:             kindToken,
	session.KindUndecided:         kindUndecided,
	session.KindDraining:          kindDraining,
	session.KindState:             kindState,
	session.KindUnsent:            kindWorker,
	session.KindWorkerGone:        kindWorkerGone,
}

// fromSession words an error of the session package as the answer to the
// request of that id. Errors of unknown kinds are internal.
func fromSession(s *server, err error, id []byte) *refusal {
	r := &refusal{reason: err.Error(), id: id, server: s}
	var e *session.Error
	var j *jsonrpc.Error
	switch {
	case errors.As(err, &e):
		r.kind, r.retry = sessionKinds[e.Kind], e.RetryAfter
		if e.Kind == session.KindToken {
			r.text = token.KindUnverifiable.Public()
		}
	case errors.As(err, &j):
		r.kind, r.code, r.text = kindJSON, j.Code, j.Text
	}
	return r
}

// allow is the value of Allow for a set of methods.
func allow[H any](methods map[string]H) string {
	names := make([]string, 0, len(methods))
	for m := range methods {
		names = append(names, m)
	}
	slices.Sort(names)
	var b []byte
	for i, m := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, m...)
	}
	return string(b)
}

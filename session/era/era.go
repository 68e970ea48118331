// Package era translates between the two eras of the protocol: legacy, with the
// initialize handshake (2024-11-05 to 2025-11-25), and modern, with everything in
// each request (2026-07-28). It works on the bytes of single messages and keeps
// what it does not know: members, extensions and _meta of others survive both ways.
package era

import (
	"bytes"
	"slices"

	"gatehouse/session/jsonrpc"
)

// Modern is the version of the modern era that is served.
const Modern = "2026-07-28"

// Members of _meta that the modern era reserves (2026-07-28, basic, "_meta").
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// Codes of the modern era, and of the legacy one that it forbids.
const (
	CodeHeader     = -32020 // HeaderMismatch
	CodeCapability = -32021 // MissingRequiredClientCapability
	CodeVersion    = -32022 // UnsupportedProtocolVersion

	codeNoResource = -32002 // resource not found; -32602 in the modern era
	codeURLFirst   = -32042 // URL elicitation required (2025-11-25)
)

// Client is what a legacy client says about itself, once, and modern workers hear in
// each request.
type Client struct {
	Info, Capabilities []byte // JSON objects; nil: nothing
	Level              []byte // of the log messages that it wants, as a JSON string; nil: none
	meta               []byte // the member _meta of a request that has none
}

// Nobody is the client of requests of our own.
var Nobody = NewClient(Client{})

// NewClient returns c, ready for requests.
func NewClient(c Client) *Client {
	if c.Capabilities == nil {
		c.Capabilities = emptyObject
	}
	c.meta = c.appendMeta([]byte(metaName), nil, nil)
	return &c
}

// appendMeta appends a request's _meta with what is the client's. token takes the
// place of the progress token; nil: there is none.
func (c *Client) appendMeta(dst, meta, token []byte) []byte {
	return jsonrpc.AppendObject(dst, meta, reserved, jsonrpc.Member{Name: metaVersion, Value: quotedModern},
		jsonrpc.Member{Name: metaCapabilities, Value: c.Capabilities}, jsonrpc.Member{Name: metaClient, Value: c.Info},
		jsonrpc.Member{Name: metaLogLevel, Value: c.Level}, jsonrpc.Member{Name: "progressToken", Value: token})
}

// Translation puts one request, and its response, into the era of the other end.
type Translation struct {
	modern    bool // the worker is
	cacheable bool // the method's results are
	server    *Server
	client    *Client
	// More are further members of the params for a modern worker, which replace those of
	// their names.
	More []jsonrpc.Member
}

// ToLegacy is the translation of a modern client's request of that method for a legacy
// worker, s.
func ToLegacy(method []byte, s *Server) Translation {
	return Translation{cacheable: Cacheable(method), server: s}
}

// ToModern is the translation of a legacy client's request of that method for a modern
// worker.
func ToModern(method []byte, c *Client) Translation {
	return Translation{modern: true, cacheable: Cacheable(method), client: c}
}

// Request appends the request as the worker takes it, under another id, which takes
// the place of its progress token too when it has one.
func (t *Translation) Request(dst []byte, m *jsonrpc.Message, id []byte) []byte {
	if t.modern {
		return RequestToModern(dst, m, id, t.client, t.More...)
	}
	return requestToLegacy(dst, m, id)
}

// Response appends the response as the client gets it, under its id. It returns false,
// and dst as it was, for one about which more has to be decided: a legacy worker's
// error, and a modern worker's result that is not complete.
func (t *Translation) Response(dst []byte, m *jsonrpc.Message, id []byte) ([]byte, bool) {
	switch {
	case t.modern && complete(m):
		return responseToLegacy(dst, m, id, t.cacheable), true
	case !t.modern && !m.Error.Present():
		return resultToModern(dst, m, id, t.cacheable, t.server.Meta), true
	}
	return dst, false
}

// Asks reports whether the answer to a method may be input_required (2026-07-28,
// basic/patterns/mrtr, "Supported Requests").
func Asks(method []byte) bool {
	switch string(method) {
	case "tools/call", "prompts/get", "resources/read":
		return true
	}
	return false
}

// Cacheable reports whether the results of a method carry ttlMs and cacheScope
// (2026-07-28, server/utilities/caching).
func Cacheable(method []byte) bool {
	switch string(method) {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// LegacyOnly reports whether a method exists in the legacy era alone.
func LegacyOnly(method []byte) bool {
	switch string(method) {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
		"sampling/createMessage", "elicitation/create", "roots/list":
		return true
	}
	return false
}

// Task reports whether a method belongs to tasks, which are an experimental part of
// one revision and an extension of another, and not translated.
func Task(method []byte) bool { return bytes.HasPrefix(method, []byte("tasks/")) }

// requestToLegacy appends what a legacy worker takes instead of a modern request:
// without the modern era's own _meta and without the members of multi round-trip
// requests, under another id, which takes the place of the progress token too when
// the request has one. What stays is copied as it stands.
func requestToLegacy(dst []byte, m *jsonrpc.Message, id []byte) []byte {
	var e jsonrpc.Edits
	e.Replace(m.ID, id)
	meta := jsonrpc.Span{}
	if m.Meta.Present() && e.Drop(m.Raw, m.Meta, m.MetaProtocolVersion, m.MetaClientInfo, m.MetaCapabilities, m.MetaLogLevel) {
		meta = m.Meta
	}
	if m.Params.Present() && e.Drop(m.Raw, m.Params, meta, m.InputResponses, m.RequestState) {
		e.Replace(m.Params, emptyObject)
	}
	e.Replace(m.MetaProgressToken, id)
	return e.Append(dst, m.Raw)
}

var emptyObject = []byte("{}")

// RequestToModern appends what a modern worker takes instead of a legacy request,
// under another id, which takes the place of the progress token too when the request
// has one. more are further members of params, which replace those of their names.
func RequestToModern(dst []byte, m *jsonrpc.Message, id []byte, c *Client, more ...jsonrpc.Member) []byte {
	meta := c.meta
	if m.Meta.Present() {
		var token []byte
		if m.MetaProgressToken.Present() {
			token = id
		}
		meta = c.appendMeta([]byte(metaName), m.Meta.Of(m.Raw), token)
	}
	if len(more) > 0 || !m.Params.Present() {
		more = append([]jsonrpc.Member{{Name: "_meta", Value: meta[len(metaName):]}}, more...)
		params := jsonrpc.AppendObject(nil, m.Params.Of(m.Raw), func(name []byte) bool {
			return slices.ContainsFunc(more, func(m jsonrpc.Member) bool { return m.Name == string(name) })
		}, more...)
		return jsonrpc.AppendObject(dst, m.Raw, func(name []byte) bool { return string(name) == "id" || string(name) == "params" },
			jsonrpc.Member{Name: "id", Value: id}, jsonrpc.Member{Name: "params", Value: params})
	}
	var e jsonrpc.Edits
	e.Replace(m.ID, id)
	if m.Meta.Present() || m.NoMeta.Present() {
		e.Replace(m.Meta, meta[len(metaName):])
		e.Replace(m.NoMeta, meta[len(metaName):])
	} else {
		e.Add(m.Raw, m.Params, meta)
	}
	return e.Append(dst, m.Raw)
}

var quotedModern = []byte(`"` + Modern + `"`)

// reserved reports whether a member of _meta is set for a worker by us alone.
func reserved(name []byte) bool {
	switch string(name) {
	case metaVersion, metaCapabilities, metaClient, metaLogLevel, "progressToken":
		return true
	}
	return false
}

// withParams is the message with other params.
func withParams(m *jsonrpc.Message, params []byte) []byte {
	if m.Params.Present() {
		return jsonrpc.AppendEdited(nil, m.Raw, jsonrpc.Edit{Span: m.Params, With: params})
	}
	return jsonrpc.AppendObject(nil, m.Raw, func(name []byte) bool { return string(name) == "params" }, jsonrpc.Member{Name: "params", Value: params})
}

// LogLevel is the place of a level, as it stands in a message, in the order of
// severity: 1 is debug, 8 is emergency; 0 is none of them.
func LogLevel(raw []byte) uint8 {
	switch string(jsonrpc.Unquote(raw)) {
	case "debug":
		return 1
	case "info":
		return 2
	case "notice":
		return 3
	case "warning":
		return 4
	case "error":
		return 5
	case "critical":
		return 6
	case "alert":
		return 7
	case "emergency":
		return 8
	}
	return 0
}

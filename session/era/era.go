// Package era translates between the two eras of the protocol: legacy, with the
// initialize handshake (2024-11-05 to 2025-11-25), and modern, with everything in
// each request (2026-07-28). It works on the bytes of single messages and keeps
// what it does not know: members, extensions and _meta of others survive both ways.
package era

import (
	"bytes"

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

// Client is what a client says about itself: of a legacy one in initialize, of a
// modern one in each request. The fields are JSON objects; nil: nothing.
type Client struct{ Info, Capabilities []byte }

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
func Cacheable(method string) bool {
	switch method {
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

// RequestToLegacy turns a modern request into what a legacy worker takes: without
// the modern era's own _meta and without the members of multi round-trip requests.
func RequestToLegacy(m *jsonrpc.Message) []byte {
	params := m.Params.Of(m.Raw)
	meta := jsonrpc.AppendObject(nil, m.Meta.Of(m.Raw), func(name string) bool {
		switch name {
		case metaVersion, metaClient, metaCapabilities, metaLogLevel:
			return true
		}
		return false
	})
	var more []jsonrpc.Member
	if len(meta) > len("{}") {
		more = []jsonrpc.Member{{Name: "_meta", Value: meta}}
	}
	return withParams(m, jsonrpc.AppendObject(nil, params, func(name string) bool {
		return name == "_meta" || name == "inputResponses" || name == "requestState"
	}, more...))
}

// RequestToModern turns a legacy request into what a modern worker takes. level is
// the log level that the client wants, as a JSON string; nil: none. more are
// further members of params, which replace those of their names.
func RequestToModern(m *jsonrpc.Message, c Client, level []byte, more ...jsonrpc.Member) []byte {
	if c.Capabilities == nil {
		c.Capabilities = []byte("{}")
	}
	added := []jsonrpc.Member{{Name: metaVersion, Value: []byte(`"` + Modern + `"`)}, {Name: metaCapabilities, Value: c.Capabilities}}
	if c.Info != nil {
		added = append(added, jsonrpc.Member{Name: metaClient, Value: c.Info})
	}
	if level != nil {
		added = append(added, jsonrpc.Member{Name: metaLogLevel, Value: level})
	}
	meta := jsonrpc.AppendObject(nil, m.Meta.Of(m.Raw), func(name string) bool {
		switch name {
		case metaVersion, metaCapabilities, metaClient, metaLogLevel:
			return true
		}
		return false
	}, added...)
	more = append([]jsonrpc.Member{{Name: "_meta", Value: meta}}, more...)
	return withParams(m, jsonrpc.AppendObject(nil, m.Params.Of(m.Raw), func(name string) bool {
		for i := range more {
			if more[i].Name == name {
				return true
			}
		}
		return false
	}, more...))
}

// withParams is the message with other params.
func withParams(m *jsonrpc.Message, params []byte) []byte {
	if m.Params.Present() {
		return jsonrpc.AppendEdited(nil, m.Raw, jsonrpc.Edit{Span: m.Params, With: params})
	}
	return jsonrpc.AppendObject(nil, m.Raw, func(name string) bool { return name == "params" }, jsonrpc.Member{Name: "params", Value: params})
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

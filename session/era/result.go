package era

import (
	"strconv"

	"gatehouse/session/jsonrpc"
)

// Hints are the caching hints of results that have none of their own.
type Hints struct{ DiscoverTTL, ListTTL int } // milliseconds

// DefaultHints are short, because a legacy worker says nothing about how long what
// it lists stays true.
var DefaultHints = Hints{DiscoverTTL: 60_000, ListTTL: 0}

func (h Hints) of(method string) int {
	if method == "server/discover" {
		return h.DiscoverTTL
	}
	return h.ListTTL
}

// ResultToModern turns a legacy worker's response into a modern one under the
// client's id. server is the worker's serverInfo; nil: unknown. What depends on who
// asks may be kept for that client alone, so cacheScope is private.
func ResultToModern(m *jsonrpc.Message, id []byte, method string, server []byte) []byte {
	if m.Error.Present() {
		return errorToModern(m, id)
	}
	result := m.Result.Of(m.Raw)
	if len(result) == 0 || result[0] != '{' {
		return Error(id, jsonrpc.CodeInternal, "the worker's result is no object", nil)
	}
	more := []jsonrpc.Member{{Name: "resultType", Value: []byte(`"complete"`)}}
	meta := m.Meta.Of(m.Raw)
	if server != nil && jsonrpc.Value(meta, metaServer) == nil {
		meta = jsonrpc.AppendObject(nil, meta, nil, jsonrpc.Member{Name: metaServer, Value: server})
		more = append(more, jsonrpc.Member{Name: "_meta", Value: meta})
	} else {
		meta = nil
	}
	cacheable := Cacheable(method)
	if cacheable {
		ttl, scope := cacheHints(result)
		if ttl == nil {
			ttl = strconv.AppendInt(nil, int64(DefaultHints.of(method)), 10)
		}
		if scope == nil {
			scope = []byte(`"private"`)
		}
		more = append(more, jsonrpc.Member{Name: "ttlMs", Value: ttl}, jsonrpc.Member{Name: "cacheScope", Value: scope})
	}
	result = jsonrpc.AppendObject(nil, result, func(name string) bool {
		switch name {
		case "resultType":
			return true
		case "_meta":
			return meta != nil
		case "ttlMs", "cacheScope":
			return cacheable
		}
		return false
	}, more...)
	return respond(m, id, jsonrpc.Edit{Span: m.Result, With: result})
}

// cacheHints are the hints that stand in a result, as far as they are valid.
func cacheHints(result []byte) (ttl, scope []byte) {
	for name, value := range jsonrpc.Members(result) {
		switch {
		case name == "ttlMs" && len(value) < 16:
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= 0 {
				ttl = value
			}
		case name == "cacheScope" && (string(value) == `"public"` || string(value) == `"private"`):
			scope = value
		}
	}
	return ttl, scope
}

// errorToModern maps the codes that the modern era does not allow.
func errorToModern(m *jsonrpc.Message, id []byte) []byte {
	object := m.Error.Of(m.Raw)
	code, err := strconv.Atoi(string(jsonrpc.Value(object, "code")))
	switch {
	case err == nil && code == codeNoResource:
		code = jsonrpc.CodeInvalidParams
	case err == nil && code <= -32020 && code >= -32099, err != nil:
		code = jsonrpc.CodeInternal // reserved: what the worker means by it is its own affair
	default:
		return respond(m, id, jsonrpc.Edit{Span: m.Error, With: object})
	}
	object = jsonrpc.AppendObject(nil, object, func(name string) bool { return name == "code" },
		jsonrpc.Member{Name: "code", Value: strconv.AppendInt(nil, int64(code), 10)})
	return respond(m, id, jsonrpc.Edit{Span: m.Error, With: object})
}

// URLFirst are the elicitations of an error that says "URL elicitation required"
// (2025-11-25, client/elicitation), each a params object; nil for any other.
func URLFirst(m *jsonrpc.Message) (params [][]byte) {
	object := m.Error.Of(m.Raw)
	if string(jsonrpc.Value(object, "code")) != strconv.Itoa(codeURLFirst) {
		return nil
	}
	list := jsonrpc.Value(jsonrpc.Value(object, "data"), "elicitations")
	if len(list) == 0 || list[0] != '[' {
		return nil
	}
	for element, err := range jsonrpc.Batch(list) {
		if err != nil || len(element) == 0 || element[0] != '{' {
			return nil
		}
		params = append(params, element)
	}
	return params
}

// ResultToLegacy turns a modern worker's response into a legacy one under the
// client's id. A result that says neither that it is complete nor what the legacy
// era could do becomes an error that names it.
func ResultToLegacy(m *jsonrpc.Message, id []byte, method string) []byte {
	if m.Error.Present() {
		return respond(m, id, jsonrpc.Edit{Span: m.Error, With: m.Error.Of(m.Raw)})
	}
	result := m.Result.Of(m.Raw)
	switch string(jsonrpc.Unquote(jsonrpc.Value(result, "resultType"))) {
	case "", "complete":
	default:
		return Error(id, jsonrpc.CodeInternal, "the worker's result is of a type that this protocol version has not", nil)
	}
	meta := jsonrpc.AppendObject(nil, m.Meta.Of(m.Raw), func(name string) bool { return name == metaServer || name == metaSubscription })
	var more []jsonrpc.Member
	if len(meta) > len("{}") {
		more = []jsonrpc.Member{{Name: "_meta", Value: meta}}
	}
	cacheable := Cacheable(method)
	result = jsonrpc.AppendObject(nil, result, func(name string) bool {
		switch name {
		case "resultType":
			return true
		case "_meta":
			return m.Meta.Present()
		case "ttlMs", "cacheScope":
			return cacheable
		}
		return false
	}, more...)
	return respond(m, id, jsonrpc.Edit{Span: m.Result, With: result})
}

// respond is the response with the id and one more value replaced, on one line.
func respond(m *jsonrpc.Message, id []byte, e jsonrpc.Edit) []byte {
	edits := [2]jsonrpc.Edit{{Span: m.ID, With: id}, e}
	if edits[1].Span.Start < edits[0].Span.Start {
		edits[0], edits[1] = edits[1], edits[0]
	}
	out := jsonrpc.AppendEdited(nil, m.Raw, edits[:]...)
	jsonrpc.FlattenLines(out)
	return out
}

// Error is an error response. data is JSON; nil: none.
func Error(id []byte, code int, text string, data []byte) []byte {
	out := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	out = strconv.AppendInt(append(out, `,"error":{"code":`...), int64(code), 10)
	out = append(append(out, `,"message":`...), jsonrpc.Quote(text)...)
	if data != nil {
		out = append(append(out, `,"data":`...), data...)
	}
	return append(out, "}}"...)
}

// Result is a response. result is JSON.
func Result(id, result []byte) []byte {
	out := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	out = append(append(out, `,"result":`...), result...)
	out = append(out, '}')
	jsonrpc.FlattenLines(out)
	return out
}

// Failed reports whether a response says that the call failed: with an error, or
// with a tool's isError.
func Failed(m *jsonrpc.Message) bool {
	return m.Error.Present() || string(jsonrpc.Value(m.Result.Of(m.Raw), "isError")) == "true"
}

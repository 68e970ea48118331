package era

import (
	"strconv"
	"time"

	"gatehouse/session/jsonrpc"
)

// What results say that the worker does not say itself. Of a legacy worker nobody
// knows how long what it lists stays true, and what depends on who asks may be kept
// for that client alone.
const (
	resultType  = `"resultType":`
	isComplete  = `"complete"`
	ttlMs       = `"ttlMs":`
	listTTL     = `0`
	discoverTTL = 60_000 // milliseconds
	cacheScope  = `"cacheScope":`
	private     = `"private"`
)

var (
	textComplete = []byte(resultType + isComplete)
	textListTTL  = []byte(ttlMs + listTTL)
	textPrivate  = []byte(cacheScope + private)
)

// resultToModern appends a legacy worker's result as a modern one, under the client's
// id. cacheable is that of the method, and info the Meta of the worker's Server.
func resultToModern(dst []byte, m *jsonrpc.Message, id []byte, cacheable bool, info []byte) []byte {
	if m.Raw[m.Result.Start] != '{' {
		return append(dst, Error(id, jsonrpc.CodeInternal, "the worker's result is no object", nil)...)
	}
	var e jsonrpc.Edits
	e.Replace(m.ID, id)
	set := func(value jsonrpc.Span, name string, member []byte) {
		if value.Present() {
			e.Replace(value, member[len(name):])
		} else {
			e.Add(m.Raw, m.Result, member)
		}
	}
	set(m.ResultType, resultType, textComplete)
	switch {
	case info == nil || m.MetaServerInfo.Present():
	case m.Meta.Present():
		e.Add(m.Raw, m.Meta, info[len(metaStart):len(info)-1])
	default:
		set(m.NoMeta, metaName, info)
	}
	if cacheable && !validTTL(m.TTL.Of(m.Raw)) {
		set(m.TTL, ttlMs, textListTTL)
	}
	if cacheable && !validScope(m.CacheScope.Of(m.Raw)) {
		set(m.CacheScope, cacheScope, textPrivate)
	}
	return e.Append(dst, m.Raw)
}

func validTTL(value []byte) bool {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil && n >= 0 && len(value) < 16
}

// Lasting is a result that was given before and holds that much longer.
func Lasting(result []byte, left time.Duration) []byte {
	return jsonrpc.AppendObject(nil, result, func(name []byte) bool { return string(name) == "ttlMs" },
		jsonrpc.Member{Name: "ttlMs", Value: strconv.AppendInt(nil, left.Milliseconds(), 10)})
}

func validScope(value []byte) bool {
	return string(value) == `"public"` || string(value) == private
}

// ErrorToModern turns a legacy worker's response that is an error into a modern one
// under the client's id: some codes mean something else there.
func ErrorToModern(m *jsonrpc.Message, id []byte) []byte {
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
	object = jsonrpc.AppendObject(nil, object, func(name []byte) bool { return string(name) == "code" },
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

// complete reports whether a modern worker's response is one that the legacy era has
// in some form: an error, or a result of no type but "complete".
func complete(m *jsonrpc.Message) bool {
	return m.Error.Present() || !m.ResultType.Present() || string(jsonrpc.Unquote(m.ResultType.Of(m.Raw))) == "complete"
}

// responseToLegacy appends a modern worker's response as a legacy one, under the
// client's id. cacheable is that of the method.
func responseToLegacy(dst []byte, m *jsonrpc.Message, id []byte, cacheable bool) []byte {
	var e jsonrpc.Edits
	e.Replace(m.ID, id)
	if m.Result.Present() && m.Raw[m.Result.Start] == '{' {
		drop := [...]jsonrpc.Span{m.ResultType, {}, {}, {}}
		if m.Meta.Present() && e.Drop(m.Raw, m.Meta, m.MetaServerInfo, m.MetaSubscription) {
			drop[1] = m.Meta
		}
		if cacheable {
			drop[2], drop[3] = m.TTL, m.CacheScope
		}
		if e.Drop(m.Raw, m.Result, drop[:]...) {
			e.Replace(m.Result, emptyObject)
		}
	}
	return e.Append(dst, m.Raw)
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

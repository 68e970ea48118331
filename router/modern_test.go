package router

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// modernBody is a request with all that _meta must hold; more are further members
// of params.
func modernBody(id, method, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}` + more + `}}`
}

// modernHeaders are those of a modern request; name is empty where there is none.
func modernHeaders(token, method, name string, more ...string) http.Header {
	h := headers(token, append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, more...)...)
	if name != "" {
		h.Set("Mcp-Name", name)
	}
	return h
}

// TestModernRefusals: what is said without a worker, and that none is started.
func TestModernRefusals(t *testing.T) {
	r := newRig(t, refusingSpawner{&spawn.Error{Kind: spawn.KindInternal}})
	good := r.mint()
	refusal := func(code, text, data string) string {
		return `{"jsonrpc":"2.0","id":7,"error":{"code":` + code + `,"message":"` + text + `"` + data + `}}`
	}
	header := func(text string) string { return refusal("-32020", "header mismatch: "+text, "") }
	const (
		method  = "Mcp-Method must be there once and equal the method"
		name    = "Mcp-Name must be there once and equal the name or uri in params"
		version = "MCP-Protocol-Version must be there once and equal the version in _meta"
	)
	meta := func(more string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + more + `}}}`
	}
	call := modernBody("7", "tools/call", `,"name":"echo"`)
	two := modernHeaders(good, "tools/call", "echo")
	two["Mcp-Name"] = []string{"echo", "echo"}
	r.refusesAll(t, []doorRow{
		{"no method header", post("/mcp", call, modernHeaders(good, "", "echo")), 400, "", header(method), nil},
		{"another method", post("/mcp", call, modernHeaders(good, "tools/list", "echo")), 400, "", header(method), nil},
		{"another case", post("/mcp", call, modernHeaders(good, "TOOLS/CALL", "echo")), 400, "", header(method), nil},
		{"no name", post("/mcp", call, modernHeaders(good, "tools/call", "")), 400, "", header(name), nil},
		{"another name", post("/mcp", call, modernHeaders(good, "tools/call", "Echo")), 400, "", header(name), nil},
		{"two names", post("/mcp", call, two), 400, "", header(name), nil},
		{"a name in a broken sentinel", post("/mcp", call, modernHeaders(good, "tools/call", "=?base64?ZWNobw?=")), 400, "", header(name), nil},
		{"a name in the header alone", post("/mcp", modernBody("7", "tools/call", ""), modernHeaders(good, "tools/call", "echo")), 400, "", header(name), nil},
		{"a name that is no string", post("/mcp", modernBody("7", "tools/call", `,"name":["echo"]`), modernHeaders(good, "tools/call", "echo")), 400, "", header(name), nil},
		{"no name anywhere", post("/mcp", modernBody("7", "tools/call", ""), modernHeaders(good, "tools/call", "")), 400, "", header(name), nil},
		{"another uri", post("/mcp", modernBody("7", "resources/read", `,"uri":"a:b"`), modernHeaders(good, "resources/read", "a:c")), 400, "", header(name), nil},
		{"another prompt", post("/mcp", modernBody("7", "prompts/get", `,"name":"p"`), modernHeaders(good, "prompts/get", "q")), 400, "", header(name), nil},
		{"no version header", post("/mcp", call, modernHeaders(good, "tools/call", "echo", "Mcp-Protocol-Version", "")), 400, "", header(version), nil},
		{"another version header", post("/mcp", call, modernHeaders(good, "tools/call", "echo", "Mcp-Protocol-Version", "2025-11-25")), 400, "", header(version), nil},
		{"a version that is not served", post("/mcp", strings.Replace(call, "2026-07-28", "2027-01-01", 1), modernHeaders(good, "tools/call", "echo", "Mcp-Protocol-Version", "2027-01-01")), 400, "",
			refusal("-32022", "unsupported protocol version", `,"data":{"supported":["2026-07-28"],"requested":"2027-01-01"}`), nil},
		{"a legacy version", post("/mcp", strings.Replace(call, "2026-07-28", "2025-11-25", 1), modernHeaders(good, "tools/call", "echo", "Mcp-Protocol-Version", "2025-11-25")), 400, "",
			refusal("-32022", "unsupported protocol version", `,"data":{"supported":["2026-07-28"],"requested":"2025-11-25"}`), nil},
		{"no capabilities", post("/mcp", meta(""), modernHeaders(good, "tools/list", "")), 400, "", refusal("-32602", "_meta: io.modelcontextprotocol/clientCapabilities must be an object", ""), nil},
		{"capabilities that are none", post("/mcp", meta(`,"io.modelcontextprotocol/clientCapabilities":[]`), modernHeaders(good, "tools/list", "")), 400, "",
			refusal("-32602", "_meta: io.modelcontextprotocol/clientCapabilities must be an object", ""), nil},
		{"unknown log level", post("/mcp", meta(`,"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"`), modernHeaders(good, "tools/list", "")), 400, "",
			refusal("-32602", "_meta: io.modelcontextprotocol/logLevel is no log level", ""), nil},
		{"a batch", post("/mcp", "["+call+"]", modernHeaders(good, "tools/call", "echo")), 400, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported: send one message in each request"}}`, nil},
		{"a response", post("/mcp", `{"jsonrpc":"2.0","id":7,"result":{}}`, modernHeaders(good, "", "")), 400, "", refusal("-32602", "this protocol version wants its version in _meta as well", ""), nil},
		{"a notification", post("/mcp", strings.Replace(modernBody("7", "notifications/cancelled", `,"requestId":1`), `"id":7,`, "", 1), modernHeaders(good, "", "")), 202, "", "", nil},
		{"listening without events", post("/mcp", modernBody("7", "subscriptions/listen", `,"notifications":{}`), modernHeaders(good, "subscriptions/listen", "", "Accept", "application/json")), 406, "",
			refusal("1001", "Accept must admit application/json or text/event-stream", `,"data":{"kind":"accept"}`), nil},
		{"no token", post("/mcp", call, modernHeaders("", "tools/call", "echo")), 401, "Bearer " + asks, strings.Replace(ours("null", "unauthorized", "authorization required: send a bearer token"), "-32001", "1001", 1), nil},
	})
	for _, removed := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "sampling/createMessage", "elicitation/create", "roots/list"} {
		r.refusesAll(t, []doorRow{{removed, post("/mcp", modernBody("7", removed, ""), modernHeaders(good, removed, "")), 404, "", refusal("-32601", "method not found", ""), nil}})
	}
}

// TestModernRequests: the forms that pass, and the statuses of a worker's answers.
func TestModernRequests(t *testing.T) {
	for _, era := range []string{"legacy", "modern", "both"} {
		t.Run(era, func(t *testing.T) {
			r := newRig(t, &sessiontest.Spawner{Worker: sessiontest.Server{Era: era}.Run})
			good := r.mint()
			sentinel := "=?base64?" + base64.StdEncoding.EncodeToString([]byte("echo")) + "?="
			call := modernBody(`"x"`, "tools/call", `,"name":"echo","arguments":{"text":"hi"}`)
			for version := range r.clients {
				for _, c := range []struct {
					name   string
					q      request
					status int
					want   string
				}{
					{"call", post("/mcp", call, modernHeaders(good, "tools/call", "echo")), 200, `"text":"hi"`},
					{"name in the sentinel", post("/mcp", call, modernHeaders(good, "tools/call", sentinel)), 200, `"text":"hi"`},
					{"spaces around the name", post("/mcp", call, modernHeaders(good, "tools/call", "  echo ")), 200, `"text":"hi"`},
					{"a session id is ignored", post("/mcp", call, modernHeaders(good, "tools/call", "echo", "Mcp-Session-Id", "x")), 200, `"text":"hi"`},
					{"JSON alone", post("/mcp", call, modernHeaders(good, "tools/call", "echo", "Accept", "application/json")), 200, `"text":"hi"`},
					{"discover", post("/mcp", modernBody("1", "server/discover", ""), modernHeaders(good, "server/discover", "")), 200, `"supportedVersions":["2026-07-28"]`},
					{"list", post("/mcp", modernBody("1", "tools/list", ""), modernHeaders(good, "tools/list", "")), 200, `"cacheScope":"private"`},
					{"unknown method", post("/mcp", modernBody("1", "x/y", ""), modernHeaders(good, "x/y", "")), 404, `"code":-32601`},
					{"unknown tool", post("/mcp", modernBody("1", "tools/call", `,"name":"none"`), modernHeaders(good, "tools/call", "none")), 200, `"code":-32602`},
					{"a state that is none", post("/mcp", modernBody("1", "tools/call", `,"name":"echo","requestState":"x"`), modernHeaders(good, "tools/call", "echo")), 400, `"code":-32602`},
				} {
					resp, body := r.do(version, c.q)
					if resp.StatusCode != c.status || !strings.Contains(body, c.want) || resp.Header.Get("Mcp-Session-Id") != "" {
						t.Errorf("%s %s: %d %s, session %q", version, c.name, resp.StatusCode, body, resp.Header.Get("Mcp-Session-Id"))
					}
				}
			}
			if n := r.spawner.n.Load(); n != 1 {
				t.Errorf("%d workers were started, want 1", n)
			}
		})
	}
}

// TestModernStream: progress and the response are events without ids, and a client
// that goes away cancels its call.
func TestModernStream(t *testing.T) {
	r := newRig(t, &sessiontest.Spawner{Worker: sessiontest.Server{Era: "modern"}.Run})
	good := r.mint()
	body := strings.Replace(modernBody("1", "tools/call", `,"name":"progress","arguments":{"n":2,"text":"end"}`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
	_, answer := r.do("HTTP/1.1", post("/mcp", body, modernHeaders(good, "tools/call", "progress")))
	if strings.Count(answer, `"progressToken":"p"`) != 2 || !strings.Contains(answer, `"text":"end"`) || strings.Contains(answer, "\nid:") {
		t.Errorf("%s", answer)
	}
	resp := r.open("HTTP/1.1", post("/mcp", modernBody("2", "tools/call", `,"name":"never"`), modernHeaders(good, "tools/call", "never")))
	resp.Body.Close()
	deadline := time.Now().Add(5 * time.Second)
	for {
		_, answer := r.do("HTTP/1.1", post("/mcp", modernBody("3", "tools/call", `,"name":"cancelled"`), modernHeaders(good, "tools/call", "cancelled")))
		var a struct {
			Result struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if a.Result.Content[0].Text != "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker never heard that the client went away")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// FuzzDecoded: what is decoded is what was encoded, and nothing that no header can
// hold gets through.
func FuzzDecoded(f *testing.F) {
	for _, s := range []string{"echo", " x ", "=?base64?ZWNobw==?=", "=?base64?ZWNobw?=", "=?base64?", "=?base64?=", "=?BASE64?ZQ==?=", "\x00", "ü", "=?base64?/w==?="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) {
			wrapped := sentinelStart + base64.StdEncoding.EncodeToString([]byte(s)) + sentinelEnd
			if got, ok := decoded([]string{wrapped}); !ok || got != s {
				t.Errorf("%q came back as %q, %v", s, got, ok)
			}
		}
		got, ok := decoded([]string{s})
		switch {
		case ok && !utf8.ValidString(got):
			t.Errorf("%q gave %q", s, got)
		case ok && !strings.HasPrefix(strings.TrimLeft(s, " \t"), sentinelStart) && got != strings.Trim(s, " \t"):
			t.Errorf("%q is a literal, and gave %q", s, got)
		}
		if _, ok := decoded([]string{s, s}); ok {
			t.Error("two headers pass for one")
		}
		if _, ok := decoded(nil); ok {
			t.Error("no header passes for one")
		}
	})
}

// FuzzModern: whatever a body and its headers are, a request either passes with
// headers that say what the body says, or is refused.
func FuzzModern(f *testing.F) {
	f.Add(modernBody("1", "tools/call", `,"name":"a"`), "tools/call", "a", "2026-07-28")
	f.Add(modernBody("1", "resources/read", `,"uri":"=?base64?YQ==?="`), "resources/read", "=?base64?PT9iYXNlNjQ/WVE9PT89?=", "2026-07-28")
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","\u005fmeta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, "tools/call", "b", "2026-07-28")
	f.Fuzz(func(t *testing.T, body, method, name, version string) {
		m, err := parseBody(body)
		if err != nil {
			return
		}
		h := http.Header{"Mcp-Method": {method}, "Mcp-Name": {name}, "Mcp-Protocol-Version": {version}}
		a := &asked{http.MethodPost, h["Mcp-Protocol-Version"], nil, m}
		if where, _ := a.choose(); where != wayModern || checkModern(h, m, accepted{json: true, events: true}) != nil {
			return
		}
		var told struct {
			Method string
			Params struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(body), &told); err != nil {
			t.Fatalf("%s passes and is no JSON: %v", body, err)
		}
		if told.Method != strings.Trim(method, " \t") || string(told.Params.Meta["io.modelcontextprotocol/protocolVersion"]) == "" || strings.Trim(version, " \t") != "2026-07-28" {
			t.Errorf("%s passes with %q, %q", body, method, version)
		}
	})
}

func parseBody(body string) (*jsonrpc.Message, error) {
	m, err := jsonrpc.Parse([]byte(body))
	return &m, err
}

package jsonrpc

import (
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		name, text string
		kind       Kind
		id, method string
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, Request, `1`, "tools/list"},
		{"request with a string id", `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`, Request, `"1"`, "ping"},
		{"members in any order", `{"params":{"name":"x"},"method":"tools/call","id":-3.5e2,"jsonrpc":"2.0"}`, Request, `-3.5e2`, "tools/call"},
		{"escaped method, as PHP writes it", `{"jsonrpc":"2.0","id":0,"method":"tools\/call"}`, Request, `0`, "tools/call"},
		{"escaped member name", `{"jsonrpc":"2.0","\u0069d":7,"method":"ping"}`, Request, `7`, "ping"},
		{"null params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, Request, `1`, "ping"},
		{"unknown member", `{"jsonrpc":"2.0","id":1,"method":"ping","trace":[{}]}`, Request, `1`, "ping"},
		{"white space around", "\r\n {\"jsonrpc\":\"2.0\",\n\"method\":\"m\"} \t\n", Notification, ``, "m"},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, Notification, ``, "notifications/initialized"},
		{"result", `{"jsonrpc":"2.0","id":4,"result":{}}`, Response, `4`, ""},
		{"result that is no object", `{"jsonrpc":"2.0","id":4,"result":null}`, Response, `4`, ""},
		{"error", `{"jsonrpc":"2.0","id":"e","error":{"code":-1,"message":""}}`, Response, `"e"`, ""},
		{"error without an id", `{"jsonrpc":"2.0","error":{"code":-1,"message":""}}`, Response, ``, ""},
		{"error that names no request", `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}`, Response, `null`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind != c.kind || string(m.IDBytes()) != c.id || string(m.Method()) != c.method {
				t.Errorf("got %v %q %q, want %v %q %q", m.Kind, m.IDBytes(), m.Method(), c.kind, c.id, c.method)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	deep := func(n int) string {
		return `{"jsonrpc":"2.0","method":"m","params":{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
	}
	for _, c := range []struct {
		name, text string
		want       *Error
	}{
		{"nothing", ``, errSyntax},
		{"white space", " \n", errSyntax},
		{"cut off", `{"jsonrpc":"2.0","method":"m"`, errSyntax},
		{"comma at the end", `{"jsonrpc":"2.0","method":"m",}`, errSyntax},
		{"comment", `{"jsonrpc":"2.0",/* */"method":"m"}`, errSyntax},
		{"bare newline in a string", "{\"jsonrpc\":\"2.0\",\"method\":\"m\nm\"}", errSyntax},
		{"NUL after the end", "{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\x00", errTrailing},
		{"byte order mark", "\ufeff{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", errSyntax},
		{"two messages", `{"jsonrpc":"2.0","method":"m"}{"jsonrpc":"2.0","method":"m"}`, errTrailing},
		{"invalid UTF-8 in a name", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"\xff\":1}", errUTF8},
		{"invalid UTF-8 deep in params", "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"a\":[\"aaaaaaaaaaaaaaa\xc0\xaf\"]}}", errUTF8},
		{"surrogate written in UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"\xed\xa0\x80\"}", errUTF8},
		{"nested one too deep", deep(MaxDepth - 1), errDepth},
		{"batch", ` [{"jsonrpc":"2.0","method":"m"}]`, errBatch},
		{"a string", `"hello"`, errNoObject},
		{"no version", `{"id":1,"method":"m"}`, errVersion},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"m"}`, errVersion},
		{"version as a number", `{"jsonrpc":2.0,"id":1,"method":"m"}`, errVersion},
		{"method twice", `{"jsonrpc":"2.0","method":"ping","method":"tools/call"}`, errDuplicate},
		{"id twice, once escaped", `{"jsonrpc":"2.0","id":1,"i\u0064":2,"method":"m"}`, errDuplicate},
		{"unknown member twice", `{"jsonrpc":"2.0","method":"m","x":1,"x":1}`, errDuplicate},
		{"compared member twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","name":"b"}}`, errDuplicate},
		{"progress token twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1,"progressToken":2}}}`, errDuplicate},
		{"method in capitals beside the real one", `{"jsonrpc":"2.0","method":"ping","METHOD":"tools/call"}`, errCase},
		{"params with a long s", `{"jsonrpc":"2.0","method":"ping","param` + "\u017f" + `":{}}`, errCase},
		{"the tool's name in capitals beside the real one", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","Name":"b"}}`, errCase},
		{"the same before it", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"NAME":"b","name":"a"}}`, errCase},
		{"a version in capitals beside the real one", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"a","io.modelcontextprotocol/ProtocolVersion":"b"}}}`, errCase},
		{"_meta in capitals beside the real one", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_Meta":{},"_meta":{}}}`, errCase},
		{"seventeen unknown members", `{"jsonrpc":"2.0","method":"m","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1}`, errMembers},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"m"}`, errID},
		{"null id with a result", `{"jsonrpc":"2.0","id":null,"result":{}}`, errID},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, errID},
		{"id is true", `{"jsonrpc":"2.0","id":true,"method":"m"}`, errID},
		{"endless id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("1", MaxID) + `","method":"m"}`, errIDLong},
		{"endless progress token", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":"` + strings.Repeat("1", MaxID) + `"}}}`, errIDLong},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":1}`, errMethod},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, errMethod},
		{"params is a list", `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, errParams},
		{"params is a string", `{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}`, errParams},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, errShape},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, errShape},
		{"answer without an id", `{"jsonrpc":"2.0","result":{}}`, errShape},
		{"answer with params", `{"jsonrpc":"2.0","id":1,"result":{},"params":{}}`, errShape},
		{"error is a string", `{"jsonrpc":"2.0","id":1,"error":"no"}`, errError},
		{"only an id", `{"jsonrpc":"2.0","id":1}`, errShape},
		{"leading zero", `{"jsonrpc":"2.0","id":01,"method":"m"}`, errSyntax},
		{"plus sign", `{"jsonrpc":"2.0","id":+1,"method":"m"}`, errSyntax},
		{"infinity", `{"jsonrpc":"2.0","id":Infinity,"method":"m"}`, errSyntax},
		{"grammar goes before sense", `{"jsonrpc":"1.0","jsonrpc":"1.0",`, errSyntax},
	} {
		t.Run(c.name, func(t *testing.T) {
			if m, err := Parse([]byte(c.text)); err != error(c.want) || m.Kind != Invalid {
				t.Errorf("got %v %v, want %v", m.Kind, err, c.want)
			}
		})
	}
	if _, err := Parse([]byte(deep(MaxDepth - 2))); err != nil {
		t.Errorf("the deepest allowed: %v", err)
	}
	if _, err := ParseWorker([]byte(deep(MaxWorkerDepth - 2))); err != nil {
		t.Errorf("the deepest allowed of a worker: %v", err)
	}
	if _, err := ParseWorker([]byte(deep(MaxWorkerDepth - 1))); err != error(errDepth) {
		t.Errorf("one deeper from a worker: %v", err)
	}
}

// TestOtherCase: a member in another case is nobody's affair without the real one, deeper
// down, and in a result.
func TestOtherCase(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"Name":"a","URI":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","arguments":{"name":"a","Name":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","_meta":{"Name":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"name":"a","Name":"b"}}`,
	} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRefusedWithID: the answer to a refused request can carry its id.
func TestRefusedWithID(t *testing.T) {
	m, err := Parse([]byte(`{"jsonrpc":"2.0","id":"q1","method":"m","params":[]}`))
	if err != error(errParams) || string(m.IDBytes()) != `"q1"` {
		t.Errorf("got %v, id %q", err, m.IDBytes())
	}
}

func TestComparedMembers(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"method":"m","params":{
	 "name":"n", "uri" : "u:", "requestId":9,"progressToken":"pt", "protocolVersion":"2025-06-18",
	 "capabilities":{"roots":{}},"requestState":"st", "task": {"ttl":1},
	 "_meta":{"progressToken": -1, "io.modelcontextprotocol/protocolVersion":"2026-07-28"},
	 "arguments":{"name":"other","_meta":{"progressToken":5},"name":"twice is the worker's affair"}}}`
	m, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		span Span
		want string
	}{
		{m.Name, `"n"`}, {m.URI, `"u:"`}, {m.RequestID, `9`}, {m.ProgressToken, `"pt"`},
		{m.ProtocolVersion, `"2025-06-18"`}, {m.Capabilities, `{"roots":{}}`}, {m.RequestState, `"st"`},
		{m.MetaProgressToken, `-1`}, {m.MetaProtocolVersion, `"2026-07-28"`},
	} {
		if got := string(c.span.Of(m.Raw)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := string(m.Params.Of(m.Raw)); !strings.HasPrefix(got, "{") || !strings.HasSuffix(got, "affair\"}}") {
		t.Errorf("params: %s", got)
	}
	m, err = Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":5,"_meta":{"progressToken":null},"requestId":{}}}`))
	if err != nil || m.Name.Present() || m.MetaProgressToken.Present() || m.RequestID.Present() || !m.Meta.Present() {
		t.Errorf("members of another type are not taken: %v %+v", err, m)
	}
	m, err = ParseWorker([]byte(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{}}}`))
	if err != nil || string(m.ProtocolVersion.Of(m.Raw)) != `"2024-11-05"` || !m.Capabilities.Present() {
		t.Errorf("members of a result: %v %+v", err, m)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"héllo \n"},"_meta":{"progressToken":1}}}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Parse(text); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	small := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"progressToken":1}}}`
	big := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat(`line of a file\n`, 64<<10) + `"}]}}`
	for _, c := range []struct{ name, text string }{{"call", small}, {"1MiB", big}} {
		b.Run(c.name, func(b *testing.B) {
			text := []byte(c.text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

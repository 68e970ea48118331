package era

import (
	"encoding/json"
	"reflect"
	"testing"

	"gatehouse/session/jsonrpc"
)

func parse(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.ParseWorker([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &m
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/logLevel":"info"`

func TestRequestToLegacy(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing but _meta": {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}}`, `{"jsonrpc":"2.0","id":17,"method":"tools/list","params":{}}`},
		"_meta of others stays": {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `,"progressToken":7,"traceparent":"00","x.test/a":{"b":[1]}}}}`,
			`{"jsonrpc":"2.0","id":17,"method":"tools/list","params":{"_meta":{"progressToken":17,"traceparent":"00","x.test/a":{"b":[1]}}}}`},
		"members of a round": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","inputResponses":{"k":{}},"requestState":"s","arguments":{"requestState":1},"x":true,` + meta + `}}}`,
			`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"t","arguments":{"requestState":1},"x":true}}`},
		"numbers and escapes as they were": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\u0074","arguments":{"n":1.0e+2, "big":12345678901234567890},` + meta + `}}}`,
			`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"\u0074","arguments":{"n":1.0e+2, "big":12345678901234567890}}}`},
	} {
		if got := string(requestToLegacy(nil, parse(t, c.in), []byte("17"))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestRequestToModern(t *testing.T) {
	client := NewClient(Client{Info: []byte(`{"name":"c"}`), Capabilities: []byte(`{"roots":{}}`)})
	const want = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c"}`
	for name, c := range map[string]struct{ in, want string }{
		"without params":    {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","method":"tools/list","id":17,"params":{` + want + `}}}`},
		"params are null":   {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}`, `{"jsonrpc":"2.0","method":"tools/list","id":17,"params":{` + want + `}}}`},
		"_meta is kept":     {`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":"p"},"x":1}}`, `{"jsonrpc":"2.0","id":17,"method":"m","params":{` + want + `,"progressToken":17},"x":1}}`},
		"_meta is none":     {`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":null,"x":1}}`, `{"jsonrpc":"2.0","id":17,"method":"m","params":{` + want + `},"x":1}}`},
		"no _meta":          {`{"jsonrpc":"2.0","id":1,"method":"m","params":{"x":1}}`, `{"jsonrpc":"2.0","id":17,"method":"m","params":{"x":1,` + want + `}}}`},
		"it can't be faked": {`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}`, `{"jsonrpc":"2.0","id":17,"method":"m","params":{` + want + `}}}`},
	} {
		if got := string(RequestToModern(nil, parse(t, c.in), []byte("17"), client)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	got := string(RequestToModern([]byte(">"), parse(t, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"requestState":"old"}}`), []byte("17"), NewClient(Client{Level: []byte(`"error"`)}),
		jsonrpc.Member{Name: "requestState", Value: []byte(`"new"`)}))
	if want := `>{"jsonrpc":"2.0","method":"m","id":17,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"error"},"requestState":"new"}}`; got != want {
		t.Errorf("retry:\n got %s\nwant %s", got, want)
	}
}

func TestResultToModern(t *testing.T) {
	for name, c := range map[string]struct{ method, in, want string }{
		"call": {"tools/call", `{"jsonrpc":"2.0","id":9,"result":{"content":[]}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w"}}}}`},
		"list": {"tools/list", `{"jsonrpc":"2.0","id":9,"result":{"tools":[],"_meta":{"x.test/a":1}}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"tools":[],"_meta":{"x.test/a":1,"io.modelcontextprotocol/serverInfo":{"name":"w"}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}`},
		"hints of the worker": {"resources/read", `{"jsonrpc":"2.0","id":9,"result":{"ttlMs":5,"cacheScope":"public"}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"ttlMs":5,"cacheScope":"public","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w"}}}}`},
		"hints that are none": {"resources/read", `{"jsonrpc":"2.0","id":9,"result":{"ttlMs":-5,"cacheScope":"all"}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"ttlMs":0,"cacheScope":"private","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w"}}}}`},
		"_meta is none": {"m", `{"jsonrpc":"2.0","id":9,"result":{"_meta":null,"resultType":7}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w"}},"resultType":"complete"}}`},
		"it names itself": {"m", `{"jsonrpc":"2.0","id":9,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"}}}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"}},"resultType":"complete"}}`},
		"resource not found":  {"resources/read", `{"jsonrpc":"2.0","id":9,"error":{"code":-32002,"message":"m","data":{"uri":"u"}}}`, `{"jsonrpc":"2.0","id":"c","error":{"message":"m","data":{"uri":"u"},"code":-32602}}`},
		"reserved code":       {"m", `{"jsonrpc":"2.0","id":9,"error":{"code":-32021,"message":"m"}}`, `{"jsonrpc":"2.0","id":"c","error":{"message":"m","code":-32603}}`},
		"other error":         {"m", `{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"},"id":9}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"m"},"id":"c"}`},
		"error without code":  {"m", `{"jsonrpc":"2.0","id":9,"error":{"message":"m"}}`, `{"jsonrpc":"2.0","id":"c","error":{"message":"m","code":-32603}}`},
		"result is no object": {"m", `{"jsonrpc":"2.0","id":9,"result":[]}`, `{"jsonrpc":"2.0","id":"c","error":{"code":-32603,"message":"the worker's result is no object"}}`},
	} {
		if got := string(toModern(parse(t, c.in), c.method)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// toModern is a legacy worker's response to a method as a modern client gets it.
func toModern(m *jsonrpc.Message, method string) []byte {
	s := Server{Info: []byte(`{"name":"w"}`)}.named()
	t := ToLegacy([]byte(method), &s)
	if out, ok := t.Response(nil, m, []byte(`"c"`)); ok {
		return out
	}
	return ErrorToModern(m, []byte(`"c"`))
}

func TestResultToLegacy(t *testing.T) {
	for name, c := range map[string]struct{ method, in, want string }{
		"list": {"tools/list", `{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{},"x.test/a":1}}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"tools":[],"_meta":{"x.test/a":1}}}`},
		"call": {"tools/call", `{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","content":[],"ttlMs":5,"_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`,
			`{"jsonrpc":"2.0","id":"c","result":{"content":[],"ttlMs":5}}`},
		"nothing is left": {"m", `{"jsonrpc":"2.0","id":9,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}`, `{"jsonrpc":"2.0","id":"c","result":{}}`},
		"error":           {"m", `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"m"}}`, `{"jsonrpc":"2.0","id":"c","error":{"code":-32602,"message":"m"}}`},
	} {
		tr := ToModern([]byte(c.method), Nobody)
		if got, ok := tr.Response(nil, parse(t, c.in), []byte(`"c"`)); !ok || string(got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	tr := ToModern([]byte("tools/call"), Nobody)
	for _, kind := range []string{`"task"`, `"input_required"`, "7"} {
		if got, ok := tr.Response(nil, parse(t, `{"jsonrpc":"2.0","id":9,"result":{"resultType":`+kind+`}}`), []byte("1")); ok || got != nil {
			t.Errorf("type %s became %s", kind, got)
		}
	}
}

func TestGreetings(t *testing.T) {
	s := FromInitialize([]byte(`{"protocolVersion":"2024-11-05","serverInfo":{"name":"w","version":"1"},"capabilities":{"tools":{"listChanged":true},"tasks":{},"x":{}},"instructions":"i"}`))
	if got, want := string(s.Discover()), `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"x":{}},"instructions":"i","ttlMs":60000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w","version":"1"}}}`; got != want {
		t.Errorf("discover:\n got %s\nwant %s", got, want)
	}
	m := parse(t, `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2027-01-01","2026-07-28"],"capabilities":{"prompts":{}},"ttlMs":9,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"w"}}}}`)
	d, err := FromDiscover(m)
	if err != nil || d.TTL != 9 || !Speaks(m) {
		t.Fatalf("%+v, %v", d, err)
	}
	if got, want := string(d.Initialize("2025-06-18")), `{"protocolVersion":"2025-06-18","capabilities":{"prompts":{}},"serverInfo":{"name":"w"}}`; got != want {
		t.Errorf("initialize:\n got %s\nwant %s", got, want)
	}
	for name, c := range map[string]struct {
		in     string
		speaks bool
	}{
		"unknown method":         {`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}`, false},
		"invalid params":         {`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":""}}`, false},
		"other version":          {`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":""}}`, true},
		"other versions":         {`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2027-01-01"]}}`, true},
		"legacy versions alone":  {`{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2025-11-25"]}}`, false},
		"refusal that lists one": {`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`, false},
		"any result at all":      {`{"jsonrpc":"2.0","id":1,"result":{}}`, false},
	} {
		m := parse(t, c.in)
		if Speaks(m) != c.speaks {
			t.Errorf("%s: speaks %v", name, !c.speaks)
		}
		if _, err := FromDiscover(m); err == nil {
			t.Errorf("%s: taken for a worker that serves us", name)
		}
	}
}

func TestToolParams(t *testing.T) {
	found := map[string][]Param{}
	ToolParams(found, []byte(`[
		{"name":"a","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"Region"},"o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}},
		{"name":"none","inputSchema":{"properties":{"r":{"type":"string"}}}},
		{"name":"number","inputSchema":{"properties":{"r":{"type":"number","x-mcp-header":"R"}}}},
		{"name":"twice","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"R"},"b":{"type":"string","x-mcp-header":"r"}}}},
		{"name":"no token","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"R:"}}}},
		{"name":"in items","inputSchema":{"properties":{"a":{"type":"array","items":{"properties":{"b":{"type":"string","x-mcp-header":"B"}}}}}}}
	]`))
	want := map[string][]Param{"a": {{[]string{"r"}, "Region"}, {[]string{"o", "n"}, "N"}}}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
	for _, c := range []struct {
		header, argument string
		fits             bool
	}{
		{"us", `"us"`, true}, {"us", `"\u0075s"`, true}, {"US", `"us"`, false}, {"", `""`, true},
		{"42", "42", true}, {"42.0", "42", true}, {"-7", "-7", true}, {"43", "42", false}, {"", "42", false}, {"1e9999999", "1", false}, {"0x2a", "42", false}, {"84/2", "42", false},
		{"true", "true", true}, {"True", "true", false}, {"false", "true", false}, {"{}", "{}", false},
	} {
		if Fits(c.header, []byte(c.argument)) != c.fits {
			t.Errorf("%q and %s: fits %v", c.header, c.argument, !c.fits)
		}
	}
	for arguments, value := range map[string]string{`{"o":{"n":5}}`: "5", `{"o":{"n":null}}`: "", `{"o":1}`: "", "": "", `{"o":{"m":1,"m":2,"n":5}}`: "5"} {
		if got, ok := want["a"][1].Argument([]byte(arguments)); string(got) != value || !ok {
			t.Errorf("the argument in %s is %s, %v", arguments, got, ok)
		}
	}
	for _, arguments := range []string{`{"o":{"n":5,"n":6}}`, `{"o":{"n":5},"o":{}}`, `{"o":{"n":null,"\u006e":6}}`} {
		if got, ok := want["a"][1].Argument([]byte(arguments)); ok {
			t.Errorf("of the arguments in %s it is %s", arguments, got)
		}
	}
}

func TestFilter(t *testing.T) {
	f, err := ParseFilter(parse(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourcesListChanged":true,"resourceSubscriptions":["b","a","b"],"x":1}}}`))
	if err != nil || !reflect.DeepEqual(f, Filter{true, false, true, []string{"a", "b"}}) {
		t.Fatalf("%+v, %v", f, err)
	}
	got := f.Of(Server{Capabilities: []byte(`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`)})
	if want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"i"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a","b"]}}}`; string(got.Acknowledge([]byte(`"i"`))) != want {
		t.Errorf("%s", got.Acknowledge([]byte(`"i"`)))
	}
	for uri, want := range map[string]bool{"a": true, "a/x": true, "ax": false, "c": false} {
		if got.Wants(Change{ResourceUpdated, uri}) != want {
			t.Errorf("%s: wants %v", uri, !want)
		}
	}
	if got.Wants(Change{Kind: ResourcesChanged}) || got.Wants(Change{Kind: PromptsChanged}) || !got.Wants(Change{Kind: ToolsChanged}) || got.Wants(Change{}) {
		t.Error("the filter lets through what was not agreed")
	}
	for _, bad := range []string{`{}`, `{"notifications":[]}`, `{"notifications":{"resourceSubscriptions":"a"}}`, `{"notifications":{"resourceSubscriptions":[1]}}`} {
		if _, err := ParseFilter(parse(t, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":`+bad+`}`)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// FuzzTranslate: any message that is one stays one in the other era, and a legacy
// result that went to the modern era and back says what it said.
func FuzzTranslate(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",` + meta + `}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`,
		`{"jsonrpc":"2.0","id":"a","result":{"content":[1.50],"_meta":{"x":{}}}}`, `{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1,"result":{"a":1, "a":2}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url"}]}}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\n\"method\":\"notifications/tools/list_changed\"}",
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":4}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["\ud800"]}}}`,
	} {
		f.Add([]byte(s), "tools/list")
	}
	f.Fuzz(func(t *testing.T, b []byte, method string) {
		m, err := jsonrpc.Parse(b)
		if err != nil {
			return
		}
		id := []byte(`"id"`)
		check := func(out []byte) *jsonrpc.Message {
			again, err := jsonrpc.ParseWorker(out)
			if err != nil {
				t.Fatalf("%s became %s: %v", b, out, err)
			}
			return &again
		}
		if m.Kind != jsonrpc.Response {
			check(requestToLegacy(nil, &m, id))
			check(RequestToModern(nil, &m, id, Nobody))
			check(RequestToModern(nil, &m, id, NewClient(Client{Info: id, Level: id}), jsonrpc.Member{Name: "requestState", Value: id}))
			check(Tag(&m, id))
			check(Untag(&m))
			if filter, err := ParseFilter(&m); err == nil {
				check(filter.Acknowledge(id))
			}
			return
		}
		modern := check(toModern(&m, method))
		URLFirst(&m)
		tr := ToModern([]byte(method), Nobody)
		out, ok := tr.Response(nil, modern, id)
		if !ok {
			t.Fatalf("%s does not come back", modern.Raw)
		}
		back := check(out)
		if out, ok := tr.Response(nil, &m, id); ok {
			check(out)
		}
		if m.Result.Present() && m.Result.Of(m.Raw)[0] == '{' {
			same(t, m.Result.Of(m.Raw), back.Result.Of(back.Raw), Cacheable([]byte(method)))
		}
	})
}

// same compares results by what both eras can say.
func same(t *testing.T, before, after []byte, cacheable bool) {
	t.Helper()
	var x, y map[string]any
	if json.Unmarshal(before, &x) != nil || json.Unmarshal(after, &y) != nil {
		t.Fatalf("%s, %s: no objects", before, after)
	}
	for _, v := range []map[string]any{x, y} {
		delete(v, "resultType")
		if cacheable {
			delete(v, "ttlMs")
			delete(v, "cacheScope")
		}
		meta, ok := v["_meta"].(map[string]any)
		delete(meta, metaServer)
		delete(meta, metaSubscription)
		if !ok || len(meta) == 0 {
			delete(v, "_meta")
		}
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("%s came back as %s", before, after)
	}
}

package router

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// regional is a legacy worker with a tool whose clients mirror two arguments into
// headers. It counts the questions for its tools, and says that they changed when the
// tool "change" is called.
func regional(lists *atomic.Int32) *sessiontest.Spawner {
	const schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`
	return &sessiontest.Spawner{Worker: func(p *sessiontest.Process) int {
		in := bufio.NewScanner(p.In)
		for in.Scan() {
			m, err := jsonrpc.Parse(in.Bytes())
			if err != nil || m.Kind != jsonrpc.Request {
				continue
			}
			answer := `"result":{"content":[{"type":"text","text":"served"}]}`
			switch {
			case m.Is("server/discover"):
				answer = `"error":{"code":-32601,"message":"no"}`
			case m.Is("initialize"):
				answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"w","version":"1"}}`
			case m.Is("tools/list"):
				lists.Add(1)
				answer = `"result":{"tools":[{"name":"get","inputSchema":` + schema + `},{"name":"change","inputSchema":{"type":"object"}}]}`
			case string(m.Name.Of(m.Raw)) == `"change"`:
				fmt.Fprintln(p.Out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
			fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.IDBytes(), answer)
		}
		return 0
	}}
}

// TestParamHeaders: the headers that mirror arguments say what the body says, and the
// worker is asked for its tools once until it says that they changed.
func TestParamHeaders(t *testing.T) {
	var lists atomic.Int32
	r := newRig(t, regional(&lists))
	good := r.mint()
	for _, c := range []struct {
		name, arguments string
		headers         map[string][]string
		ok              bool
	}{
		{"both", `{"region":"eu","n":42}`, map[string][]string{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"42"}}, true},
		{"another case of the name", `{"region":"eu"}`, map[string][]string{"mcp-param-REGION": {"eu"}}, true},
		{"in the sentinel", `{"region":"zürich"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?esO8cmljaA==?="}}, true},
		{"the same number", `{"n":42}`, map[string][]string{"Mcp-Param-N": {"42.0"}}, true},
		{"no argument, no header", `{}`, nil, true},
		{"null and no header", `{"region":null}`, nil, true},
		{"a header that nobody knows", `{}`, map[string][]string{"Mcp-Param-Other": {"x"}}, true},
		{"no header", `{"region":"eu"}`, nil, false},
		{"another value", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"us"}}, false},
		{"another case of the value", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"EU"}}, false},
		{"twice", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"eu", "eu"}}, false},
		{"a header without argument", `{}`, map[string][]string{"Mcp-Param-Region": {"eu"}}, false},
		{"null and a header", `{"region":null}`, map[string][]string{"Mcp-Param-Region": {"null"}}, false},
		{"a broken sentinel", `{"region":"eu"}`, map[string][]string{"Mcp-Param-Region": {"=?base64?ZXU?="}}, false},
		{"an argument that stands twice", `{"region":"eu","region":"us"}`, map[string][]string{"Mcp-Param-Region": {"eu"}}, false},
		{"another number", `{"n":42}`, map[string][]string{"Mcp-Param-N": {"43"}}, false},
	} {
		h := modernHeaders(good, "tools/call", "get")
		for name, values := range c.headers {
			h[http.CanonicalHeaderKey(name)] = values
		}
		resp, body := r.do("HTTP/1.1", post("/mcp", modernBody("7", "tools/call", `,"name":"get","arguments":`+c.arguments), h))
		served := resp.StatusCode == 200 && strings.Contains(body, "served")
		refused := resp.StatusCode == 400 && strings.Contains(body, `"code":-32020`)
		if served != c.ok || refused == c.ok {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, body)
		}
	}
	if n := lists.Load(); n != 1 {
		t.Errorf("the worker was asked for its tools %d times, want once", n)
	}
	r.do("HTTP/1.1", post("/mcp", modernBody("7", "tools/call", `,"name":"change"`), modernHeaders(good, "tools/call", "change")))
	for deadline := time.Now().Add(5 * time.Second); lists.Load() < 2 && time.Now().Before(deadline); {
		r.do("HTTP/1.1", post("/mcp", modernBody("7", "tools/call", `,"name":"get"`), modernHeaders(good, "tools/call", "get")))
	}
	if n := lists.Load(); n != 2 {
		t.Errorf("after the change it was asked %d times, want twice", n)
	}
}

// TestMissingCapabilityStatus: a call that failed for a capability is a bad request.
func TestMissingCapabilityStatus(t *testing.T) {
	r := newRig(t, &sessiontest.Spawner{Worker: sessiontest.Echo})
	resp, body := r.do("HTTP/1.1", post("/mcp", modernBody("7", "tools/call", `,"name":"need","arguments":{"method":"sampling/createMessage"}`), modernHeaders(r.mint(), "tools/call", "need")))
	if resp.StatusCode != 400 || !strings.Contains(body, `"code":-32021`) || !strings.Contains(body, `"requiredCapabilities":{"sampling":{}}`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

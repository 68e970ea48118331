package router

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session"
	"gatehouse/session/bridge"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// echoing is a spawner of workers that behave.
func echoing() *sessiontest.Spawner { return &sessiontest.Spawner{Worker: sessiontest.Echo} }

// initialize opens a session and returns its id.
func (r *rig) initialize(version, token string) string {
	r.t.Helper()
	resp, body := r.do(version, post("/mcp", initBody, headers(token)))
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != 200 || id == "" {
		r.t.Fatalf("initialize: %d %s, id %q", resp.StatusCode, body, id)
	}
	if resp, body := r.do(version, post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers(token, "Mcp-Session-Id", id))); resp.StatusCode != 202 || body != "" {
		r.t.Fatalf("initialized: %d %q", resp.StatusCode, body)
	}
	return id
}

// tool is a tools/call message.
func tool(id, name, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
}

// texts is the answer of a tool that says one text.
func texts(id, text string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
}

func TestServedVersionsAreTheBridges(t *testing.T) {
	if !slices.Equal(slices.Sorted(slices.Values(supported)), slices.Sorted(slices.Values(bridge.Offered))) {
		t.Errorf("the door lists %q, the bridge offers %q", supported, bridge.Offered)
	}
}

// TestInitialize: the answer, the id, and what else it may carry.
func TestInitialize(t *testing.T) {
	r := newRig(t, echoing())
	seen := map[string]bool{}
	for version := range r.clients {
		for _, c := range []struct {
			name, body string
			header     http.Header
			says       string
		}{
			{"plain", initBody, headers(r.mint()), "2025-06-18"},
			{"with a version header of the future", initBody, headers(r.mint(), "Mcp-Protocol-Version", "2099-01-01"), "2025-06-18"},
			{"with nonsense for a version header", initBody, headers(r.mint(), "Mcp-Protocol-Version", "x"), "2025-06-18"},
			{"with a stale session id", initBody, headers(r.mint(), "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA"), "2025-06-18"},
			{"of a version that nobody knows", strings.Replace(initBody, "2025-06-18", "1999-01-01", 1), headers(r.mint()), "2025-11-25"},
			{"by a client that names its method in a header", initBody, headers(r.mint(), "Mcp-Method", "initialize"), "2025-06-18"},
		} {
			resp, body := r.do(version, post("/mcp", c.body, c.header))
			id := resp.Header.Get("Mcp-Session-Id")
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || len(id) != 22 || seen[id] || !strings.Contains(body, `"protocolVersion":"`+c.says+`"`) {
				t.Errorf("%s %s: %d id %q %s", version, c.name, resp.StatusCode, id, body)
			}
			seen[id] = true
		}
		resp, body := r.do(version, post("/mcp/", initBody, headers(r.mint(), "Accept", "text/event-stream")))
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Mcp-Session-Id") == "" || !strings.HasPrefix(body, ":\n\nretry: 3000\nevent: message\ndata: {") {
			t.Errorf("%s as a stream: %d %q", version, resp.StatusCode, body)
		}
	}
}

// TestInitializeRefused: what the session says becomes its row of the status
// table, and no answer but a good one names a session.
func TestInitializeRefused(t *testing.T) {
	text := func(kind, text string) string { return ours("1", kind, text) }
	for _, c := range []struct {
		name      string
		sp        spawn.Spawner
		limits    func(*Config, *session.Config)
		status    int
		body      string
		challenge string
		retry     string
	}{
		{"no account", refusingSpawner{&spawn.Error{Kind: spawn.KindNoAccount}}, nil, 403, text("noAccount", "the token is valid, but no account on this server belongs to it: ask the operator"), "", ""},
		{"client's own token", refusingSpawner{&spawn.Error{Kind: spawn.KindClientOwn}}, nil, 403, text("clientOwn", "the token belongs to a client and to no user: sign in as a user"), "", ""},
		{"the monitor thinks less of the token", refusingSpawner{&spawn.Error{Kind: spawn.KindToken}}, nil, 401, text("unauthorized", "token refused: unverifiable token"), invalid("unverifiable token"), ""},
		{"the monitor has no keys", refusingSpawner{&spawn.Error{Kind: spawn.KindUndecided}}, nil, 503, text("undecided", "the token can't be checked at present: try again later"), "", "5"},
		{"spawn rate", refusingSpawner{&spawn.Error{Kind: spawn.KindRate, RetryAfter: 1500 * time.Millisecond}}, nil, 429, text("rate", "too many new sessions in a short time: try again later"), "", "2"},
		{"the monitor's cap", refusingSpawner{&spawn.Error{Kind: spawn.KindLimit}}, nil, 200, text("sessionLimit", "too many sessions: end one, or try again later"), "", ""},
		{"no session may be", echoing(), func(_ *Config, s *session.Config) { s.MaxSessions = 0 }, 200, text("sessionLimit", "too many sessions: end one, or try again later"), "", ""},
		{"the worker can't be started", refusingSpawner{&spawn.Error{Kind: spawn.KindUnavailable, Reason: "exec: no such file"}}, nil, 200, text("workerUnavailable", "the worker could not be started: ask the operator, whose log says why"), "", ""},
		{"the worker dies at start", &sessiontest.Spawner{Worker: sessiontest.DiesAtStart}, nil, 200, text("workerUnavailable", "the worker could not be started: ask the operator, whose log says why"), "", ""},
		{"the worker never answers", &sessiontest.Spawner{Worker: sessiontest.NeverAnswers}, func(_ *Config, s *session.Config) { s.Lifetime.StartTimeout = 50 * time.Millisecond }, 200, text("workerUnavailable", "the worker could not be started: ask the operator, whose log says why"), "", ""},
		{"the worker refuses", &sessiontest.Spawner{Worker: sessiontest.RefusesInitialize}, nil, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unsupported"}}`, "", ""},
		{"the monitor is stopping", refusingSpawner{&spawn.Error{Kind: spawn.KindDraining}}, nil, 503, text("draining", "the server is stopping: try again later"), "", "5"},
		{"a fault", refusingSpawner{&spawn.Error{Kind: spawn.KindInternal, Reason: "secret"}}, nil, 500, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var options []rigOption
			if c.limits != nil {
				options = append(options, c.limits)
			}
			r := newRig(t, c.sp, options...)
			for version := range r.clients {
				resp, body := r.do(version, post("/mcp", initBody, headers(r.mint())))
				if resp.StatusCode != c.status || body != c.body {
					t.Errorf("%s: got %d %s\nwant %d %s", version, resp.StatusCode, body, c.status, c.body)
				}
				for k, v := range map[string]string{"Mcp-Session-Id": "", "WWW-Authenticate": c.challenge, "Retry-After": c.retry, "Content-Type": "application/json"} {
					if got := resp.Header.Get(k); got != v {
						t.Errorf("%s: %s %q, want %q", version, k, got, v)
					}
				}
			}
			if n := len(r.table.List()); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}

func TestInitializeRefusedWhileDraining(t *testing.T) {
	r := newRig(t, echoing())
	r.door.Drain()
	r.refusesAll(t, []doorRow{{"initialize", post("/mcp", initBody, headers(r.mint())), 503, "", ours("1", "draining", "the server is stopping: try again later"), map[string]string{"Retry-After": "5"}}})
}

// A worker's params that are not sane cost no worker.
func TestInitializeParams(t *testing.T) {
	r := newRig(t, echoing())
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7,"capabilities":{}}}`,
	} {
		for version := range r.clients {
			resp, answer := r.do(version, post("/mcp", body, headers(r.mint())))
			if resp.StatusCode != 400 || !strings.Contains(answer, `"id":1,"error":{"code":-326`) || resp.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s %s: %d %s", version, body, resp.StatusCode, answer)
			}
		}
	}
	if n := r.spawner.n.Load(); n != 0 {
		t.Errorf("%d workers were started", n)
	}
}

// Nothing that is refused leaves a session or a worker behind.
func TestRefusedRequestsSpawnNothing(t *testing.T) {
	r := newRig(t, echoing())
	good, past := r.mint(), time.Now().Add(-time.Hour).Unix()
	expired := r.mint(authtest.Claim("iat", past-60), authtest.Claim("exp", past))
	for version := range r.clients {
		for range 30 {
			for _, q := range []request{
				{method: "GET", path: "/mcp", header: headers(good)}, {method: "HEAD", path: "/mcp", header: headers(good)},
				{method: "OPTIONS", path: "/mcp", header: headers(good)}, {method: "DELETE", path: "/mcp", header: headers(good)},
				post("/mcp", "{", headers(good)), post("/mcp", listBody, headers(good)),
				post("/mcp", initBody, headers(good, "Accept", "text/html")), post("/mcp", initBody, headers(expired)),
			} {
				if resp, _ := r.do(version, q); resp.Header.Get("Mcp-Session-Id") != "" || resp.StatusCode < 400 {
					t.Fatalf("%s %s: %d", q.method, q.path, resp.StatusCode)
				}
			}
		}
	}
	if n := r.spawner.n.Load(); n != 0 {
		t.Errorf("%d workers were started", n)
	}
}

// TestJSONErrors: what is no message is refused with a JSON-RPC error and costs
// the session nothing.
func TestJSONErrors(t *testing.T) {
	r := newRig(t, echoing())
	token := r.mint()
	id := r.initialize("HTTP/1.1", token)
	for _, c := range []struct{ name, body, has string }{
		{"empty", " ", `"id":null,"error":{"code":-32700`},
		{"half", `{"jsonrpc":"2.0","id":1`, `"code":-32700`},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\xff\"}", `"code":-32700`},
		{"trailing data", listBody + listBody, `"code":-32700`},
		{"duplicate member", `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, `"code":-32600`},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"x","params":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, `"code":-32`},
		{"a number", `7`, `"code":-32600`},
		{"batch", `[` + listBody + `]`, `"code":-32600,"message":"batches are not supported: send one message in each request"`},
		{"empty batch", `[]`, `"code":-32600,"message":"batches are not supported`},
		{"no version", `{"id":1,"method":"tools/list"}`, `"code":-32600`},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, `"code":-32600`},
	} {
		resp, body := r.do("HTTP/1.1", post("/mcp", c.body, headers(token, "Mcp-Session-Id", id)))
		if resp.StatusCode != 400 || !strings.Contains(body, c.has) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %d %s, want 400 with %s", c.name, resp.StatusCode, body, c.has)
		}
	}
	if resp, body := r.do("HTTP/1.1", post("/mcp", listBody, headers(token, "Mcp-Session-Id", id))); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d %s", resp.StatusCode, body)
	}
}

// TestCall: each form of answer that a client can take.
func TestCall(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		fast, slow := tool("7", "echo", `{"text":"hi"}`), tool(`"a\"b"`, "echo", `{"text":"hi","ms":200}`)
		const event = "event: message\ndata: "
		for _, c := range []struct{ name, body, accept, kind, want string }{
			{"fast", fast, "", "application/json", texts("7", "hi")},
			{"fast, anything", fast, "*/*", "application/json", texts("7", "hi")},
			{"fast, JSON", fast, "application/json", "application/json", texts("7", "hi")},
			{"fast, any application", fast, "application/*", "application/json", texts("7", "hi")},
			{"fast, either in upper case", fast, "APPLICATION/JSON, Text/Event-Stream", "application/json", texts("7", "hi")},
			{"fast, events", fast, "text/event-stream", "text/event-stream", ":\n\nretry: 3000\n" + event + texts("7", "hi") + "\n\n"},
			{"fast, all but JSON", fast, "application/json;q=0, text/event-stream", "text/event-stream", ":\n\nretry: 3000\n" + event + texts("7", "hi") + "\n\n"},
			{"fast, events first", fast, "text/event-stream, application/json", "text/event-stream", ":\n\nretry: 3000\n" + event + texts("7", "hi") + "\n\n"},
			{"slow", slow, "", "text/event-stream", ":\n\nretry: 3000\n" + event + texts(`"a\"b"`, "hi") + "\n\n"},
			{"slow, JSON", slow, "application/json", "application/json", texts(`"a\"b"`, "hi")},
			{"an error of the worker", `{"jsonrpc":"2.0","id":0,"method":"nope"}`, "", "application/json", `{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"unknown method"}}`},
		} {
			h := headers(token, "Mcp-Session-Id", id)
			if c.accept != "" {
				h.Set("Accept", c.accept)
			}
			resp, body := r.do(version, post("/mcp", c.body, h))
			if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != c.kind || body != c.want {
				t.Errorf("%s %s: %d %s %q\nwant %q", version, c.name, resp.StatusCode, resp.Header.Get("Content-Type"), body, c.want)
			}
			if resp.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s %s: the id of the session is in the answer", version, c.name)
			}
			if c.kind == "text/event-stream" {
				for k, v := range map[string]string{"X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform", "Content-Length": "", "Content-Encoding": ""} {
					if got := resp.Header.Get(k); got != v {
						t.Errorf("%s %s: %s %q, want %q", version, c.name, k, got, v)
					}
				}
			}
		}
	}
}

// A missing Accept admits all: net/http's client can't leave it out, a list of
// nothing is the same.
func TestCallWithoutAccept(t *testing.T) {
	r := newRig(t, echoing())
	token := r.mint()
	id := r.initialize("HTTP/1.1", token)
	answers, bodies, _ := r.raw(t, request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "Authorization: Bearer "+token, "Mcp-Session-Id: "+id))
	if len(answers) != 1 || answers[0].StatusCode != 200 || !strings.Contains(bodies[0], `"tools"`) {
		t.Errorf("got %v %q", answers, bodies)
	}
}

// TestProgress: what comes before the answer goes down the call's own stream, and
// is dropped where the client takes one JSON object only.
func TestProgress(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"progress","arguments":{"n":3,"ms":20,"text":"done"},"_meta":{"progressToken":"p"}}}`
		_, body := r.do(version, post("/mcp", call, headers(token, "Mcp-Session-Id", id)))
		want := ":\n\nretry: 3000\n"
		for i := range 3 {
			want += fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":%d}}\n\n", i+1)
		}
		want += "event: message\ndata: " + texts("7", "done") + "\n\n"
		if body != want {
			t.Errorf("%s: got %q\nwant %q", version, body, want)
		}
		if _, body := r.do(version, post("/mcp", call, headers(token, "Mcp-Session-Id", id, "Accept", "application/json"))); body != texts("7", "done") {
			t.Errorf("%s as JSON: %q", version, body)
		}
	}
}

// TestProgressArrivesAsItHappens: events are a second apart at the client when
// they are at the worker (here a tenth).
func TestProgressArrivesAsItHappens(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		resp := r.open(version, post("/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"progress","arguments":{"n":5,"ms":100},"_meta":{"progressToken":1}}}`, headers(token, "Mcp-Session-Id", id)))
		var at []time.Time
		in := bufio.NewScanner(resp.Body)
		for in.Scan() {
			if strings.HasPrefix(in.Text(), "data: ") {
				at = append(at, time.Now())
			}
		}
		resp.Body.Close()
		if len(at) != 6 {
			t.Fatalf("%s: %d events, want 6", version, len(at))
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < 40*time.Millisecond || gap > 400*time.Millisecond {
				t.Errorf("%s: event %d came %v after the one before", version, i, gap)
			}
		}
	}
}

// TestSameIDs: callers that share a session and an id get their own answers.
func TestSameIDs(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		var wg sync.WaitGroup
		for _, c := range []struct{ id, text, ms string }{{"1", "A", "200"}, {"1", "B", "50"}, {`"1"`, "C", "100"}, {"1", "D", "0"}} {
			wg.Go(func() {
				_, body := r.do(version, post("/mcp", tool(c.id, "echo", `{"text":"`+c.text+`","ms":`+c.ms+`}`), headers(token, "Mcp-Session-Id", id)))
				if !strings.HasSuffix(strings.TrimSpace(body), texts(c.id, c.text)) {
					t.Errorf("%s %s: got %q", version, c.text, body)
				}
			})
		}
		wg.Wait()
	}
}

// TestForeignSession: another principal's session is byte for byte an unknown
// one, on every method, and goes on undisturbed.
func TestForeignSession(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		alice := r.mint()
		id := r.initialize(version, alice)
		for name, stranger := range map[string]string{
			"another subject": r.mint(authtest.Claim("sub", "bob")),
			"another issuer":  r.other.Mint(authtest.Claim("aud", "https://mcp.test:8443/mcp")),
			"another client":  r.mint(authtest.Claim("client_id", "other-app")),
		} {
			for _, q := range []request{
				post("/mcp", listBody, headers(stranger)), {method: "GET", path: "/mcp", header: headers(stranger)}, {method: "DELETE", path: "/mcp", header: headers(stranger)},
			} {
				answer := func(session string) string {
					q.header.Set("Mcp-Session-Id", session)
					resp, body := r.do(version, q)
					resp.Header.Del("Date")
					return fmt.Sprint(resp.StatusCode, resp.Header, body)
				}
				foreign, unknown := answer(id), answer("BBBBBBBBBBBBBBBBBBBBBB")
				if foreign != unknown || !strings.HasPrefix(foreign, "404") {
					t.Errorf("%s %s %s:\nforeign %s\nunknown %s", version, q.method, name, foreign, unknown)
				}
			}
		}
		if resp, body := r.do(version, post("/mcp", listBody, headers(alice, "Mcp-Session-Id", id))); resp.StatusCode != 200 {
			t.Errorf("%s: alice afterwards: %d %s", version, resp.StatusCode, body)
		}
		other := r.issuer.Mint(authtest.Claim("aud", []string{"https://mcp.test:8443/mcp", "https://mcp.test:8443/other"}), authtest.Claim("scope", "mcp:use files"))
		if resp, _ := r.do(version, post("/other", listBody, headers(other, "Mcp-Session-Id", id))); resp.StatusCode != 404 {
			t.Errorf("%s: at another server: %d, want 404", version, resp.StatusCode)
		}
	}
}

// TestNewerToken: a session is the principal's, not the token's.
func TestNewerToken(t *testing.T) {
	r := newRig(t, echoing())
	id := r.initialize("HTTP/1.1", r.mint())
	k := r.issuer.Rotate("ES256")
	r.keys.change(func(s *staticKeys) { s.set = authtest.KeySet(r.issuer) })
	newer := r.mint(authtest.SignedBy(k), authtest.Claim("exp", time.Now().Add(time.Hour).Unix()))
	if resp, body := r.do("HTTP/1.1", post("/mcp", listBody, headers(newer, "Mcp-Session-Id", id))); resp.StatusCode != 200 {
		t.Errorf("with the newer token: %d %s", resp.StatusCode, body)
	}
	if n := r.spawner.n.Load(); n != 1 {
		t.Errorf("%d workers, want 1", n)
	}
}

// TestVersionInASession: a known version is taken whichever it is, an unknown one
// is not.
func TestVersionInASession(t *testing.T) {
	r := newRig(t, echoing())
	token := r.mint()
	id := r.initialize("HTTP/1.1", token)
	for version, want := range map[string]int{"": 200, "2025-06-18": 200, "2025-11-25": 200, "1900-01-01": 400, "not-a-version": 400} {
		if resp, body := r.do("HTTP/1.1", post("/mcp", listBody, headers(token, "Mcp-Session-Id", id, "Mcp-Protocol-Version", version))); resp.StatusCode != want {
			t.Errorf("version %q: %d %s, want %d", version, resp.StatusCode, body, want)
		}
	}
	for _, h := range [][]string{{""}, {"2025-06-18", "2025-06-18"}} {
		q := post("/mcp", listBody, headers(token, "Mcp-Session-Id", id))
		q.header["Mcp-Protocol-Version"] = h
		if resp, body := r.do("HTTP/1.1", q); resp.StatusCode != 400 {
			t.Errorf("version fields %q: %d %s, want 400", h, resp.StatusCode, body)
		}
	}
}

// TestDelete ends a session: 200, then it is an unknown one.
func TestDelete(t *testing.T) {
	sp := echoing()
	r := newRig(t, sp)
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		stream := r.open(version, request{method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)})
		if stream.StatusCode != 200 {
			t.Fatalf("%s GET: %d", version, stream.StatusCode)
		}
		resp, body := r.do(version, request{method: "DELETE", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)})
		if resp.StatusCode != 200 || body != "" {
			t.Errorf("%s DELETE: %d %q", version, resp.StatusCode, body)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for b := make([]byte, 512); ; {
				if _, err := stream.Body.Read(b); err != nil {
					return
				}
			}
		}()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Errorf("%s: the stream goes on after DELETE", version)
		}
		stream.Body.Close()
		for _, q := range []request{post("/mcp", listBody, headers(token, "Mcp-Session-Id", id)), {method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)},
			{method: "DELETE", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)}} {
			if resp, _ := r.do(version, q); resp.StatusCode != 404 {
				t.Errorf("%s %s after DELETE: %d, want 404", version, q.method, resp.StatusCode)
			}
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for sp.Alive() > 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if n := sp.Alive(); n != 0 {
		t.Errorf("%d workers are left", n)
	}
}

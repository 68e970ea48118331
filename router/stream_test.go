package router

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"gatehouse/auth/authtest"
	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// eventsOf reads a stream in the background: what is on its data lines, and "" for
// a comment. The channel is closed when the stream ends.
func eventsOf(resp *http.Response) <-chan string {
	out := make(chan string, 256)
	go func() {
		defer close(out)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 32<<20)
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				out <- data
			} else if in.Text() == ":" {
				out <- ""
			} else if in.Text() != "" && in.Text() != "event: message" && in.Text() != "retry: 3000" {
				out <- "unexpected line " + in.Text()
			}
		}
	}()
	return out
}

// next returns the next event, within 5 s.
func next(t *testing.T, events <-chan string) (string, bool) {
	t.Helper()
	select {
	case e, ok := <-events:
		return e, ok
	case <-time.After(5 * time.Second):
		t.Fatal("nothing on the stream for 5 s")
		return "", false
	}
}

// wantEnd checks that the stream ends, comments aside.
func wantEnd(t *testing.T, events <-chan string) {
	t.Helper()
	for {
		if e, ok := next(t, events); !ok {
			return
		} else if e != "" {
			t.Errorf("event %q, want the end of the stream", e)
		}
	}
}

func (r *rig) listen(version, token, id string) <-chan string {
	r.t.Helper()
	resp := r.open(version, request{method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id, "Accept", "text/event-stream")})
	r.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("GET: %d %s %s", resp.StatusCode, resp.Header.Get("Content-Type"), b)
	}
	events := eventsOf(resp)
	if e, _ := next(r.t, events); e != "" {
		r.t.Fatalf("the stream begins with %q, want a comment", e)
	}
	return events
}

// TestListen: messages that belong to no call go down the GET stream, each one
// line, and the newest stream wins.
func TestListen(t *testing.T) {
	worker := sessiontest.Server{OnInitialized: func(c *sessiontest.Conn) {
		c.Notify("notifications/tools/list_changed", "{}")
		c.Line("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\r\"params\":{\"uri\":\"x:y\"}}")
	}}
	r := newRig(t, &sessiontest.Spawner{Worker: worker.Run})
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		events := r.listen(version, token, id)
		for _, want := range []string{"notifications/tools/list_changed", "notifications/resources/updated"} {
			e, ok := next(t, events)
			var m struct{ Method string }
			if err := json.Unmarshal([]byte(e), &m); !ok || err != nil || m.Method != want {
				t.Errorf("%s: event %q, want %s", version, e, want)
			}
		}
		newer := r.listen(version, token, id)
		wantEnd(t, events)
		if resp, _ := r.do(version, request{method: "DELETE", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)}); resp.StatusCode != 200 {
			t.Errorf("%s DELETE: %d", version, resp.StatusCode)
		}
		wantEnd(t, newer)
	}
}

// An id of an event that nobody keeps, or that was another session's, is a fresh
// stream and nothing else; and no event has one.
func TestLastEventID(t *testing.T) {
	r := newRig(t, echoing())
	token := r.mint()
	id := r.initialize("HTTP/2.0", token)
	for _, last := range []string{"7", "nonsense", "a b", strings.Repeat("a", 4096)} {
		resp := r.open("HTTP/2.0", request{method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id, "Last-Event-Id", last)})
		b := make([]byte, 64)
		n, err := resp.Body.Read(b)
		if resp.StatusCode != 200 || err != nil || string(b[:n]) != ":\n\n" {
			t.Errorf("%.10q: %d, begins with %q, %v", last, resp.StatusCode, b[:n], err)
		}
		resp.Body.Close()
	}
}

// A stream that is silent is kept open by comments, and by nothing that a client
// would have to understand.
func TestKeepalive(t *testing.T) {
	r := newRig(t, echoing())
	r.door.pace.keepalive = 20 * time.Millisecond
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		events := r.listen(version, token, id)
		for range 3 {
			if e, ok := next(t, events); !ok || e != "" {
				t.Errorf("%s GET: event %q, %t, want a comment", version, e, ok)
			}
		}
		resp := r.open(version, post("/mcp", tool("7", "echo", `{"text":"x","ms":400}`), headers(token, "Mcp-Session-Id", id)))
		comments := 0
		for e := range eventsOf(resp) {
			if e == "" {
				comments++
			} else if e != texts("7", "x") {
				t.Errorf("%s POST: event %q", version, e)
			}
		}
		if comments < 4 {
			t.Errorf("%s POST: %d comments, want several", version, comments)
		}
		resp.Body.Close()
	}
}

// TestAsk: what a worker asks goes down the stream of the call that made it ask,
// and the client's answer, a request of its own, reaches it.
func TestAsk(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		token := r.mint()
		body := strings.Replace(initBody, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1)
		resp, answer := r.do(version, post("/mcp", body, headers(token)))
		id := resp.Header.Get("Mcp-Session-Id")
		if id == "" {
			t.Fatalf("%s: %d %s", version, resp.StatusCode, answer)
		}
		call := r.open(version, post("/mcp", tool("7", "ask", `{"method":"roots/list"}`), headers(token, "Mcp-Session-Id", id)))
		events := eventsOf(call)
		next(t, events) // the comment
		e, _ := next(t, events)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(e), &m); err != nil || m.Method != "roots/list" {
			t.Fatalf("%s: event %q, want roots/list", version, e)
		}
		resp, answer = r.do(version, post("/mcp", `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"roots":[]}}`, headers(token, "Mcp-Session-Id", id)))
		if resp.StatusCode != 202 || answer != "" {
			t.Errorf("%s: the answer's own answer: %d %q", version, resp.StatusCode, answer)
		}
		if e, _ := next(t, events); e != texts("7", `{\"roots\":[]}`) {
			t.Errorf("%s: event %q", version, e)
		}
		wantEnd(t, events)
		call.Body.Close()
	}
}

// TestCancel: the notification gets 202, and the call's own answer ends without a
// response.
func TestCancel(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		cancel := func(request string) {
			resp, body := r.do(version, post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+request+`}}`, headers(token, "Mcp-Session-Id", id)))
			if resp.StatusCode != 202 || body != "" {
				t.Errorf("%s: cancel: %d %q", version, resp.StatusCode, body)
			}
		}
		call := r.open(version, post("/mcp", tool("7", "never", `{}`), headers(token, "Mcp-Session-Id", id)))
		cancel("7")
		wantEnd(t, eventsOf(call))
		call.Body.Close()

		early := make(chan string, 1) // cancelled before anything was sent
		r.door.pace.first = 5 * time.Second
		go func() {
			resp, body := r.do(version, post("/mcp", tool("8", "never", `{}`), headers(token, "Mcp-Session-Id", id)))
			early <- fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), " ", strings.TrimSpace(body))
		}()
		single := make(chan string, 1) // and by a client that takes no stream
		go func() {
			resp, body := r.do(version, post("/mcp", tool("9", "never", `{}`), headers(token, "Mcp-Session-Id", id, "Accept", "application/json")))
			single <- fmt.Sprint(resp.StatusCode, " ", body)
		}()
		waitCalls(t, r.table, 2)
		cancel("8")
		if got := <-early; got != "200 text/event-stream :" {
			t.Errorf("%s: the cancelled call's answer: %q", version, got)
		}
		cancel("9")
		if got := <-single; got != "202 " {
			t.Errorf("%s: the cancelled call's answer in JSON: %q", version, got)
		}
		r.door.pace = usual
		if resp, body := r.do(version, post("/mcp", listBody, headers(token, "Mcp-Session-Id", id))); resp.StatusCode != 200 {
			t.Errorf("%s: afterwards: %d %s", version, resp.StatusCode, body)
		}
		r.do(version, request{method: "DELETE", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)})
	}
}

// waitCalls waits until n calls are running in the one session with any.
func waitCalls(t *testing.T, table *session.Table, n int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		running := 0
		for _, s := range table.List() {
			running += s.Calls
		}
		if running == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d calls are running, want %d", running, n)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestWorkerDies: pending calls are answered at once, in the form that they have by
// then, and the session is an unknown one afterwards.
func TestWorkerDies(t *testing.T) {
	r := newRig(t, echoing())
	gone := ours("7", "sessionGone", "the worker of this session has ended: begin again with initialize")
	for version := range r.clients {
		for _, c := range []struct{ name, args, accept, want string }{
			{"at once", `{"n":3}`, "application/json, text/event-stream", gone},
			{"at once, events", `{"n":3}`, "text/event-stream", ":\n\nretry: 3000\nevent: message\ndata: " + gone + "\n\n"},
			{"later", `{"n":3,"ms":200}`, "application/json, text/event-stream", ":\n\nretry: 3000\nevent: message\ndata: " + gone + "\n\n"},
			{"later, JSON", `{"n":3,"ms":200}`, "application/json", gone},
		} {
			token := r.mint()
			id := r.initialize(version, token)
			resp, body := r.do(version, post("/mcp", tool("7", "die", c.args), headers(token, "Mcp-Session-Id", id, "Accept", c.accept)))
			if resp.StatusCode != 200 || body != c.want {
				t.Errorf("%s %s: %d %q\nwant %q", version, c.name, resp.StatusCode, body, c.want)
			}
			if resp, _ := r.do(version, post("/mcp", listBody, headers(token, "Mcp-Session-Id", id))); resp.StatusCode != 404 {
				t.Errorf("%s %s: afterwards %d, want 404", version, c.name, resp.StatusCode)
			}
		}
	}
}

// TestTimeoutAndBusy: a call's own misfortunes are answered with 200, whose text
// clients show, and cost the call only.
func TestTimeoutAndBusy(t *testing.T) {
	r := newRig(t, echoing(), func(_ *Config, s *session.Config) {
		s.Lifetime.RequestTimeout, s.MaxCalls = 300*time.Millisecond, 1
	})
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		done := make(chan string, 1)
		go func() {
			_, body := r.do(version, post("/mcp", tool("7", "never", `{}`), headers(token, "Mcp-Session-Id", id, "Accept", "application/json")))
			done <- body
		}()
		waitCalls(t, r.table, 1)
		resp, body := r.do(version, post("/mcp", tool("8", "echo", `{}`), headers(token, "Mcp-Session-Id", id)))
		if want := ours("8", "busy", "too many calls are running: wait for one to finish"); resp.StatusCode != 200 || body != want {
			t.Errorf("%s: %d %s, want %s", version, resp.StatusCode, body, want)
		}
		if got, want := <-done, ours("7", "timeout", "the call took longer than this server allows"); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
		r.do(version, request{method: "DELETE", path: "/mcp", header: headers(token, "Mcp-Session-Id", id)})
	}
}

// TestExpiredToken: nothing is served after a token's time, before the worker hears
// of it; a call that runs may finish, streams end, and a newer token goes on.
func TestExpiredToken(t *testing.T) {
	r := newRig(t, echoing())
	for version := range r.clients {
		// Already past exp, and within the leeway for two seconds more.
		exp := time.Now().Add(2*time.Second - authtest.Leeway)
		old := r.mint(authtest.Claim("iat", exp.Add(-time.Minute).Unix()), authtest.Claim("exp", exp.Unix()))
		id := r.initialize(version, old)
		events := r.listen(version, old, id)
		call := r.open(version, post("/mcp", tool("7", "echo", `{"text":"x","ms":2500}`), headers(old, "Mcp-Session-Id", id)))
		wantEnd(t, events)
		resp, body := r.do(version, post("/mcp", listBody, headers(old, "Mcp-Session-Id", id)))
		if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != invalid("expired") || body != ours("null", "unauthorized", "token refused: expired") {
			t.Errorf("%s: with the old token %d %s", version, resp.StatusCode, body)
		}
		if resp, body := r.do(version, post("/mcp", listBody, headers(r.mint(), "Mcp-Session-Id", id))); resp.StatusCode != 200 {
			t.Errorf("%s: with a newer token %d %s", version, resp.StatusCode, body)
		}
		var last string
		for e := range eventsOf(call) {
			last = e
		}
		if last != texts("7", "x") {
			t.Errorf("%s: the running call ended with %q", version, last)
		}
		call.Body.Close()
	}
}

// TestDrain: readiness and new sessions are refused, streams end, a running call
// finishes.
func TestDrain(t *testing.T) {
	r := newRig(t, echoing())
	version, token := "HTTP/2.0", r.mint()
	id := r.initialize(version, token)
	events := r.listen(version, token, id)
	call := r.open(version, post("/mcp", tool("7", "echo", `{"text":"x","ms":500}`), headers(token, "Mcp-Session-Id", id)))
	r.door.Drain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.table.Drain(t.Context())
	}()
	wantEnd(t, events)
	if resp, _ := r.do(version, post("/mcp", initBody, headers(token))); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("initialize: %d", resp.StatusCode)
	}
	if resp, _ := r.do(version, request{method: "GET", path: "/readyz"}); resp.StatusCode != 503 {
		t.Errorf("readyz: %d", resp.StatusCode)
	}
	var last string
	for e := range eventsOf(call) {
		last = e
	}
	if last != texts("7", "x") {
		t.Errorf("the running call ended with %q", last)
	}
	call.Body.Close()
	<-drained
}

// TestFirstByte: some proxies pass headers on with the first DATA frame only, so
// one follows at once, on GET and on a slow POST.
func TestFirstByte(t *testing.T) {
	r := newRig(t, echoing())
	token := r.mint()
	id := r.initialize("HTTP/2.0", token)
	pool := r.clients["HTTP/2.0"].Transport.(*http.Transport).TLSClientConfig.RootCAs
	conn, err := tls.Dial("tcp", r.addr, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, conn)
	f.WriteSettings()
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	send := func(stream uint32, method, body string) {
		block.Reset()
		for _, h := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", r.addr}, {":path", "/mcp"}, {"authorization", "Bearer " + token},
			{"mcp-session-id", id}, {"accept", "application/json, text/event-stream"}, {"content-type", "application/json"}} {
			enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(block.String()), EndHeaders: true, EndStream: body == ""})
		if body != "" {
			f.WriteData(stream, true, []byte(body))
		}
	}
	for i, q := range [][2]string{{"GET", ""}, {"POST", tool("7", "echo", `{"ms":600}`)}} {
		stream := uint32(2*i + 1)
		send(stream, q[0], q[1])
		var header time.Time
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		for done := false; !done; {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatalf("%s: %v", q[0], err)
			}
			switch frame := frame.(type) {
			case *http2.HeadersFrame:
				if frame.StreamID == stream {
					header = time.Now()
				}
			case *http2.DataFrame:
				if done = frame.StreamID == stream; done {
					if gap := time.Since(header); header.IsZero() || gap > 50*time.Millisecond || string(frame.Data()) != ":\n\n" {
						t.Errorf("%s: first DATA %q %v after HEADERS", q[0], frame.Data(), gap)
					}
				}
			}
		}
	}
}

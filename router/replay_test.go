package router

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// sse is one event as it came: its fields, parted by "|".
type sse struct{ id, data, all string }

// blocks reads the events of a stream, comments aside.
func blocks(resp *http.Response) <-chan sse {
	out := make(chan sse, 64)
	go func() {
		defer close(out)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 1<<20)
		var e sse
		for in.Scan() {
			line := in.Text()
			switch {
			case line == "" && e.all != "":
				out <- e
				e = sse{}
				continue
			case line == "" || line == ":":
				continue
			}
			e.all += line + "|"
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				e.id = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
	}()
	return out
}

func nextBlock(t *testing.T, in <-chan sse) sse {
	t.Helper()
	select {
	case e, ok := <-in:
		if !ok {
			t.Fatal("the stream ended")
		}
		return e
	case <-time.After(5 * time.Second):
		t.Fatal("nothing on the stream for 5 s")
	}
	return sse{}
}

func wantNoBlock(t *testing.T, in <-chan sse) {
	t.Helper()
	select {
	case e, ok := <-in:
		if ok {
			t.Errorf("event %q, want none", e.all)
		}
	case <-time.After(200 * time.Millisecond):
	}
}

// newest opens a session of the newest version.
func (r *rig) newest(version, token string) string {
	r.t.Helper()
	resp, body := r.do(version, post("/mcp", strings.Replace(initBody, "2025-06-18", "2025-11-25", 1), headers(token)))
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		r.t.Fatalf("initialize: %s", body)
	}
	r.do(version, post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers(token, "Mcp-Session-Id", id)))
	return id
}

func keeping(_ *Config, s *session.Config) {
	s.Replay = session.Replay{Events: 8, Bytes: 1 << 16, Keep: time.Minute}
	s.Lifetime.StreamLossGrace = time.Hour
}

// get opens a GET stream, after lastEventID unless that is empty.
func (r *rig) get(version, token, id, lastEventID string) (*http.Response, <-chan sse) {
	r.t.Helper()
	resp := r.open(version, request{method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id, "Accept", "text/event-stream", "Last-Event-Id", lastEventID)})
	if resp.StatusCode != 200 {
		r.t.Fatalf("GET: %d", resp.StatusCode)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	return resp, blocks(resp)
}

// TestReplayOverHTTP: a client that lost its GET stream gets what it missed, under
// the ids that it would have had.
func TestReplayOverHTTP(t *testing.T) {
	r := newRig(t, echoing(), keeping)
	for version := range r.clients {
		token := r.mint()
		id := r.newest(version, token)
		say := func(text string) {
			args := fmt.Sprintf(`{"method":"notifications/resources/updated","params":{"uri":%q}}`, text)
			r.do(version, post("/mcp", tool("7", "notify", args), headers(token, "Mcp-Session-Id", id)))
		}
		first, events := r.get(version, token, id, "")
		prime := nextBlock(t, events)
		if prime.id == "" || prime.all != "id: "+prime.id+"|retry: 3000|data: |" {
			t.Errorf("%s: begins with %q", version, prime.all)
		}
		say("a")
		say("b")
		a, b := nextBlock(t, events), nextBlock(t, events)
		if !strings.HasPrefix(a.all, "id: "+a.id+"|event: message|data: {") || a.id == b.id || a.id == "" {
			t.Errorf("%s: %q and %q", version, a.all, b.all)
		}
		first.Body.Close()
		r.settled(version, id, token, false)
		say("c")
		again, events := r.get(version, token, id, a.id)
		for _, want := range []string{"b", "c"} {
			e := nextBlock(t, events)
			if !strings.Contains(e.data, `"uri":"`+want+`"`) || want == "b" && e.id != b.id {
				t.Errorf("%s: got %q, want %s", version, e.all, want)
			}
		}
		wantNoBlock(t, events)
		again.Body.Close()
		// Of nothing that anybody keeps: a fresh stream.
		for _, last := range []string{prime.id, "7", "nonsense", strings.Repeat("a", 4096)} {
			resp, events := r.get(version, token, id, last)
			if e := nextBlock(t, events); e.data != "" || e.id == "" {
				t.Errorf("%s: after %.20q: %q, want a primed fresh stream", version, last, e.all)
			}
			wantNoBlock(t, events)
			resp.Body.Close()
		}
	}
}

// settled waits until the session has, or has not, a stream, and fails when that
// takes over 100 ms.
func (r *rig) settled(version, id, token string, open bool) {
	r.t.Helper()
	start := time.Now()
	for {
		for _, s := range r.table.List() {
			if s.Label == id[:6] && s.Stream == open {
				return
			}
		}
		if d := time.Since(start); d > 100*time.Millisecond {
			r.t.Errorf("%s: not noticed for %v that the stream is closed", version, d)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPolling: a client whose POST stream broke comes back for the response with a
// GET, which ends with it and takes nothing from the session's own stream.
func TestPolling(t *testing.T) {
	r := newRig(t, echoing(), keeping)
	for version := range r.clients {
		token := r.mint()
		id := r.newest(version, token)
		_, own := r.get(version, token, id, "")
		nextBlock(t, own)
		resp := r.open(version, post("/mcp", tool("7", "echo", `{"text":"late","ms":600}`), headers(token, "Mcp-Session-Id", id)))
		events := blocks(resp)
		prime := nextBlock(t, events)
		if prime.id == "" || prime.data != "" {
			t.Errorf("%s: begins with %q", version, prime.all)
		}
		resp.Body.Close()
		for i := range 2 { // once while the call runs, and once more after its answer
			again, rest := r.get(version, token, id, prime.id)
			e := nextBlock(t, rest)
			if e.data != texts("7", "late") {
				t.Errorf("%s: poll %d got %q", version, i, e.all)
			}
			if _, open := <-rest; open {
				t.Errorf("%s: poll %d does not end with the response", version, i)
			}
			again.Body.Close()
		}
		wantNoBlock(t, own)
	}
}

// TestPollingForADeadWorker: the error that the call ends with reaches whoever comes
// back for it.
func TestPollingForADeadWorker(t *testing.T) {
	r := newRig(t, echoing(), keeping)
	token := r.mint()
	id := r.newest("HTTP/2.0", token)
	resp := r.open("HTTP/2.0", post("/mcp", tool(`"x"`, "die", `{"ms":500}`), headers(token, "Mcp-Session-Id", id)))
	prime := nextBlock(t, blocks(resp))
	resp.Body.Close()
	time.Sleep(50 * time.Millisecond)
	_, rest := r.get("HTTP/2.0", token, id, prime.id)
	if e := nextBlock(t, rest); !strings.HasPrefix(e.data, `{"jsonrpc":"2.0","id":"x","error":`) || !strings.Contains(e.data, `"kind":"sessionGone"`) {
		t.Errorf("got %q", e.all)
	}
	if resp, _ := r.do("HTTP/2.0", request{method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id, "Last-Event-Id", prime.id)}); resp.StatusCode != 404 {
		t.Errorf("after its end: %d", resp.StatusCode)
	}
}

// TestServersOwnDisconnect: it is the server that closes the stream (MCP 2025-11-25,
// Transports: it may at any time after an event with an id). What came meanwhile waits
// for the next stream, with and without replay, and comes once.
func TestServersOwnDisconnect(t *testing.T) {
	for name, options := range map[string][]rigOption{"on": {keeping}, "off": nil} {
		r := newRig(t, echoing(), options...)
		for version := range r.clients {
			// Already past exp, and within the leeway for two seconds more.
			exp := time.Now().Add(2*time.Second - authtest.Leeway)
			id := r.newest(version, r.mint(authtest.Claim("iat", exp.Add(-time.Minute).Unix()), authtest.Claim("exp", exp.Unix())))
			newer := r.mint()
			say := func(token, text string) {
				args := fmt.Sprintf(`{"method":"notifications/resources/updated","params":{"uri":%q}}`, text)
				r.do(version, post("/mcp", tool("7", "notify", args), headers(token, "Mcp-Session-Id", id)))
			}
			old := r.mint(authtest.Claim("iat", exp.Add(-time.Minute).Unix()), authtest.Claim("exp", exp.Unix()))
			_, events := r.get(version, old, id, "")
			say(old, "a")
			last := ""
			for e := range events { // until the token's end
				last = e.id
			}
			if (last != "") != (name == "on") {
				t.Errorf("%s, %s: the last id is %q", name, version, last)
			}
			say(newer, "b")
			_, events = r.get(version, newer, id, last)
			if e := nextBlock(t, events); !strings.Contains(e.data, `"uri":"b"`) || (e.id != "") != (name == "on") {
				t.Errorf("%s, %s: got %q, want b", name, version, e.all)
			}
			wantNoBlock(t, events)
		}
	}
}

// TestCutOffClientComesBack: who was cut off because it did not read gets the response
// by polling for it, when replay is on. Without, the response is lost and the session
// is not.
func TestCutOffClientComesBack(t *testing.T) {
	const n = 15 << 20
	roomy := func(_ *Config, s *session.Config) {
		s.Replay = session.Replay{Events: 8, Bytes: 32 << 20, Keep: time.Minute}
	}
	for name, options := range map[string][]rigOption{"on": {roomy}, "off": nil} {
		r := newRig(t, echoing(), options...)
		r.door.pace.blocked = 500 * time.Millisecond
		for version := range r.clients {
			token := r.mint()
			id := r.newest(version, token)
			resp := r.open(version, post("/mcp", tool("7", "big", fmt.Sprintf(`{"n":%d,"ms":200}`, n)), headers(token, "Mcp-Session-Id", id)))
			head := make([]byte, 200)
			got, _ := io.ReadAtLeast(resp.Body, head, 10)
			_, last, _ := strings.Cut(string(head[:got]), "id: ")
			last, _, _ = strings.Cut(last, "\n")
			time.Sleep(1500 * time.Millisecond) // and reads no more
			resp.Body.Close()
			if name == "off" {
				if resp, body := r.do(version, post("/mcp", tool("8", "echo", `{"text":"still here"}`), headers(token, "Mcp-Session-Id", id))); last != "" || !strings.Contains(body, "still here") {
					t.Errorf("off, %s: id %q, then %d %s", version, last, resp.StatusCode, body)
				}
				continue
			}
			_, body := r.do(version, request{method: "GET", path: "/mcp", header: headers(token, "Mcp-Session-Id", id, "Accept", "text/event-stream", "Last-Event-Id", last)})
			if !strings.Contains(body, texts("7", strings.Repeat("x", n))) {
				t.Errorf("on, %s: %d bytes after %q", version, len(body), last)
			}
		}
	}
}

// TestReplayOff: no event has an id, none is without data, and a broken stream of a
// call is lost.
func TestReplayOff(t *testing.T) {
	worker := sessiontest.Server{OnInitialized: func(c *sessiontest.Conn) { c.Notify("notifications/tools/list_changed", "{}") }}
	r := newRig(t, &sessiontest.Spawner{Worker: worker.Run})
	token := r.mint()
	id := r.newest("HTTP/2.0", token)
	_, own := r.get("HTTP/2.0", token, id, "")
	if e := nextBlock(t, own); !strings.HasPrefix(e.all, "retry: 3000|event: message|data: {") {
		t.Errorf("GET: %q", e.all)
	}
	resp := r.open("HTTP/2.0", post("/mcp", tool("7", "echo", `{"text":"late","ms":300}`), headers(token, "Mcp-Session-Id", id)))
	if e := nextBlock(t, blocks(resp)); e.all != "retry: 3000|event: message|data: "+texts("7", "late")+"|" {
		t.Errorf("POST: %q", e.all)
	}
}

// A client of the version before gets ids, and no event without data.
func TestReplayForTheVersionBefore(t *testing.T) {
	r := newRig(t, echoing(), keeping)
	token := r.mint()
	resp, _ := r.do("HTTP/2.0", post("/mcp", initBody, headers(token)))
	id := resp.Header.Get("Mcp-Session-Id")
	resp = r.open("HTTP/2.0", post("/mcp", tool("7", "echo", `{"text":"late","ms":300}`), headers(token, "Mcp-Session-Id", id)))
	if e := nextBlock(t, blocks(resp)); e.id == "" || e.all != "id: "+e.id+"|retry: 3000|event: message|data: "+texts("7", "late")+"|" {
		t.Errorf("got %q", e.all)
	}
}

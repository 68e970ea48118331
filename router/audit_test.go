package router

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse/auth"
	"gatehouse/auth/audit"
	"gatehouse/auth/authtest"
	"gatehouse/auth/logtest"
	"gatehouse/session"
)

// lines returns the audit lines so far.
func (r *rig) lines(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(r.audit.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}

// TestAuditLines: one line a request, with who, what and what became of it, and
// nothing that a thief could use.
func TestAuditLines(t *testing.T) {
	r := newRig(t, echoing())
	token := r.mint()
	id := r.initialize("HTTP/1.1", token)
	r.do("HTTP/1.1", post("/mcp?access_token=SECRETQUERY", tool("7", "echo", `{"text":"SECRETBODY"}`), headers(token, "Mcp-Session-Id", id, "X-Api-Key", "SECRETHEADER")))
	r.do("HTTP/1.1", post("/mcp", listBody, headers(r.mint(authtest.Claim("scope", "x")))))
	r.do("HTTP/1.1", post("/mcp", listBody, headers("x.SECRETTOKEN.y")))
	deadline := time.Now().Add(5 * time.Second)
	for len(r.lines(t)) < 5 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // a line is written after the answer
	}
	alice := map[string]any{"iss": authtest.IssuerURL, "sub": "alice", "client": "test"}
	wants := []map[string]any{
		{"method": "POST", "path": "/mcp", "status": 200.0, "rpc": "initialize", "session": id[:6], "account": "in-process"},
		{"status": 202.0, "rpc": "notifications/initialized", "session": id[:6]},
		{"path": "/mcp", "status": 200.0, "rpc": "tools/call", "proto": "HTTP/1.1", "remote": "127.0.0.1"},
		{"status": 403.0, "kind": "scope"},
		{"status": 401.0, "kind": "unauthorized"},
	}
	got := r.lines(t)
	if len(got) != len(wants) {
		t.Fatalf("%d lines, want %d", len(got), len(wants))
	}
	for i, want := range wants {
		if i < 4 {
			for k, v := range alice {
				want[k] = v
			}
		}
		for k, v := range want {
			if got[i][k] != v {
				t.Errorf("line %d: %s = %v, want %v", i, k, got[i][k], v)
			}
		}
	}
	if got[4]["sub"] != nil || got[4]["reason"] == nil {
		t.Errorf("line of a bad token: %v", got[4])
	}
	for _, secret := range []string{"SECRET", token, token[strings.LastIndexByte(token, '.')+1:], id} {
		if strings.Contains(r.audit.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestTrace: a line a message both ways, those of refused requests too, and never
// a header or a query string.
func TestTrace(t *testing.T) {
	trace := new(logtest.Log)
	r := newRig(t, echoing(), func(c *Config, _ *session.Config) { c.Trace = audit.NewTrace(trace, 80) })
	token := r.mint()
	id := r.initialize("HTTP/1.1", token)
	r.do("HTTP/1.1", post("/mcp?access_token=SECRETQUERY", tool("7", "echo", `{"text":"hi"}`), headers(token, "Mcp-Session-Id", id, "X-Api-Key", "SECRETHEADER")))
	r.do("HTTP/1.1", post("/mcp", tool("8", "echo", `{"text":"later","ms":150}`), headers(token, "Mcp-Session-Id", id)))
	r.do("HTTP/1.1", post("/mcp", listBody, headers("x.SECRETTOKEN.y")))
	type line struct{ Dir, Method, Path, Session, Sub, Body string }
	var got []line
	for text := range strings.Lines(trace.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	begins := func(i int, dir, session, sub, body string) {
		t.Helper()
		if i >= len(got) {
			t.Errorf("line %d is missing", i)
		} else if l := got[i]; l.Dir != dir || l.Method != "POST" || l.Path != "/mcp" || l.Session != session || l.Sub != sub || !strings.HasPrefix(l.Body, body) {
			t.Errorf("line %d: %+v, want %s of %s in %q beginning with %s", i, l, dir, sub, session, body)
		}
	}
	begins(0, "in", "", "alice", initBody[:80]+"...(+")
	begins(1, "out", id[:6], "alice", `{"jsonrpc":"2.0","id":1,"result"`)
	begins(2, "in", id[:6], "alice", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	begins(3, "in", id[:6], "alice", `{"jsonrpc":"2.0","id":7,"method":"tools/call"`)
	begins(4, "out", id[:6], "alice", texts("7", "hi"))
	begins(5, "in", id[:6], "alice", `{"jsonrpc":"2.0","id":8,"method":"tools/call"`)
	begins(6, "out", id[:6], "alice", `{"jsonrpc":"2.0","id":8,"result"`)
	begins(7, "in", "", "", "")
	begins(8, "out", "", "", `{"jsonrpc":"2.0","id":null,"error"`)
	if len(got) != 9 || strings.Contains(trace.String(), "SECRET") || strings.Contains(trace.String(), id) {
		t.Errorf("%d lines, want 9 without secrets:\n%s", len(got), trace)
	}
}

// A fault of ours ends one request, with an answer where that is still possible.
func TestPanic(t *testing.T) {
	r := newRig(t, nobody)
	for _, wrote := range []bool{false, true} {
		h := r.door.audited(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if wrote {
				w.WriteHeader(200)
			}
			panic("SECRET state")
		}))
		rec := httptest.NewRecorder()
		aborted := func() (v any) {
			defer func() { v = recover() }()
			h.ServeHTTP(rec, httptest.NewRequest("GET", "/x", nil))
			return nil
		}()
		if wrote != (aborted == http.ErrAbortHandler) {
			t.Errorf("header written %t: panic %v", wrote, aborted)
		}
		if !wrote && (rec.Code != 500 || rec.Body.String() != `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`) {
			t.Errorf("answer %d %s", rec.Code, rec.Body)
		}
	}
	for _, l := range r.lines(t) {
		if l["reason"] == nil || !strings.Contains(l["reason"].(string), "SECRET state") {
			t.Errorf("line %v does not say what happened", l)
		}
	}
}

// TestEveryKindIsWorded: the rows of the table are there, and their texts can
// stand in a challenge (RFC 6750 section 3: no quotes, no backslash).
func TestEveryKindIsWorded(t *testing.T) {
	for k, w := range words {
		if w.name == "" || w.status == 0 || w.text == "" && kind(k) != kindJSON || strings.ContainsAny(w.text, "\"\\\r\n") {
			t.Errorf("kind %d: %+v", k, w)
		}
	}
	for k := auth.KindNoCredentials; k <= auth.KindUndecided; k++ {
		if gateKinds[k] == kindInternal {
			t.Errorf("the gate's %v is not worded", k)
		}
	}
}

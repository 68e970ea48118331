package router

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestBigAnswer: results up to the limit pass whole in both forms.
func TestBigAnswer(t *testing.T) {
	r := newRig(t, echoing())
	const n = 3 << 20
	want := texts("7", strings.Repeat("x", n))
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		for _, accept := range []string{"application/json", "text/event-stream"} {
			_, body := r.do(version, post("/mcp", tool("7", "big", fmt.Sprintf(`{"n":%d}`, n)), headers(token, "Mcp-Session-Id", id, "Accept", accept)))
			body = strings.TrimSuffix(strings.TrimPrefix(body, ":\n\nretry: 3000\nevent: message\ndata: "), "\n\n")
			if body != want {
				t.Errorf("%s %s: %d bytes, want %d", version, accept, len(body), len(want))
			}
		}
	}
}

// TestSendYields: a long answer to a client that takes all of it at once leaves others
// their turn.
func TestSendYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turns atomic.Int64
	var over atomic.Bool
	go func() {
		for !over.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	v := new(visit)
	v.begin(httptest.NewRecorder(), httptest.NewRequest("POST", "/mcp", nil), usual, nil)
	const pieces = 32
	err := v.send(make([]byte, pieces*writeChunk))
	over.Store(true)
	if n := turns.Load(); n < pieces/4 || err != nil {
		t.Errorf("%d turns while %d pieces were sent, %v", n, pieces, err)
	}
}

// TestBlockedReader: a client that stops reading is cut off, and its session
// serves others meanwhile.
func TestBlockedReader(t *testing.T) {
	r := newRig(t, echoing())
	r.door.pace.blocked = 200 * time.Millisecond
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		resp := r.open(version, post("/mcp", tool("7", "big", `{"n":15000000}`), headers(token, "Mcp-Session-Id", id)))
		waitCalls(t, r.table, 0) // the worker has answered
		time.Sleep(time.Second)  // and nobody reads
		if _, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%s: the answer came whole though nobody read it for a second", version)
		}
		resp.Body.Close()
		if resp, body := r.do(version, post("/mcp", listBody, headers(token, "Mcp-Session-Id", id))); resp.StatusCode != 200 {
			t.Errorf("%s: afterwards %d %s", version, resp.StatusCode, body)
		}
	}
}

// TestWriteLimitIsLifted: the limit of one answer says nothing about the next on
// the same connection, however long that takes.
func TestWriteLimitIsLifted(t *testing.T) {
	r := newRig(t, echoing())
	r.door.pace.blocked = 100 * time.Millisecond
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		conns := new(atomic.Int64)
		r.clients[version].Transport.(*http.Transport).DialContext = countDials(conns)
		for range 3 {
			for _, accept := range []string{"application/json", "text/event-stream"} {
				_, body := r.do(version, post("/mcp", tool("7", "echo", `{"text":"x","ms":250}`), headers(token, "Mcp-Session-Id", id, "Accept", accept, "Expect", "100-continue")))
				if !strings.Contains(body, texts("7", "x")) {
					t.Errorf("%s %s: %q", version, accept, body)
				}
			}
		}
		if n := conns.Load(); n > 1 {
			t.Errorf("%s: %d connections for one after another, want 1", version, n)
		}
	}
}

// TestBodyLimitIsLifted: the limit of a body says nothing about the call, however long
// that takes.
func TestBodyLimitIsLifted(t *testing.T) {
	r := newRig(t, echoing())
	r.door.pace.body = 100 * time.Millisecond
	for version := range r.clients {
		token := r.mint()
		id := r.initialize(version, token)
		for _, unknown := range []bool{false, true} {
			q := post("/mcp", tool("7", "echo", `{"text":"x","ms":300}`), headers(token, "Mcp-Session-Id", id, "Accept", "application/json"))
			q.unknown = unknown
			if resp, body := r.do(version, q); resp.StatusCode != 200 || !strings.Contains(body, texts("7", "x")) {
				t.Errorf("%s, length unknown %v: %d %q", version, unknown, resp.StatusCode, body)
			}
		}
	}
}

// TestSlowBody: a body that does not come is not waited for.
func TestSlowBody(t *testing.T) {
	r := newRig(t, echoing())
	r.door.pace.body = 200 * time.Millisecond
	for version := range r.clients {
		body, writer := io.Pipe()
		go io.WriteString(writer, `{"jsonrpc":`)
		req, err := http.NewRequest("POST", r.base+"/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = headers(r.mint())
		start := time.Now()
		resp, err := r.clients[version].Do(req)
		if err == nil && resp.StatusCode != 400 {
			t.Errorf("%s: %d, want 400", version, resp.StatusCode)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: answered after %v", version, took)
		}
		writer.Close()
		if err == nil {
			resp.Body.Close()
		}
	}
}

// TestUnreadBody: a body that nobody wants, and that does not come, is not waited for.
func TestUnreadBody(t *testing.T) {
	r := newRig(t, echoing())
	r.door.pace.body = 50 * time.Millisecond
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"no token", "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", 401},
		{"no such path", "GET /none HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 404},
		{"for everybody", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 200},
		{"no length", "POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 401},
	} {
		if answers, _, _ := r.raw(t, c.request); len(answers) != 1 || answers[0].StatusCode != c.status || !answers[0].Close {
			t.Errorf("%s: %v", c.name, answers)
		}
	}
}

func countDials(n *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		n.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

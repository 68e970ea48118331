package router

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth"
	"gatehouse/auth/audit"
	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// BenchmarkPost is one tools/call through the whole door with a remembered token,
// without a connection: what is ours of a call, the worker's answer included.
func BenchmarkPost(b *testing.B) {
	for _, withToken := range []bool{false, true} {
		name := "loopback"
		if withToken {
			name = "token"
		}
		b.Run(name, func(b *testing.B) { benchmarkPost(b, withToken, false) })
		b.Run(name+", modern", func(b *testing.B) { benchmarkPost(b, withToken, true) })
	}
}

func benchmarkPost(b *testing.B, withToken, modern bool) {
	post := postRig(b, withToken, modern, fastLines)
	b.ReportAllocs()
	for b.Loop() {
		post()
	}
}

// TestAllocationsOfAPost holds the hot path from the door to the worker and back:
// one object a call, the Exchange, besides what net/http makes of a request. The
// second is the tolerance: what a collection in between takes from the pools.
func TestAllocationsOfAPost(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, withToken := range []bool{false, true} {
		for _, modern := range []bool{false, true} {
			post := postRig(t, withToken, modern, fastLines)
			post() // fills the pools
			if n := testing.AllocsPerRun(300, post); n > 2 {
				t.Errorf("%v allocations a call (with a token: %v, modern: %v), the limit is 2", n, withToken, modern)
			}
		}
	}
}

// postRig returns what makes one tools/call through a door, in a session that is
// open or, modern, without one, and wants the answer.
func postRig(tb testing.TB, withToken, modern bool, worker func(*sessiontest.Process) int) func() {
	issuer := newIssuer()
	var gate auth.Gate = auth.Loopback{}
	if withToken {
		var err error
		gate, err = auth.NewBearer(auth.BearerConfig{
			Verifier: authtest.NewVerifier(issuer), Keys: &staticKeys{set: authtest.KeySet(issuer)}, Audiences: []string{authtest.Audience},
			Required: identity.NewScopes("mcp:use"), MaxTokenBytes: 8 << 10, Now: time.Now,
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	table := session.New(session.Config{MaxSessions: 4}, &sessiontest.Spawner{Worker: worker}, zerolog.Nop())
	tb.Cleanup(table.Close)
	door, err := New(Config{
		Loopback: !withToken, MaxBody: 1 << 20, Sessions: table, Audit: audit.New(io.Discard),
		Servers: []Server{{Path: "/mcp", Gate: gate, Resource: auth.Resource{Identifier: authtest.Audience}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	h := headers(issuer.Mint())
	w := &nullWriter{h: http.Header{}}
	body := tool("7", "echo", `{"text":"hello"}`)
	if modern {
		h = modernHeaders(issuer.Mint(), "tools/call", "echo")
		body = modernBody("7", "tools/call", `,"name":"echo","arguments":{"text":"hello"}`)
	} else {
		door.ServeHTTP(w, benchRequest(h, initBody))
		id := w.h.Get("Mcp-Session-Id")
		if id == "" {
			tb.Fatal("no session")
		}
		h.Set("Mcp-Session-Id", id)
		h.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	req := benchRequest(h, body)
	reader := strings.NewReader(body)
	req.Body = io.NopCloser(reader)
	return func() {
		reader.Reset(body)
		clear(w.h)
		door.ServeHTTP(w, req)
		if w.status != 200 {
			tb.Fatal(w.status)
		}
	}
}

func benchRequest(h http.Header, body string) *http.Request {
	req, err := http.NewRequest("POST", "http://127.0.0.1:8000/mcp", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header, req.RemoteAddr = h, "127.0.0.1:4711"
	ctx := withLocalAddr(context.Background(), &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000})
	return req.WithContext(ctx)
}

// nullWriter is a response writer that keeps the status only.
type nullWriter struct {
	h      http.Header
	status int
}

func (w *nullWriter) Header() http.Header         { return w.h }
func (w *nullWriter) WriteHeader(status int)      { w.status = status }
func (w *nullWriter) Write(p []byte) (int, error) { return len(p), nil }

// fastLines is a worker that costs next to nothing: it answers each request with a
// result under its id, and allocates nothing.
func fastLines(p *sessiontest.Process) int {
	in := bufio.NewReaderSize(p.In, 64<<10)
	out := make([]byte, 0, 4096)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0
		}
		msg, err := jsonrpc.Parse(line)
		if err != nil || msg.Kind != jsonrpc.Request {
			continue
		}
		out = append(append(append(out[:0], `{"jsonrpc":"2.0","id":`...), msg.IDBytes()...), `,"result":{`...)
		switch {
		case msg.Is("initialize"):
			out = append(out, `"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"t","version":"1"}`...)
		case msg.Is("server/discover"):
			out = append(out, `"supportedVersions":["2026-07-28"],"capabilities":{}`...)
		}
		if _, err := p.Out.Write(append(out, "}}\n"...)); err != nil {
			return 1
		}
	}
}

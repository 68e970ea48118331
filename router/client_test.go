package router

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer adds a token to every request.
type bearer struct {
	token string
	base  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.base.RoundTrip(r)
}

func (r *rig) connect(ctx context.Context, version, token, protocol string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	tr := &mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: &http.Client{Transport: bearer{token, r.clients[version].Transport}}}
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
}

// TestOfficialClient: the official Go client speaks the modern era unless told
// otherwise, has no session there, and does the same things with the same worker.
func TestOfficialClient(t *testing.T) {
	sp := echoing()
	r := newRig(t, sp)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for version := range r.clients {
		for _, protocol := range []string{"", "2025-11-25"} {
			progress := make(chan float64, 16)
			s, err := r.connect(ctx, version, r.mint(), protocol, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) { progress <- q.Params.Progress },
			})
			if err != nil {
				t.Fatalf("%s %q: %v", version, protocol, err)
			}
			want, idLen := "2026-07-28", 0
			if protocol != "" {
				want, idLen = protocol, 22
			}
			if got := s.InitializeResult().ProtocolVersion; got != want || len(s.ID()) != idLen {
				t.Errorf("%s %q: version %s, session %q", version, protocol, got, s.ID())
			}
			l, err := s.ListTools(ctx, nil)
			if err != nil || len(l.Tools) != 1 {
				t.Errorf("%s %q: list: %v, %v", version, protocol, l, err)
			}
			call := &mcp.CallToolParams{Name: "progress", Arguments: map[string]any{"n": 2, "ms": 10, "text": "done"}}
			call.SetProgressToken("p")
			res, err := s.CallTool(ctx, call)
			if err != nil || res.Content[0].(*mcp.TextContent).Text != "done" {
				t.Errorf("%s %q: call: %v, %v", version, protocol, res, err)
			}
			for want := 1.0; want <= 2; want++ {
				select {
				case got := <-progress:
					if got != want {
						t.Errorf("%s %q: progress %v, want %v", version, protocol, got, want)
					}
				case <-ctx.Done():
					t.Fatalf("%s %q: no progress", version, protocol)
				}
			}
			short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			if _, err := s.CallTool(short, &mcp.CallToolParams{Name: "never"}); err == nil {
				t.Errorf("%s %q: a call that never ends has ended", version, protocol)
			}
			stop()
			if _, err := s.ListTools(ctx, nil); err != nil {
				t.Errorf("%s %q: after a cancelled call: %v", version, protocol, err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("%s %q: close: %v", version, protocol, err)
			}
		}
	}
	if n := len(r.table.List()); n != 1 {
		t.Errorf("%d workers are left, want the shared one alone: the client ends its own sessions", n)
	}
}

// What a user reads when something is wrong says what, as far as the client shows
// it: of an answer to a request that was not read it shows the status alone.
func TestOfficialClientReadsRefusals(t *testing.T) {
	r := newRig(t, nobody)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, c := range []struct{ name, token, want string }{
		{"no token", "", "Unauthorized"},
		{"malformed", "a.b.c", "Unauthorized"},
		{"worker", r.mint(), "the worker could not be started"},
	} {
		for _, protocol := range []string{"", "2025-11-25"} {
			_, err := r.connect(ctx, "HTTP/1.1", c.token, protocol, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %q: %v, want %q", c.name, protocol, err, c.want)
			}
		}
	}
}

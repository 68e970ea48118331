//lint:file-ignore SA1019 sampling and roots are deprecated as of 2026-07-28, and older clients and servers use them

package router

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse/session/sessiontest"
)

// official is the official Go SDK's server as a stdio worker of these versions.
func official(versions ...string) *sessiontest.Spawner {
	return &sessiontest.Spawner{Worker: func(p *sessiontest.Process) int {
		s := mcp.NewServer(&mcp.Implementation{Name: "official", Version: "1"}, &mcp.ServerOptions{
			SupportedProtocolVersions: versions,
			SubscribeHandler:          func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler:        func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		})
		text := func(format string, args ...any) *mcp.CallToolResult {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
		}
		cancelled := make(chan struct{}, 8)
		tool := func(name string, h func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult) {
			mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, q *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
				return h(ctx, q), nil, nil
			})
		}
		tool("greet", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return text("hi") })
		tool("progress", func(ctx context.Context, q *mcp.CallToolRequest) *mcp.CallToolResult {
			q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: 0.5})
			return text("done")
		})
		tool("wait", func(ctx context.Context, _ *mcp.CallToolRequest) *mcp.CallToolResult {
			<-ctx.Done()
			cancelled <- struct{}{}
			return text("late")
		})
		tool("was cancelled", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult {
			select {
			case <-cancelled:
				return text("yes")
			case <-time.After(5 * time.Second):
				return text("no")
			}
		})
		tool("ask", func(_ context.Context, q *mcp.CallToolRequest) *mcp.CallToolResult {
			var name, said string
			roots := -1
			if r, ok := q.Params.InputResponses["name"].(*mcp.ElicitResult); ok {
				name, _ = r.Content["name"].(string)
			}
			if r, ok := q.Params.InputResponses["say"].(*mcp.CreateMessageWithToolsResult); ok && len(r.Content) == 1 {
				said = r.Content[0].(*mcp.TextContent).Text
			}
			if r, ok := q.Params.InputResponses["roots"].(*mcp.ListRootsResult); ok {
				roots = len(r.Roots)
			}
			if name == "" {
				return &mcp.CallToolResult{RequestState: "asked", InputRequests: mcp.InputRequestMap{
					"name":  &mcp.ElicitParams{Message: "Name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}},
					"say":   &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Say"}}}},
					"roots": &mcp.ListRootsParams{},
				}}
			}
			return text("%s %s %d %s", name, said, roots, q.Params.RequestState)
		})
		tool("change", func(ctx context.Context, _ *mcp.CallToolRequest) *mcp.CallToolResult {
			tool("another", func(context.Context, *mcp.CallToolRequest) *mcp.CallToolResult { return text("") })
			s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "a:b"})
			return text("changed")
		})
		s.AddResource(&mcp.Resource{Name: "r", URI: "a:b"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "a:b", Text: "r"}}}, nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			<-p.Killed
			cancel()
		}()
		if err := s.Run(ctx, &mcp.IOTransport{Reader: p.In, Writer: p.Out}); err != nil {
			fmt.Fprintln(p.Err, err)
		}
		io.Copy(io.Discard, p.In)
		return 0
	}}
}

// TestGrid: the official Go client of either era does everything with the official Go
// server of either era behind the same endpoint.
func TestGrid(t *testing.T) {
	for worker, sp := range map[string]*sessiontest.Spawner{
		"legacy": official("2025-06-18", "2025-11-25"), "both": official(),
		"modern": {Worker: sessiontest.OnlyModern(official().Worker)},
	} {
		for client, protocol := range map[string]string{"modern": "", "legacy": "2025-11-25", "older": "2025-06-18"} {
			t.Run(client+" client, worker of "+worker, func(t *testing.T) { grid(t, sp, protocol) })
		}
	}
}

// grid does one of everything.
func grid(t *testing.T, sp *sessiontest.Spawner, protocol string) {
	r := newRig(t, sp)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	heard := make(chan string, 64)
	o := &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) { heard <- "progress" },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { heard <- "tools" },
		ResourceUpdatedHandler:      func(_ context.Context, q *mcp.ResourceUpdatedNotificationRequest) { heard <- "updated " + q.Params.URI },
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "said"}}, nil
		},
	}
	s, err := r.connect(ctx, "HTTP/1.1", r.mint(), protocol, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if l, err := s.ListTools(ctx, nil); err != nil || len(l.Tools) < 6 {
		t.Errorf("list: %+v, %v", l, err)
	}
	call := func(name, want string) {
		t.Helper()
		p := &mcp.CallToolParams{Name: name}
		p.SetProgressToken("p")
		res, err := s.CallTool(ctx, p)
		if err != nil || len(res.Content) != 1 || res.Content[0].(*mcp.TextContent).Text != want {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	hears := func(want ...string) {
		t.Helper()
		for len(want) > 0 {
			select {
			case got := <-heard:
				want = slices.DeleteFunc(want, func(s string) bool { return s == got })
			case <-time.After(5 * time.Second):
				t.Errorf("%q did not come", want)
				return
			}
		}
	}
	call("greet", "hi")
	call("progress", "done")
	hears("progress")
	call("ask", "Ann said 0 asked")
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	if _, err := s.CallTool(short, &mcp.CallToolParams{Name: "wait"}); err == nil {
		t.Error("a call that was given up has an answer")
	}
	stop()
	call("was cancelled", "yes")
	if err := s.Subscribe(ctx, &mcp.SubscribeParams{URI: "a:b"}); err != nil {
		t.Errorf("subscribe: %v", err)
	}
	time.Sleep(100 * time.Millisecond) // streams open in the background
	call("change", "changed")
	hears("updated a:b", "tools")
	if res, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "a:b"}); err != nil || len(res.Contents) != 1 {
		t.Errorf("read: %+v, %v", res, err)
	}
}

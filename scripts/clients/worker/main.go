// Command worker is the stdio MCP server behind the client tests, written with
// the official Go SDK. Its tools are what the tests need to see: an answer, who
// the process is, progress, a call that takes long, whether such a call was cancelled,
// questions to the client, and changes that it hears of.
package main

//lint:file-ignore SA1019 sampling and roots are deprecated as of 2026-07-28, and older clients and servers use them

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/user"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type none struct{}

type echoArgs struct {
	Text string `json:"text"`
}

type slowArgs struct {
	Seconds float64 `json:"seconds"`
}

// cancelled counts the slow calls that were cancelled since somebody asked: one
// process may serve several runs of a client.
var cancelled atomic.Int32

func text(format string, a ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, a...)}}}
}

func echo(_ context.Context, _ *mcp.CallToolRequest, a echoArgs) (*mcp.CallToolResult, any, error) {
	return text("%s", a.Text), nil, nil
}

// whoami names the account and the process, so that a test can tell two
// sessions apart.
func whoami(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
	name := fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return text("account=%s uid=%d pid=%d", name, os.Getuid(), os.Getpid()), nil, nil
}

func progress(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
	if token := r.Params.GetProgressToken(); token != nil {
		for i := range 3 {
			p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3, Message: "step"}
			if err := r.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return text("done"), nil, nil
}

func slow(ctx context.Context, _ *mcp.CallToolRequest, a slowArgs) (*mcp.CallToolResult, any, error) {
	select {
	case <-ctx.Done():
		cancelled.Add(1)
		return nil, nil, ctx.Err()
	case <-time.After(time.Duration(a.Seconds * float64(time.Second))):
		return text("slept"), nil, nil
	}
}

// cancellations answers after at most a second: the cancellation of a call and
// this question may reach the process close together.
func cancellations(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
	for range 20 {
		if cancelled.Load() > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return text("cancelled=%d", cancelled.Swap(0)), nil, nil
}

// ask wants a name of the user and a line of the client's model, in whichever way
// the client's protocol version has.
func ask(_ context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
	name, said := "nobody", "nothing"
	if a, ok := r.Params.InputResponses["name"].(*mcp.ElicitResult); ok && a.Action == "accept" {
		name = fmt.Sprint(a.Content["name"])
	}
	if a, ok := r.Params.InputResponses["line"].(*mcp.CreateMessageWithToolsResult); ok && len(a.Content) == 1 {
		if t, ok := a.Content[0].(*mcp.TextContent); ok {
			said = t.Text
		}
	}
	if len(r.Params.InputResponses) > 0 {
		return text("ask %s %s", name, said), nil, nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
		"name": &mcp.ElicitParams{Message: "Name?", RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}}},
		"line": &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "A line"}}}},
	}}, nil, nil
}

// resource is what clients subscribe to.
const resource = "test://resource"

// change says that the resource was updated, and changes the list of tools back and
// forth.
func change(s *mcp.Server) mcp.ToolHandlerFor[none, any] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		mcp.AddTool(s, &mcp.Tool{Name: "another"}, change(s))
		s.RemoveTools("another")
		err := s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: resource})
		return text("changed"), nil, err
	}
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "client-test-worker", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	s.AddResource(&mcp.Resource{Name: "resource", URI: resource}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: resource, Text: "text"}}}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns the text."}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "whoami", Description: "Names the account and the process."}, whoami)
	mcp.AddTool(s, &mcp.Tool{Name: "progress", Description: "Reports progress three times."}, progress)
	mcp.AddTool(s, &mcp.Tool{Name: "slow", Description: "Takes so many seconds."}, slow)
	mcp.AddTool(s, &mcp.Tool{Name: "cancellations", Description: "Counts the cancelled calls of slow."}, cancellations)
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "Asks the user and the model."}, ask)
	mcp.AddTool(s, &mcp.Tool{Name: "change", Description: "Changes what clients listen to."}, change(s))
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse/toolsets"
)

// Server is what Serve needs to know beside the tools.
type Server struct {
	Name, Version string
	Title         string // which instance; empty for none
	Instructions  string // empty for none
	Log           *slog.Logger
}

// Serve speaks MCP over in and out, newline-delimited, until in ends or ctx
// does. It serves the eras that the SDK knows (2024-11-05 to 2026-07-28). The
// end of the input is a clean end and no error.
func Serve(ctx context.Context, s Server, r *toolsets.Registry, in io.ReadCloser, out io.Writer) error {
	server := mcp.NewServer(
		&mcp.Implementation{Name: s.Name, Version: s.Version, Title: s.Title},
		&mcp.ServerOptions{
			Instructions: s.Instructions,
			Logger:       s.Log,
			PageSize:     1 << 20, // the whole registry in one page
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		})
	for _, t := range r.Tools() {
		server.AddTool(describe(t), handler(r, t.Name))
	}
	server.AddReceivingMiddleware(refuseCursors)
	end := &ender{w: out}
	err := server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: end})
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

// ender lets the SDK close our output without closing the descriptor.
type ender struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (e *ender) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w == nil {
		return 0, io.ErrClosedPipe
	}
	return e.w.Write(p)
}

func (e *ender) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w = nil
	return nil
}

func describe(t *toolsets.Tool) *mcp.Tool {
	closed, destructive := false, t.Destructive
	tool := &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchema: t.InputSchema(),
		Annotations: &mcp.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destructive,
			IdempotentHint: t.Idempotent, OpenWorldHint: &closed,
		},
	}
	if out := t.OutputSchema(); out != nil {
		tool.OutputSchema = out
	}
	return tool
}

func handler(r *toolsets.Registry, name string) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		a, err := r.Run(ctx, name, req.Params.Arguments, progress(ctx, req))
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
		res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}, IsError: a.IsError}
		if a.Data != nil {
			res.StructuredContent = json.RawMessage(a.Data)
		}
		return res, nil
	}
}

// progress returns a reporter for calls whose client sent a progress token, nil
// for the others. The protocol wants the figure to rise with every message.
func progress(ctx context.Context, req *mcp.CallToolRequest) func(done, total int, message string) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return nil
	}
	var mu sync.Mutex // guards last and keeps the messages in order
	last := -1.0
	return func(done, total int, message string) {
		mu.Lock()
		defer mu.Unlock()
		if float64(done) <= last {
			return
		}
		last = float64(done)
		// A progress message that can't be sent is no reason to stop the work.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: last, Total: float64(total), Message: message})
	}
}

// refuseCursors answers a cursor with invalid params: every list is one page, so
// no cursor can have come from us.
func refuseCursors(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if r, ok := req.(*mcp.ListToolsRequest); ok && r.Params != nil && r.Params.Cursor != "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor: the list is one page"}
		}
		return next(ctx, method, req)
	}
}

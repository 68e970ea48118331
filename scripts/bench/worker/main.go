// Command worker is the smallest stdio MCP server that a benchmark can stand
// behind a front end: initialize, ping, tools/list and one tool, echo.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// message is one JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// echo is the one tool.
var echo = map[string]any{"name": "echo", "description": "Say it again.", "inputSchema": map[string]any{
	"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		var m message
		if len(line) > 1 && json.Unmarshal(line, &m) == nil && m.ID != nil && m.Method != "" {
			reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
			if result := answer(m); result != nil {
				reply["result"] = result
			} else {
				reply["error"] = map[string]any{"code": -32601, "message": "method not found"}
			}
			b, _ := json.Marshal(reply)
			out.Write(append(b, '\n'))
			out.Flush()
		}
		if err != nil {
			return
		}
	}
}

// answer returns the result of a request, nil for a method that is not served.
func answer(m message) any {
	switch m.Method {
	case "initialize":
		var p struct{ ProtocolVersion string }
		json.Unmarshal(m.Params, &p)
		return map[string]any{"protocolVersion": p.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "bench-worker", "version": "1"}}
	case "ping":
		return map[string]any{}
	case "tools/list":
		return map[string]any{"tools": []any{echo}}
	case "tools/call":
		var p struct{ Arguments struct{ Text string } }
		json.Unmarshal(m.Params, &p)
		text := fmt.Sprintf("pid=%d uid=%d %s", os.Getpid(), os.Getuid(), p.Arguments.Text)
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
	}
	return nil
}

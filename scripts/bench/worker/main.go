// Command worker is the smallest stdio MCP server that a benchmark can stand
// behind a front end, in either era of the protocol:
//
//	worker [-era legacy|modern] [-notify 1s] [-start 200ms]
//
// Its tools are echo, blob (a result of so many bytes) and flood (as many bytes of
// notifications before the result). With -notify it sends one more notification each
// interval, once a client is there. With -start it takes its time before it reads, as
// a worker that loads much does.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// message is one JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// notice is what -notify sends.
const notice = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"bench","data":"one more second has passed"}}`

const modernVersion = "2026-07-28"

// worker is the server.
type worker struct {
	modern bool
	mu     sync.Mutex // guards out
	out    *bufio.Writer
}

func main() {
	era := flag.String("era", "legacy", "legacy or modern: what it speaks; the other is refused")
	notify := flag.Duration("notify", 0, "how often to send a notification; 0: never")
	start := flag.Duration("start", 0, "how long it takes to start")
	flag.Parse()
	time.Sleep(*start)
	w := &worker{modern: *era == "modern", out: bufio.NewWriterSize(os.Stdout, 64<<10)}
	if err := w.serve(bufio.NewReaderSize(os.Stdin, 64<<10), *notify); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// serve answers until there is nothing more to read.
func (w *worker) serve(in *bufio.Reader, notify time.Duration) error {
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var m message
		if json.Unmarshal(line, &m) != nil || m.Method == "" {
			continue
		}
		if m.ID == nil {
			if m.Method == "notifications/initialized" && notify > 0 {
				go w.tick(notify)
			}
			continue
		}
		reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
		if result := w.answer(m); result != nil {
			if w.modern {
				result["resultType"] = "complete"
			}
			reply["result"] = result
		} else {
			reply["error"] = map[string]any{"code": -32601, "message": "method not found"}
		}
		b, _ := json.Marshal(reply) // maps of what can be encoded
		if err := w.line(b); err != nil {
			return err
		}
	}
}

// tick sends a notification each interval.
func (w *worker) tick(interval time.Duration) {
	for range time.Tick(interval) {
		if w.line([]byte(notice)) != nil {
			return // the reader of main ends the process
		}
	}
}

func (w *worker) line(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out.Write(b)
	w.out.WriteByte('\n')
	return w.out.Flush()
}

var (
	tools = map[string]any{"tools": map[string]any{}}
	info  = map[string]any{"name": "bench-worker", "version": "1"}
)

// answer returns the result of a request, nil for a method that is not served.
func (w *worker) answer(m message) map[string]any {
	switch {
	case m.Method == "initialize" && !w.modern:
		var p struct{ ProtocolVersion string }
		json.Unmarshal(m.Params, &p)
		return map[string]any{"protocolVersion": p.ProtocolVersion, "capabilities": tools, "serverInfo": info}
	case m.Method == "server/discover" && w.modern:
		return map[string]any{"supportedVersions": []string{modernVersion}, "capabilities": tools, "ttlMs": 0, "cacheScope": "private",
			"_meta": map[string]any{"io.modelcontextprotocol/serverInfo": info}}
	case m.Method == "ping" && !w.modern:
		return map[string]any{}
	case m.Method == "tools/list":
		return map[string]any{"tools": []any{tool("echo", "text", "string"), tool("blob", "bytes", "integer"), tool("flood", "bytes", "integer")}}
	case m.Method == "tools/call":
		return w.call(m)
	}
	return nil
}

func tool(name, argument, kind string) map[string]any {
	return map[string]any{"name": name, "inputSchema": map[string]any{
		"type": "object", "properties": map[string]any{argument: map[string]any{"type": kind}}}}
}

func (w *worker) call(m message) map[string]any {
	var p struct {
		Name      string
		Arguments struct {
			Text  string
			Bytes int
		}
	}
	json.Unmarshal(m.Params, &p)
	text := p.Arguments.Text
	switch p.Name {
	case "echo":
		text = fmt.Sprintf("pid=%d uid=%d %s", os.Getpid(), os.Getuid(), text)
	case "blob":
		text = strings.Repeat("x", p.Arguments.Bytes)
	case "flood":
		const each = 16 << 10
		b := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, strings.Repeat("x", each))
		for sent := 0; sent < p.Arguments.Bytes; sent += each {
			if w.line(b) != nil {
				break // the answer finds the same
			}
		}
	}
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
}

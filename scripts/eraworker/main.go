// Command eraworker is a stdio MCP server that speaks one era of the protocol and
// refuses the other, for tests: it runs a server that speaks both, passes on what
// belongs to the era, and does itself what that server can't do in one era alone.
//
//	eraworker legacy PROGRAM [ARG…]   refuses server/discover and everything modern
//	eraworker modern PROGRAM [ARG…]   refuses initialize and everything legacy
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

func main() {
	if len(os.Args) < 3 || os.Args[1] != "legacy" && os.Args[1] != "modern" {
		fmt.Fprintln(os.Stderr, "usage: eraworker legacy|modern PROGRAM [ARG…]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "eraworker:", err)
		os.Exit(1)
	}
}

// message is one JSON-RPC message; what is not named here is passed on as it came.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params params          `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

type params struct {
	Name      string                     `json:"name"`
	Message   string                     `json:"message"`
	Arguments map[string]any             `json:"arguments"`
	Responses map[string]json.RawMessage `json:"inputResponses"`
	Meta      map[string]json.RawMessage `json:"_meta"`
}

// wrapper stands between the front end and the server that speaks both eras.
type wrapper struct {
	toServer io.WriteCloser
	mu       sync.Mutex // guards what follows, and writes
	asked    map[string]chan message
	last     int
}

func run(era string, argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := &wrapper{toServer: in, asked: map[string]chan message{}}
	fromClient, fromServer := w.legacyClient, w.legacyServer
	if era == "modern" {
		fromClient, fromServer = w.modernClient, func([]byte, message) bool { return false }
	}
	done := make(chan error, 1)
	go func() { done <- each(out, func(line []byte, m message) { w.pass(os.Stdout, fromServer, line, m) }) }()
	if err := each(os.Stdin, func(line []byte, m message) { w.pass(in, fromClient, line, m) }); err != nil {
		return err
	}
	in.Close()
	if err := <-done; err != nil {
		return err
	}
	return cmd.Wait()
}

// pass hands a line on unless take has dealt with it.
func (w *wrapper) pass(dst io.Writer, take func([]byte, message) bool, line []byte, m message) {
	if !take(line, m) {
		w.write(dst, line)
	}
}

func (w *wrapper) write(dst io.Writer, line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dst.Write(append(append([]byte(nil), line...), '\n')) // a reader that is gone ends the other loop
}

// each calls f with every message of r.
func each(r io.Reader, f func([]byte, message)) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), 64<<20)
	for s.Scan() {
		var m message
		json.Unmarshal(s.Bytes(), &m) // what is none is passed on
		f(s.Bytes(), m)
	}
	return s.Err()
}

// answer sends a result to the front end.
func (w *wrapper) answer(id json.RawMessage, result any) {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	if err != nil {
		panic(err) // results are made of maps
	}
	w.write(os.Stdout, b)
}

// refuse sends an error to the front end.
func (w *wrapper) refuse(id json.RawMessage, code int, text string, data any) {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text, "data": data}})
	if err != nil {
		panic(err)
	}
	w.write(os.Stdout, b)
}

// text is the result of a tool that says one thing.
func text(format string, args ...any) map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": fmt.Sprintf(format, args...)}}}
}

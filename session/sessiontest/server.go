package sessiontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Server is a small stdio MCP server whose tools do what their names say, good and
// bad; see tools.go. Run it as a Func.
type Server struct {
	// Version is what it answers initialize with; empty: what the client asked for.
	Version string
	// Era is which era it speaks: empty or "legacy", "modern", or "both".
	Era string
	// Capabilities is what it declares; empty: tools and logging.
	Capabilities string
	// OnInitialized runs when the client says that it is initialized.
	OnInitialized func(*Conn)
}

// Run serves until its input ends.
func (s Server) Run(p *Process) int {
	c := &Conn{p: p, server: s, asked: map[int]chan message{}, exit: make(chan int, 1), ended: make(chan struct{})}
	defer close(c.ended)
	go func() {
		c.serve()
		c.Exit(0)
	}()
	select {
	case code := <-c.exit:
		return code
	case <-p.Killed:
		return -1
	}
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Conn is the server's end of the conversation. It is safe for concurrent use.
type Conn struct {
	p      *Process
	server Server
	exit   chan int
	ended  chan struct{} // closed when Run returns

	mu        sync.Mutex // guards what follows and writes
	asked     map[int]chan message
	lastAsk   int
	cancelled []string        // requestIds, as they came
	listening map[string]bool // ids of subscriptions
	initParam json.RawMessage
}

// Exit ends the worker.
func (c *Conn) Exit(code int) {
	select {
	case c.exit <- code:
	default:
	}
}

// Write writes text to stdout as it is.
func (c *Conn) Write(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.p.Out.Write([]byte(text))
}

// Line writes a formatted line.
func (c *Conn) Line(format string, args ...any) { c.Write(fmt.Sprintf(format, args...) + "\n") }

// Notify sends a notification.
func (c *Conn) Notify(method, params string) {
	c.Line(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
}

// Ask sends a request to the client and waits for the answer: the result, or the
// error, as JSON.
func (c *Conn) Ask(method, params string) string {
	ch := make(chan message, 1)
	c.mu.Lock()
	c.lastAsk++
	id := c.lastAsk
	c.asked[id] = ch
	c.mu.Unlock()
	c.Line(`{"jsonrpc":"2.0","id":"ask-%d","method":%q,"params":%s}`, id, method, params)
	select {
	case m := <-ch:
		if m.Error != nil {
			return "error " + string(m.Error)
		}
		return string(m.Result)
	case <-c.ended:
		return "ended"
	}
}

// sleep waits for d, or for the end of the worker.
func (c *Conn) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ended:
	}
}

func (c *Conn) result(id json.RawMessage, result string) {
	c.Line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// text answers a tool call with one text.
func (c *Conn) text(id json.RawMessage, text string) {
	quoted, _ := json.Marshal(text)
	kind := ""
	if c.server.Era == "modern" || c.server.Era == "both" {
		kind = `,"resultType":"complete"`
	}
	c.result(id, `{"content":[{"type":"text","text":`+string(quoted)+`}]`+kind+`}`)
}

func (c *Conn) serve() {
	in := bufio.NewReader(c.p.In)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintf(c.p.Err, "bad line: %v\n", err)
			c.Exit(9)
			return
		}
		c.handle(m)
	}
}

func (c *Conn) handle(m message) {
	switch {
	case m.Method == "":
		c.answered(m)
	case m.ID == nil:
		c.notified(m)
	case m.Method == "initialize" && c.server.Era == "modern":
		c.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method: this server speaks 2026-07-28"}}`, m.ID)
	case m.Method == "initialize":
		c.initialize(m)
	case c.server.Era != "" && c.server.Era != "legacy" && c.modern(m):
	case m.Method == "ping":
		c.result(m.ID, `{}`)
	case m.Method == "tools/list":
		c.result(m.ID, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case m.Method == "tools/call":
		var p call
		if err := json.Unmarshal(m.Params, &p); err != nil || tools[p.Name] == nil {
			c.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown tool"}}`, m.ID)
			return
		}
		p.id = m.ID
		if p.Name == "echo" && p.Arguments.MS == 0 {
			echo(c, p)
			return
		}
		if p.Name == "block" {
			block(c, p)
			return
		}
		go tools[p.Name](c, p)
	default:
		c.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID)
	}
}

func (c *Conn) initialize(m message) {
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(m.Params, &p)
	if c.server.Version != "" {
		p.ProtocolVersion = c.server.Version
	}
	c.mu.Lock()
	c.initParam = m.Params
	c.mu.Unlock()
	c.result(m.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"sessiontest","version":"1"}}`, p.ProtocolVersion, c.server.capabilities()))
}

func (c *Conn) answered(m message) {
	var id string
	var n int
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	if _, err := fmt.Sscanf(id, "ask-%d", &n); err != nil {
		return
	}
	c.mu.Lock()
	ch := c.asked[n]
	delete(c.asked, n)
	c.mu.Unlock()
	if ch != nil {
		ch <- m
	}
}

func (c *Conn) notified(m message) {
	switch m.Method {
	case "notifications/initialized":
		if c.server.OnInitialized != nil {
			go c.server.OnInitialized(c)
		}
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &p)
		c.mu.Lock()
		id := strings.TrimSpace(string(p.RequestID))
		c.cancelled = append(c.cancelled, id)
		listening := c.listening[id]
		delete(c.listening, id)
		c.mu.Unlock()
		if listening {
			c.result(p.RequestID, `{"resultType":"complete"}`)
		}
	}
}

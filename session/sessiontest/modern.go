package sessiontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

func (s Server) capabilities() string {
	if s.Capabilities == "" {
		return `{"tools":{},"logging":{}}`
	}
	return s.Capabilities
}

// modern answers what only the modern era has, and refuses there what a worker of
// that era alone does not know. It reports whether it did.
func (c *Conn) modern(m message) bool {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p) // no _meta is what is asked for
	_, modern := p.Meta["io.modelcontextprotocol/protocolVersion"]
	switch {
	case !modern && c.server.Era == "modern":
		c.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no protocol version in _meta"}}`, m.ID)
	case !modern:
		return false
	case m.Method == "server/discover":
		c.result(m.ID, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+c.server.capabilities()+
			`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"sessiontest","version":"1"}}}`)
	case m.Method == "tools/list":
		c.result(m.ID, `{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"private"}`)
	case m.Method == "subscriptions/listen":
		c.mu.Lock()
		if c.listening == nil {
			c.listening = map[string]bool{}
		}
		c.listening[string(m.ID)] = true
		c.mu.Unlock()
		var f struct {
			Notifications json.RawMessage `json:"notifications"`
		}
		_ = json.Unmarshal(m.Params, &f) // what comes is acknowledged as it is
		c.Notify("notifications/subscriptions/acknowledged", fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, f.Notifications))
	default:
		return false
	}
	return true
}

// change sends a notification about something that changed: to each subscription in
// the modern era.
func change(c *Conn, p call) {
	c.mu.Lock()
	var ids []string
	for id := range c.listening {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	uri := ""
	if p.Arguments.Text != "" {
		uri = fmt.Sprintf(`"uri":%q`, p.Arguments.Text)
	}
	for _, id := range ids {
		params := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
		if uri != "" {
			params += "," + uri
		}
		c.Notify(p.Arguments.Method, params+"}")
	}
	if len(ids) == 0 {
		c.Notify(p.Arguments.Method, "{"+uri+"}")
	}
	c.text(p.id, "changed")
}

// who answers with whom the worker serves, text, and the progress token, after a
// progress notification that says the same.
func who(c *Conn, p call) {
	said := c.p.Request.Token + " " + p.Arguments.Text
	if p.Meta.ProgressToken != nil {
		quoted, _ := json.Marshal(said)
		c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":1,"message":%s}`, p.Meta.ProgressToken, quoted))
	}
	c.text(p.id, said)
}

// input asks n times for something in the modern way, and answers with what it got.
func input(c *Conn, p call) {
	round := 0
	if p.RequestState != "" {
		if _, err := fmt.Sscanf(p.RequestState, "round %d", &round); err != nil {
			c.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad state"}}`, p.id)
			return
		}
	}
	if round >= max(p.Arguments.N, 1) {
		c.text(p.id, fmt.Sprintf("%s %s", p.RequestState, p.InputResponses))
		return
	}
	method := p.Arguments.Method
	if method == "" {
		method = "elicitation/create"
	}
	c.result(p.id, fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"k%d":{"method":%q,"params":%s}},"requestState":"round %d"}`, round+1, method, p.params(), round+1))
}

// OnlyModern is f without initialize: such requests are refused before f sees them.
func OnlyModern(f Func) Func {
	return func(p *Process) int {
		in, w := io.Pipe()
		inner := *p
		inner.In = in
		go func() {
			lines := bufio.NewScanner(p.In)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				var m message
				_ = json.Unmarshal(lines.Bytes(), &m) // what is none is f's affair
				if m.Method == "initialize" {
					fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"this server speaks 2026-07-28"}}`+"\n", m.ID)
					continue
				}
				if _, err := w.Write(append(lines.Bytes(), '\n')); err != nil {
					return
				}
			}
			_ = w.Close()
		}()
		return f(&inner)
	}
}

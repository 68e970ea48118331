package sessiontest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// call is a tools/call request. Which arguments matter depends on the tool.
type call struct {
	Name      string `json:"name"`
	Arguments struct {
		Text   string          `json:"text"`
		MS     int             `json:"ms"` // wait before the answer, or between steps
		N      int             `json:"n"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"arguments"`
	Meta struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	} `json:"_meta"`
	RequestState   string          `json:"requestState"`
	InputResponses json.RawMessage `json:"inputResponses"`

	id json.RawMessage
}

func (p call) wait(c *Conn) { c.sleep(time.Duration(p.Arguments.MS) * time.Millisecond) }

// params is what the tool was told to send, {} by default.
func (p call) params() string {
	if p.Arguments.Params == nil {
		return "{}"
	}
	return string(p.Arguments.Params)
}

// The tools of Server. Arguments: text, ms, n, method, params.
var tools map[string]func(*Conn, call)

func init() {
	tools = map[string]func(*Conn, call){
		"echo":       echo,      // answers with text, after ms
		"big":        big,       // answers with n bytes, after ms
		"token":      token,     // answers with the progress token that it sees
		"progress":   progress,  // n progress notifications, ms apart, then an answer
		"notify":     notify,    // n notifications of that method, then an answer
		"ask":        ask,       // asks the client, and answers with what it got
		"cancelled":  cancelled, // answers with the requestIds that were cancelled
		"initialize": initParam, // answers with the params of initialize
		"stderr":     stderr,    // writes n bytes to stderr, in lines when text is "lines"
		"never":      func(*Conn, call) {},
		"die":        func(c *Conn, p call) { p.wait(c); c.Exit(p.Arguments.N) },
		"close":      func(c *Conn, _ call) { _ = c.p.Out.Close() }, // closes stdout and lives on
		"raw":        func(c *Conn, p call) { c.Write(p.Arguments.Text) },
		"foreign":    foreign, // answers an id that it was not given
		"twice":      twice,   // answers twice
		"flood":      flood,   // n notifications as fast as it can, then an answer
		"no-newline": noNewline,
		"need":       need,   // asks, and fails with an error when the answer is one
		"change":     change, // a notification of that method; text is its uri
		"who":        who,
		"input":      input, // asks n times by input_required, then answers
		"ping":       func(c *Conn, p call) { c.text(p.id, c.Ask("ping", "{}")) },
		"block":      block, // reads nothing until ms have passed or, with the text "obeys", a SIGINT comes
		"batch":      batch, // a log message and the answer in one array
	}
}

func echo(c *Conn, p call) {
	if p.Arguments.MS > 0 {
		p.wait(c)
	}
	c.text(p.id, p.Arguments.Text)
}

func block(c *Conn, p call) {
	var interrupted <-chan struct{}
	if p.Arguments.Text == "obeys" {
		interrupted = c.p.Interrupted
	}
	var timer <-chan time.Time
	if p.Arguments.MS > 0 {
		timer = time.After(time.Duration(p.Arguments.MS) * time.Millisecond)
	}
	select {
	case <-interrupted:
	case <-timer:
	case <-c.p.Killed:
		return
	}
	c.text(p.id, "unblocked")
}

func big(c *Conn, p call) {
	p.wait(c)
	c.text(p.id, strings.Repeat("x", p.Arguments.N))
}

func token(c *Conn, p call) { c.text(p.id, string(p.Meta.ProgressToken)) }

func progress(c *Conn, p call) {
	for i := range p.Arguments.N {
		if p.Meta.ProgressToken != nil {
			c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, p.Meta.ProgressToken, i+1))
		}
		p.wait(c)
	}
	c.text(p.id, p.Arguments.Text)
}

func notify(c *Conn, p call) {
	for range max(p.Arguments.N, 1) {
		c.Notify(p.Arguments.Method, p.params())
		p.wait(c)
	}
	c.text(p.id, p.Arguments.Text)
}

func ask(c *Conn, p call) { c.text(p.id, c.Ask(p.Arguments.Method, p.params())) }

func need(c *Conn, p call) {
	if answer := c.Ask(p.Arguments.Method, p.params()); strings.HasPrefix(answer, "error") {
		c.Line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"failed"}}`, p.id)
		return
	}
	c.text(p.id, "done")
}

func cancelled(c *Conn, p call) {
	c.mu.Lock()
	ids := strings.Join(c.cancelled, " ")
	c.mu.Unlock()
	c.text(p.id, ids)
}

func initParam(c *Conn, p call) {
	c.mu.Lock()
	params := string(c.initParam)
	c.mu.Unlock()
	c.text(p.id, params)
}

func stderr(c *Conn, p call) {
	_, _ = c.p.Err.Write([]byte(noise(p.Arguments.N, p.Arguments.Text == "lines")))
	c.text(p.id, "done")
}

// noise is n bytes, in lines of 80 or in one.
func noise(n int, lines bool) string {
	if lines {
		return strings.Repeat(strings.Repeat("e", 79)+"\n", n/80+1)[:n]
	}
	return strings.Repeat("e", n)
}

func foreign(c *Conn, p call) {
	c.Line(`{"jsonrpc":"2.0","id":%s00,"result":{"content":[]}}`, p.id)
}

func twice(c *Conn, p call) {
	c.text(p.id, "once")
	c.text(p.id, "again")
}

func flood(c *Conn, p call) {
	for i := range p.Arguments.N {
		c.Notify("notifications/message", fmt.Sprintf(`{"level":"info","data":%d}`, i))
	}
	c.text(p.id, "done")
}

func noNewline(c *Conn, _ call) {
	for range 1 << 10 {
		c.Write(strings.Repeat("x", 64<<10))
	}
}

func batch(c *Conn, p call) {
	c.Line(`[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}},{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}]`, p.id)
}

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// client is one MCP client with a session of its own, where the era has sessions.
type client interface {
	open() error
	call(id int64) error
	close() error
}

// newClients makes clients without opening them.
func newClients(o *options) ([]client, error) {
	if o.monitor == nil {
		var err error
		if o.tokens, err = lines(o.tokenFile); err != nil {
			return nil, err
		}
	}
	out := make([]client, o.clients)
	for i := range out {
		switch token := pick(o.tokens, i); o.mode {
		case "stdio":
			out[i] = &stdioClient{cmd: o.cmd, lineClient: lineClient{script: newScript(o)}}
		case "monitor":
			out[i] = &spawnedClient{monitor: o.monitor, token: token, lineClient: lineClient{script: newScript(o)}}
		default:
			out[i] = newRaw(o, token)
		}
	}
	return out, nil
}

func pick(tokens []string, i int) string {
	if len(tokens) == 0 {
		return ""
	}
	return tokens[i%len(tokens)]
}

// openClients makes clients, each with a session and one call behind it.
func openClients(o *options) ([]client, error) {
	clients, err := newClients(o)
	if err != nil {
		return nil, err
	}
	for i, c := range clients {
		if i == 0 {
			err = patiently(o.patience, func() error { return ready(c) })
		} else {
			err = ready(c)
		}
		if err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
	}
	return clients, nil
}

func ready(c client) error {
	if err := c.open(); err != nil {
		return err
	}
	return c.call(1)
}

// patiently tries until f succeeds or the time is over: a front end listens before
// it has its issuer's keys.
func patiently(limit time.Duration, f func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if err := f(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

func closeClients(clients []client) error {
	for i, c := range clients {
		if err := c.close(); err != nil {
			return fmt.Errorf("close client %d: %w", i, err)
		}
	}
	return nil
}

// script holds the messages of a client in its era.
type script struct {
	version string
	modern  bool
	text    string // of a call, and of its answer
	named   string // the tool called instead of echo; it gets no arguments
}

func newScript(o *options) script {
	return script{o.version, o.modern, strings.Repeat("x", o.payload), o.tool}
}

// meta is what a request of the modern era has to say each time (2026-07-28, basic/index).
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`

func (s *script) initialize() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`, s.version)
}

// echo appends the call of every client to b: of echo with the text, or of the named tool.
func (s *script) echo(b []byte, id int64) []byte {
	if s.named != "" {
		return s.tool(b, id, s.named, "")
	}
	return s.tool(b, id, "echo", `"text":"`+s.text+`"`)
}

func (s *script) tool(b []byte, id int64, name, arguments string) []byte {
	b = strconv.AppendInt(append(b, `{"jsonrpc":"2.0","id":`...), id, 10)
	b = append(b, `,"method":"tools/call","params":{`...)
	if s.modern {
		b = append(b, meta...)
	}
	b = append(append(b, `"name":"`...), name...)
	b = append(append(b, `","arguments":{`...), arguments...)
	return append(b, "}}}"...)
}

var initialized = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)

// checkAnswer says whether b is a result with that id that holds the text, or of a named tool's success.
func (s *script) checkAnswer(b []byte, id int64) error {
	var want [32]byte
	w := strconv.AppendInt(append(want[:0], `"id":`...), id, 10)
	if !bytes.Contains(b, w) || !bytes.Contains(b, []byte(`"result"`)) {
		return fmt.Errorf("no result with id %d: %.300s", id, b)
	}
	if s.named != "" {
		if bytes.Contains(b, []byte(`"isError":true`)) {
			return fmt.Errorf("%s failed: %.300s", s.named, b)
		}
		return nil
	}
	if !bytes.Contains(b, []byte(s.text)) {
		return fmt.Errorf("the answer lacks the text: %.300s", b)
	}
	return nil
}

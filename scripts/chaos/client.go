package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// patience is how long a call may take at most: the server's request timeout and
// what follows it.
const patience = 45 * time.Second

// client is one client of one user. One goroutine uses it, but for its stream.
type client struct {
	w       *world
	t       *tally
	rand    *rand.Rand
	http    *http.Client
	user    string
	token   string
	until   time.Time
	session string
	n       int
	streams sync.WaitGroup
	drop    context.CancelFunc // of the GET stream
}

func newClient(w *world, t *tally, seed uint64, i int) *client {
	c := &client{w: w, t: t, rand: rand.New(rand.NewPCG(seed, uint64(i))), user: fmt.Sprintf("user%d", i%4)}
	tr := &http.Transport{TLSClientConfig: w.tls.Clone(), Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(i%2 == 0)
	tr.Protocols.SetHTTP2(i%2 == 1)
	c.http = &http.Client{Transport: tr}
	c.refresh(0)
	return c
}

// refresh gets a token that lives for 5 to 40 s, or one that is over when age is
// negative.
func (c *client) refresh(age time.Duration) {
	life := time.Duration(5+c.rand.IntN(36)) * time.Second
	if age < 0 {
		life = age
	}
	c.until = time.Now().Add(life) // before the token is made, which may take a while
	c.token = c.w.mint(c.user, life)
}

// act does one thing.
func (c *client) act() {
	switch {
	case time.Now().After(c.until) && c.rand.IntN(3) > 0:
		c.refresh(0)
	case c.session == "":
		c.open()
	default:
		things[c.rand.IntN(len(things))](c)
	}
	time.Sleep(time.Duration(c.rand.IntN(60)) * time.Millisecond)
}

// things are what a client with a session may do; what is there more than once is
// done more often.
var things = []func(*client){
	calling("echo", 0), calling("echo", 0), calling("echo", 0), calling("echo", 0), calling("echo", 0), calling("echo", 0),
	calling("slow", 400), calling("slow", 1500), calling("block", 300), calling("changed", 0), calling("changed", 0), calling("fork", 0),
	calling("flood", 0), calling("twice", 0), calling("die", 50),
	cancelling("slow", 3000), cancelling("slow", 3000), cancelling("block", 8000), cancelling("stop", 0), cancelling("deaf", 0),
	dropping("slow", 2000), dropping("slow", 300), dropping("echo", 0), dropping("garbage", 0),
	(*client).listen, (*client).listen, (*client).unlisten,
	(*client).abandon, (*client).delete, (*client).expire,
}

func calling(name string, ms int) func(*client) {
	return func(c *client) { c.call(name, ms, 0, 0) }
}

func cancelling(name string, ms int) func(*client) {
	return func(c *client) { c.call(name, ms, time.Duration(1+c.rand.IntN(400))*time.Millisecond, 0) }
}

func dropping(name string, ms int) func(*client) {
	return func(c *client) { c.call(name, ms, 0, time.Duration(1+c.rand.IntN(400))*time.Millisecond) }
}

// request sends one message.
func (c *client) request(ctx context.Context, method, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.w.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	return c.http.Do(r)
}

func (c *client) open() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := c.request(ctx, "POST", initialize)
	if err != nil {
		c.t.fault("initialize of %s: %v", c.user, err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if c.status(resp.StatusCode) {
		if c.session = resp.Header.Get("Mcp-Session-Id"); c.session != "" {
			c.t.add("opened")
		} else {
			c.t.add("not opened: " + kindOf(body))
		}
	}
}

// status takes note of what is no answer; false: there is none to read.
func (c *client) status(code int) bool {
	switch code {
	case 200, 202:
		return true
	case 401: // clients refresh now
		c.t.add("401")
		if time.Now().Before(c.until.Add(-time.Second)) {
			c.t.fault("401 for a token that is good until %v", c.until)
		}
		c.refresh(0)
	case 404: // and begin anew now
		c.t.add("404")
		c.session = ""
	case 429, 503:
		c.t.add(fmt.Sprint(code))
		time.Sleep(200 * time.Millisecond)
	default:
		c.t.fault("status %d", code)
	}
	return false
}

// call does one call; cancel and drop, when not 0, are when to cancel it and when to
// hang up.
func (c *client) call(name string, ms int, cancel, drop time.Duration) {
	c.n++
	id := fmt.Sprintf("%q", fmt.Sprintf("%s-%d", c.user, c.n))
	nonce := fmt.Sprint(c.rand.Uint64())
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	session := c.session
	if drop > 0 {
		defer time.AfterFunc(drop, stop).Stop()
	}
	if cancel > 0 {
		token := c.token
		cancelled := make(chan struct{})
		timer := time.AfterFunc(cancel, func() { defer close(cancelled); c.cancel(session, token, id) })
		defer func() {
			if !timer.Stop() {
				<-cancelled
			}
		}()
	}
	start := time.Now()
	resp, err := c.request(ctx, "POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q,"ms":%d}}}`, id, name, nonce, ms))
	if err != nil {
		c.broken(name, drop, start, err)
		return
	}
	defer resp.Body.Close()
	if !c.status(resp.StatusCode) {
		return
	}
	answers, err := responses(resp)
	if err == nil && len(answers) == 0 {
		err = ctx.Err() // hung up on just now
	}
	if err != nil {
		c.broken(name, drop, start, err)
		return
	}
	c.judge(name, id, nonce, answers, cancel > 0)
}

// broken is a call whose connection ended before its time.
func (c *client) broken(name string, drop time.Duration, start time.Time, err error) {
	switch {
	case drop > 0 && errors.Is(err, context.Canceled):
		c.t.add("dropped")
	case time.Since(start) >= patience:
		c.t.fault("%s: neither answer nor end for %v", name, patience)
	default:
		c.t.add("connection closed")
	}
}

// judge looks at what a call was answered with.
func (c *client) judge(name, id, nonce string, answers [][]byte, cancelled bool) {
	if len(answers) == 0 {
		if !cancelled {
			c.t.fault("%s: the stream ended without an answer", name)
		}
		c.t.add("cancelled")
		return
	}
	if len(answers) > 1 {
		c.t.fault("%s: %d answers", name, len(answers))
	}
	var m struct {
		ID     json.RawMessage
		Result json.RawMessage
	}
	if err := json.Unmarshal(answers[0], &m); err != nil || string(m.ID) != id {
		c.t.fault("%s: answer to %s for %s: %v", name, m.ID, id, err)
		return
	}
	switch {
	case m.Result == nil:
		c.t.add("error " + kindOf(answers[0]))
	case !bytes.Contains(m.Result, []byte(nonce)):
		c.t.fault("%s: somebody else's answer: %.200s", name, m.Result)
	default:
		c.t.add("answered")
	}
}

// responses are the JSON-RPC responses in an answer, whichever form it has.
func responses(resp *http.Response) (out [][]byte, err error) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, err := io.ReadAll(resp.Body)
		if err != nil || len(b) == 0 {
			return nil, err
		}
		return [][]byte{b}, nil
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		data, ok := bytes.CutPrefix(in.Bytes(), []byte("data: {"))
		if ok && !bytes.Contains(data[:min(len(data), 200)], []byte(`"method":`)) {
			out = append(out, append([]byte("{"), data...))
		}
	}
	return out, in.Err()
}

func kindOf(answer []byte) string {
	var m struct {
		Error struct {
			Message string
			Data    struct{ Kind string }
		}
	}
	if json.Unmarshal(answer, &m) != nil || m.Error.Data.Kind == "" {
		return m.Error.Message
	}
	return m.Error.Data.Kind
}

func (c *client) cancel(session, token, id string) {
	r, err := http.NewRequest("POST", c.w.url, strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`))
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", session)
	start := time.Now()
	resp, err := c.http.Do(r)
	if err != nil {
		c.t.fault("cancel: %v", err)
		return
	}
	resp.Body.Close()
	if d := time.Since(start); d > 5*time.Second {
		c.t.fault("a cancel took %v", d)
	}
}

// listen opens the GET stream, and drops the one before.
func (c *client) listen() {
	c.unlisten()
	ctx, cancel := context.WithCancel(context.Background())
	c.drop = cancel
	resp, err := c.request(ctx, "GET", "")
	if err != nil || resp.StatusCode != 200 {
		cancel()
		if err == nil {
			c.status(resp.StatusCode)
			resp.Body.Close()
		}
		return
	}
	c.t.add("listening")
	silent := c.rand.IntN(4) == 0 // such a client is still there and answers no ping
	session, token := c.session, c.token
	c.streams.Go(func() {
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 4<<20)
		for in.Scan() {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			data, ok := strings.CutPrefix(in.Text(), "data: ")
			if !ok || json.Unmarshal([]byte(data), &m) != nil || m.Method != "ping" || silent {
				continue
			}
			c.t.add("ping")
			c.pong(ctx, session, token, m.ID)
		}
	})
}

func (c *client) pong(ctx context.Context, session, token string, id json.RawMessage) {
	r, err := http.NewRequestWithContext(ctx, "POST", c.w.url, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)))
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", session)
	if resp, err := c.http.Do(r); err == nil {
		resp.Body.Close()
	}
}

func (c *client) unlisten() {
	if c.drop != nil {
		c.drop()
		c.drop = nil
	}
}

// abandon forgets the session, as many clients do.
func (c *client) abandon() {
	c.t.add("abandoned")
	if c.rand.IntN(2) == 0 {
		c.unlisten()
	}
	c.session = ""
}

func (c *client) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if resp, err := c.request(ctx, "DELETE", ""); err != nil {
		c.t.fault("DELETE: %v", err)
	} else if resp.Body.Close(); c.status(resp.StatusCode) {
		c.t.add("deleted")
		c.session = ""
	}
}

// expire calls with a token that is over.
func (c *client) expire() {
	c.refresh(-time.Minute)
	c.call("echo", 0, 0, 0)
}

// leave ends all that the client has open, without a word to the server.
func (c *client) leave() {
	c.unlisten()
	c.streams.Wait()
	c.http.CloseIdleConnections()
}

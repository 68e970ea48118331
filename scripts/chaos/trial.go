package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// trial is one promise, kept or broken in real time.
type trial struct {
	*client
	name  string
	err   error
	began time.Time // of what is timed
}

// newTrial is a trial of a user.
func newTrial(w *world, user, name string) *trial {
	t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 7, 0), name: name}
	t.user = user
	t.token = w.mint(user, time.Hour)
	return t
}

// want notes the first thing that is wrong.
func (t *trial) want(ok bool, format string, a ...any) {
	if !ok && t.err == nil {
		t.err = fmt.Errorf(format, a...)
	}
}

// enter opens the trial's session.
func (t *trial) enter() bool {
	t.open()
	return t.session != ""
}

// there reports whether the server still has the session, without a sign of the client.
func (t *trial) there() bool {
	list, err := t.w.sessions()
	t.want(err == nil, "gatehouse sessions: %v", err)
	for _, s := range list {
		if s.Subject == t.user {
			return true
		}
	}
	return false
}

// endAll ends the sessions of the trial's user as an operator does.
func (t *trial) endAll() (string, error) {
	out, err := exec.Command(filepath.Join(t.w.bin, "gatehouse"), "sessions", "--socket", t.w.socket, "end", "--subject", t.user).CombinedOutput()
	return string(out), err
}

// ends waits for the session's end, which has to come between the two times in seconds.
func (t *trial) ends(from, to float64) {
	start := time.Now()
	for t.there() && time.Since(start).Seconds() < to+10 {
		time.Sleep(100 * time.Millisecond)
	}
	d := time.Since(start).Seconds()
	t.want(d >= from-0.6 && d <= to+2.5, "ended after %.1f s, not between %.1f and %.1f", d, from, to) // 2.5: the worker's own end
}

// post sends a message and returns status and body.
func (t *trial) post(body string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := t.request(ctx, "POST", body)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// initialize opens a session.
const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"chaos","version":"1"}}}`

func toolCall(id int, name, text string, ms int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q,"ms":%d}}}`, id, name, text, ms)
}

// get opens a GET stream whose events go to f, and keeps it open until unlisten.
func (t *trial) get(last string, f func(id, data string)) {
	ctx, cancel := context.WithCancel(context.Background())
	t.drop = cancel
	r, err := http.NewRequestWithContext(ctx, "GET", t.w.url, nil)
	if err != nil {
		t.want(false, "%v", err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+t.token)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", t.session)
	if last != "" {
		r.Header.Set("Last-Event-Id", last)
	}
	resp, err := t.http.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.want(false, "GET: %v", err)
		return
	}
	t.streams.Go(func() { read(resp, f) })
}

// read passes the events of a stream on, until it ends.
func read(resp *http.Response, f func(id, data string)) {
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 4<<20)
	id := ""
	for in.Scan() {
		if v, ok := strings.CutPrefix(in.Text(), "id: "); ok {
			id = v
		}
		if v, ok := strings.CutPrefix(in.Text(), "data: "); ok && f != nil {
			f(id, v)
		}
	}
}

// answer answers pings.
func (t *trial) answer(_, data string) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal([]byte(data), &m) == nil && m.Method == "ping" {
		t.pong(context.Background(), t.session, t.token, m.ID)
	}
}

// another is a trial by the same client program, without a session.
func (t *trial) another(user string) *trial {
	return &trial{client: &client{w: t.w, t: t.t, rand: t.rand, http: t.http, user: user, token: t.token, until: t.until}, name: t.name}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// worker is the process of the trial's session.
func (t *trial) worker() int {
	list, _ := t.w.sessions()
	for _, s := range list {
		if s.Subject == t.user {
			return s.PID
		}
	}
	return 0
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// few has few places, keeps nothing of streams, and lets nobody's silence count.
const few = `run_as: shared-account
limits: {max_sessions: 4, max_sessions_per_principal: 2, spawn_rate: 0.5, spawn_burst: 6}
lifetime: {probe_interval: 1s, probe_timeout: 1s, reap_on_failed_probe: false, stream_loss_grace: none, reaper_interval: 500ms, replay_events: 0}`

// fewPlaces tries one after the other what depends on who has a place.
func fewPlaces(w *world) error {
	var list []*trial
	for _, p := range []promise{
		{"a session too many of one principal ends its longest-quiet one", (*trial).makesRoom},
		{"when all have a stream: sessionLimit", (*trial).inUse},
		{"beyond all places: sessionLimit", (*trial).full},
		{"without replay no event has an id", (*trial).noIDs},
		{"too many starts of one principal: 429", (*trial).bucket},
		{"settings that cannot work together are refused, and named", (*trial).refused},
		{"pings that nobody answers end nothing when that is the policy", (*trial).patient},
		{"a client that does not read is cut off, and holds nobody up", (*trial).unread},
	} {
		t := newTrial(w, fmt.Sprintf("user-%d", len(list)), p.name)
		list = append(list, t)
		t.want(t.enter(), "no session")
		if t.err == nil {
			p.try(t)
		}
		t.leave()
		end(w, t.user, t.user+"-other", "user-a", "user-b")
	}
	return firstOf(verdict(list), w.stop())
}

// bucket starts one worker after the other, until that is too many.
func (t *trial) bucket() {
	for range 12 {
		t.delete()
		resp, err := t.request(context.Background(), "POST", initialize)
		if t.want(err == nil, "%v", err); err != nil {
			return
		}
		resp.Body.Close()
		if t.session = resp.Header.Get("Mcp-Session-Id"); resp.StatusCode == 429 {
			t.want(resp.Header.Get("Retry-After") != "", "no Retry-After")
			return
		}
	}
	t.want(false, "never refused")
}

// refused has the program look at a configuration whose times contradict each other.
func (t *trial) refused() {
	file := filepath.Join(t.w.dir, "contradiction.yaml")
	text := strings.Replace(t.w.text, "probe_interval: 1s", "idle_timeout: 30s, probe_interval: 5m", 1)
	t.want(text != t.w.text && os.WriteFile(file, []byte(text), 0o600) == nil, "no configuration")
	out, err := exec.Command(filepath.Join(t.w.bin, "gatehouse"), "serve", "--config", file).CombinedOutput()
	t.want(err != nil && strings.Contains(string(out), "lifetime.probe_interval (MCP_PROBE_INTERVAL) is 5m and lifetime.idle_timeout (MCP_IDLE_TIMEOUT) is 30s"), "%v, %s", err, out)
}

// end ends the sessions of users and waits until they are gone.
func end(w *world, users ...string) {
	for _, u := range users {
		t := &trial{client: &client{w: w, user: u}}
		t.endAll()
		for start := time.Now(); t.there() && time.Since(start) < 8*time.Second; {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// beside is another session of a user.
func (t *trial) beside(user string) *trial {
	o := newTrial(t.w, user, t.name)
	o.want(o.enter(), "no session for %s", user)
	return o
}

// state is the status of a call in the session.
func (t *trial) state() int {
	status, _ := t.post(toolCall(1, "echo", "x", 0))
	return status
}

func (t *trial) makesRoom() {
	second := t.beside(t.user)
	time.Sleep(100 * time.Millisecond)
	t.want(t.state() == 200, "the first session is gone")
	third := t.beside(t.user) // second is the longest quiet
	t.err = firstOf(t.err, second.err, third.err)
	t.want(t.state() == 200 && third.state() == 200 && second.state() == 404, "first %d, second %d, third %d", t.state(), second.state(), third.state())
	t.want(t.w.logged("made room for a newer session of the same principal"), "the log does not say why")
}

func (t *trial) inUse() {
	second := t.beside(t.user)
	t.get("", t.answer)
	second.get("", second.answer)
	_, body := t.another(t.user).post(initialize)
	t.want(strings.Contains(body, `"kind":"sessionLimit"`), "got %s", body)
	second.leave()
	t.err = firstOf(t.err, second.err)
}

func (t *trial) full() {
	for _, user := range []string{t.user, "user-a", "user-b"} {
		t.err = firstOf(t.err, t.beside(user).err)
	}
	workers := len(t.w.processes())
	o := t.another("user-c")
	o.token = t.w.mint(o.user, time.Hour)
	_, body := o.post(initialize)
	t.want(strings.Contains(body, `"kind":"sessionLimit"`), "got %s", body)
	t.want(len(t.w.processes()) == workers, "%d processes became %d", workers, len(t.w.processes()))
}

func (t *trial) noIDs() {
	got := make(chan string, 8)
	t.get("", func(id, data string) { got <- id + data })
	t.post(toolCall(1, "changed", "x", 0))
	select {
	case e := <-got:
		t.want(strings.HasPrefix(e, "{") && strings.Contains(e, "list_changed"), "the first event is %q", e)
	case <-time.After(5 * time.Second):
		t.want(false, "no event")
	}
}

func (t *trial) patient() {
	pings := make(chan string, 64)
	t.get("", func(_, data string) { pings <- data })
	time.Sleep(7 * time.Second)
	t.want(len(pings) >= 2, "%d pings", len(pings))
	t.want(t.there(), "ended")
}

// unread: a call brings far more than the connection holds, and nobody reads it.
func (t *trial) unread() {
	o := t.beside("user-a")
	resp, err := t.request(context.Background(), "POST", toolCall(7, "flood", "x", 100000))
	if err != nil {
		t.want(false, "%v", err)
		return
	}
	defer resp.Body.Close()
	for start := time.Now(); time.Since(start) < 9*time.Second; time.Sleep(200 * time.Millisecond) {
		before := time.Now()
		t.want(o.state() == 200 && time.Since(before) < 2*time.Second, "a call beside it took %v", time.Since(before))
	}
	b, err := io.ReadAll(resp.Body)
	t.want(err != nil || !strings.Contains(string(b), `"result"`), "%d bytes were kept for a client that did not read", len(b))
	t.want(t.state() == 200, "the session ended")
	t.err = firstOf(t.err, o.err)
}

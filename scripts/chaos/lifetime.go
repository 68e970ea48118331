package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// short is the policy with short times, one of each, so that a test can tell by the
// time which rule ended a session.
const short = `limits: {max_sessions: 64, max_sessions_per_principal: 32, spawn_rate: 100, spawn_burst: 100}
lifetime: {idle_timeout: 14s, probe_interval: 1s, probe_timeout: 1s, stream_loss_grace: 4s, streamless_timeout: 7s, reaper_interval: 500ms, request_timeout: 5s, credential_grace: 3s, drain_limit: 4s}`

// many is for a crowd that leaves without a word.
const many = `limits: {max_sessions: 600, max_sessions_per_principal: 200, spawn_rate: 1000, spawn_burst: 1000}
lifetime: {stream_loss_grace: 10s, streamless_timeout: 15s, reaper_interval: 1s, probe_interval: none}`

// brief has a limit on any session's life.
const brief = `lifetime: {max_lifetime: 3s, reaper_interval: 500ms}`

// trial is one promise, kept or broken in real time.
type trial struct {
	*client
	name string
	err  error
}

// want notes the first thing that is wrong.
func (t *trial) want(ok bool, format string, a ...any) {
	if !ok && t.err == nil {
		t.err = fmt.Errorf(format, a...)
	}
}

// trials run side by side on one server; each has a user of its own.
var trials = map[string]func(*trial){
	"quiet without a stream: ends after the streamless timeout":        func(t *trial) { t.ends(7, 9) },
	"a request begins the time anew":                                   (*trial).begun,
	"a lost stream: ends after the grace":                              func(t *trial) { t.get("", nil); time.Sleep(time.Second); t.unlisten(); t.ends(4, 6) },
	"a new stream takes the verdict back":                              (*trial).comesBack,
	"two pings unanswered end a session with a stream":                 func(t *trial) { t.get("", nil); t.ends(2, 6) },
	"pings that are answered keep it until it is idle":                 func(t *trial) { t.get("", t.answer); t.ends(14, 17) },
	"a token that is over: 401, and the end after the grace":           (*trial).expires,
	"a newer token keeps session and worker":                           (*trial).refreshes,
	"a call over its time costs the call alone":                        (*trial).late,
	"a cancelled call ends without a response":                         (*trial).cancels,
	"a worker that is deaf after a cancel is stopped":                  (*trial).stopped,
	"a worker that dies answers its calls at once":                     (*trial).dies,
	"a lost stream is given back":                                      (*trial).replays,
	"the rest of a call whose connection broke":                        (*trial).polls,
	"a session lives through a reload":                                 (*trial).reloads,
	"an operator ends it":                                              (*trial).operated,
	"a tree that wants to stay goes with its session":                  (*trial).forks,
	"a call that is under way when nobody listens does not end it":     (*trial).working,
	"beyond the calls of a session: busy, and the others are answered": (*trial).busy,
}

// lifetimes runs all of it.
func lifetimes(bin, dir string) (good bool) {
	good = true
	for name, f := range map[string]func(*world) error{"short": sideBySide, "many": crowd, "brief": briefly, "fair": fairness} {
		sub := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(sub, "tls"), 0o755); err != nil {
			fmt.Println("FAIL ", err)
			return false
		}
		w, err := newWorld(bin, sub, map[string]string{"short": short, "many": many, "brief": brief, "fair": fairly}[name])
		if err == nil {
			if err = w.start(); err == nil {
				err = f(w)
			}
			w.kill()
		}
		if err != nil {
			fmt.Printf("FAIL  %s: %v; see %s/log\n", name, err, sub)
			good = false
		}
	}
	return good
}

// sideBySide runs the trials, and then stops the server under a running call.
func sideBySide(w *world) error {
	var all sync.WaitGroup
	var list []*trial
	i := 0
	for name, f := range trials {
		t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 1, i), name: name}
		t.user = fmt.Sprintf("user-%d", i)
		t.token = w.mint(t.user, time.Hour)
		i++
		list = append(list, t)
		all.Go(func() {
			t.want(t.enter(), "no session")
			if t.err == nil {
				f(t)
			}
			t.leave()
		})
	}
	all.Wait()
	broken := 0
	for _, t := range list {
		if t.err != nil {
			broken++
			fmt.Printf("FAIL  %s: %v\n", t.name, t.err)
		} else {
			fmt.Printf("ok    %s\n", t.name)
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d promises are broken", broken)
	}
	return stopping(w)
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

// ends waits for the session's end, which has to come between the two times in seconds.
func (t *trial) ends(from, to float64) {
	start := time.Now()
	for t.there() && time.Since(start) < 30*time.Second {
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

func (t *trial) begun() {
	time.Sleep(5 * time.Second)
	status, body := t.post(toolCall(1, "echo", "x", 0))
	t.want(status == 200, "%d %s", status, body)
	t.ends(7, 9)
}

func (t *trial) comesBack() {
	t.get("", t.answer)
	time.Sleep(time.Second)
	t.unlisten()
	time.Sleep(2 * time.Second)
	t.get("", t.answer)
	time.Sleep(6 * time.Second)
	t.want(t.there(), "ended although the client came back")
}

func (t *trial) expires() {
	t.token = t.w.mint(t.user, 3*time.Second)
	t.post(toolCall(1, "echo", "x", 0)) // older than the one before: it moves nothing
	o := t.another(t.user + "-short")
	o.token = t.w.mint(o.user, 3*time.Second)
	o.want(o.enter(), "no session")
	ended := make(chan time.Duration, 1)
	start := time.Now()
	resp, err := o.request(context.Background(), "GET", "")
	if err != nil {
		t.want(false, "GET: %v", err)
		return
	}
	go func() { read(resp, nil); ended <- time.Since(start) }()
	time.Sleep(3500 * time.Millisecond)
	status, _ := o.post(toolCall(2, "echo", "x", 0))
	t.want(status == 401, "status %d after the token's end", status)
	select {
	case d := <-ended:
		t.want(d < 4*time.Second, "the stream was closed after %v", d)
	case <-time.After(time.Second):
		t.want(false, "the stream is open after the token's end")
	}
	o.ends(1, 5)
	t.err = firstOf(t.err, o.err)
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

func (t *trial) refreshes() {
	before := t.worker()
	for i := range 4 {
		t.token = t.w.mint(t.user, time.Hour+time.Duration(i)*time.Minute)
		status, body := t.post(toolCall(i, "echo", "x", 0))
		t.want(status == 200, "%d %s", status, body)
		time.Sleep(time.Second)
	}
	t.want(before != 0 && t.worker() == before, "worker %d became %d", before, t.worker())
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

func (t *trial) late() {
	start := time.Now()
	_, body := t.post(toolCall(7, "slow", "x", 9000))
	d := time.Since(start)
	t.want(strings.Contains(body, `"id":7`) && strings.Contains(body, `"kind":"timeout"`) && d > 4900*time.Millisecond && d < 6*time.Second, "after %v: %s", d, body)
	status, body := t.post(toolCall(8, "echo", "still here", 0))
	t.want(status == 200 && strings.Contains(body, "still here"), "%d %s", status, body)
}

func (t *trial) cancels() {
	time.AfterFunc(300*time.Millisecond, func() { t.client.cancel(t.session, t.token, "7") })
	start := time.Now()
	status, body := t.post(toolCall(7, "slow", "x", 4000))
	t.want(status == 200 && !strings.Contains(body, "result") && !strings.Contains(body, `"error"`) && time.Since(start) < 1500*time.Millisecond, "after %v: %d %s", time.Since(start), status, body)
	time.Sleep(4500 * time.Millisecond) // the worker has been asked, and answered
	status, body = t.post(toolCall(8, "echo", "still here", 0))
	t.want(status == 200 && strings.Contains(body, "still here"), "%d %s", status, body)
}

func (t *trial) stopped() {
	time.AfterFunc(300*time.Millisecond, func() { t.client.cancel(t.session, t.token, "7") })
	t.post(toolCall(7, "stop", "x", 0))
	start := time.Now()
	for time.Since(start) < 15*time.Second {
		if status, _ := t.post(`{"jsonrpc":"2.0","method":"notifications/x"}`); status == 404 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	d := time.Since(start)
	t.want(d > 6*time.Second && d < 9*time.Second, "stopped after %v, not after 7 s", d)
}

func (t *trial) dies() {
	start := time.Now()
	_, body := t.post(toolCall(7, "die", "x", 500))
	t.want(strings.Contains(body, `"kind":"sessionGone"`) && strings.Contains(body, `"id":7`) && time.Since(start) < 2*time.Second, "after %v: %s", time.Since(start), body)
	status, _ := t.post(toolCall(8, "echo", "x", 0))
	t.want(status == 404, "then %d", status)
}

func (t *trial) replays() {
	var mu sync.Mutex
	var ids []string
	got := func() int { mu.Lock(); defer mu.Unlock(); return len(ids) }
	collect := func(id, data string) {
		t.answer(id, data)
		if strings.Contains(data, "list_changed") {
			mu.Lock()
			ids = append(ids, id)
			mu.Unlock()
		}
	}
	t.get("", collect)
	for i := range 3 {
		t.post(toolCall(i, "changed", "x", 0))
	}
	time.Sleep(300 * time.Millisecond)
	t.want(got() == 3, "%d of 3 came", got())
	t.unlisten()
	t.streams.Wait()
	if t.err != nil {
		return
	}
	first := ids[0]
	time.Sleep(300 * time.Millisecond)
	t.post(toolCall(9, "changed", "x", 0))
	t.get(first, collect)
	time.Sleep(500 * time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	t.want(len(ids) == 6 && ids[3] == ids[1] && ids[4] == ids[2], "got %q", ids)
}

func (t *trial) polls() {
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := t.request(ctx, "POST", toolCall(7, "slow", "the rest", 2000))
	if err != nil {
		t.want(false, "%v", err)
		cancel()
		return
	}
	in := bufio.NewScanner(resp.Body)
	id := ""
	for id == "" && in.Scan() {
		id, _ = strings.CutPrefix(in.Text(), "id: ")
		if !strings.HasPrefix(in.Text(), "id: ") {
			id = ""
		}
	}
	cancel()
	resp.Body.Close()
	answers := make(chan string, 4)
	t.get(id, func(_, data string) { answers <- data })
	select {
	case a := <-answers:
		t.want(strings.Contains(a, "the rest") && strings.Contains(a, `"id":7`), "got %s", a)
	case <-time.After(5 * time.Second):
		t.want(false, "no answer to id %q", id)
	}
}

func (t *trial) reloads() {
	before := t.worker()
	t.w.cmd.Process.Signal(syscall.SIGHUP)
	time.Sleep(2 * time.Second)
	status, body := t.post(toolCall(1, "echo", "x", 0))
	t.want(status == 200 && t.worker() == before, "%d %s", status, body)
	b, _ := os.ReadFile(t.w.log.Name())
	t.want(strings.Contains(string(b), "limits, lifetimes and scopes taken over"), "the front end was not told")
}

func (t *trial) operated() {
	out, err := exec.Command(filepath.Join(t.w.bin, "gatehouse"), "sessions", "--socket", t.w.socket, "end", "--subject", t.user).CombinedOutput()
	t.want(err == nil && string(out) == "1 ended\n", "%s, %v", out, err)
	time.Sleep(time.Second)
	status, _ := t.post(toolCall(1, "echo", "x", 0))
	t.want(status == 404, "then %d", status)
}

func (t *trial) forks() {
	t.post(toolCall(1, "fork", "x", 0))
	t.delete()
	start := time.Now()
	for stubborn() > 0 && time.Since(start) < 10*time.Second {
		time.Sleep(100 * time.Millisecond)
	}
	t.want(stubborn() == 0, "%d grandchildren are left", stubborn())
}

// stubborn counts the grandchildren that the tool "fork" makes.
func stubborn() (n int) {
	for _, p := range processesAll() {
		if len(p.argv) > 2 && strings.HasPrefix(p.argv[2], `trap "" TERM HUP`) {
			n++
		}
	}
	return n
}

func (t *trial) working() {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if resp, err := t.request(ctx, "POST", toolCall(1, "slow", "x", 4500)); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	time.Sleep(4 * time.Second)
	t.want(t.there(), "ended under a running call")
}

func (t *trial) busy() {
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 80 {
		all.Go(func() {
			_, body := t.post(toolCall(i, "slow", "fine", 1500))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.Contains(body, `"kind":"busy"`):
				seen["busy"]++
			case strings.Contains(body, "fine"):
				seen["fine"]++
			default:
				seen[body]++
			}
		})
	}
	all.Wait()
	t.want(len(seen) == 2 && seen["fine"] >= 64 && seen["busy"] > 0, "%v", seen)
}

// stopping: SIGTERM lets a running call finish, turns readiness false, refuses new
// sessions, and ends with 0.
func stopping(w *world) error {
	t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 2, 0)}
	t.token = w.mint(t.user, time.Hour)
	t.want(t.enter(), "no session")
	answer := make(chan string, 1)
	go func() { _, body := t.post(toolCall(1, "slow", "in time", 2000)); answer <- body }()
	time.Sleep(500 * time.Millisecond)
	w.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(500 * time.Millisecond)
	status, body := t.another(t.user).post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	t.want(status == 503, "a new session while it stops: %d %s", status, body)
	got := <-answer
	t.want(strings.Contains(got, "in time"), "the running call got %s", got)
	t.err = firstOf(t.err, w.stop())
	if t.err == nil {
		fmt.Println("ok    SIGTERM: running calls finish, new sessions are refused, nothing is left")
	}
	return t.err
}

// crowd opens 500 sessions that nobody ends: half have closed a stream, half never had
// one. All workers must be gone within the longer of the two times, a pass and 5 s.
func crowd(w *world) error {
	const n = 500
	t := &tally{counts: map[string]int{}}
	clients := make(chan *client, n)
	var all sync.WaitGroup
	start := time.Now()
	for i := range 8 {
		all.Go(func() {
			for j := i; j < n; j += 8 {
				c := newClient(w, t, 3, j)
				c.token = w.mint(c.user, time.Hour)
				c.open()
				clients <- c
			}
		})
	}
	all.Wait()
	close(clients)
	opened := t.counts["opened"]
	fmt.Printf("      %d of %d sessions opened in %v; %d processes\n", opened, n, time.Since(start).Round(time.Millisecond), len(w.processes()))
	i := 0
	for c := range clients {
		if i++; i%2 == 0 {
			c.listen()
		}
		c.leave()
	}
	left := time.Now()
	const limit = 15*time.Second + time.Second + 5*time.Second
	for {
		list, err := w.sessions()
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		if time.Since(left) > limit {
			return fmt.Errorf("%d sessions are left after %v", len(list), limit)
		}
		time.Sleep(250 * time.Millisecond)
	}
	took := time.Since(left)
	if _, err := w.measure(); err != nil { // a zombie or a worker that is left
		return err
	}
	if len(t.faults) > 0 || opened < n*9/10 {
		return fmt.Errorf("%d opened, %v", opened, t.faults)
	}
	fmt.Printf("ok    %d sessions that nobody ended were gone %v after the last was left; no zombie\n", opened, took.Round(100*time.Millisecond))
	return w.stop()
}

// briefly: a session ends at its time, however busy it is.
func briefly(w *world) error {
	t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 4, 0)}
	t.token = w.mint(t.user, time.Hour)
	t.want(t.enter(), "no session")
	t.get("", t.answer)
	go t.post(toolCall(1, "slow", "x", 20000))
	t.ends(3, 5)
	t.leave()
	if t.err == nil {
		fmt.Println("ok    the longest life of a session")
	}
	return firstOf(t.err, w.stop())
}

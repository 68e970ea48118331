package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
)

// promises are tried side by side on one server.
var promises = []promise{
	{"quiet without a stream: ends after the streamless timeout", func(t *trial) { t.ends(7, 9) }},
	{"a request begins the time anew", (*trial).begun},
	{"a lost stream: ends after the grace", func(t *trial) { t.get("", nil); time.Sleep(time.Second); t.unlisten(); t.ends(4, 6) }},
	{"a new stream takes the verdict back", (*trial).comesBack},
	{"two pings unanswered end a session with a stream", func(t *trial) { t.get("", nil); t.ends(2, 6) }},
	{"pings that are answered keep it until it is idle", func(t *trial) { t.get("", t.answer); t.ends(14, 17) }},
	{"a token that is over: 401, and the end after the grace", (*trial).expires},
	{"a call that runs at the token's end finishes within the grace", (*trial).graced},
	{"a newer token keeps session and worker", (*trial).refreshes},
	{"a call over its time costs the call alone", (*trial).late},
	{"a cancelled call ends without a response", (*trial).cancels},
	{"a worker that is deaf after a cancel is stopped", (*trial).stopped},
	{"a worker that writes what is no message is stopped", (*trial).rubbish},
	{"a worker that dies answers its calls at once", (*trial).dies},
	{"the newest stream wins", (*trial).replaced},
	{"a lost stream is given back", (*trial).replays},
	{"what came after the server closed a stream is given to the next one", (*trial).closed},
	{"what waits for a client without a stream is bounded, and the gap is logged", (*trial).away},
	{"the rest of a call whose connection broke", (*trial).polls},
	{"an operator ends it", (*trial).operated},
	{"a tree that wants to stay goes with its session", (*trial).forks},
	{"a call that is under way when nobody listens does not end it", (*trial).working},
	{"beyond the calls of a session: busy, and the others are answered", (*trial).busy},
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

func (t *trial) graced() {
	o := t.another(t.user + "-short")
	o.token = t.w.mint(o.user, 2*time.Second)
	o.want(o.enter(), "no session")
	start := time.Now()
	status, body := o.post(toolCall(1, "slow", "in time", 3500))
	o.want(status == 200 && strings.Contains(body, "in time"), "after %v: %d %s", time.Since(start), status, body)
	status, _ = o.post(toolCall(2, "echo", "x", 0))
	o.want(status == 401, "then %d", status)
	t.err = o.err
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

func (t *trial) rubbish() {
	_, body := t.post(toolCall(7, "garbage", "x", 0))
	t.want(strings.Contains(body, `"kind":"sessionGone"`), "got %s", body)
	t.want(t.w.logged("the worker wrote a line that is no message"), "the log does not say why")
	status, _ := t.post(toolCall(8, "echo", "x", 0))
	t.want(status == 404, "then %d", status)
}

func (t *trial) dies() {
	start := time.Now()
	_, body := t.post(toolCall(7, "die", "x", 500))
	t.want(strings.Contains(body, `"kind":"sessionGone"`) && strings.Contains(body, `"id":7`) && time.Since(start) < 3*time.Second, "after %v: %s", time.Since(start), body)
	status, _ := t.post(toolCall(8, "echo", "x", 0))
	t.want(status == 404, "then %d", status)
}

func (t *trial) replaced() {
	older := make(chan struct{})
	resp, err := t.request(context.Background(), "GET", "")
	if err != nil {
		t.want(false, "%v", err)
		return
	}
	go func() { read(resp, nil); close(older) }()
	t.get("", t.answer)
	select {
	case <-older:
	case <-time.After(2 * time.Second):
		t.want(false, "the older stream is still open")
	}
	t.want(t.there(), "the session ended")
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

func (t *trial) closed() {
	o := t.another(t.user + "-short")
	o.token = t.w.mint(o.user, 2*time.Second)
	o.want(o.enter(), "no session")
	var got []string
	o.get("", func(id, data string) {
		if strings.Contains(data, "list_changed") {
			got = append(got, id)
		}
	})
	o.post(toolCall(1, "changed", "x", 0))
	o.streams.Wait() // until the token's end
	if t.want(o.err == nil && len(got) == 1, "%d messages before the end, %v", len(got), o.err); t.err != nil {
		return
	}
	o.token = t.w.mint(o.user, time.Hour)
	o.post(toolCall(2, "changed", "x", 0))
	more := make(chan string, 8)
	o.get(got[0], func(id, _ string) { more <- id })
	time.Sleep(time.Second)
	t.want(len(more) == 1, "%d messages, not the one that was missed", len(more))
	o.leave()
}

func (t *trial) away() {
	for i := range 300 {
		status, body := t.post(toolCall(i, "changed", "x", 0))
		t.want(status == 200, "%d %s", status, body)
	}
	got := make(chan string, 400)
	t.get("", func(_, data string) {
		if data != "" { // with which the stream begins
			got <- data
		}
	})
	time.Sleep(time.Second)
	t.want(len(got) == 256, "%d messages waited, not 256", len(got))
	t.want(t.w.logged("the client was away too long and missed some"), "the log does not say so")
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

// reloads: good files, and one that is not.
func (t *trial) reloads() {
	before := t.worker()
	same := func(when string) {
		time.Sleep(2 * time.Second)
		status, body := t.post(toolCall(1, "echo", "x", 0))
		t.want(status == 200 && t.worker() == before, "%s: %d %s", when, status, body)
	}
	signal := func(text string) {
		t.want(t.w.configure(text) == nil, "no configuration")
		t.w.cmd.Process.Signal(syscall.SIGHUP)
	}
	signal(strings.Replace(t.w.text, "max_sessions_per_principal: 32", "max_sessions_per_principal: 1", 1))
	same("after a reload")
	t.want(t.w.logged("limits, lifetimes and scopes taken over"), "the front end was not told")
	signal(strings.Replace(t.w.text, "max_sessions_per_principal: 32", "max_sessions_per_principal: many", 1))
	same("after a bad file")
	t.want(t.w.logged("the one before stays in force") && t.w.logged("gatehouse.yaml:"), "the log does not say what is wrong with the file")
	t.get("", t.answer) // in use, so that it cannot make room
	other := t.another(t.user)
	_, body := other.post(initialize)
	t.want(strings.Contains(body, "sessionLimit"), "the limit before does not hold any more: %s", body)
}

func (t *trial) operated() {
	out, err := t.endAll()
	t.want(err == nil && out == "1 ended\n", "%s, %v", out, err)
	time.Sleep(time.Second)
	status, _ := t.post(toolCall(1, "echo", "x", 0))
	t.want(status == 404, "then %d", status)
}

func (t *trial) forks() {
	mark := fmt.Sprint(t.rand.Uint64())
	t.post(toolCall(1, "fork", mark, 0))
	t.want(grandchildren(mark) == 1, "%d grandchildren", grandchildren(mark))
	t.delete()
	start := time.Now()
	for grandchildren(mark) > 0 && time.Since(start) < 10*time.Second {
		time.Sleep(100 * time.Millisecond)
	}
	t.want(grandchildren(mark) == 0, "the grandchild is left")
}

// grandchildren counts those that the tool "fork" made with that text.
func grandchildren(mark string) (n int) {
	for _, p := range processesAll() {
		if len(p.argv) == 4 && p.argv[2] == stubborn && p.argv[3] == mark {
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

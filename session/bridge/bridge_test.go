package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// upstream keeps what belongs to no call.
type upstream struct {
	can Capability

	mu       sync.Mutex // guards what follows
	notes    []string
	asks     []string
	ended    []string
	finished int
}

func (u *upstream) Notification(method []byte, b *Buffer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(method) == 0 {
		u.notes = append(u.notes, "a notification without a method")
	}
	u.notes = append(u.notes, string(b.B))
	b.Free()
}

func (u *upstream) Can() Capability { return u.can }

func (u *upstream) Ask(_ uint64, b *Buffer) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asks = append(u.asks, string(b.B))
	b.Free()
	return true
}

func (u *upstream) Withdraw(uint64) bool { return false }

func (u *upstream) Ended(reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = append(u.ended, reason)
}

func (u *upstream) Finished() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.finished++
}

const initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`

func parse(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// started is a Bridge over a worker, its handshake done.
func started(t testing.TB, worker sessiontest.Func, cfg Config) (*Bridge, *upstream) {
	t.Helper()
	sp := &sessiontest.Spawner{Worker: worker, Grace: 100 * time.Millisecond}
	w, err := sp.Spawn(context.Background(), spawn.Request{})
	if err != nil {
		t.Fatal(err)
	}
	up := &upstream{}
	b := New(w, cfg, up, noLog)
	b.Start()
	t.Cleanup(func() {
		b.Stop("test")
		<-b.Finished()
	})
	if _, err := b.Handshake(context.Background(), parse(t, initialize)); err != nil {
		t.Fatal(err)
	}
	return b, up
}

func TestEndIsSaidOnce(t *testing.T) {
	b, up := started(t, sessiontest.Echo, Config{})
	for range 3 {
		b.Stop("enough")
	}
	select {
	case <-b.Done():
	default:
		t.Error("not done")
	}
	<-b.Finished()
	up.mu.Lock()
	defer up.mu.Unlock()
	if !slices.Equal(up.ended, []string{"enough"}) || up.finished != 1 || b.Reason() != "enough" {
		t.Errorf("%q, %d, %q", up.ended, up.finished, b.Reason())
	}
	var c Call
	if err := b.Begin(context.Background(), &c, parse(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`), Options{}); !errors.Is(err, ErrGone) {
		t.Errorf("a call afterwards: %v", err)
	}
	if err := b.Notify(context.Background(), parse(t, `{"jsonrpc":"2.0","method":"m"}`)); !errors.Is(err, ErrGone) {
		t.Errorf("a notification afterwards: %v", err)
	}
}

// TestPingsAreNotUnbounded: a worker that asks and does not read is ended.
func TestPingsAreNotUnbounded(t *testing.T) {
	b, up := started(t, func(p *sessiontest.Process) int {
		sessiontest.StopsReading(&sessiontest.Process{In: p.In, Out: &alsoPings{p}, Err: p.Err, Killed: p.Killed})
		return -1
	}, Config{})
	select {
	case <-b.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("still alive")
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if len(up.ended) != 1 || !strings.Contains(up.ended[0], "does not read") {
		t.Errorf("%q", up.ended)
	}
}

// alsoPings floods with pings once the worker has said something.
type alsoPings struct{ *sessiontest.Process }

func (a *alsoPings) Write(b []byte) (int, error) {
	n, err := a.Out.Write(b)
	go func() {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(a.Out, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i); err != nil {
				return
			}
		}
	}()
	return n, err
}

func (a *alsoPings) Close() error { return a.Out.Close() }

func TestAsksAreBounded(t *testing.T) {
	b, up := started(t, sessiontest.Server{}.Run, Config{MaxAsks: 2})
	up.can = CanListRoots
	results := make(chan string, 3)
	for range 3 {
		go func() {
			var c Call
			m := parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"method":"roots/list"}}}`)
			if err := b.Begin(context.Background(), &c, m, Options{Single: true}); err != nil {
				results <- err.Error()
				return
			}
			defer c.Close()
			answer, _, err := c.Next(context.Background(), 5*time.Second)
			results <- fmt.Sprintf("%s %v", answer, err)
		}()
	}
	if got := <-results; !strings.Contains(got, "too many requests") {
		t.Errorf("the third: %s", got)
	}
	for id := range 2 {
		if err := b.Answer(context.Background(), parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"roots":[]}}`, id+1))); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if got := <-results; !strings.Contains(got, `roots`) {
			t.Errorf("got %s", got)
		}
	}
}

// TestBackPressure: while a client leaves too much unread, the worker waits; what
// lies here stays bounded.
func TestBackPressure(t *testing.T) {
	const size = 1 << 20
	b, _ := started(t, sessiontest.Echo, Config{MaxMessage: 2 * size})
	calls := make([]Call, 12)
	for i := range calls {
		m := parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"big","arguments":{"n":%d}}}`, i, size))
		if err := b.Begin(context.Background(), &calls[i], m, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	held := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.held
	}
	for range 500 { // until the worker has to wait
		if held() > 4*size {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	if n := held(); n <= 4*size || n > 6*size {
		t.Errorf("%d bytes are held", n)
	}
	var clients sync.WaitGroup
	for i := range calls {
		clients.Go(func() {
			answer, final, err := calls[i].Next(context.Background(), 5*time.Second)
			if err != nil || !final || len(answer) < size {
				t.Errorf("call %d: %d bytes, %v", i, len(answer), err)
			}
			calls[i].Close()
		})
	}
	clients.Wait()
	if n := held(); n != 0 {
		t.Errorf("%d bytes are held at the end", n)
	}
}

// TestFloodIsPaced: a worker that writes much at once is asked to wait, one that
// answers is not, also when each answer is there before anybody reads.
func TestFloodIsPaced(t *testing.T) {
	var paced atomic.Int64
	b, up := started(t, sessiontest.Echo, Config{Pace: func() { paced.Add(1) }})
	call := func(arguments string, before time.Duration) {
		var c Call
		m := parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`+arguments+`}}`)
		if err := b.Begin(context.Background(), &c, m, Options{}); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if strings.HasPrefix(arguments, `"raw"`) {
			return // it has no answer
		}
		time.Sleep(before)
		if _, final, err := c.Next(context.Background(), 5*time.Second); err != nil || !final {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	for range 3 * maxRun {
		call(`"echo","arguments":{"text":"x"}`, 0)
	}
	for range 3 * maxRun {
		call(`"echo","arguments":{"text":"x"}`, time.Millisecond)
	}
	if n := paced.Load(); n != 0 {
		t.Errorf("answers were paced %d times", n)
	}
	const lines = 300
	text, err := json.Marshal(strings.Repeat("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n", lines))
	if err != nil {
		t.Fatal(err)
	}
	call(fmt.Sprintf(`"raw","arguments":{"text":%s}`, text), 0)
	for range 500 {
		up.mu.Lock()
		n := len(up.notes)
		up.mu.Unlock()
		if n == lines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if paced.Load() == 0 {
		t.Errorf("%d lines at once were not paced", lines)
	}
}

package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

func TestCall(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	if got, err := w.call(s, tool("7", "echo", `"text":"hello"`)); err != nil || got != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	found, ok := w.Find(0, alice, s.ID())
	if !ok || found != s {
		t.Error("the session is not found again")
	}
	if s.ProtocolVersion() != "2025-11-25" || len(s.ID()) != 22 {
		t.Errorf("version %q, id %q", s.ProtocolVersion(), s.ID())
	}
}

// TestSameIDs: the client's ids say nothing about whose answer is
// whose.
func TestSameIDs(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	type one struct {
		id, text string
		ms       int
	}
	var group sync.WaitGroup
	for _, c := range []one{{"1", "A", 120}, {"1", "B", 20}, {`"1"`, "C", 60}} {
		x := w.begin(s, tool(c.id, "echo", fmt.Sprintf(`"text":%q,"ms":%d`, c.text, c.ms)))
		group.Go(func() {
			defer x.Close()
			item, err := x.Next(context.Background(), 5*time.Second)
			var m struct{ ID json.RawMessage }
			if err != nil || json.Unmarshal(item.Bytes, &m) != nil || string(m.ID) != c.id || toolText(item.Bytes) != c.text {
				t.Errorf("%v got %s, %v", c, item.Bytes, err)
			}
		})
	}
	group.Wait()
}

// TestManyClients: sessions that all count from 1 never meet.
func TestManyClients(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	var group sync.WaitGroup
	for i := range 32 {
		s := w.open(alice)
		group.Go(func() {
			for id := range 50 {
				want := fmt.Sprintf("%d-%d", i, id)
				if got, err := w.call(s, tool(fmt.Sprint(id+1), "echo", fmt.Sprintf(`"text":%q`, want))); err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
		})
	}
	group.Wait()
	if n := w.spawner.Started(); n != 32 {
		t.Errorf("%d workers for 32 sessions", n)
	}
}

// TestForeignSession: an id is worth nothing without its principal.
func TestForeignSession(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	otherClient, otherIssuer := alice, alice
	otherClient.Principal.Client = "app2"
	otherIssuer.Principal.Issuer = "https://id2.test"
	for name, c := range map[string]session.Caller{"another subject": bob, "another client": otherClient, "another issuer": otherIssuer} {
		if _, ok := w.Find(0, c, s.ID()); ok {
			t.Errorf("%s finds the session", name)
		}
	}
	if _, ok := w.Find(1, alice, s.ID()); ok {
		t.Error("another server finds the session")
	}
	for _, id := range []string{"", "x", s.ID()[:21], s.ID() + "A", strings.Repeat("A", 22)} {
		if _, ok := w.Find(0, alice, id); ok {
			t.Errorf("%q is found", id)
		}
	}
	if _, ok := w.Find(0, alice, s.ID()); !ok {
		t.Error("the owner does not find it any more")
	}
}

func TestIDs(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	seen := map[string]bool{}
	for range 20 {
		s := w.open(alice)
		if seen[s.ID()[:6]] {
			t.Error("two ids begin alike")
		}
		seen[s.ID()[:6]] = true
	}
}

func TestSingleModeGetsTheResponseAlone(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	text := strings.Replace(tool("1", "progress", `"n":5,"text":"done"`), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1)
	x, err := s.Begin(context.Background(), parse(t, text), session.ModeSingle)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	item, err := x.Next(context.Background(), 5*time.Second)
	if err != nil || !item.Final {
		t.Errorf("got %s, %v", item.Bytes, err)
	}
}

// TestDisconnect: in this era a closed connection is no cancel.
func TestDisconnect(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	x := w.begin(s, tool("1", "echo", `"text":"late","ms":100`))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := x.Next(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	x.Close()
	if n := s.Info().Calls; n != 1 {
		t.Errorf("%d calls run, want the abandoned one", n)
	}
	w.eventually("the call ends", func() bool { return s.Info().Calls == 0 })
	if got, err := w.call(s, tool("2", "cancelled", ``)); err != nil || got != "" {
		t.Errorf("the worker saw cancels: %q, %v", got, err)
	}
}

// TestWorkerDies: pending calls fail at once, the session is gone, others go on.
func TestWorkerDies(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s, other := w.open(alice), w.open(bob)
	waiting := w.begin(s, tool("1", "never", ``))
	defer waiting.Close()
	st, err := s.Stream(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	start := time.Now()
	if _, err := w.call(s, tool("2", "die", `"n":3`)); !errors.Is(err, session.ErrGone) {
		t.Errorf("the killing call: %v", err)
	}
	if _, err := waiting.Next(context.Background(), 5*time.Second); !errors.Is(err, session.ErrGone) {
		t.Errorf("the waiting call: %v", err)
	}
	if _, err := st.Next(context.Background(), 5*time.Second); !errors.Is(err, session.ErrGone) {
		t.Errorf("the stream: %v", err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	if _, ok := w.Find(0, alice, s.ID()); ok {
		t.Error("the session is still found")
	}
	_, err = s.Begin(context.Background(), parse(t, tool("3", "echo", ``)), session.ModeStream)
	w.wantKind(err, session.KindSessionGone)
	if got, err := w.call(other, tool("1", "echo", `"text":"fine"`)); err != nil || got != "fine" {
		t.Errorf("another session: %q, %v", got, err)
	}
	if w.open(alice) == s {
		t.Error("no new session")
	}
}

// TestMisbehavingWorkers: a worker that breaks the protocol is ended, its calls fail
// at once and nobody else notices.
func TestMisbehavingWorkers(t *testing.T) {
	for _, c := range []struct{ name, call string }{
		{"answers an id that it was not given", tool("1", "foreign", ``)},
		{"writes what is no JSON", tool("1", "raw", `"text":"hello\n"`)},
		{"writes invalid UTF-8", tool("1", "raw", `"text":"\"\u00ff\ud800\"\n"`)},
		{"writes JSON that is no message", tool("1", "raw", `"text":"{\"id\":1}\n"`)},
		{"writes a batch in a revision without batches", tool("1", "batch", ``)},
		{"writes a line without end", tool("1", "no-newline", ``)},
		{"closes its output", tool("1", "close", ``)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, session.Config{MaxMessage: 1 << 20}, &sessiontest.Spawner{Worker: sessiontest.Echo, Grace: 100 * time.Millisecond})
			s := w.open(alice)
			if _, err := w.call(s, c.call); !errors.Is(err, session.ErrGone) {
				t.Errorf("got %v", err)
			}
			if _, ok := w.Find(0, alice, s.ID()); ok {
				t.Error("the session is still found")
			}
			w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
		})
	}
	t.Run("reports an error about no request", func(t *testing.T) { // which is no fault
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
		s := w.open(alice)
		for _, id := range []string{"", `\"id\":null,`} {
			w.begin(s, tool("1", "raw", `"text":"{\"jsonrpc\":\"2.0\",`+id+`\"error\":{\"code\":-32700,\"message\":\"m\"}}\n"`)).Close()
			if got, err := w.call(s, tool("2", "echo", `"text":"lives"`)); err != nil || got != "lives" {
				t.Errorf("after %q: %s, %v", id, got, err)
			}
		}
	})
	t.Run("answers twice", func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
		s := w.open(alice)
		if got, err := w.call(s, tool("1", "twice", ``)); err == nil && got != "once" {
			t.Errorf("got %q", got)
		}
		w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
	})
}

func TestFloodOfNotificationsIsBounded(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	x := w.begin(s, tool("1", "flood", `"n":20000`))
	defer x.Close()
	w.eventually("the answer came", func() bool { return s.Info().Calls == 0 })
	n := 0
	for {
		item, err := x.Next(context.Background(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if item.Final {
			break
		}
		n++
	}
	if n > 256 {
		t.Errorf("%d notifications waited for a client that did not read", n)
	}
}

// TestFloodsTakeTurns: the workers of one principal that flood are worked on one after
// the other, and hold those of another principal up not at all.
func TestFloodsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{MaxPerPrincipal: 8}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		took := map[string]*atomic.Int64{"alice": {}, "bob": {}}
		var all sync.WaitGroup
		start := time.Now()
		for _, c := range []session.Caller{alice, alice, alice, bob} {
			w.open(c)
			pace := w.Pace(c)
			all.Go(func() {
				for range 10 {
					pace()
				}
				took[string(c.Principal.Subject)].Store(int64(time.Since(start)))
			})
		}
		all.Wait()
		if a, b := time.Duration(took["alice"].Load()), time.Duration(took["bob"].Load()); a != 3*b || b != 20*time.Millisecond {
			t.Errorf("three workers of one took %v, one of another %v", a, b)
		}
	})
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	w.open(alice)
	if w.Pace(alice) != nil {
		t.Error("a pace where all are one principal")
	}
}

func TestBusy(t *testing.T) {
	w := newWorld(t, session.Config{MaxCalls: 2}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	a := w.begin(s, tool("1", "never", ``))
	b := w.begin(s, tool("2", "never", ``))
	a.Close() // the client left, the call still runs
	_, err := s.Begin(context.Background(), parse(t, tool("3", "echo", ``)), session.ModeStream)
	w.wantKind(err, session.KindBusy)
	if err := s.Notify(context.Background(), parse(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Next(context.Background(), time.Second); !errors.Is(err, session.ErrCancelled) {
		t.Errorf("the cancelled call: %v", err)
	}
	b.Close()
	if got, err := w.call(s, tool("3", "echo", `"text":"room"`)); err != nil || got != "room" {
		t.Errorf("after the cancel: %q, %v", got, err)
	}
}

// TestCancelIsNotQueued: a worker that does not read its input holds no cancel up.
func TestCancelIsNotQueued(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.StopsReading, Grace: 100 * time.Millisecond})
	s := w.open(alice)
	blocked := make(chan error, 2)
	for id := 1; id <= 2; id++ { // the first fills the pipe, the second waits behind it
		go func() {
			x, err := s.Begin(context.Background(), parse(t, tool(fmt.Sprint(id), "echo", `"text":"`+strings.Repeat("x", 1<<20)+`"`)), session.ModeStream)
			if err == nil {
				_, err = x.Next(context.Background(), 20*time.Second)
				x.Close()
			}
			blocked <- err
		}()
	}
	w.eventually("both calls have begun", func() bool { return s.Info().Calls == 2 })
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	for id := 1; id <= 2; id++ {
		if err := s.Notify(context.Background(), parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))); err != nil {
			t.Error(err)
		}
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("the cancels took %v", d)
	}
	if err := <-blocked; !errors.Is(err, session.ErrCancelled) {
		t.Errorf("the call that waited to be written: %v", err)
	}
	s.End("test")
	<-blocked
}

func TestStderrIsDrained(t *testing.T) {
	for name, lines := range map[string]bool{"in lines": true, "without newlines": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, session.Config{Lifetime: session.Lifetime{StartTimeout: 5 * time.Second}},
				&sessiontest.Spawner{Worker: sessiontest.StderrFirst(5<<20, lines)})
			s := w.open(alice)
			if got, err := w.call(s, tool("1", "stderr", `"n":5000000`)); err != nil || got != "done" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestLargeMessages(t *testing.T) {
	w := newWorld(t, session.Config{MaxMessage: 8 << 20}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	for _, n := range []int{4000, 4096, 5000, 64 << 10, 100 << 10, 3 << 20} {
		want := strings.Repeat("x", n)
		if got, err := w.call(s, tool("1", "echo", `"text":"`+want+`"`)); err != nil || got != want {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
}

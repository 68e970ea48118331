package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/logtest"
	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"

	"github.com/rs/zerolog"
)

// TestBadStarts: a worker that can't do its handshake costs bounded time, and leaves
// no session, no place taken and no process.
func TestBadStarts(t *testing.T) {
	for _, c := range []struct {
		name   string
		worker sessiontest.Func
		reason string // in the log, not for the client
		within time.Duration
	}{
		{"dies at start", sessiontest.DiesAtStart, "closed its output", time.Second},
		{"prints text first", sessiontest.PrintsFirst("Starting server..."), "no message", time.Second},
		{"prints JSON that is no message", sessiontest.PrintsFirst(`{"level":"info"}`), "no message", time.Second},
		{"answers before it was asked", sessiontest.PrintsFirst(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`), "not given", time.Second},
		{"answers another id", sessiontest.AnswersWithAnotherID, "not given", time.Second},
		{"writes back what it reads", sessiontest.WritesBack, "writes back", time.Second},
		{"never answers", sessiontest.NeverAnswers, "in time", 30 * time.Second},
		{"reads nothing", sessiontest.IgnoresStdin, "in time", 30 * time.Second},
		{"speaks a version of the future", sessiontest.Server{Version: "2031-01-01"}.Run, "version", time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, session.Config{MaxSessions: 1}, &sessiontest.Spawner{Worker: c.worker, InMemory: true})
				start := time.Now()
				s, answer, err := w.Open(context.Background(), 0, alice, parse(t, initialize))
				w.wantKind(err, session.KindWorkerUnavailable)
				if s != nil || answer != nil {
					t.Errorf("got a session %v and an answer %q", s, answer)
				}
				if err != nil {
					contains(t, err.Error(), c.reason)
				}
				if d := time.Since(start); d > c.within {
					t.Errorf("took %v", d)
				}
				time.Sleep(10 * time.Second)
				if n := w.spawner.Alive(); n != 0 || len(w.List()) != 0 {
					t.Errorf("%d workers and %d sessions are left", n, len(w.List()))
				}
				_, _, err = w.Open(context.Background(), 0, alice, parse(t, initialize))
				w.wantKind(err, session.KindWorkerUnavailable) // and not sessionLimit: the place came back
			})
		})
	}
}

// TestStartFailureIsInTheLog: the operator sees why.
func TestStartFailureIsInTheLog(t *testing.T) {
	var log logtest.Log
	sp := &sessiontest.Spawner{Worker: sessiontest.DiesAtStart}
	table := session.New(session.Config{MaxSessions: 1}, sp, zerolog.New(&log))
	_, _, err := table.Open(context.Background(), 0, alice, parse(t, initialize))
	if err == nil || strings.Contains(err.Error(), "API_KEY") {
		t.Errorf("got %v", err)
	}
	table.Close()
	contains(t, log.String(), `"stderr":"missing API_KEY"`)
	contains(t, log.String(), `"stderr_tail":"missing API_KEY `)
	contains(t, log.String(), `"exit_code":3`)
}

func TestWorkerRefusesInitialize(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.RefusesInitialize})
	s, answer, err := w.Open(context.Background(), 0, alice, parse(t, initialize))
	if err != nil || s != nil {
		t.Fatalf("got %v, %v", s, err)
	}
	if want := `{"jsonrpc":"2.0","id":"i","error":{"code":-32602,"message":"unsupported"}}`; string(answer) != want {
		t.Errorf("got %s", answer)
	}
	w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
	if n := len(w.List()); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestInsaneInitializeSpawnsNothing(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}`,
	} {
		_, _, err := w.Open(context.Background(), 0, alice, parse(t, text))
		if e := new(jsonrpc.Error); !errors.As(err, &e) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n := w.spawner.Started(); n != 0 {
		t.Errorf("%d workers were started", n)
	}
}

func TestSpawnRefusals(t *testing.T) {
	for kind, want := range map[spawn.Kind]session.Kind{
		spawn.KindInternal: session.KindInternal, spawn.KindToken: session.KindToken, spawn.KindUndecided: session.KindUndecided,
		spawn.KindNoAccount: session.KindNoAccount, spawn.KindClientOwn: session.KindClientOwn, spawn.KindLimit: session.KindSessionLimit,
		spawn.KindRate: session.KindRate, spawn.KindUnavailable: session.KindWorkerUnavailable, spawn.KindDraining: session.KindDraining,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t, session.Config{MaxSessions: 1}, &sessiontest.Spawner{Fail: func(r spawn.Request) error {
				if r.Token != "alice-1" || r.Server != 2 {
					t.Errorf("asked for %+v", r)
				}
				return &spawn.Error{Kind: kind, RetryAfter: 3 * time.Second}
			}})
			for range 2 { // the place comes back
				_, _, err := w.Open(context.Background(), 2, alice, parse(t, initialize))
				w.wantKind(err, want)
				if e := new(session.Error); errors.As(err, &e) && e.RetryAfter != 3*time.Second {
					t.Errorf("retry after %v", e.RetryAfter)
				}
			}
		})
	}
}

func TestClientLeavesDuringInitialize(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.NeverAnswers})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := w.Open(ctx, 0, alice, parse(t, initialize)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
}

func TestTheZeroTableRefuses(t *testing.T) {
	var table session.Table
	_, _, err := table.Open(context.Background(), 0, alice, parse(t, initialize))
	if e := new(session.Error); !errors.As(err, &e) || e.Kind != session.KindSessionLimit {
		t.Errorf("got %v", err)
	}
	if _, ok := table.Find(0, alice, strings.Repeat("A", 22)); ok || table.List() != nil && len(table.List()) != 0 {
		t.Error("the zero table has sessions")
	}
	table.Drain(context.Background())
}

func TestGlobalLimit(t *testing.T) {
	w := newWorld(t, session.Config{MaxSessions: 2}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.open(alice)
	w.open(bob)
	_, _, err := w.Open(context.Background(), 0, alice, parse(t, initialize))
	w.wantKind(err, session.KindSessionLimit)
	if n := w.spawner.Started(); n != 2 {
		t.Errorf("%d workers were started", n)
	}
	s.End("test")
	w.open(alice) // waits for the ended worker's place
}

func TestEndedWorkersHoldTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{MaxSessions: 1}, &sessiontest.Spawner{Worker: sessiontest.IgnoresEOF, InMemory: true, Grace: 3 * time.Second})
		w.open(alice).End("test")
		start := time.Now()
		w.open(alice)
		if d := time.Since(start); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("the place was given again after %v", d)
		}
		if n := w.spawner.Alive(); n != 1 {
			t.Errorf("%d workers live", n)
		}
	})
}

func TestPrincipalLimitMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{MaxSessions: 10, MaxPerPrincipal: 3}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		found := func(s *session.Session) bool { _, ok := w.Find(0, alice, s.ID()); return ok }
		ctx := context.Background()
		var s [3]*session.Session
		for i := range s {
			s[i] = w.open(alice)
			time.Sleep(time.Second)
		}
		w.open(bob)
		// The oldest was used last, so the second is the quietest.
		if _, err := w.call(s[0], tool("1", "echo", ``)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		fourth := w.open(alice)
		if !found(s[0]) || found(s[1]) || !found(s[2]) || !found(fourth) {
			t.Error("another session than the longest-quiet one was ended")
		}
		// One has a stream and one a call: only the third is left to give way.
		st, err := s[0].Stream(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		x := w.begin(s[2], tool("1", "never", ``))
		defer x.Close()
		fifth := w.open(alice)
		if !found(s[0]) || !found(s[2]) || found(fourth) || !found(fifth) {
			t.Error("a session in use was ended")
		}
		y := w.begin(fifth, tool("1", "never", ``))
		defer y.Close()
		_, _, err = w.Open(ctx, 0, alice, parse(t, initialize))
		w.wantKind(err, session.KindSessionLimit)
		w.open(bob)
		if n := len(w.List()); n != 5 {
			t.Errorf("%d sessions", n)
		}
	})
}

func TestConcurrentOpensStayWithinTheLimits(t *testing.T) {
	w := newWorld(t, session.Config{MaxSessions: 6, MaxPerPrincipal: 4}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			c := alice
			if i%2 == 0 {
				c = bob
			}
			s, _, err := w.Open(context.Background(), 0, c, parse(t, initialize))
			if err != nil {
				w.wantKind(err, session.KindSessionLimit)
				return
			}
			if i%3 == 0 {
				s.End("test")
			}
			if n := w.spawner.Alive(); n > 6 {
				t.Errorf("%d workers live", n)
			}
		})
	}
	group.Wait()
}

// TestVersions is what clients and workers agree on.
func TestVersions(t *testing.T) {
	for _, c := range []struct{ client, worker, toWorker, toClient string }{
		{"2025-11-25", "", "2025-11-25", "2025-11-25"},
		{"2025-06-18", "", "2025-06-18", "2025-06-18"},
		{"2025-11-25", "2025-06-18", "2025-11-25", "2025-06-18"},
		{"2025-11-25", "2024-11-05", "2025-11-25", "2025-11-25"},
		{"2025-06-18", "2025-03-26", "2025-06-18", "2025-06-18"},
		{"2024-11-05", "", "2025-11-25", "2025-11-25"},
		{"2025-03-26", "2025-03-26", "2025-11-25", "2025-11-25"},
		{"1999-01-01", "2024-11-05", "2025-11-25", "2025-11-25"},
		{"nonsense", "", "2025-11-25", "2025-11-25"},
	} {
		t.Run(c.client+" meets "+c.worker, func(t *testing.T) {
			w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Server{Version: c.worker}.Run})
			s, answer, err := w.Open(context.Background(), 0, alice, parse(t, strings.Replace(initialize, "2025-11-25", c.client, 1)))
			if err != nil {
				t.Fatal(err)
			}
			m := parse(t, string(answer))
			if got := string(jsonrpc.Unquote(m.ProtocolVersion.Of(m.Raw))); got != c.toClient || s.ProtocolVersion() != got || string(m.IDBytes()) != `"i"` {
				t.Errorf("%+v: client sees %s", c, answer)
			}
			got, err := w.call(s, tool("1", "initialize", ``))
			if err != nil {
				t.Fatal(err)
			}
			contains(t, got, `"protocolVersion":"`+c.toWorker+`"`)
			contains(t, got, `"clientInfo":{"name":"test","version":"1"}`)
		})
	}
}

func TestOldWorkersMayBatch(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Server{Version: "2025-03-26"}.Run})
	s := w.open(alice)
	x := w.begin(s, tool("1", "batch", ``))
	defer x.Close()
	var got []string
	for {
		item, err := x.Next(context.Background(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(item.Bytes))
		if item.Final {
			break
		}
	}
	if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`; len(got) != 2 || got[1] != want {
		t.Errorf("got %q", got)
	}
}

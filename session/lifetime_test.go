package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// lives runs f in a bubble, over a session with that lifetime policy, and wants the
// session to end between the two times after its start (0: never).
func lives(t *testing.T, l session.Lifetime, min, max time.Duration, f func(*world, *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Lifetime: l}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		start := time.Now()
		s := w.open(alice)
		if f != nil {
			f(w, s)
		}
		for len(w.List()) > 0 && time.Since(start) < 48*time.Hour {
			time.Sleep(time.Second)
		}
		d := time.Since(start)
		switch {
		case min == 0 && len(w.List()) == 0:
			t.Errorf("ended after %v", d)
		case min != 0 && (d < min || d > max):
			t.Errorf("ended after %v, want between %v and %v", d, min, max)
		}
		if min != 0 {
			time.Sleep(10 * time.Second)
			if n := w.spawner.Alive(); n != 0 {
				t.Errorf("%d workers are left", n)
			}
		}
	})
}

const pass = time.Minute // the default reaper interval

func TestIdleTimeout(t *testing.T) {
	l := session.Lifetime{Idle: 8 * time.Hour, StreamLossGrace: -1}
	lives(t, l, 8*time.Hour, 8*time.Hour+2*pass, nil)
	lives(t, session.Lifetime{StreamLossGrace: -1}, 0, 0, nil) // switched off
	t.Run("with a stream", func(t *testing.T) {
		lives(t, l, 8*time.Hour, 8*time.Hour+2*pass, func(w *world, s *session.Session) { w.stream(s) })
	})
	t.Run("a request starts it again", func(t *testing.T) {
		lives(t, l, 13*time.Hour, 13*time.Hour+2*pass, func(w *world, s *session.Session) {
			time.Sleep(5 * time.Hour)
			if _, err := w.call(s, tool("1", "echo", ``)); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a client that waits for an answer is not idle", func(t *testing.T) {
		lives(t, l, 28*time.Hour, 28*time.Hour+2*pass, func(w *world, s *session.Session) {
			x := w.begin(s, tool("1", "echo", `"ms":`+fmt.Sprint((20*time.Hour).Milliseconds())))
			defer x.Close()
			if _, err := x.Next(context.Background(), 0); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a call that was left alone does not hold it for ever", func(t *testing.T) {
		lives(t, l, 8*time.Hour, 8*time.Hour+2*pass, func(w *world, s *session.Session) { w.begin(s, tool("1", "never", ``)).Close() })
	})
}

func TestStreamlessTimeout(t *testing.T) {
	l := session.Lifetime{Idle: 8 * time.Hour, Streamless: 30 * time.Minute, StreamLossGrace: 5 * time.Minute}
	lives(t, l, 30*time.Minute, 30*time.Minute+2*pass, nil)
	t.Run("not while a stream is open", func(t *testing.T) {
		lives(t, l, 8*time.Hour, 8*time.Hour+2*pass, func(w *world, s *session.Session) { w.stream(s) })
	})
	t.Run("not while a call runs that was left alone", func(t *testing.T) {
		lives(t, l, 90*time.Minute, 90*time.Minute+2*pass, func(w *world, s *session.Session) {
			w.begin(s, tool("1", "echo", `"ms":`+fmt.Sprint(time.Hour.Milliseconds()))).Close()
		})
	})
}

func TestStreamLossGrace(t *testing.T) {
	l := session.Lifetime{Idle: 8 * time.Hour, Streamless: 30 * time.Minute, StreamLossGrace: 5 * time.Minute}
	lose := func(w *world, s *session.Session) {
		st := w.stream(s)
		time.Sleep(10 * time.Minute)
		st.Close()
	}
	lives(t, l, 15*time.Minute, 15*time.Minute+2*pass, lose)
	t.Run("a new stream takes the verdict back", func(t *testing.T) {
		lives(t, l, 8*time.Hour, 9*time.Hour, func(w *world, s *session.Session) {
			lose(w, s)
			time.Sleep(4 * time.Minute)
			w.stream(s)
		})
	})
	t.Run("a request takes the verdict back", func(t *testing.T) {
		lives(t, l, 19*time.Minute, 19*time.Minute+2*pass, func(w *world, s *session.Session) {
			lose(w, s)
			time.Sleep(4 * time.Minute)
			if _, err := w.call(s, tool("1", "echo", ``)); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("at once", func(t *testing.T) {
		l := l
		l.StreamLossGrace = 0
		lives(t, l, 10*time.Minute, 10*time.Minute+time.Second, lose)
	})
	t.Run("at once, but not during a call", func(t *testing.T) {
		l := l
		l.StreamLossGrace = 0
		lives(t, l, time.Hour, time.Hour+2*pass, func(w *world, s *session.Session) {
			w.begin(s, tool("1", "echo", `"ms":`+fmt.Sprint(time.Hour.Milliseconds()))).Close()
			lose(w, s)
		})
	})
	t.Run("off: the streamless timeout counts", func(t *testing.T) {
		l := l
		l.StreamLossGrace = -1
		lives(t, l, 40*time.Minute, 40*time.Minute+2*pass, lose)
	})
}

func TestMaxLifetime(t *testing.T) {
	lives(t, session.Lifetime{MaxLifetime: 2 * time.Hour}, 2*time.Hour, 2*time.Hour+pass, func(w *world, s *session.Session) {
		w.stream(s)
		w.Cleanup(w.begin(s, tool("1", "never", ``)).Close)
	})
}

// stream opens a GET stream and lets it lie.
func (w *world) stream(s *session.Session) *session.Stream {
	w.Helper()
	st, err := s.Stream(context.Background(), "")
	if err != nil {
		w.Fatal(err)
	}
	return st
}

// TestCredentialGrace: after the token's expiry streams close, the worker stays for
// the grace, and a newer token moves both.
func TestCredentialGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{CredentialGrace: time.Hour}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		start := time.Now()
		c := alice
		c.Expiry, c.KeyID = start.Add(5*time.Minute), "k1"
		s := w.open(c)
		st := w.stream(s)
		newer := c
		newer.Token, newer.KeyID, newer.Expiry = "alice-2", "k2", start.Add(10*time.Minute)
		time.Sleep(4 * time.Minute)
		if got, ok := w.Find(0, newer, s.ID()); !ok || got != s {
			t.Fatal("not found with a refreshed token")
		}
		if _, ok := w.Find(0, c, s.ID()); !ok {
			t.Fatal("not found with the older token")
		}
		synctest.Wait()
		if got := w.spawner.Renewed(); !slices.Equal(got, []string{"alice-2"}) {
			t.Errorf("renewed with %q", got)
		}
		if info := s.Info(); !info.Expiry.Equal(newer.Expiry) || info.KeyID != "k2" {
			t.Errorf("got %+v", info)
		}
		if _, err := st.Next(context.Background(), 0); !errors.Is(err, session.ErrExpired) || time.Since(start) != 10*time.Minute {
			t.Errorf("the stream ended with %v after %v", err, time.Since(start))
		}
		st.Close()
		time.Sleep(59 * time.Minute)
		if len(w.List()) != 1 {
			t.Fatal("ended within the grace")
		}
		time.Sleep(2 * time.Minute)
		if len(w.List()) != 0 {
			t.Error("not ended after the grace")
		}
	})
}

// What the monitor says of a newer token decides: an account that is gone ends the
// session, a token that the monitor likes less than we do does not.
func TestRefusedRenewal(t *testing.T) {
	for kind, ends := range map[spawn.Kind]bool{
		spawn.KindNoAccount: true, spawn.KindClientOwn: true,
		spawn.KindUndecided: false, spawn.KindRefused: false, spawn.KindToken: false,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sp := &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true,
					Renew: func(string) (time.Time, error) { return time.Time{}, &spawn.Error{Kind: kind, Reason: "asked"} }}
				w := newWorld(t, session.Config{}, sp)
				c := alice
				c.Expiry = time.Now().Add(5 * time.Minute)
				s := w.open(c)
				c.Token, c.Expiry = "alice-2", time.Now().Add(10*time.Minute)
				if _, ok := w.Find(0, c, s.ID()); !ok {
					t.Fatal("not found with a newer token")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if _, ok := w.Find(0, c, s.ID()); ok == ends {
					t.Errorf("found %v, want ended %v", ok, ends)
				}
			})
		})
	}
}

// One token at a time is shown to the monitor, at most one a second, and the newest
// of those that came meanwhile: whatever came, the lease ends up with the newest.
func TestNewestTokenIsShownNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		sp := &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true,
			Renew: func(string) (time.Time, error) { return time.Time{}, <-answer }}
		w := newWorld(t, session.Config{}, sp)
		c := alice
		c.Expiry = time.Now().Add(5 * time.Minute)
		s := w.open(c)
		for i, token := range []string{"alice-2", "alice-3", "alice-5", "alice-4"} {
			w.shows(s, c, token, time.Duration([]int{6, 7, 9, 8}[i])*time.Minute)
			if i == 1 {
				time.Sleep(time.Second)
				synctest.Wait() // alice-3 is under way now
			}
		}
		time.Sleep(time.Minute)
		w.wantRenewed("before the first answer", "alice-3")
		answer <- &spawn.Error{Kind: spawn.KindUndecided, Reason: "no keys"}
		time.Sleep(time.Second - time.Nanosecond)
		w.wantRenewed("within a second of it", "alice-3")
		time.Sleep(time.Nanosecond)
		answer <- nil
		time.Sleep(time.Minute)
		w.wantRenewed("in all", "alice-3", "alice-5")
	})
}

// shows makes a request with a newer token of that caller's.
func (w *world) shows(s *session.Session, c session.Caller, token string, lives time.Duration) {
	w.Helper()
	c.Token, c.Expiry = token, time.Now().Add(lives)
	if _, ok := w.Find(0, c, s.ID()); !ok {
		w.Fatalf("not found with %s", token)
	}
}

func (w *world) wantRenewed(when string, want ...string) {
	w.Helper()
	synctest.Wait()
	if got := w.spawner.Renewed(); !slices.Equal(got, want) {
		w.Errorf("shown %s: %q, want %q", when, got, want)
	}
}

// A token waits for a newer one no longer than half of what is left of the lease,
// and not at all when it has another key than the one before.
func TestRenewalWaitsForNoLossOfTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		lease time.Duration // 0: none
		key   string        // of the newer token; the session began with k1
		waits time.Duration
	}{
		"much is left":          {time.Hour, "k1", time.Second},
		"no lease":              {0, "k1", time.Second},
		"little is left":        {400 * time.Millisecond, "k1", 200 * time.Millisecond},
		"over by our clock":     {-time.Second, "k1", 0},
		"another key":           {time.Hour, "k2", 0},
		"another key, no lease": {0, "k2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sp := &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true}
				if c.lease != 0 {
					sp.Lease = time.Now().Add(c.lease)
				}
				w := newWorld(t, session.Config{}, sp)
				caller := alice
				caller.Expiry, caller.KeyID = time.Now().Add(time.Minute), "k1"
				s := w.open(caller)
				caller.KeyID = c.key
				w.shows(s, caller, "alice-2", 2*time.Minute)
				if c.waits > 0 {
					time.Sleep(c.waits - time.Nanosecond)
					w.wantRenewed("too early")
					time.Sleep(time.Nanosecond)
				}
				w.wantRenewed("in time", "alice-2")
			})
		})
	}
}

// Newer tokens that came within a quarter of a second are shown in one moment, and none
// waits for longer than a second.
func TestRenewalsComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		c := alice
		c.Expiry = time.Now().Add(time.Minute)
		begin := time.Now().Truncate(time.Second).Add(time.Second)
		for token, after := range map[string]time.Duration{"early": 0, "late": 240 * time.Millisecond, "next": 260 * time.Millisecond} {
			s := w.open(c)
			time.AfterFunc(time.Until(begin)+after, func() { w.shows(s, c, token, 2*time.Minute) })
		}
		time.Sleep(time.Until(begin) + time.Second - time.Nanosecond)
		w.wantRenewed("before")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		got := w.spawner.Renewed()
		slices.Sort(got)
		if want := []string{"early", "late"}; !slices.Equal(got, want) {
			t.Errorf("shown together: %q, want %q", got, want)
		}
		time.Sleep(250*time.Millisecond - time.Nanosecond)
		if got := w.spawner.Renewed(); len(got) != 2 {
			t.Errorf("shown between: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := w.spawner.Renewed(); len(got) != 3 || got[2] != "next" {
			t.Errorf("shown in all: %q", got)
		}
	})
}

// A token with another key takes the place of one that waits, at once.
func TestAnotherKeyEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		c := alice
		c.Expiry, c.KeyID = time.Now().Add(time.Minute), "k1"
		s := w.open(c)
		w.shows(s, c, "alice-2", 2*time.Minute)
		w.wantRenewed("while it waits")
		c.KeyID = "k2"
		w.shows(s, c, "alice-3", 3*time.Minute)
		w.wantRenewed("at once", "alice-3")
		time.Sleep(time.Minute)
		w.wantRenewed("in all", "alice-3")
	})
}

func TestStreamOutlivesAWaitThatIsShorterThanTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		c := alice
		c.Expiry = time.Now().Add(40 * time.Second)
		s := w.open(c)
		st := w.stream(s)
		defer st.Close()
		for range 2 {
			if _, err := st.Next(context.Background(), 15*time.Second); !errors.Is(err, session.ErrWait) {
				t.Errorf("got %v", err)
			}
		}
		c.Expiry = time.Now().Add(time.Hour)
		w.Find(0, c, s.ID())
		if _, err := st.Next(context.Background(), 15*time.Second); !errors.Is(err, session.ErrWait) {
			t.Errorf("with a newer token: %v", err)
		}
	})
}

// TestReconfigure: bounds that are changed hold for sessions that exist; a call that
// runs keeps its time.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := session.Config{MaxSessions: 8, Lifetime: session.Lifetime{Streamless: time.Hour}}
		w := newWorld(t, cfg, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		before := w.begin(s, tool("1", "echo", `"ms":60000,"text":"in its time"`))
		defer before.Close()
		cfg.MaxCalls, cfg.Lifetime.RequestTimeout, cfg.Lifetime.Streamless = 2, 30*time.Second, 10*time.Minute
		w.Reconfigure(cfg)
		start := time.Now()
		x := w.begin(s, tool("2", "echo", `"ms":60000`))
		defer x.Close()
		_, err := s.Begin(context.Background(), parse(t, tool("3", "echo", ``)), session.ModeStream)
		w.wantKind(err, session.KindBusy)
		if _, err := x.Next(context.Background(), 0); !errors.Is(err, session.ErrTimeout) || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if item, err := before.Next(context.Background(), 0); err != nil || !item.Final {
			t.Errorf("the call that ran before: %+v, %v", item, err)
		}
		cfg.MaxCalls, cfg.Lifetime.RequestTimeout = 0, 0 // the defaults again
		w.Reconfigure(cfg)
		if got, err := w.call(s, tool("4", "echo", `"ms":45000,"text":"any time"`)); err != nil || got != "any time" {
			t.Errorf("got %q, %v", got, err)
		}
		time.Sleep(9 * time.Minute)
		if len(w.List()) != 1 {
			t.Error("ended before the new timeout")
		}
		time.Sleep(3 * time.Minute)
		if len(w.List()) != 0 {
			t.Error("the timeout before still holds")
		}
	})
}

func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Lifetime: session.Lifetime{RequestTimeout: 30 * time.Second, Streamless: time.Hour}},
			&sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		start := time.Now()
		x := w.begin(s, tool("1", "echo", `"ms":60000`))
		defer x.Close()
		if _, err := x.Next(context.Background(), 0); !errors.Is(err, session.ErrTimeout) || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Minute) // the late answer comes and is dropped
		if got, err := w.call(s, tool("2", "cancelled", ``)); err != nil || got == "" {
			t.Errorf("the worker was not told: %q, %v", got, err)
		}
		// Progress pushes the timeout out.
		text := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"progress","arguments":{"n":5,"ms":20000,"text":"long"},"_meta":{"progressToken":3}}}`
		if got, err := w.call(s, text); err != nil || got != "long" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestWorkerThatStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.StopsReading, InMemory: true})
		s := w.open(alice)
		start := time.Now()
		var err error
		for err == nil {
			var x *session.Exchange
			if x, err = s.Begin(context.Background(), parse(t, tool("1", "echo", `"text":"`+string(make64k())+`"`)), session.ModeStream); err == nil {
				x.Close()
			}
		}
		w.wantKind(err, session.KindSessionGone)
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}

func make64k() []byte {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		idle := w.stream(s)
		short, long := w.begin(s, tool("1", "echo", `"text":"short","ms":5000`)), w.begin(s, tool("2", "never", ``))
		defer short.Close()
		defer long.Close()
		left := w.open(bob)
		w.begin(left, tool("1", "never", ``)).Close() // nobody waits for this one
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		drained := make(chan time.Duration, 1)
		go func() {
			w.Drain(ctx)
			drained <- time.Since(start)
		}()
		_, err := idle.Next(context.Background(), 0)
		w.wantKind(err, session.KindDraining)
		idle.Close()
		_, _, err = w.Open(context.Background(), 0, alice, parse(t, initialize))
		w.wantKind(err, session.KindDraining)
		_, err = s.Begin(context.Background(), parse(t, tool("3", "echo", ``)), session.ModeStream)
		w.wantKind(err, session.KindDraining)
		_, err = s.Stream(context.Background(), "")
		w.wantKind(err, session.KindDraining)
		if item, err := short.Next(context.Background(), 0); err != nil || toolText(item.Bytes) != "short" {
			t.Errorf("the running call got %s, %v", item.Bytes, err)
		}
		if _, err := long.Next(context.Background(), 0); !errors.Is(err, session.ErrGone) || time.Since(start) < 10*time.Second {
			t.Errorf("the endless call got %v after %v", err, time.Since(start))
		}
		if d := <-drained; d > 12*time.Second {
			t.Errorf("drained after %v", d)
		}
		if n := w.spawner.Alive(); n != 0 {
			t.Errorf("%d workers are left", n)
		}
		w.Close()
		w.Drain(ctx)
	})
}

func TestEndIf(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	gone, stays := w.open(alice), w.open(bob)
	if n := w.EndIf(func(i session.Info) bool { return i.Principal == alice.Principal }, "key withdrawn"); n != 1 {
		t.Errorf("ended %d", n)
	}
	if _, ok := w.Find(0, alice, gone.ID()); ok {
		t.Error("alice's session is still there")
	}
	if _, ok := w.Find(0, bob, stays.ID()); !ok {
		t.Error("bob's session is gone")
	}
}

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

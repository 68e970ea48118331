package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// probing is a policy in which only failed probes can end a session with a stream.
var probing = session.Lifetime{Idle: 24 * time.Hour, ProbeInterval: 2 * time.Minute, ProbeTimeout: 30 * time.Second, StreamLossGrace: -1, ReapFailedProbes: true}

// attend reads a GET stream and answers its pings as answer says, until the stream
// ends. It counts the pings.
func (w *world) attend(s *session.Session, answer func(n int, id string) string) (pings *atomic.Int64) {
	st := w.stream(s)
	pings = new(atomic.Int64)
	go func() {
		defer st.Close()
		for {
			item, err := st.Next(context.Background(), 0)
			if err != nil {
				return
			}
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if json.Unmarshal(item.Bytes, &m) != nil || m.Method != "ping" || item.ID != nil {
				w.Errorf("got %s with id %q, want a ping without", item.Bytes, item.ID)
			}
			n := int(pings.Add(1))
			if text := answer(n, string(m.ID)); text != "" {
				if err := s.Answer(context.Background(), parse(w, text)); err != nil && !errors.Is(err, session.ErrGone) {
					w.Error(err)
				}
			}
		}
	}()
	return pings
}

func pong(_ int, id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

func TestProbes(t *testing.T) {
	tests := map[string]struct {
		answer   func(int, string) string
		change   func(*session.Lifetime)
		min, max time.Duration
	}{
		"two unanswered end the session": {answer: func(int, string) string { return "" }, min: 4 * time.Minute, max: 4*time.Minute + 2*pass},
		"an answer is no activity":       {answer: pong, min: 24 * time.Hour, max: 24*time.Hour + 2*pass},
		"an error is an answer": {answer: func(_ int, id string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"no"}}`
		}, min: 24 * time.Hour, max: 24*time.Hour + 2*pass},
		"every second one is enough": {answer: func(n int, id string) string { return map[bool]string{true: pong(n, id)}[n%2 == 0] }, min: 24 * time.Hour, max: 24*time.Hour + 2*pass},
		"an answer to another question is none": {
			answer: func(int, string) string { return `{"jsonrpc":"2.0","id":"gatehouse-ping-99","result":{}}` }, min: 4 * time.Minute, max: 4*time.Minute + 2*pass,
		},
		"reap on failed probe is off": {answer: func(int, string) string { return "" }, change: func(l *session.Lifetime) { l.ReapFailedProbes = false }, min: 24 * time.Hour, max: 24*time.Hour + 2*pass},
		"probes are off":              {answer: func(int, string) string { return "" }, change: func(l *session.Lifetime) { l.ProbeInterval = 0 }, min: 24 * time.Hour, max: 24*time.Hour + 2*pass},
		"a longer probe timeout":      {answer: func(int, string) string { return "" }, change: func(l *session.Lifetime) { l.ProbeTimeout = 2 * time.Minute }, min: 6 * time.Minute, max: 6*time.Minute + 2*pass},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			l := probing
			if c.change != nil {
				c.change(&l)
			}
			lives(t, l, c.min, c.max, func(w *world, s *session.Session) { w.attend(s, c.answer) })
		})
	}
}

func silent(int, string) string { return "" }

func TestProbesComeAtTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Lifetime: probing}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		pings := w.attend(w.open(alice), pong)
		time.Sleep(time.Hour + time.Second)
		if pings.Load() < 20 || pings.Load() > 30 {
			t.Errorf("%d pings in an hour", pings.Load())
		}
	})
}

// A client that never opens a stream is never probed, and neither is one that works.
func TestNoProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Lifetime: probing}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		time.Sleep(10 * time.Minute)
		pings := w.attend(s, silent)
		for range 30 {
			time.Sleep(time.Minute)
			if _, err := w.call(s, tool("1", "echo", ``)); err != nil {
				t.Fatal(err)
			}
		}
		if pings.Load() != 0 {
			t.Errorf("%d pings", pings.Load())
		}
		x := w.begin(s, tool("2", "echo", `"ms":3600000`))
		defer x.Close()
		if _, err := x.Next(context.Background(), 0); err != nil || pings.Load() != 0 {
			t.Errorf("%v after %d pings during a call", err, pings.Load())
		}
	})
}

// A request takes the verdict back.
func TestProbeAndRequest(t *testing.T) {
	lives(t, probing, 7*time.Minute, 7*time.Minute+2*pass, func(w *world, s *session.Session) {
		w.attend(s, silent)
		time.Sleep(3*time.Minute + time.Second) // one was not answered
		if _, err := w.call(s, tool("1", "echo", ``)); err != nil {
			w.Error(err)
		}
	})
}

// A ping that went down a stream which the client has left proves nothing: it is
// asked again on the new one.
func TestProbeAndHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Lifetime: probing}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		for range 60 { // every stream takes a ping, and none is there when it is due
			w.attend(s, silent)
			time.Sleep(2*time.Minute + 30*time.Second)
		}
		if len(w.List()) != 1 {
			t.Fatal("ended although no stream lasted")
		}
		pings := w.attend(s, pong)
		time.Sleep(time.Hour)
		if len(w.List()) != 1 || pings.Load() == 0 {
			t.Errorf("%d sessions after %d pings", len(w.List()), pings.Load())
		}
	})
}

// A pass that comes late counts once, however late it is.
func TestStalledProcessEndsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		l := session.Lifetime{Idle: time.Hour, Streamless: 30 * time.Minute, MaxLifetime: 2 * time.Hour, StreamLossGrace: 5 * time.Minute}
		w := newWorld(t, session.Config{Lifetime: l, Now: now}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		w.open(alice)
		time.Sleep(10*time.Minute + time.Second)
		ahead.Store(int64(100 * time.Hour)) // the clock on the wall went on while we did not
		time.Sleep(10 * time.Minute)
		if len(w.List()) != 1 {
			t.Error("ended")
		}
		time.Sleep(12 * time.Minute)
		if len(w.List()) != 0 {
			t.Error("not ended")
		}
	})
}

// TestLostStreamWithoutReplay: what could not be written is sent on the next stream,
// requests first.
func TestUnsentIsSentAgain(t *testing.T) {
	for _, r := range []session.Replay{{}, {Events: 8, Bytes: 1 << 16, Keep: time.Minute}} {
		t.Run(fmt.Sprint(r.Events), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, session.Config{Replay: r, Lifetime: session.Lifetime{StreamLossGrace: -1}}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
				s := w.open(alice)
				first := w.stream(s)
				if _, err := w.call(s, tool("1", "notify", `"method":"notifications/tools/list_changed","n":2`)); err != nil {
					t.Fatal(err)
				}
				if _, err := first.Next(context.Background(), 0); err != nil {
					t.Fatal(err)
				}
				first.Close() // with the first message in its hands
				second := w.stream(s)
				defer second.Close()
				for i := range 2 {
					item, err := second.Next(context.Background(), time.Second)
					if err != nil || !strings.Contains(string(item.Bytes), "list_changed") {
						t.Errorf("%d: %s, %v", i, item.Bytes, err)
					}
				}
				if item, err := second.Next(context.Background(), time.Second); !errors.Is(err, session.ErrWait) {
					t.Errorf("a third one: %s, %v", item.Bytes, err)
				}
			})
		})
	}
}

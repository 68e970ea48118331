package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// cancel sends notifications/cancelled for the request of that id.
func (w *world) cancel(s *session.Session, id string) {
	w.Helper()
	if err := s.Notify(context.Background(), parse(w, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)); err != nil {
		w.Fatal(err)
	}
}

// cancelled cancels a call of the tool "block" with those arguments and returns the
// session, once the call has ended, and when it was.
func (w *world) cancelled(args string) (*session.Session, time.Time) {
	w.Helper()
	s := w.open(alice)
	x := w.begin(s, tool("1", "block", args))
	defer x.Close()
	synctest.Wait()
	at := time.Now()
	w.cancel(s, "1")
	if _, err := x.Next(context.Background(), 0); !errors.Is(err, session.ErrCancelled) || time.Since(at) != 0 {
		w.Errorf("the call ended with %v after %v", err, time.Since(at))
	}
	return s, at
}

func TestCancelEscalation(t *testing.T) {
	tests := map[string]struct {
		args      string
		interrupt []bool
		ends      time.Duration // 0: the worker stays
	}{
		"a worker that is deaf is stopped":              {args: ``, ends: 7 * time.Second},
		"one that ignores SIGINT as well":               {args: ``, interrupt: []bool{true}, ends: 7 * time.Second},
		"one that obeys SIGINT is left alone":           {args: `"text":"obeys"`, interrupt: []bool{true}},
		"no SIGINT unless the server is configured so":  {args: `"text":"obeys"`, interrupt: []bool{false, true}, ends: 7 * time.Second},
		"one that answers within the 2 s is left alone": {args: `"ms":3900`},
		"one that answers late is left alone":           {args: `"ms":6900`},
		"one that answers before it is asked":           {args: `"ms":1000`},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, session.Config{Interrupt: c.interrupt}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
				s, at := w.cancelled(c.args)
				for len(w.List()) > 0 && time.Since(at) < time.Minute {
					time.Sleep(100 * time.Millisecond)
				}
				d := time.Since(at)
				switch {
				case c.ends == 0 && len(w.List()) == 0:
					t.Errorf("ended after %v", d)
				case c.ends != 0 && (d < c.ends || d > c.ends+100*time.Millisecond):
					t.Errorf("ended after %v, want %v", d, c.ends)
				}
				if c.ends == 0 {
					if got, err := w.call(s, tool("2", "echo", `"text":"still here"`)); err != nil || got != "still here" {
						t.Errorf("%q, %v", got, err)
					}
				}
			})
		})
	}
}

// A second call that is cancelled while the question for the first is out gets a
// question of its own.
func TestCancelTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s, at := w.cancelled(`"ms":3000`)
		time.Sleep(2500 * time.Millisecond)
		x := w.begin(s, tool("2", "block", ``))
		defer x.Close()
		w.cancel(s, "2")
		for len(w.List()) > 0 && time.Since(at) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(at); d < 9*time.Second || d > 11*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}

func TestDeadlineEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Lifetime: session.Lifetime{RequestTimeout: 10 * time.Second}}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		start := time.Now()
		x := w.begin(s, tool("1", "block", ``))
		defer x.Close()
		if _, err := x.Next(context.Background(), 0); !errors.Is(err, session.ErrTimeout) {
			t.Errorf("got %v", err)
		}
		for len(w.List()) > 0 && time.Since(start) < time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(start); d < 17*time.Second || d > 18*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}

// A modern client that closes its stream has cancelled: a worker of either era that is
// deaf then is stopped as any other, and one that answers serves the next request.
func TestClosedStreamEscalation(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for name, c := range map[string]struct {
			args string
			ends time.Duration // 0: the worker stays
		}{
			"deaf":         {``, 7 * time.Second},
			"answers late": {`"ms":6900`, 0},
		} {
			t.Run(era+" worker, "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Server{Era: era}.Run, InMemory: true})
					s := w.modern(alice)
					x, err := s.BeginModern(context.Background(), parse(t, modernTool("1", "block", c.args, "{}", "")), session.ModeStream)
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					at := time.Now()
					x.Close()
					for len(w.List()) > 0 && time.Since(at) < time.Minute {
						time.Sleep(100 * time.Millisecond)
					}
					switch d := time.Since(at); {
					case c.ends == 0 && len(w.List()) == 0, c.ends > 0 && (d < c.ends || d > c.ends+100*time.Millisecond):
						t.Errorf("ended after %v, want %v", d, c.ends)
					}
					if again := w.modern(alice); (again == s) != (c.ends == 0) {
						t.Error("the next request got the wrong worker")
					}
					if got := read(t, w.final(w.modern(alice), modernTool("2", "echo", `"text":"here"`, "{}", ""))); got.Result.Content[0].Text != "here" {
						t.Errorf("%+v", got)
					}
				})
			})
		}
	}
}

package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// asked are a legacy client and the two eras of workers that ask it something during a
// call.
var asked = map[string]string{"legacy": "ask", "modern": "input"}

func inMemory(era string) *sessiontest.Spawner {
	sp := worker(era)
	sp.InMemory = true
	return sp
}

// question begins a call that asks the client, and reads the question.
func (w *world) question(s *session.Session, era, id string) *session.Exchange {
	w.Helper()
	x := w.begin(s, tool(id, asked[era], `"method":"roots/list"`))
	x.Keep(new(session.Item))
	if item, err := x.Next(context.Background(), time.Second); err != nil || item.Final || !strings.Contains(string(item.Bytes), "roots/list") {
		w.Fatalf("%s, %v", item.Bytes, err)
	}
	return x
}

// A call that waits for its client's answer is a call, whichever era the worker is of: its
// session is not quiet, makes no room for another, and is waited for when the server stops.
func TestCallThatWaitsForAnAnswer(t *testing.T) {
	for era := range asked {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := session.Lifetime{Idle: 2 * time.Hour, Streamless: 30 * time.Minute, StreamLossGrace: -1}
				w := newWorld(t, session.Config{Lifetime: l, MaxPerPrincipal: 1, Replay: kept}, inMemory(era))
				s := w.open(alice)
				x := w.question(s, era, "1")
				defer x.Close()
				if n := w.List()[0].Calls; n != 1 {
					t.Errorf("%d calls run", n)
				}
				time.Sleep(3 * time.Hour)
				if len(w.List()) != 1 {
					t.Fatal("the session was ended while its client waited")
				}
				_, _, err := w.Open(context.Background(), 0, alice, parse(t, initialize))
				w.wantKind(err, session.KindSessionLimit)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				start := time.Now()
				w.Drain(ctx)
				if d := time.Since(start); d < time.Minute {
					t.Errorf("the call had %v to finish", d)
				}
			})
		})
	}
}

// A call without a connection is nobody's evidence of presence, whichever era the worker
// is of and whether the call runs or waits.
func TestCallWithoutAConnection(t *testing.T) {
	for era := range asked {
		for _, what := range []string{"runs", "waits for an answer", "runs, and was read on"} {
			t.Run(era+" "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := session.Lifetime{Idle: time.Hour, StreamLossGrace: -1}
					w := newWorld(t, session.Config{Lifetime: l, Replay: kept}, inMemory(era))
					s := w.open(alice)
					if what == "waits for an answer" {
						w.question(s, era, "1").Close()
					} else {
						x := w.begin(s, tool("1", "never", ``))
						prime := string(x.Keep(new(session.Item)))
						x.Close()
						if what != "runs" {
							on := w.resume(s, prime)
							time.Sleep(3 * time.Hour)
							if len(w.List()) != 1 {
								t.Error("the session was ended while its client read on")
							}
							on.Close()
						}
					}
					start := time.Now()
					for len(w.List()) > 0 && time.Since(start) < 3*time.Hour {
						time.Sleep(time.Minute)
					}
					if d := time.Since(start); d < time.Hour || d > time.Hour+3*time.Minute {
						t.Errorf("ended after %v", d)
					}
				})
			})
		}
	}
}

// Questions whose clients are gone do not keep a modern worker from asking others.
func TestQuestionsOfLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{Replay: kept}, inMemory("modern"))
		s := w.open(alice)
		for n := range 300 {
			w.question(s, "modern", fmt.Sprint(n)).Close()
		}
		if n := s.Info().Calls; n > 256 {
			t.Errorf("%d calls wait", n)
		}
	})
}

// The limit of a request's time is one of the client's answers too.
func TestAnswerInTime(t *testing.T) {
	for era := range asked {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, session.Config{Lifetime: session.Lifetime{RequestTimeout: time.Minute}}, inMemory(era))
				x := w.question(w.open(alice), era, "1")
				defer x.Close()
				start := time.Now()
				_, err := x.Next(context.Background(), time.Hour)
				if d := time.Since(start); !errors.Is(err, session.ErrTimeout) || d < 59*time.Second || d > 61*time.Second {
					t.Errorf("%v after %v", err, d)
				}
			})
		})
	}
}

// A log message of which nobody knows whose call it is about reaches a legacy client on
// the stream of what belongs to no call, whichever era the worker is of.
func TestLogMessageDuringTwoCalls(t *testing.T) {
	for era := range asked {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{}, worker(era))
			s := w.open(alice)
			own := w.stream(s)
			defer own.Close()
			w.begin(s, `{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":"debug"}}`).Close()
			w.begin(s, tool("1", "never", ``)).Close()
			if _, err := w.call(s, tool("2", "notify", `"method":"notifications/message","params":{"level":"info","data":"heard"}`)); err != nil {
				t.Fatal(err)
			}
			if item, err := own.Next(t.Context(), 10*time.Second); err != nil || !strings.Contains(string(item.Bytes), `"data":"heard"`) {
				t.Errorf("%s, %v", item.Bytes, err)
			}
		})
	}
}

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

// A shared worker that dies again and again has to wait, longer each time; one that
// lived for a while is forgiven.
func TestDyingWorkerHasToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		dies := func(after time.Duration) {
			t.Helper()
			w.modern(alice)
			time.Sleep(after)
			w.spawner.Kill()
			time.Sleep(100 * time.Millisecond)
		}
		var last time.Duration
		for n := range 5 {
			if n >= 3 {
				_, _, err := w.Modern(context.Background(), 0, alice)
				w.wantKind(err, session.KindWorkerUnavailable)
				e, _ := errors.AsType[*session.Error](err)
				if e == nil || e.RetryAfter <= last {
					t.Fatalf("death %d: %+v, the last wait was %v", n, err, last)
				}
				last = e.RetryAfter
				w.modern(bob) // who has nothing to do with it
				time.Sleep(last)
			}
			dies(time.Second)
		}
		time.Sleep(time.Minute)
		dies(11 * time.Second)
		dies(0)
		w.modern(alice)
	})
}

// Shared workers count as sessions do: they take places, make room for the newest when
// nobody uses them, and do not when a call waits in them or somebody listens.
func TestSharedWorkersTakePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{MaxPerPrincipal: 2}, &sessiontest.Spawner{Worker: sessiontest.Server{Capabilities: everything}.Run, InMemory: true})
		s := w.modern(alice)
		w.open(alice)
		time.Sleep(time.Second)
		w.final(s, modernTool("1", "echo", `"text":"x"`, "{}", ""))
		w.open(alice) // the session gave way: it was quiet for longer
		if again := w.modern(alice); again != s {
			t.Error("the shared worker was ended")
		}
		if got := read(t, w.final(s, modernTool("2", "ask", `"method":"roots/list"`, canAll, ""))); got.Result.ResultType != "input_required" {
			t.Fatalf("%+v", got)
		}
		time.Sleep(time.Minute)
		w.open(alice)
		w.open(alice)
		if again := w.modern(alice); again != s {
			t.Error("a worker in which a call waits was ended")
		}
	})
}

// What server/discover said is said again for as long as it holds.
func TestDiscoverWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		discover := parse(t, modernCall("7", "server/discover", "{}", ""))
		said := w.final(w.modern(alice), string(discover.Raw))
		w.spawner.Kill()
		time.Sleep(59 * time.Second)
		if got, ok := w.Answer(0, alice, &discover); !ok || string(got) != said {
			t.Errorf("%s, %v\nwant %s", got, ok, said)
		}
		if got, ok := w.Answer(0, bob, &discover); ok {
			t.Errorf("another principal got %s", got)
		}
		time.Sleep(time.Second)
		if got, ok := w.Answer(0, alice, &discover); ok {
			t.Errorf("after its end: %s", got)
		}
	})
}

// A client that takes JSON alone can't be asked in the legacy era; in the modern one
// the question is the answer.
func TestQuestionsAndJSONAlone(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{}, worker(era))
			s, name := w.open(alice), map[string]string{"legacy": "ask", "modern": "input"}[era]
			single := func(begin func(context.Context, string) (*session.Exchange, error), text string) string {
				t.Helper()
				x, err := begin(t.Context(), text)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				item, err := x.Next(t.Context(), 10*time.Second)
				if err != nil || !item.Final {
					t.Fatalf("%s, %v", item.Bytes, err)
				}
				return string(item.Bytes)
			}
			got := single(func(ctx context.Context, text string) (*session.Exchange, error) {
				return s.Begin(ctx, parse(t, text), session.ModeSingle)
			}, tool("1", name, `"method":"roots/list"`))
			if era == "modern" && !strings.Contains(got, "Accept does not admit events") || era == "legacy" && !strings.Contains(got, "error ") {
				t.Errorf("%s worker, legacy client: %s", era, got)
			}
			got = single(func(ctx context.Context, text string) (*session.Exchange, error) {
				return w.modern(alice).BeginModern(ctx, parse(t, text), session.ModeSingle)
			}, modernTool("1", name, `"method":"roots/list"`, canAll, ""))
			if read(t, got).Result.ResultType != "input_required" {
				t.Errorf("%s worker, modern client: %s", era, got)
			}
		})
	}
}

// Calls that wait in a legacy worker are bounded in number.
func TestHeldCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.modern(alice)
		ask := func(n int) (string, error) {
			got, err := w.do(s, modernTool("1", "ask", fmt.Sprintf(`"n":%d,"method":"roots/list"`, n), canAll, ""))
			if err != nil {
				return "", err
			}
			return read(t, got[0]).Result.RequestState, nil
		}
		var states []string
		for n := range 16 {
			state, err := ask(n)
			if err != nil {
				t.Fatal(n, err)
			}
			states = append(states, state)
		}
		_, err := ask(16)
		w.wantKind(err, session.KindBusy)
		for n, state := range states[:2] {
			got := read(t, w.final(s, modernTool("2", "ask", fmt.Sprintf(`"n":%d,"method":"roots/list"`, n), canAll, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"roots-1":{"roots":[%d]}}`, state, n))))
			if got.Result.Content[0].Text != fmt.Sprintf(`{"roots":[%d]}`, n) {
				t.Errorf("%d: %+v", n, got)
			}
		}
		if _, err := ask(17); err != nil {
			t.Errorf("with two back: %v", err)
		}
	})
}

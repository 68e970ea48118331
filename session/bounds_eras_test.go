package session_test

import (
	"bufio"
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

// What server/discover said is said again for as long as it holds, and says how much
// longer that is.
func TestDiscoverWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		discover := parse(t, modernCall("7", "server/discover", "{}", ""))
		said := w.final(w.modern(alice), string(discover.Raw))
		w.spawner.Kill()
		time.Sleep(59 * time.Second)
		got, ok := w.Answer(0, alice, &discover)
		if g := read(t, string(got)).Result; !ok || g.TTL == nil || *g.TTL != 1000 {
			t.Errorf("%s, %v", got, ok)
		}
		if again := strings.Replace(string(got), `,"ttlMs":1000`, ``, 1); again != strings.Replace(said, `,"ttlMs":60000`, ``, 1) {
			t.Errorf("%s\nwant %s", got, said)
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

// A round whose worker ends while its questions are gathered waits for nobody.
func TestRoundOfAnEndedWorker(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo})
	s := w.modern(alice)
	x, err := s.BeginModern(t.Context(), parse(t, modernTool("1", "ask", `"method":"roots/list"`, canAll, "")), session.ModeStream)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if item, err := x.Next(t.Context(), 20*time.Millisecond); !errors.Is(err, session.ErrWait) {
		t.Fatalf("%s, %v", item.Bytes, err)
	}
	session.EndHeld(s) // as the end of the worker does, before the call hears of it
	_, err = x.Next(t.Context(), 10*time.Second)
	w.wantKind(err, session.KindWorkerGone)
	if n := session.Held(s); n != 0 {
		t.Errorf("%d calls wait in a worker that is gone", n)
	}
}

// Questions that wait for their client are bounded in bytes.
func TestQuestionsAreBounded(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: asking(4, 400<<10)})
	got := read(t, w.final(w.modern(alice), modernTool("1", "any", "", canAll, "")))
	if n := len(got.Result.InputRequests); n != 2 {
		t.Errorf("%d questions of 400 KiB wait, want 2", n)
	}
}

// asking is a legacy worker that asks n times, with params of that size, during each
// call.
func asking(n, size int) sessiontest.Func {
	return func(p *sessiontest.Process) int {
		in := bufio.NewScanner(p.In)
		for in.Scan() {
			m, _ := parseLine(in.Text())
			switch {
			case m.id == "":
			case m.method == "initialize":
				fmt.Fprintf(p.Out, isLegacy+"\n", m.id)
			case m.method == "server/discover":
				fmt.Fprintf(p.Out, isError+"\n", m.id)
			case m.method == "tools/call":
				for i := range n {
					fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":"q%d","method":"sampling/createMessage","params":{"x":"%s"}}`+"\n", i, strings.Repeat("x", size))
				}
			}
		}
		return 0
	}
}

// What waits for a listener that does not read is bounded in bytes; the newest stays.
func TestChangesAreBounded(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("legacy"))
	s := w.modern(alice)
	x, err := s.BeginModern(t.Context(), parse(t, modernCall("1", "subscriptions/listen", "{}", `,"notifications":{"toolsListChanged":true}`)), session.ModeStream)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	const size = 100 << 10
	for n := range 30 {
		w.final(s, modernTool("9", "notify", fmt.Sprintf(`"method":"notifications/tools/list_changed","params":{"x":"%d%s"}`, n, strings.Repeat("x", size)), "{}", ""))
	}
	total, last := 0, ""
	for {
		item, err := x.Next(t.Context(), 100*time.Millisecond)
		if err != nil {
			break
		}
		total, last = total+len(item.Bytes), string(item.Bytes)
	}
	if total > 2<<20 || total < size || !strings.Contains(last, `"29xxx`) {
		t.Errorf("%d bytes waited, the last %.200s", total, last)
	}
}

// A list of tools is kept for a while, but a long one is not, and a page is never taken
// for the beginning.
func TestKeptTools(t *testing.T) {
	long := fmt.Sprintf(`,"x":"%s"`, strings.Repeat("x", 2<<20))
	for name, c := range map[string]struct {
		hello, more, cursor string
		kept                bool
	}{
		"legacy, first page": {isLegacy, "", "", true}, "legacy, second page": {isLegacy, "", `,"cursor":"2"`, false}, "legacy, long": {isLegacy, long, "", false},
		"modern, first page": {isModern, "", "", true}, "modern, second page": {isModern, "", `,"cursor":"2"`, false}, "modern, long": {isModern, long, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answer: func(method, id string) string {
				switch {
				case method == "tools/list":
					return `{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[],"ttlMs":60000,"resultType":"complete"` + c.more + `}}`
				case (method == "server/discover") == (c.hello == isModern):
					return fmt.Sprintf(c.hello, id)
				}
				return fmt.Sprintf(isError, id)
			}}
			w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: s.run})
			worker := w.modern(alice)
			w.final(worker, modernCall("1", "tools/list", "{}", c.cursor))
			worker.End("for the test")
			w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
			first := parse(t, modernCall("2", "tools/list", "{}", ""))
			if _, ok := w.Answer(0, alice, &first); ok != c.kept {
				t.Errorf("kept %v, want %v", ok, c.kept)
			}
		})
	}
}

// A list of tools that the worker said to have changed, before it reached its client, is
// not kept.
func TestChangedToolsAreNotKept(t *testing.T) {
	for name, hello := range map[string]string{"legacy": isLegacy, "modern": isModern} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answer: func(method, id string) string {
				switch {
				case method == "tools/list":
					return `{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[],"ttlMs":60000,"resultType":"complete"}}` + "\n" +
						`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
				case (method == "server/discover") == (hello == isModern):
					return fmt.Sprintf(hello, id)
				}
				return fmt.Sprintf(isError, id)
			}}
			w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: s.run})
			worker := w.modern(alice)
			x, err := worker.BeginModern(t.Context(), parse(t, modernCall("1", "tools/list", "{}", "")), session.ModeStream)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			w.final(worker, modernCall("2", "prompts/list", "{}", "")) // by now the worker has been heard
			if item, err := x.Next(t.Context(), 10*time.Second); err != nil || !item.Final {
				t.Fatalf("%s, %v", item.Bytes, err)
			}
			worker.End("for the test")
			w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
			first := parse(t, modernCall("3", "tools/list", "{}", ""))
			if got, ok := w.Answer(0, alice, &first); ok {
				t.Errorf("%s was kept", got)
			}
		})
	}
}

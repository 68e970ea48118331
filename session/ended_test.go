package session_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// A shared worker that has ended is given to nobody, not even in the moment before its
// end is noticed; what it was about to get is told apart from what it had got.
func TestEndedWorkerIsGivenToNobody(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{}, worker(era))
			s := w.modern(alice)
			x, err := s.BeginModern(context.Background(), parse(t, modernTool("1", "never", "", "{}", "")), session.ModeStream)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			w.spawner.Kill()
			_, err = x.Next(context.Background(), time.Minute)
			w.wantKind(err, session.KindWorkerGone)
			for _, method := range []string{"tools/list", "subscriptions/listen"} {
				_, err = s.BeginModern(context.Background(), parse(t, modernCall("2", method, "{}", `,"notifications":{}`)), session.ModeStream)
				w.wantKind(err, session.KindUnsent)
			}
			session.Relist(s)
			if again := w.modern(alice); again == s {
				t.Error("the ended worker was given out")
			} else if n := len(w.List()); n != 1 {
				t.Errorf("%d workers are listed, want 1", n)
			}
		})
	}
}

// A state of a call that waited in a worker which ended is worth nothing, however the
// calls in the next one are numbered.
func TestStateOfAnEndedWorker(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("legacy"))
	ask := func(more string) ([]string, error) {
		return w.do(w.modern(alice), modernTool("1", "ask", `"method":"roots/list"`, canAll, more))
	}
	first, err := ask("")
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"roots-1":{"roots":[]}}`, read(t, first[0]).Result.RequestState)
	w.spawner.Kill()
	w.eventually("the worker's end is seen", func() bool { return len(w.List()) == 0 })
	if _, err := ask(""); err != nil { // the same call waits in the next worker
		t.Fatal(err)
	}
	_, err = ask(old)
	w.wantKind(err, session.KindState)
}

// What a worker said before it closed its input is delivered, although the next write
// to it fails first.
func TestLastWordsAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{InMemory: true, Worker: func(p *sessiontest.Process) int {
			in := bufio.NewScanner(p.In)
			for in.Scan() {
				switch m, _ := parseLine(in.Text()); m.method {
				case "initialize":
					fmt.Fprintf(p.Out, isLegacy+"\n", m.id)
				case "tools/call":
					_ = p.In.Close()
					time.Sleep(100 * time.Millisecond)
					fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"last words"}]}}`+"\n", m.id)
					return 0
				}
			}
			return 0
		}})
		s := w.open(alice)
		x := w.begin(s, tool("1", "echo", ""))
		defer x.Close()
		synctest.Wait()
		if _, err := s.Begin(context.Background(), parse(t, tool("2", "echo", "")), session.ModeStream); !errors.Is(err, session.ErrGone) {
			t.Errorf("the second call: %v", err)
		}
		item, err := x.Next(context.Background(), time.Minute)
		if err != nil || toolText(item.Bytes) != "last words" {
			t.Errorf("the first call: %s, %v", item.Bytes, err)
		}
	})
}

// Those who begin to listen while the front end's subscription is being widened for
// another are agreed what the worker tells, and not nothing.
func TestListenersAtOnce(t *testing.T) {
	w := newWorld(t, session.Config{MaxCalls: 256}, worker("modern"))
	s := w.modern(alice)
	var all sync.WaitGroup
	for n := range 24 {
		all.Go(func() {
			filter := `,"notifications":{"toolsListChanged":true}`
			if n%2 == 0 {
				filter = fmt.Sprintf(`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:%d"]}`, n)
			}
			x, err := s.BeginModern(context.Background(), parse(t, modernCall("1", "subscriptions/listen", "{}", filter)), session.ModeStream)
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			item, err := x.Next(context.Background(), 10*time.Second)
			if err != nil || !strings.Contains(string(item.Bytes), `"toolsListChanged":true`) {
				t.Errorf("%s, %v", item.Bytes, err)
			}
		})
	}
	all.Wait()
}

// A worker that ends, or has no room, between a client's answer and the retry leaves a
// call that fails and can be closed.
func TestQuestionWithoutARetry(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w *world, s *session.Session)
		kind  session.Kind
	}{
		"the worker has ended": {func(w *world, s *session.Session) {
			w.spawner.Kill()
			w.eventually("the session has ended", func() bool { _, ok := w.Find(0, alice, s.ID()); return !ok })
		}, session.KindSessionGone},
		"too many calls": {func(w *world, s *session.Session) {
			x := w.begin(s, tool("2", "never", ""))
			w.Cleanup(x.Close)
		}, session.KindBusy},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, session.Config{MaxCalls: 1}, &sessiontest.Spawner{Worker: sessiontest.Server{Era: "modern"}.Run})
			s := w.open(alice)
			x := w.begin(s, tool("1", "input", `"method":"roots/list"`))
			item, err := x.Next(t.Context(), 5*time.Second)
			if err != nil || item.Final {
				t.Fatalf("%s, %v", item.Bytes, err)
			}
			q := parse(t, string(item.Bytes))
			if err := s.Answer(t.Context(), parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, q.IDBytes()))); err != nil {
				t.Fatal(err)
			}
			c.spoil(w, s)
			_, err = x.Next(t.Context(), 5*time.Second)
			w.wantKind(err, c.kind)
			x.Close()
		})
	}
}

// A listener whose client leaves while the worker is told of it takes nothing from those
// who come after it.
func TestListenerThatLeaves(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("modern"))
	s := w.modern(alice)
	listen := func(ctx context.Context, filter string) string {
		x, err := s.BeginModern(ctx, parse(t, modernCall("1", "subscriptions/listen", "{}", `,"notifications":`+filter)), session.ModeStream)
		if err != nil {
			return err.Error()
		}
		defer x.Close()
		item, err := x.Next(t.Context(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return string(item.Bytes)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	for n := range 10 {
		listen(left, fmt.Sprintf(`{"resourceSubscriptions":["file:///%d"]}`, n))
		if got := listen(t.Context(), `{"toolsListChanged":true}`); !strings.Contains(got, `"toolsListChanged":true`) {
			t.Fatalf("afterwards: %s", got)
		}
	}
}

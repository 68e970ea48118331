package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/logtest"
	"gatehouse/session"
	"gatehouse/session/sessiontest"

	"github.com/rs/zerolog"
)

// TestOutboxIsBounded: what a client that is away has waiting for it is 256 messages
// and 4 MiB; the oldest notifications make room, and the gap is logged.
func TestOutboxIsBounded(t *testing.T) {
	for name, c := range map[string]struct{ n, size, kept int }{
		"messages": {300, 10, 256},
		"bytes":    {6, 1 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(logtest.Log)
				table := session.New(session.Config{MaxSessions: 2, Lifetime: session.Lifetime{StreamLossGrace: -1}},
					&sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true}, zerolog.New(log))
				w := &world{t, table, nil}
				defer table.Close()
				s := w.open(alice)
				for i := range c.n {
					args := fmt.Sprintf(`"method":"notifications/resources/updated","params":{"uri":"%d.%s"}`, i, strings.Repeat("x", c.size))
					if _, err := w.call(s, tool("1", "notify", args)); err != nil {
						t.Fatal(err)
					}
				}
				x := w.stream(s)
				defer x.Close()
				for i := range c.kept {
					item, err := x.Next(context.Background(), time.Second)
					if want := fmt.Sprintf(`"uri":"%d.`, c.n-c.kept+i); err != nil || !bytes.Contains(item.Bytes, []byte(want)) {
						t.Fatalf("message %d: %.100s, %v, want %s", i, item.Bytes, err, want)
					}
				}
				w.nothing(x)
				if want := fmt.Sprintf(`"notifications":%d`, c.n-c.kept); !strings.Contains(log.String(), want) {
					t.Errorf("the log lacks %s", want)
				}
			})
		})
	}
}

// TestAskThatNobodyTakes: a worker's request is never dropped silently. Without a
// stream it waits a while, is delivered to one that comes, and is answered with an
// error else; so it is when there is no room, and when the client can't be asked.
func TestAskThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan string, 8)
		method := make(chan string, 8)
		worker := sessiontest.Server{OnInitialized: func(c *sessiontest.Conn) {
			for m := range method {
				go func() { answers <- c.Ask(m, "{}") }()
			}
		}}
		w := newWorld(t, session.Config{Lifetime: session.Lifetime{StreamLossGrace: -1}}, &sessiontest.Spawner{Worker: worker.Run, InMemory: true})
		defer close(method)
		s := w.open(alice)
		if err := s.Notify(context.Background(), parse(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		method <- "roots/list"
		if got := <-answers; !strings.HasPrefix(got, "error") || time.Since(start) < 5*time.Second || time.Since(start) > 6*time.Second {
			t.Errorf("nobody came: %s after %v", got, time.Since(start))
		}
		start = time.Now()
		method <- "sampling/createMessage"
		if got := <-answers; !strings.HasPrefix(got, "error") || time.Since(start) != 0 {
			t.Errorf("a client without the capability: %s after %v", got, time.Since(start))
		}
		method <- "roots/list"
		time.Sleep(3 * time.Second)
		x := w.stream(s)
		defer x.Close()
		item, err := x.Next(context.Background(), 0)
		if err != nil || !bytes.Contains(item.Bytes, []byte("roots/list")) {
			t.Fatalf("%s, %v", item.Bytes, err)
		}
		m := parse(t, string(item.Bytes))
		if err := s.Answer(context.Background(), parse(t, `{"jsonrpc":"2.0","id":`+string(m.IDBytes())+`,"result":{"roots":[]}}`)); err != nil {
			t.Fatal(err)
		}
		if got := <-answers; got != `{"roots":[]}` {
			t.Errorf("answered with %s", got)
		}
		if _, err := x.Next(context.Background(), time.Second); !errors.Is(err, session.ErrWait) {
			t.Error(err)
		}
	})
}

// A question that waits for a stream when the server begins to stop is refused, so that
// the call that depends on it can end.
func TestDrainRefusesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.open(alice)
		x, err := s.Begin(context.Background(), parse(t, tool("1", "ask", `"method":"roots/list"`)), session.ModeSingle)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		time.Sleep(time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		go w.Drain(ctx)
		item, err := x.Next(context.Background(), time.Hour)
		if d := time.Since(start); err != nil || !strings.Contains(toolText(item.Bytes), "error ") || d > time.Second {
			t.Errorf("%s, %v, after %v", item.Bytes, err, d)
		}
	})
}

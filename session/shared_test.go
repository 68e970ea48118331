package session_test

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// scripted is a worker whose answers are those of answer, for requests alone; an
// empty one is silence. It notes the methods that it read.
type scripted struct {
	answer func(method, id string) string
	mu     sync.Mutex
	read   []string
	starts int
}

func (s *scripted) run(p *sessiontest.Process) int {
	s.mu.Lock()
	s.starts++
	s.mu.Unlock()
	in := bufio.NewScanner(p.In)
	for in.Scan() {
		m, err := parseLine(in.Text())
		if err != nil {
			return 9
		}
		s.mu.Lock()
		if m.method != "notifications/cancelled" { // of the question that was given up; it may come too late
			s.read = append(s.read, m.method)
		}
		s.mu.Unlock()
		switch a := s.answer(m.method, m.id); {
		case a == "exit":
			return 1
		case a != "" && m.id != "":
			fmt.Fprintln(p.Out, a)
		}
	}
	return 0
}

func (s *scripted) take() (methods string, starts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	methods, starts = strings.Join(s.read, " "), s.starts
	s.read, s.starts = nil, 0
	return methods, starts
}

type line struct{ method, id string }

func parseLine(text string) (l line, err error) {
	_, rest, _ := strings.Cut(text, `"method":"`)
	l.method, _, _ = strings.Cut(rest, `"`)
	if _, rest, ok := strings.Cut(text, `"id":`); ok {
		l.id, _, _ = strings.Cut(rest, ",")
	}
	return l, nil
}

const (
	isLegacy = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"w","version":"1"}}}`
	isModern = `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`
	isError  = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`
	isResult = `{"jsonrpc":"2.0","id":%s,"result":{}}`
)

// A worker is asked in the era of the client that needs it, then in the other, anew
// when it did not survive the first question; what it spoke is asked first next time.
func TestEraIsFoundOut(t *testing.T) {
	for name, c := range map[string]struct {
		answers       map[string]string
		modern        bool // the client
		first, second string
		starts        int
		eras          map[uint16]string
		refused       bool
	}{
		"modern client, legacy worker":        {map[string]string{"server/discover": isError, "initialize": isLegacy}, true, "server/discover initialize notifications/initialized", "initialize notifications/initialized", 1, nil, false},
		"modern client, worker that stalls":   {map[string]string{"server/discover": "", "initialize": isLegacy}, true, "server/discover initialize notifications/initialized", "initialize notifications/initialized", 2, nil, false},
		"modern client, worker that leaves":   {map[string]string{"server/discover": "exit", "initialize": isLegacy}, true, "server/discover initialize notifications/initialized", "initialize notifications/initialized", 2, nil, false},
		"modern client, modern worker":        {map[string]string{"server/discover": isModern}, true, "server/discover", "server/discover", 1, nil, false},
		"modern client, configured as legacy": {map[string]string{"initialize": isLegacy}, true, "initialize notifications/initialized", "initialize notifications/initialized", 1, map[uint16]string{0: "legacy"}, false},
		"modern client, configured wrongly":   {map[string]string{"server/discover": isError, "initialize": isLegacy}, true, "server/discover", "server/discover", 1, map[uint16]string{0: "modern"}, true},
		"modern client, neither":              {map[string]string{"server/discover": isError, "initialize": isError}, true, "server/discover initialize", "server/discover initialize", 1, nil, true},
		"legacy client, modern worker":        {map[string]string{"server/discover": isModern, "initialize": isError}, false, "initialize server/discover", "server/discover", 1, nil, false},
		"legacy client, legacy worker":        {map[string]string{"initialize": isLegacy}, false, "initialize", "initialize", 1, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := &scripted{answer: func(method, id string) string {
					a, ok := c.answers[method]
					if !ok {
						a = isResult
					}
					if strings.Contains(a, "%s") {
						a = fmt.Sprintf(a, id)
					}
					return a
				}}
				w := newWorld(t, session.Config{Eras: c.eras}, &sessiontest.Spawner{Worker: script.run, InMemory: true})
				for n, want := range []string{c.first, c.second} {
					var s *session.Session
					var err error
					if c.modern {
						s, _, err = w.Modern(context.Background(), 0, alice)
					} else {
						s, _, err = w.Open(context.Background(), 0, alice, parse(t, initialize))
					}
					synctest.Wait()
					got, starts := script.take()
					if got != want || n == 0 && starts != c.starts || n == 1 && starts != 1 {
						t.Errorf("time %d: the worker read %q in %d processes, want %q", n+1, got, starts, want)
					}
					if (err != nil) != c.refused {
						t.Fatalf("time %d: %v", n+1, err)
					}
					if err == nil {
						s.End("for the test")
						time.Sleep(time.Second)
					}
				}
			})
		})
	}
}

// A shared worker ends when nobody asks for long, or its token is too old, and not
// while somebody listens; the next request starts another.
func TestSharedWorkerEnds(t *testing.T) {
	for name, c := range map[string]struct {
		expiry time.Duration
		listen bool
		ends   time.Duration // 0: it lives
	}{
		"idle":             {0, false, time.Hour},
		"somebody listens": {0, true, 0},
		"token is old":     {10 * time.Minute, true, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, session.Config{CredentialGrace: 10 * time.Minute, Lifetime: session.Lifetime{Streamless: time.Hour}},
					&sessiontest.Spawner{Worker: sessiontest.Server{Era: "both", Capabilities: everything}.Run, InMemory: true})
				caller := alice
				if c.expiry > 0 {
					caller.Expiry = time.Now().Add(c.expiry)
				}
				s := w.modern(caller)
				start := time.Now()
				if c.listen {
					x, err := s.BeginModern(context.Background(), parse(t, modernCall("1", "subscriptions/listen", "{}", `,"notifications":{"toolsListChanged":true}`)), session.ModeStream)
					if err != nil {
						t.Fatal(err)
					}
					defer x.Close()
					item, err := x.Next(context.Background(), time.Second)
					for err == nil && !item.Final {
						item, err = x.Next(context.Background(), 3*time.Hour)
					}
					switch {
					case c.expiry > 0 && (err != nil || time.Since(start) != c.expiry):
						t.Errorf("the stream ended after %v: %v, want a graceful end at the expiry", time.Since(start), err)
					case c.expiry == 0 && err != session.ErrWait:
						t.Errorf("%s, %v: want nothing", item.Bytes, err)
					}
				}
				for len(w.List()) > 0 && time.Since(start) < 4*time.Hour {
					time.Sleep(time.Minute)
				}
				switch d := time.Since(start); {
				case c.ends == 0 && len(w.List()) == 0:
					t.Errorf("it ended after %v", d)
				case c.ends > 0 && (d < c.ends || d > c.ends+2*time.Minute):
					t.Errorf("it ended after %v, want %v", d, c.ends)
				}
				if c.ends > 0 {
					if again := w.modern(alice); again == s {
						t.Error("the ended worker was given out")
					}
				}
			})
		})
	}
}

// A call whose client does not come back is cancelled, and its state is worth nothing.
func TestAbandonedRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.modern(alice)
		first := read(t, w.final(s, modernTool("1", "ask", `"method":"roots/list"`, canAll, "")))
		time.Sleep(10*time.Minute + time.Second)
		if got := read(t, w.final(s, modernTool("2", "cancelled", "", "{}", ""))); got.Result.Content[0].Text == "" {
			t.Error("the worker was not told")
		}
		_, err := w.do(s, modernTool("3", "ask", `"method":"roots/list"`, canAll, fmt.Sprintf(`,"requestState":%q`, first.Result.RequestState)))
		w.wantKind(err, session.KindState)
	})
}

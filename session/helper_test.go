package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"

	"github.com/rs/zerolog"
)

const initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"test","version":"1"}}}`

var (
	alice = session.Caller{Principal: identity.Principal{Issuer: "https://id.test", Subject: "alice", Client: "app"}, Token: "alice-1"}
	bob   = session.Caller{Principal: identity.Principal{Issuer: "https://id.test", Subject: "bob", Client: "app"}, Token: "bob-1"}
)

// world is a table over a spawner, closed at the end of the test, which then checks
// that no worker and no goroutine is left.
type world struct {
	testing.TB
	*session.Table
	spawner *sessiontest.Spawner
}

func newWorld(t testing.TB, cfg session.Config, sp *sessiontest.Spawner) *world {
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = 100
	}
	w := &world{t, session.New(cfg, sp, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)), sp}
	t.Cleanup(func() {
		w.Close()
		if n := sp.Alive(); n != 0 {
			t.Errorf("%d workers are left", n)
		}
		if left := leftovers(); left != "" {
			t.Errorf("goroutines are left:\n%s", left)
		}
	})
	return w
}

// leftovers are the stacks of goroutines that run this module's code outside of
// tests, when there are still some after ten seconds: only a hang leaves any.
func leftovers() (left string) {
	for range 1000 {
		left = ""
		buf := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "gatehouse/session") && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(stack, "testing.(*B)") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}

func parse(t testing.TB, text string) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func (w *world) open(c session.Caller) *session.Session {
	w.Helper()
	s, answer, err := w.Open(context.Background(), 0, c, parse(w, initialize))
	if err != nil {
		w.Fatal(err)
	}
	if s == nil {
		w.Fatalf("refused: %s", answer)
	}
	return s
}

// tool is the text of a tools/call request; args are the members of its arguments.
func tool(id, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{%s}}}`, id, name, args)
}

func (w *world) begin(s *session.Session, text string) *session.Exchange {
	w.Helper()
	x, err := s.Begin(context.Background(), parse(w, text), session.ModeStream)
	if err != nil {
		w.Fatal(err)
	}
	return x
}

// call does a call and returns the text that the tool answered with, or the whole
// answer when there is none.
func (w *world) call(s *session.Session, text string) (string, error) {
	w.Helper()
	x := w.begin(s, text)
	defer x.Close()
	for {
		item, err := x.Next(context.Background(), time.Minute)
		if err != nil {
			return "", err
		}
		if item.Final {
			return toolText(item.Bytes), nil
		}
	}
}

func toolText(answer []byte) string {
	var m struct {
		Result struct {
			Content []struct{ Text string }
		}
	}
	if json.Unmarshal(answer, &m) != nil || len(m.Result.Content) != 1 {
		return string(answer)
	}
	return m.Result.Content[0].Text
}

func (w *world) wantKind(err error, kind session.Kind) {
	w.Helper()
	var e *session.Error
	if !errors.As(err, &e) || e.Kind != kind {
		w.Errorf("got %v, want kind %v", err, kind)
	}
}

// eventually waits for a condition that another goroutine brings about.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Fatalf("not in 20 s: %s", what)
}

func contains(t testing.TB, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in %q", want, text)
	}
}

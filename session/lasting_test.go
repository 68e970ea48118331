package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// The limit of a request's time is not one of the front end's own subscription, which
// lasts as long as the worker, nor can a client cancel what it has not asked for.
func TestSubscriptionOutlastsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sp := worker("modern")
		sp.InMemory = true
		w := newWorld(t, session.Config{Lifetime: session.Lifetime{RequestTimeout: time.Minute}}, sp)
		s := w.open(alice)
		x := w.stream(s)
		defer x.Close()
		if err := s.Notify(context.Background(), parse(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"listen"}}`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got, err := w.call(s, tool("1", "cancelled", "")); err != nil || got != "" {
			t.Errorf("the worker heard of cancelled requests %q, %v", got, err)
		}
		if _, err := w.call(s, tool("2", "change", `"method":"notifications/tools/list_changed"`)); err != nil {
			t.Fatal(err)
		}
		item, err := x.Next(context.Background(), time.Second)
		if err != nil || !strings.Contains(string(item.Bytes), "tools/list_changed") {
			t.Errorf("%s, %v", item.Bytes, err)
		}
	})
}

// Questions that nobody will answer, because their calls are over, do not keep a worker
// from asking others.
func TestForgottenQuestionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		s := w.modern(alice)
		for n := range 70 { // more than may be unanswered at once
			got := read(t, w.final(s, modernTool(fmt.Sprint(n), "ask", `"method":"roots/list"`, canAll, "")))
			if got.Result.ResultType != "input_required" {
				t.Fatalf("question %d: %+v", n, got)
			}
			time.Sleep(11 * time.Minute) // the call is given up
		}
	})
}

// A worker that declares logging and does not answer when it is told a level holds up
// one request for some seconds, and no other.
func TestLevelIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := &scripted{answer: func(method, id string) string {
			switch method {
			case "server/discover":
				return fmt.Sprintf(isError, id)
			case "initialize":
				return strings.Replace(fmt.Sprintf(isLegacy, id), `"capabilities":{}`, `"capabilities":{"logging":{}}`, 1)
			case "logging/setLevel":
				return ""
			}
			return fmt.Sprintf(isResult, id)
		}}
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: script.run, InMemory: true})
		s := w.modern(alice)
		call := strings.Replace(modernTool("1", "echo", "", "{}", ""), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"info",`, 1)
		for _, limit := range []time.Duration{5 * time.Second, 0} {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			began := time.Now()
			x, err := s.BeginModern(ctx, parse(t, call), session.ModeStream)
			if took := time.Since(began); err != nil || took > limit {
				t.Fatalf("%v after %v, want the call begun in %v", err, took, limit)
			}
			if item, err := x.Next(ctx, time.Minute); err != nil || !item.Final {
				t.Errorf("%s, %v", item.Bytes, err)
			}
			x.Close()
			cancel()
		}
	})
}

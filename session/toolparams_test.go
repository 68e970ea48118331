package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// tooled is a legacy worker that answers tools/list as list says; "" is silence.
func tooled(lists *atomic.Int32, list func() string) *sessiontest.Spawner {
	const declared = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"w","version":"1"}}}`
	s := &scripted{answer: func(method, id string) string {
		answer := isResult
		switch method {
		case "server/discover":
			answer = isError
		case "initialize":
			answer = declared
		case "tools/list":
			lists.Add(1)
			answer = list()
		case "tools/call":
			return "" // the tests fill the worker with them
		}
		return strings.ReplaceAll(answer, "%s", id)
	}}
	return &sessiontest.Spawner{Worker: s.run, InMemory: true}
}

const marked = `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"get","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]}}`

// A worker that does not say which tools it has delays all calls that wait once, and
// then none for a while.
func TestWorkerWithoutATool(t *testing.T) {
	for name, c := range map[string]struct {
		list  string
		delay time.Duration
	}{"silent": {"", 10 * time.Second}, "refuses": {isError, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lists atomic.Int32
				var answer atomic.Value
				answer.Store(c.list)
				w := newWorld(t, session.Config{Now: time.Now}, tooled(&lists, func() string { return answer.Load().(string) }))
				s := w.modern(alice)
				ask := func(want int, delay time.Duration, asked int32) {
					t.Helper()
					start := time.Now()
					if params, err := s.ToolParams(t.Context(), []byte("get")); err != nil || len(params) != want {
						t.Errorf("%d parameters, %v; want %d", len(params), err, want)
					}
					if took := time.Since(start); took != delay || lists.Load() != asked {
						t.Errorf("took %v and asked %d times in all, want %v and %d", took, lists.Load(), delay, asked)
					}
				}
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() { ask(0, c.delay, 1) })
				}
				all.Wait()
				ask(0, 0, 1)
				time.Sleep(time.Minute)
				answer.Store(marked)
				ask(1, 0, 2)
				ask(1, 0, 2)
			})
		})
	}
}

// The question does not end with the request that needed it first, and that request
// does not wait for it once its client is gone.
func TestToolsOutliveTheirAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		w := newWorld(t, session.Config{Now: time.Now}, tooled(&lists, func() string { time.Sleep(5 * time.Second); return marked }))
		s := w.modern(alice)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if _, err := s.ToolParams(ctx, []byte("get")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that its client is gone", err)
		}
		start := time.Now()
		params, err := s.ToolParams(t.Context(), []byte("get"))
		if took := time.Since(start); err != nil || len(params) != 1 || took != 4*time.Second || lists.Load() != 1 {
			t.Errorf("%d parameters, %v, after %v and %d questions", len(params), err, took, lists.Load())
		}
	})
}

// A worker that has no room for the question is not taken for one without parameters.
func TestToolsOfABusyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int32
		w := newWorld(t, session.Config{Now: time.Now, MaxCalls: 1}, tooled(&lists, func() string { return marked }))
		s := w.modern(alice)
		x, err := s.BeginModern(t.Context(), parse(t, modernTool("1", "get", "", "{}", "")), session.ModeStream)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.ToolParams(t.Context(), []byte("get"))
		w.wantKind(err, session.KindBusy)
		x.Close()
		if params, err := s.ToolParams(t.Context(), []byte("get")); err != nil || len(params) != 1 {
			t.Errorf("%d parameters, %v", len(params), err)
		}
	})
}

package router

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth"
	"gatehouse/auth/audit"
	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

const notice = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"one more second has passed"}}` + "\n"

// replays are a stream of which nothing is kept, and one that can be resumed.
var replays = map[string]session.Replay{"forgotten": {}, "kept": {Events: 256, Bytes: 1 << 20, Keep: time.Minute}}

// BenchmarkStreamMessage is one message of a worker on an open GET stream: from its pipe
// to what net/http is given, without a connection.
func BenchmarkStreamMessage(b *testing.B) {
	for name, replay := range replays {
		b.Run(name, func(b *testing.B) {
			message := streamRig(b, replay)
			b.ReportAllocs()
			for b.Loop() {
				message()
			}
		})
	}
}

// TestAllocationsOfAStreamMessage holds a message on a stream to no object at all, or to
// the copy that is kept of it. One more is the tolerance.
func TestAllocationsOfAStreamMessage(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, replay := range replays {
		limit := 1.
		if name == "kept" {
			limit = 2
		}
		message := streamRig(t, replay)
		for range 300 { // fills the pools, and what is kept
			message()
		}
		if n := testing.AllocsPerRun(300, message); n > limit {
			t.Errorf("%v allocations a message (%q), the limit is %v", n, name, limit)
		}
	}
}

// streamRig opens a stream and returns what has the worker send one message and waits
// until it was flushed.
func streamRig(tb testing.TB, replay session.Replay) (message func()) {
	say, line := make(chan struct{}), []byte(notice)
	worker := func(p *sessiontest.Process) int {
		go func() {
			for range say {
				p.Out.Write(line) // what does not come is waited for
			}
		}()
		return fastLines(p)
	}
	table := session.New(session.Config{MaxSessions: 1, Replay: replay}, &sessiontest.Spawner{Worker: worker}, zerolog.Nop())
	door, err := New(Config{Loopback: true, MaxBody: 1 << 20, Sessions: table, Audit: audit.New(io.Discard),
		Servers: []Server{{Path: "/mcp", Gate: auth.Loopback{}}}})
	if err != nil {
		tb.Fatal(err)
	}
	h := http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
	w := &nullWriter{h: http.Header{}}
	door.ServeHTTP(w, benchRequest(h, initBody))
	h.Set("Mcp-Session-Id", w.h.Get("Mcp-Session-Id"))
	get := benchRequest(h, "")
	get.Method = http.MethodGet
	ctx, cancel := context.WithCancel(get.Context())
	flushed, done := make(flushes, 1), make(chan struct{})
	go func() {
		defer close(done)
		door.ServeHTTP(struct {
			*nullWriter
			flushes
		}{&nullWriter{h: http.Header{}}, flushed}, get.WithContext(ctx))
	}()
	<-flushed // the beginning
	tb.Cleanup(func() {
		cancel()
		<-done
		close(say)
		table.Close()
	})
	return func() {
		say <- struct{}{}
		<-flushed
	}
}

// flushes is told of each flush.
type flushes chan struct{}

// Flush implements http.Flusher.
func (f flushes) Flush() { f <- struct{}{} }

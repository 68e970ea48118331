package bridge

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// FuzzWorker lets a worker write anything after its handshake, while two calls run:
// nothing panics or hangs, a call gets at most one response and that under its own
// id, and everything that is passed on is one valid message of one line.
func FuzzWorker(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":2,"result":{}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}`,
		`{"jsonrpc":"2.0","id":"x","method":"roots/list"}`,
		"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"sampling/createMessage\",\"params\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}",
		"{\"jsonrpc\":\"2.0\",\r\"id\":2,\"error\":{}}",
		`[{"jsonrpc":"2.0","id":2,"result":{}}]`,
		"\n\n{}", "\xff",
		"{\"jsonrpc\":\"2.0\",\"method\":\"{\"}\n0",
	} {
		f.Add(s)
	}
	greeting := `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}` + "\n"
	f.Fuzz(func(t *testing.T, text string) {
		sp := &sessiontest.Spawner{InMemory: true, Worker: func(p *sessiontest.Process) int {
			read := make([]byte, 4096)
			_, _ = p.In.Read(read)
			_, _ = io.WriteString(p.Out, greeting)
			_, _ = p.In.Read(read) // the calls
			_, _ = io.WriteString(p.Out, text)
			return 0
		}}
		w, err := sp.Spawn(context.Background(), spawn.Request{})
		if err != nil {
			t.Fatal(err)
		}
		up := &upstream{can: CanSample}
		b := New(w, Config{}, up, noLog)
		b.Start()
		if _, err := b.Handshake(context.Background(), parse(t, initialize)); err != nil {
			t.Fatal(err)
		}
		var calls [2]Call
		var ids []string
		for i, id := range []string{`"one"`, `2`} {
			m := parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"_meta":{"progressToken":"tok"}}}`)
			if b.Begin(context.Background(), &calls[i], m, Options{Can: CanListRoots}) == nil {
				ids = append(ids, id)
			}
		}
		for i, id := range ids {
			follow(t, &calls[i], id)
		}
		b.Stop("test")
		select {
		case <-b.Finished():
		case <-time.After(20 * time.Second):
			t.Fatal("hangs")
		}
		for _, n := range append(up.notes, up.asks...) {
			valid(t, []byte(n))
		}
	})
}

// follow reads a call to its end.
func follow(t *testing.T, c *Call, id string) {
	defer c.Close()
	for {
		msg, final, err := c.Next(context.Background(), 10*time.Second)
		if err != nil {
			if err == ErrWait {
				t.Fatal("hangs")
			}
			return
		}
		m := valid(t, msg)
		if final != (m.Kind == jsonrpc.Response) || final && string(m.IDBytes()) != id {
			t.Fatalf("call %s got %s", id, msg)
		}
		if final {
			if again, _, err := c.Next(context.Background(), time.Millisecond); err == nil {
				t.Fatalf("after the response: %s", again)
			}
			return
		}
	}
}

func valid(t *testing.T, msg []byte) jsonrpc.Message {
	m, err := jsonrpc.ParseWorker(msg)
	if err != nil || strings.ContainsAny(string(msg), "\r\n") {
		t.Fatalf("%q: %v", msg, err)
	}
	return m
}

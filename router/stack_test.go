package router

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth"
	"gatehouse/auth/audit"
	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// TestStackOfAWaitingStream: the runtime takes a stack back to twice of what is used of
// it and halves no further, so a few hundred bytes more between net/http and the wait
// cost each open stream 8 KiB.
func TestStackOfAWaitingStream(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's frames are larger")
	}
	const n, limit = 100, 14 << 10 // net/http's reader in the background is 2 KiB of that
	table := session.New(session.Config{MaxSessions: n}, &sessiontest.Spawner{Worker: fastLines}, zerolog.Nop())
	t.Cleanup(table.Close)
	door, err := New(Config{Loopback: true, MaxBody: 1 << 20, Sessions: table, Audit: audit.New(io.Discard),
		Servers: []Server{{Path: "/mcp", Gate: auth.Loopback{}}}})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(door, nil, nil)
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	ask := func(c net.Conn, want, format string, args ...any) string {
		fmt.Fprintf(c, format, args...)
		var b [4096]byte
		k, err := c.Read(b[:])
		if head := string(b[:k]); err != nil || !strings.HasPrefix(head, "HTTP/1.1 200") || !strings.Contains(head, want) {
			t.Fatalf("%q, %v, want %s", head, err, want)
		}
		return string(b[:k])
	}
	ids := make([]string, n)
	for i := range ids {
		c := dial(t, ln)
		head := ask(c, "Mcp-Session-Id: ", "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", ln.Addr(), len(initBody), initBody)
		_, id, _ := strings.Cut(head, "Mcp-Session-Id: ")
		ids[i], _, _ = strings.Cut(id, "\r\n")
		c.Close()
	}
	before := stacks()
	for _, id := range ids {
		ask(dial(t, ln), "text/event-stream", "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", ln.Addr(), id)
	}
	each := (stacks() - before) / n
	t.Logf("%d bytes of stack a stream", each)
	if each > limit {
		t.Errorf("a stream that waits holds %d bytes of stack, the limit is %d", each, limit)
	}
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// stacks is what all stacks hold once the collector has had time to shrink them.
func stacks() int {
	for range 6 {
		time.Sleep(30 * time.Millisecond)
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}

package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"gatehouse/auth/identity"
)

func TestLineHasTheFieldsThatAreSet(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	l.Request(&Line{
		Remote: "192.0.2.7:4711", Protocol: "HTTP/2.0", Method: "POST", Path: "/mcp", Status: 403,
		Bytes: 12, Duration: 1500 * time.Microsecond, At: time.Unix(1700000000, 5e8).UTC(),
		Principal: identity.Principal{Issuer: "https://id.test", Subject: "alice", Client: "cli"},
		Message:   "initialize", Kind: "noAccount", Reason: "no entry in the accounts file",
	})
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("line is not JSON: %v: %s", err, out.Bytes())
	}
	want := map[string]any{
		"time": "2023-11-14T22:13:20Z", "level": "info", "remote": "192.0.2.7", "proto": "HTTP/2.0", "method": "POST", "path": "/mcp", "status": 403.0,
		"bytes": 12.0, "us": 1500.0, "iss": "https://id.test", "sub": "alice", "client": "cli",
		"rpc": "initialize", "kind": "noAccount", "reason": "no entry in the accounts file", "message": "request",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %v, want %v", k, got[k], v)
		}
	}
	for _, absent := range []string{"account", "session"} {
		if _, ok := got[absent]; ok {
			t.Errorf("%s is there though it is empty", absent)
		}
	}
}

// TestTimeOfALine: each line has the second in which its request was finished.
func TestTimeOfALine(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	start := time.Unix(1700000000, 0).UTC()
	want := []string{}
	for _, ms := range []int{0, 999, 1000, 400, 3600000, 3600001} {
		at := start.Add(time.Duration(ms) * time.Millisecond)
		want = append(want, at.Format(time.RFC3339))
		l.Request(&Line{At: at})
	}
	for i, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var got struct{ Time string }
		if err := json.Unmarshal(line, &got); err != nil || i >= len(want) || got.Time != want[i] {
			t.Errorf("line %d: %s, want %s", i, line, want[i])
		}
	}
}

func TestZeroLogWritesNothing(t *testing.T) {
	var l Log
	l.Request(&Line{Method: "POST"})
}

func TestLineIsOneLineWhateverTheClientSent(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	evil := "/x\r\n{\"status\":200}\x00\x7f\x1b[2J\u2028\u009b\u202e" + strings.Repeat("a", 4096)
	l.Request(&Line{Method: evil, Path: evil, Message: evil, Reason: "bytes \x00\n\u202e", Status: 500,
		Principal: identity.Principal{Subject: "a\nb\u202e"}})
	b := out.Bytes()
	if n := bytes.Count(b, []byte("\n")); n != 1 {
		t.Errorf("%d line ends in the line, want 1", n)
	}
	for i, c := range b[:len(b)-1] {
		if c < ' ' || c == 0x7f {
			t.Errorf("control byte %#x at %d", c, i)
		}
	}
	if i := bytes.IndexFunc(b[:len(b)-1], func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("a terminal could obey %q", b[i:min(i+4, len(b))])
	}
	if len(b) > 2048 {
		t.Errorf("line has %d bytes; what a client chooses must be cut", len(b))
	}
	if !json.Valid(b) {
		t.Errorf("line is not JSON: %s", b)
	}
}

// slow is a writer that takes its time and remembers all.
type slow struct {
	mu   sync.Mutex
	all  bytes.Buffer
	took time.Duration
}

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(s.took)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func TestWriterLosesNothingAndStaysBounded(t *testing.T) {
	out := &slow{took: time.Millisecond}
	w := NewWriter(out)
	const writers, lines = 8, 2000
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range lines {
				fmt.Fprintf(w, "%d %d %s\n", i, j, strings.Repeat("x", 200))
				w.mu.Lock()
				n := len(w.buf)
				w.mu.Unlock()
				if n > MaxBuffer {
					t.Errorf("%d bytes wait, more than MaxBuffer", n)
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	next := [writers]int{}
	for line := range strings.Lines(out.all.String()) {
		var i, j int
		var x string
		if _, err := fmt.Sscanf(line, "%d %d %s\n", &i, &j, &x); err != nil || len(x) != 200 {
			t.Fatalf("torn line %q", line)
		}
		if j != next[i] {
			t.Fatalf("writer %d: line %d follows %d", i, j, next[i]-1)
		}
		next[i]++
	}
	for i, n := range next {
		if n != lines {
			t.Errorf("writer %d: %d lines arrived, want %d", i, n, lines)
		}
	}
}

func TestWriterFlushesByItself(t *testing.T) {
	out := &slow{}
	w := NewWriter(out)
	defer w.Close()
	fmt.Fprintln(w, "hello")
	deadline := time.Now().Add(5 * time.Second)
	for {
		out.mu.Lock()
		got := out.all.String()
		out.mu.Unlock()
		if got == "hello\n" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 5 s: %q", got)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWriterAfterClose(t *testing.T) {
	out := &slow{}
	w := NewWriter(out)
	fmt.Fprintln(w, "before")
	w.Close()
	fmt.Fprintln(w, "after")
	w.Close()
	if got := out.all.String(); got != "before\nafter\n" {
		t.Errorf("got %q", got)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no reader") }

func TestWriterTellsOfABrokenWriterBelow(t *testing.T) {
	w := NewWriter(broken{})
	fmt.Fprintln(w, "x")
	if err := w.Close(); err == nil {
		t.Error("Close says nothing")
	}
}

func BenchmarkRequest(b *testing.B) {
	w := NewWriter(new(discard))
	defer w.Close()
	l := New(w)
	line := Line{Remote: "127.0.0.1:4711", Protocol: "HTTP/1.1", Method: "POST", Path: "/mcp", Status: 200, Bytes: 120,
		Principal: identity.Principal{Issuer: "https://id.test", Subject: "alice", Client: "cli"}, Session: "abcdefgh", Message: "tools/call"}
	b.ReportAllocs()
	for b.Loop() {
		line.At = time.Now()
		l.Request(&line)
	}
}

type discard struct{}

func (*discard) Write(p []byte) (int, error) { return len(p), nil }

// Package logtest is a log that a test reads while others write it.
package logtest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log collects what is written to it. It is safe for concurrent use; the zero Log is
// empty and ready.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write adds to the log. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Await waits until the log holds a text, and ends the test when it does not within
// 5 s. Call it from the test's own goroutine.
func (l *Log) Await(t testing.TB, text string) {
	t.Helper()
	for range 500 {
		if strings.Contains(l.String(), text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("log lacks %q:\n%s", text, l)
}

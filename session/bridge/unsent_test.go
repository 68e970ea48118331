package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// foreseen is a worker that answers the handshake, reads nothing any more, and reports
// progress of the next two calls, whose ids it can foresee, until its pipes break.
func foreseen(p *sessiontest.Process) int {
	line, err := bufio.NewReaderSize(p.In, 512).ReadString('\n')
	if err != nil {
		return 1
	}
	m, err := jsonrpc.Parse([]byte(strings.TrimSpace(line)))
	if err != nil {
		return 1
	}
	id, _ := parseID(m.IDBytes())
	if _, err := fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n", id); err != nil {
		return 1
	}
	for err == nil {
		for next := id + 1; next <= id+2 && err == nil; next++ {
			_, err = fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`+"\n", next)
		}
		time.Sleep(time.Millisecond)
	}
	return 0
}

// TestProgressOfAnUnsentCall: a worker that reports progress of a call that it was not
// given does not let that call write before its turn.
func TestProgressOfAnUnsentCall(t *testing.T) {
	b, _ := started(t, foreseen, Config{WriteTimeout: 300 * time.Millisecond})
	long := strings.Repeat("x", 1<<20) // more than the pipe takes
	results := make([]chan error, 2)
	messages := make([]*jsonrpc.Message, 2) // made before: the first call does not wait long for the second
	for i := range messages {
		messages[i] = parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m","params":{"_meta":{"progressToken":"t"},"x":"%s"}}`, i, long))
	}
	for i, m := range messages {
		results[i] = make(chan error, 1)
		go func() {
			var c Call
			results[i] <- b.Begin(context.Background(), &c, m, Options{})
		}()
		eventually(t, "the call is entered", func() bool { all, _ := b.Running(); return all == i+1 })
		if i == 0 {
			eventually(t, "it writes", func() bool { return len(b.writeLock) == 0 })
		}
	}
	for i, want := range []error{ErrGone, ErrUnsent} {
		select {
		case err := <-results[i]:
			if !errors.Is(err, want) {
				t.Errorf("call %d: %v, want %v", i, err, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("call %d is never over", i)
		}
	}
}

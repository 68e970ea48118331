package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// TestLimitIsTakenAway: a call that runs when the limit of its time is taken away goes
// on after its next progress.
func TestLimitIsTakenAway(t *testing.T) {
	goOn := make(chan struct{})
	b, _ := started(t, func(p *sessiontest.Process) int {
		in := bufio.NewScanner(p.In)
		for in.Scan() {
			m, err := jsonrpc.Parse(in.Bytes())
			if err != nil || m.Kind != jsonrpc.Request {
				continue
			}
			if m.Is("call") {
				<-goOn
				_, _ = fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", m.IDBytes())
				<-goOn
			}
			_, _ = fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n", m.IDBytes())
		}
		return 0
	}, Config{RequestTimeout: time.Hour})
	var c Call
	if err := b.Begin(context.Background(), &c, parse(t, `{"jsonrpc":"2.0","id":1,"method":"call","params":{"_meta":{"progressToken":"t"}}}`), Options{}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b.Limit(0, 0)
	goOn <- struct{}{}
	if _, final, err := c.Next(context.Background(), 20*time.Second); final || err != nil {
		t.Fatalf("instead of progress: %v, %v", final, err)
	}
	if _, _, err := c.Next(context.Background(), 50*time.Millisecond); !errors.Is(err, ErrWait) {
		t.Errorf("after the progress: %v", err)
	}
	goOn <- struct{}{}
	if _, final, err := c.Next(context.Background(), 20*time.Second); !final || err != nil {
		t.Errorf("instead of the response: %v, %v", final, err)
	}
}

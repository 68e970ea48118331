package session_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
)

// tasking is a legacy worker whose calls become tasks, with as many reports of progress
// as the argument n says, before and after the answer.
func tasking(p *sessiontest.Process) int {
	in := bufio.NewScanner(p.In)
	for in.Scan() {
		m, _ := parseLine(in.Text())
		switch {
		case m.id == "":
		case m.method == "initialize":
			fmt.Fprintf(p.Out, isLegacy+"\n", m.id)
		case m.method == "tools/call":
			said := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}` + "\n"
			fmt.Fprintf(p.Out, said, m.id, 1)
			fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"result":{"task":{"taskId":"t","status":"working","ttl":null}}}`+"\n", m.id)
			fmt.Fprintf(p.Out, said, m.id, 2)
		}
	}
	return 0
}

// The progress of a task goes on after its call was answered, with the client's token, on
// the stream of what belongs to no call.
func TestProgressOfATask(t *testing.T) {
	for name, c := range map[string]struct {
		task string
		goes bool
	}{"a task": {`,"task":{"ttl":60000}`, true}, "no task": {``, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: tasking})
			s := w.open(alice)
			own := w.stream(s)
			defer own.Close()
			x := w.begin(s, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"mine"}`+c.task+`}}`)
			defer x.Close()
			for i, want := range []string{`"progressToken":"mine","progress":1`, `"taskId":"t","status":"working"`} {
				item, err := x.Next(t.Context(), 10*time.Second)
				if err != nil || !strings.Contains(string(item.Bytes), want) || item.Final != (i == 1) {
					t.Fatalf("%s, %v", item.Bytes, err)
				}
			}
			wait := 10 * time.Second
			if !c.goes {
				wait = 100 * time.Millisecond
			}
			item, err := own.Next(t.Context(), wait)
			if got := strings.Contains(string(item.Bytes), `"progressToken":"mine","progress":2`); got != c.goes {
				t.Errorf("%s, %v", item.Bytes, err)
			}
		})
	}
}

package router

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// mortal is a worker of one era that dies for each principal once, when it has read
// so many calls, with those unanswered that it read last. It notes who read what.
type mortal struct {
	era    string
	after  int // calls that are read before the first death
	silent int // of those, how many get no answer

	mu    sync.Mutex     // guards what follows
	read  map[string]int // by the text of a call
	lives int
}

func (d *mortal) run(p *sessiontest.Process) int {
	d.mu.Lock()
	d.lives++
	first := d.lives == 1
	d.mu.Unlock()
	in, calls := bufio.NewScanner(p.In), 0
	for in.Scan() {
		m, err := jsonrpc.Parse(in.Bytes())
		if err != nil || m.Kind != jsonrpc.Request {
			continue
		}
		result := `{"resultType":"complete","content":[]}`
		switch {
		case m.Is("server/discover") && d.era == "modern":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`
		case m.Is("server/discover"):
			fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.IDBytes())
			continue
		case m.Is("initialize"):
			result = `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"w","version":"1"}}`
		case m.Is("tools/call"):
			calls++
			d.mu.Lock()
			d.read[string(jsonrpc.Unquote(m.Name.Of(m.Raw)))]++
			d.mu.Unlock()
			if first && calls > d.after-d.silent {
				if calls == d.after {
					return 3
				}
				continue
			}
		}
		fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.IDBytes(), result)
	}
	return 0
}

// TestModernWorkerDies: a request that the dead worker did not get is served by
// another, and one that it got is answered in words of its era. Nothing is given to
// two workers.
func TestModernWorkerDies(t *testing.T) {
	const gone = `{"jsonrpc":"2.0","id":7,"error":{"code":1001,"message":"the worker ended during the request, which may have had its effect already: repeat it only if that does no harm","data":{"kind":"workerGone"}}}`
	// With no more before the death than one lane has calls, none is done when it comes.
	const lanes, perLane = 4, 8
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			for round := range rounds {
				random := rand.New(rand.NewPCG(7, uint64(round)))
				d := &mortal{era: era, after: 1 + random.IntN(perLane), read: map[string]int{}}
				d.silent = 1 + random.IntN(min(d.after, lanes))
				r := newRig(t, &sessiontest.Spawner{Worker: d.run})
				good := r.mint(authtest.Claim("sub", fmt.Sprint("round ", round)))
				var all sync.WaitGroup
				for lane := range lanes {
					all.Go(func() {
						for n := range perLane {
							name := fmt.Sprintf("t-%d-%d", lane, n)
							resp, body := r.do("HTTP/1.1", post("/mcp", modernBody("7", "tools/call", `,"name":"`+name+`"`), modernHeaders(good, "tools/call", name)))
							served := strings.Contains(body, `"id":7,"result"`)
							if resp.StatusCode != 200 || !served && !strings.Contains(body, gone) {
								t.Errorf("%s: %d %s", name, resp.StatusCode, body)
							}
							d.mu.Lock()
							if times := d.read[name]; times > 1 || served && times != 1 {
								t.Errorf("%s was read %d times, served: %v", name, times, served)
							}
							d.mu.Unlock()
						}
					})
				}
				all.Wait()
				if d.lives != 2 {
					t.Errorf("%d workers were started, want 2", d.lives)
				}
				if t.Failed() {
					t.Fatalf("round %d: after %d, silent %d", round, d.after, d.silent)
				}
			}
		})
	}
}

package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"

// does is a worker that does what the method of a request says.
func does(p *sessiontest.Process) int {
	in := bufio.NewReader(p.In)
	held := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		m, err := jsonrpc.Parse([]byte(line[:len(line)-1]))
		if err != nil || m.Kind != jsonrpc.Request {
			continue
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", m.IDBytes())
		switch string(m.Method()) {
		case "initialize":
			answer = strings.Replace(answer, "{}", `{"protocolVersion":"2025-11-25","capabilities":{}}`, 1)
		case "never":
			answer = ""
		case "die":
			return 1
		case "garbage":
			answer = "{]\n"
		case "huge":
			answer = `{"x":"` + strings.Repeat("x", 1<<20) + "\"}\n"
		case "twice":
			answer += answer
		case "late":
			time.Sleep(60 * time.Millisecond)
		case "progress":
			answer = fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", m.IDBytes()) + answer
		case "half":
			_, _ = io.WriteString(p.Out, answer+changed[:20])
			time.Sleep(10 * time.Millisecond)
			answer = changed[20:]
		case "afterwards":
			_, _ = io.WriteString(p.Out, answer)
			time.Sleep(5 * time.Millisecond)
			answer = changed
		case "hold":
			held, answer = answer, ""
		case "release":
			answer, held = answer+held, ""
		}
		if _, err := io.WriteString(p.Out, answer); err != nil {
			return 1
		}
	}
}

// callOnce makes one call, as the router does: it waits shortly, then for long.
func callOnce(b *Bridge, method string) (answer string, err error) {
	var c Call
	m, err := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":%q,"params":{"_meta":{"progressToken":"t"}}}`, method, method))
	if err != nil {
		return "", err
	}
	if err := b.Begin(context.Background(), &c, &m, Options{}); err != nil {
		return "", err
	}
	defer c.Close()
	for wait := 20 * time.Millisecond; ; wait = 20 * time.Second {
		msg, final, err := c.Next(context.Background(), wait)
		switch {
		case errors.Is(err, ErrWait) && wait < time.Second:
		case err != nil || final:
			return string(msg), err
		}
	}
}

// busy makes quick calls until nobody reads between them.
func busy(t *testing.T, b *Bridge) {
	t.Helper()
	for range 1000 {
		if _, err := callOnce(b, "quick"); err != nil {
			t.Fatal(err)
		}
		if !reads(b) {
			return
		}
	}
	t.Fatal("calls never read for themselves")
}

func reads(b *Bridge) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turn.taken
}

// eventually waits for what only a hang prevents.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func (u *upstream) heard() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.notes)
}

// TestReaderComesBack: quick calls read for themselves; when they stop, the reader
// takes over and stays.
func TestReaderComesBack(t *testing.T) {
	b, _ := started(t, does, Config{})
	if !reads(b) {
		t.Error("nobody reads before the first call")
	}
	for range 3 {
		busy(t, b)
		eventually(t, "the reader comes back", func() bool { return reads(b) })
	}
}

// TestSlowCallsKeepTheReader: calls with pauses between them are the reader's.
func TestSlowCallsKeepTheReader(t *testing.T) {
	var looks atomic.Int64
	start := time.Now()
	b, _ := started(t, does, Config{Now: func() time.Time { return start.Add(time.Duration(looks.Add(1)) * (idleTurn + 1)) }})
	for range 20 {
		if _, err := callOnce(b, "quick"); err != nil || !reads(b) {
			t.Fatalf("%v, somebody reads: %v", err, reads(b))
		}
	}
}

// TestTurns: what a worker does while a call reads for itself has the outcome that it
// has with a reader.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		method string
		err    error
		reason string // of the worker's end
		notes  int
	}{
		{"quick", nil, "", 0},
		{"late", nil, "", 0},
		{"progress", nil, "", 0},
		{"half", nil, "", 1},
		{"afterwards", nil, "", 1},
		{"die", ErrGone, "closed its output", 0},
		{"garbage", ErrGone, "no message", 0},
		{"huge", ErrGone, "over the limit", 0},
		{"twice", nil, "twice", 0},
	} {
		t.Run(c.method, func(t *testing.T) {
			b, up := started(t, does, Config{MaxMessage: 64 << 10})
			busy(t, b)
			answer, err := callOnce(b, c.method)
			if !errors.Is(err, c.err) || err == nil && !strings.Contains(answer, `"id":"`+c.method+`"`) {
				t.Errorf("%q, %v, want %v", answer, err, c.err)
			}
			eventually(t, "the notification", func() bool { return up.heard() == c.notes })
			if c.reason == "" {
				if _, err := callOnce(b, "quick"); err != nil {
					t.Errorf("afterwards: %v", err)
				}
				return
			}
			<-b.Finished()
			if !strings.Contains(b.Reason(), c.reason) {
				t.Errorf("ended with %q, want %q", b.Reason(), c.reason)
			}
		})
	}
}

// TestTurnIsBrokenOff: a call that reads for itself hears at once that it is over.
func TestTurnIsBrokenOff(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *Bridge, c *Call)
		want error
	}{
		{"cancelled", func(b *Bridge, c *Call) { b.giveUp(c, ErrCancelled) }, ErrCancelled},
		{"out of time", func(b *Bridge, c *Call) { b.expire(c) }, ErrTimeout},
		{"stopped", func(b *Bridge, _ *Call) { b.Stop("enough") }, ErrGone},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, _ := started(t, does, Config{})
			for range 100 { // until the call has its turn and not the reader, which comes back
				busy(t, b)
				var call Call
				if err := b.Begin(context.Background(), &call, parse(t, `{"jsonrpc":"2.0","id":"n","method":"never"}`), Options{}); err != nil {
					t.Fatal(err)
				}
				ended := make(chan bool)
				go func() { ended <- b.readOwn(&call, time.Hour) }()
				eventually(t, "somebody reads", func() bool { return reads(b) })
				c.do(b, &call)
				had := false
				select {
				case had = <-ended:
				case <-time.After(20 * time.Second):
					t.Fatal("the call reads on")
				}
				if _, _, err := call.Next(context.Background(), maxOwn); !errors.Is(err, c.want) {
					t.Fatalf("%v, want %v", err, c.want)
				}
				call.Close()
				if had || b.gone() {
					break
				}
			}
			if _, err := callOnce(b, "quick"); (err != nil) != (c.want == ErrGone) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestTurnIsOver: a call whose time is over leaves the worker to the reader.
func TestTurnIsOver(t *testing.T) {
	b, _ := started(t, does, Config{})
	busy(t, b)
	var call Call
	if err := b.Begin(context.Background(), &call, parse(t, `{"jsonrpc":"2.0","id":"n","method":"late"}`), Options{}); err != nil {
		t.Fatal(err)
	}
	defer call.Close()
	if _, _, err := call.Next(context.Background(), time.Millisecond); !errors.Is(err, ErrWait) || !reads(b) {
		t.Errorf("%v, somebody reads: %v", err, reads(b))
	}
	if _, final, err := call.Next(context.Background(), 20*time.Second); err != nil || !final {
		t.Errorf("later: %v, %v", final, err)
	}
}

// TestTurnServesOthers: a call that reads gives another its answer, and one that has
// its own leaves the rest to the reader.
func TestTurnServesOthers(t *testing.T) {
	b, _ := started(t, does, Config{})
	for range 50 {
		busy(t, b)
		first := make(chan error, 1)
		go func() {
			_, err := callOnce(b, "hold")
			first <- err
		}()
		eventually(t, "the first call runs", func() bool { all, _ := b.Running(); return all == 1 })
		if _, err := callOnce(b, "release"); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
	}
}

// TestTurnsUnderLoad: calls of all kinds, some of whose clients leave, and a stop in
// the middle: each call ends, and nothing of the Bridge is left.
func TestTurnsUnderLoad(t *testing.T) {
	for round := range 6 {
		b, _ := started(t, does, Config{})
		b.Limit(0, 30*time.Millisecond) // not for the handshake, which may take longer under load
		var clients sync.WaitGroup
		for i := range 6 {
			clients.Go(func() {
				for n := 0; !b.gone() && n < 100; n++ {
					if err := anyCall(b, i); err != nil && !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrGone) {
						t.Error(err)
					}
				}
			})
		}
		if round%2 == 0 {
			time.Sleep(50 * time.Millisecond)
			b.Stop("in the middle")
		}
		clients.Wait()
		b.Stop("at the end")
		<-b.Finished()
	}
}

// anyCall makes a call of any kind, waits for it in any way, and may leave before its
// answer.
func anyCall(b *Bridge, id int) error {
	methods := []string{"quick", "quick", "quick", "progress", "never", "hold", "release"}
	waits := []time.Duration{time.Microsecond, time.Millisecond, 100 * time.Millisecond, 0}
	m, err := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q}`, id, methods[rand.N(len(methods))]))
	if err != nil {
		return err
	}
	var c Call
	if err := b.Begin(context.Background(), &c, &m, Options{}); err != nil {
		return err
	}
	defer c.Close()
	for {
		_, final, err := c.Next(context.Background(), waits[rand.N(len(waits))])
		switch {
		case final || errors.Is(err, ErrWait) && rand.N(3) == 0:
			return nil
		case err != nil && !errors.Is(err, ErrWait):
			return err
		}
	}
}

package monitor

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/session/spawn"
)

// operators serves the rig's monitor on a socket and returns a function that asks it
// one thing: the workers it lists, and its last word.
func (r *rig) operators() func(request string) ([]Worker, Answer) {
	r.t.Helper()
	path := filepath.Join(r.dir, "op.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { ln.Close() })
	go r.m.serveOperators(ln)
	return func(request string) (list []Worker, last Answer) {
		r.t.Helper()
		c, err := net.Dial("unix", path)
		if err != nil {
			r.t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(request)); err != nil {
			r.t.Fatal(err)
		}
		c.(*net.UnixConn).CloseWrite()
		for lines := bufio.NewScanner(c); lines.Scan(); {
			var w Worker
			if strings.Contains(lines.Text(), `"done":`) {
				if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
					r.t.Fatal(err)
				}
				return list, last
			}
			if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
				r.t.Fatalf("%s: %v", lines.Text(), err)
			}
			list = append(list, w)
		}
		r.t.Fatal("no last word")
		return nil, last
	}
}

func TestOperators(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.start()
	ask := r.operators()
	if list, last := ask("{\"op\":\"list\"}\n"); len(list) != 0 || last != (Answer{}) {
		t.Errorf("before any: %v, %+v", list, last)
	}
	var told atomic.Value
	told.Store([]spawn.SessionStatus(nil))
	c := r.tellingFront(func() []spawn.SessionStatus { return told.Load().([]spawn.SessionStatus) })
	alice, bob := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	told.Store([]spawn.SessionStatus{{PID: uint32(alice.PID()), Idle: 1500, Calls: 2, Stream: true, Label: "abcdef"}, {PID: 1, Label: "x"}})
	list, last := ask("{\"op\":\"list\"}\n")
	if len(list) != 2 || last.Done != 2 {
		t.Fatalf("got %+v, %+v", list, last)
	}
	a, b := list[0], list[1]
	if a.Subject != "alice" || a.Account != alice.Account() || a.PID != alice.PID() || a.Server != "/mcp" || a.Lease.IsZero() ||
		a.Memory <= 0 || time.Since(a.Since) > time.Minute || !a.Known || a.Session != "abcdef" || a.IdleMS != 1500 || a.Calls != 2 || !a.Stream || a.Ending {
		t.Errorf("alice's is %+v", a)
	}
	if b.Subject != "bob" || b.Known || b.Session != "" {
		t.Errorf("bob's is %+v", b)
	}
	for name, q := range map[string]string{
		"another account": `{"op":"end","account":"somebody"}`, "another subject": `{"op":"end","subject":"alicia"}`,
		"both must fit": `{"op":"end","subject":"alice","id":"` + b.ID + `"}`,
	} {
		if _, last := ask(q + "\n"); last != (Answer{}) {
			t.Errorf("%s: %+v", name, last)
		}
	}
	if _, last := ask(`{"op":"end","id":"abcdef"}` + "\n"); last.Done != 1 {
		t.Errorf("by the session's label: %+v", last)
	}
	if st := alice.end(5 * time.Second); st.Reason != "ended by an operator" {
		t.Errorf("alice's worker: %+v", st)
	}
	if _, last := ask(`{"op":"end","subject":"bob"}` + "\n"); last.Done != 1 {
		t.Errorf("by subject: %+v", last)
	}
	if st := bob.end(5 * time.Second); st.Reason != "ended by an operator" {
		t.Errorf("bob's worker: %+v", st)
	}
	r.log.Await(t, "ended by an operator")

	alice, bob = r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	other := r.spawn(c, r.token("alice"))
	told.Store([]spawn.SessionStatus{{PID: uint32(alice.PID()), Label: "shared"}, {PID: uint32(bob.PID()), Label: "shared"}, {PID: uint32(other.PID()), Label: "own"}})
	if _, last := ask(`{"op":"end","id":"shared"}` + "\n"); last.Done != 2 {
		t.Errorf("all workers of the modern era: %+v", last)
	}
}

// tellingFront is a front end that the monitor knows and that tells of its sessions.
func (r *rig) tellingFront(sessions func() []spawn.SessionStatus) *spawn.Client {
	r.t.Helper()
	socket, s := r.sit()
	c, err := spawn.NewClient(socket, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.Events.Sessions = sessions
	if err := c.Ready(); err != nil {
		r.t.Fatal(err)
	}
	r.m.setAttendant(s.a)
	<-s.a.ready
	return c
}

func TestOperatorsRefused(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.start()
	ask := r.operators()
	for _, q := range []string{
		"\n", "{}\n", "list\n", `{"op":"list"}`, `{"op":"kill"}` + "\n", `{"op":"end"}` + "\n", `{"op":"list","x":1}` + "\n",
		`{"op":"list"} {"op":"list"}` + "\n", "{\"op\":\"list\"}\nmore", strings.Repeat("x", 5000),
	} {
		if list, last := ask(q); last.Error == "" || len(list) != 0 {
			t.Errorf("%.40q: %+v", q, last)
		}
	}
}

// A front end that does not answer costs the operator a wait and its own words.
func TestOperatorsWithoutAFrontEnd(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.start()
	ask := r.operators()
	f := r.rawFront()
	r.m.setAttendant(f.seat.a)
	f.frame(hello)
	f.frame(spawn.SpawnRequest{Seq: 1, Token: r.token("alice")})
	if _, ok := f.recv().(spawn.Spawned); !ok {
		t.Fatal("no worker")
	}
	start := time.Now()
	list, _ := ask("{\"op\":\"list\"}\n")
	if len(list) != 1 || list[0].Known || time.Since(start) < surveyLimit {
		t.Errorf("%+v after %v", list, time.Since(start))
	}
	// Its answer comes when nobody waits for it any more: no fault.
	f.frame(spawn.SessionStatus{Seq: 1, PID: 4711, Label: "late"})
	f.frame(spawn.SessionStatus{Seq: 1})
	if list, _ := ask("{\"op\":\"list\"}\n"); len(list) != 1 || list[0].Known {
		t.Errorf("%+v", list)
	}
}

// TestOperatorsAreServedAfterAFailure, as when the descriptors ran out for a moment.
func TestOperatorsAreServedAfterAFailure(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.start()
	path := filepath.Join(r.dir, "again.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go r.m.serveOperators(ln)
	ln.SetDeadline(time.Now())
	r.log.Await(t, "operators' socket")
	ln.SetDeadline(time.Time{})
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("{\"op\":\"list\"}\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, `"done":0`) {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestTwoOperatorsAtOne: the second one's question takes no answer from the first.
func TestTwoOperatorsAtOne(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.start()
	f := r.rawFront()
	f.frame(hello)
	answers := make(chan map[uint32]spawn.SessionStatus, 2)
	ask := func() { answers <- f.seat.a.ask() }
	go ask()
	first := f.recv().(spawn.Report)
	go ask()
	time.Sleep(50 * time.Millisecond) // until it asks, or waits
	f.frame(spawn.SessionStatus{Seq: first.Seq, PID: 7, Label: "first"})
	f.frame(spawn.SessionStatus{Seq: first.Seq})
	if got := <-answers; got[7].Label != "first" {
		t.Errorf("the first is told %v", got)
	}
	second := f.recv().(spawn.Report)
	f.frame(spawn.SessionStatus{Seq: second.Seq, PID: 7, Label: "second"})
	f.frame(spawn.SessionStatus{Seq: second.Seq})
	if got := <-answers; got[7].Label != "second" {
		t.Errorf("the second is told %v", got)
	}
}

package monitor

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/spawn"
)

// rawFront is a front end that was taken over: it sends what it likes.
type rawFront struct {
	t    testing.TB
	fd   int
	seat *seat
}

func (r *rig) rawFront() *rawFront {
	r.t.Helper()
	f, s := r.sit()
	r.t.Cleanup(func() { f.Close() })
	rc, err := f.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	raw := &rawFront{t: r.t, seat: s}
	rc.Control(func(fd uintptr) { raw.fd = int(fd) })
	return raw
}

func (f *rawFront) bytes(b []byte, fds ...int) {
	f.t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(f.fd, b, oob, nil, 0); err != nil && !errors.Is(err, unix.EPIPE) {
		f.t.Fatal(err)
	}
}

func (f *rawFront) frame(x spawn.Frame) {
	f.t.Helper()
	b, err := spawn.Encode(x)
	if err != nil {
		f.t.Fatal(err)
	}
	f.bytes(b)
}

// recv is the next answer; descriptors are closed.
func (f *rawFront) recv() spawn.Frame {
	f.t.Helper()
	for range 500 {
		b, oob := make([]byte, spawn.MaxFrame), make([]byte, 256)
		n, oobn, _, _, err := unix.Recvmsg(f.fd, b, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err == unix.EAGAIN {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil || n == 0 {
			f.t.Fatalf("no answer: %d bytes, %v", n, err)
		}
		if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
			for i := range msgs {
				if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
					for _, fd := range fds {
						unix.Close(fd)
					}
				}
			}
		}
		x, err := spawn.ParseReply(b[:n])
		if err != nil {
			f.t.Fatal(err)
		}
		return x
	}
	f.t.Fatal("no answer in 5s")
	return nil
}

var hello = spawn.Hello{Version: spawn.ProtocolVersion}

// TestCompromisedFrontEnd: whatever is malformed, not listed, or not permitted now
// is an attack. The conversation is over, its workers end, nothing is started.
func TestCompromisedFrontEnd(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	good := r.token("alice")
	encode := func(f spawn.Frame) []byte { b, _ := spawn.Encode(f); return b }
	served := func(f *rawFront) { f.frame(hello) }
	for name, c := range map[string]struct {
		attack func(f *rawFront)
		reason string
	}{
		"SPAWN before HELLO":       {func(f *rawFront) { f.frame(spawn.SpawnRequest{Seq: 1, Token: good}) }, "SPAWN is not permitted"},
		"RENEW before HELLO":       {func(f *rawFront) { f.frame(spawn.RenewRequest{Seq: 1, Handle: 1, Token: good}) }, "RENEW is not permitted"},
		"KILL before HELLO":        {func(f *rawFront) { f.frame(spawn.KillRequest{Seq: 1, Handle: 1}) }, "KILL is not permitted"},
		"HELLO twice":              {func(f *rawFront) { served(f); f.frame(hello) }, "HELLO is not permitted"},
		"HELLO of another version": {func(f *rawFront) { f.bytes([]byte{1, 0, 2}) }, "unknown protocol version"},
		"an answer of the monitor": {func(f *rawFront) { served(f); f.bytes(encode(spawn.Renewed{Seq: 1, Lease: 1})) }, "unlisted"},
		"unlisted type":            {func(f *rawFront) { served(f); f.bytes([]byte{0x7f}) }, "unlisted"},
		"oversize":                 {func(f *rawFront) { served(f); f.bytes(make([]byte, spawn.MaxFrame+1)) }, "larger than 24 KiB"},
		"token beyond its limit": {func(f *rawFront) {
			served(f)
			b := binary.BigEndian.AppendUint16([]byte{2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, spawn.MaxToken+1)
			f.bytes(append(b, make([]byte, spawn.MaxToken+1)...))
		}, "token longer"},
		"cut short":       {func(f *rawFront) { served(f); f.bytes(encode(spawn.KillRequest{Seq: 1, Handle: 1})[:9]) }, "too short"},
		"a byte too many": {func(f *rawFront) { served(f); f.bytes(append(encode(spawn.KillRequest{Seq: 1, Handle: 1}), 0)) }, "too many"},
		"another user's name": {func(f *rawFront) {
			served(f)
			f.bytes(append(encode(spawn.SpawnRequest{Seq: 1, Token: good}), "root"...))
		}, "too many"},
		"a descriptor":                           {func(f *rawFront) { served(f); f.bytes(encode(spawn.KillRequest{Seq: 1, Handle: 1}), int(null.Fd())) }, "descriptors attached"},
		"HELLO with descriptors":                 {func(f *rawFront) { f.bytes(encode(hello), int(null.Fd()), int(null.Fd())) }, "descriptors attached"},
		"RENEW of a handle that was never given": {func(f *rawFront) { served(f); f.frame(spawn.RenewRequest{Seq: 1, Handle: 1, Token: good}) }, "never given"},
		"INTERRUPT of a handle never given":      {func(f *rawFront) { served(f); f.frame(spawn.InterruptRequest{Seq: 1, Handle: 1 << 40}) }, "never given"},
		"INTERRUPT before HELLO":                 {func(f *rawFront) { f.frame(spawn.InterruptRequest{Seq: 1, Handle: 1}) }, "INTERRUPT is not permitted"},
		"KILL of a handle that was never given":  {func(f *rawFront) { served(f); f.frame(spawn.KillRequest{Seq: 1, Handle: 1 << 40}) }, "never given"},
		"KILL of handle 0":                       {func(f *rawFront) { served(f); f.frame(spawn.KillRequest{Seq: 1}) }, "never given"},
		"a server that does not exist":           {func(f *rawFront) { served(f); f.frame(spawn.SpawnRequest{Seq: 1, Server: 1, Token: good}) }, "does not exist"},
		"sequence number 0":                      {func(f *rawFront) { served(f); f.frame(spawn.SpawnRequest{Token: good}) }, "used twice"},
		"a sequence number again": {func(f *rawFront) {
			served(f)
			f.frame(spawn.SpawnRequest{Seq: 5, Token: "x"})
			f.frame(spawn.SpawnRequest{Seq: 5, Token: good})
		}, "used twice"},
		"a lower sequence number": {func(f *rawFront) {
			served(f)
			f.frame(spawn.SpawnRequest{Seq: 5, Token: "x"})
			f.frame(spawn.KillRequest{Seq: 4, Handle: 1})
		}, "used twice"},
	} {
		t.Run(name, func(t *testing.T) {
			before, fds := r.m.number.Load(), openFDs(t)
			f := r.rawFront()
			f.t = t
			c.attack(f)
			select {
			case err := <-f.seat.fault:
				var flt *fault
				if !errors.As(err, &flt) || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("got %v, want a fault with %q", err, c.reason)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the conversation goes on")
			}
			if n := r.m.number.Load(); n != before {
				t.Error("a worker was started")
			}
			if n := openFDs(t); n > fds+2 { // the front end's socket stays until the test's end
				t.Errorf("%d descriptors before, %d after", fds, n)
			}
		})
	}
}

// TestCompromisedFrontEndLosesItsWorkers, all of them, and at once no more use.
func TestCompromisedFrontEndLosesItsWorkers(t *testing.T) {
	r := newRig(t, `sleep 60`).start()
	f := r.rawFront()
	f.frame(hello)
	var pids []int
	for i := range uint64(3) {
		f.frame(spawn.SpawnRequest{Seq: i + 1, Token: r.token("alice")})
		s, ok := f.recv().(spawn.Spawned)
		if !ok {
			t.Fatalf("got %#v", s)
		}
		pids = append(pids, int(s.PID))
	}
	f.bytes([]byte{0xff})
	dead(t, 3*time.Second, pids...)
	if !r.m.leasesGone(3 * time.Second) {
		t.Error("leases stay")
	}
}

// TestLateKillAndRenewAreNoAttack: the front end may not have heard yet that a
// worker has ended.
func TestLateKillAndRenewAreNoAttack(t *testing.T) {
	r := newRig(t, `exit 0`).start()
	f := r.rawFront()
	f.frame(hello)
	f.frame(spawn.SpawnRequest{Seq: 1, Token: r.token("alice")})
	s := f.recv().(spawn.Spawned)
	if e, ok := f.recv().(spawn.Exited); !ok || e.Handle != s.Handle {
		t.Fatalf("got %#v", e)
	}
	f.frame(spawn.KillRequest{Seq: 2, Handle: s.Handle})
	f.frame(spawn.RenewRequest{Seq: 3, Handle: s.Handle, Token: r.token("alice")})
	if x, ok := f.recv().(spawn.Refused); !ok || x.Seq != 3 || x.Kind != spawn.KindRefused {
		t.Errorf("got %#v", x)
	}
	select {
	case err := <-f.seat.fault:
		t.Errorf("the conversation ended: %v", err)
	default:
	}
}

// slowJudge takes its time.
type slowJudge struct{ release chan struct{} }

func (j slowJudge) Judge(context.Context, uint16, string) (verdict, error) {
	<-j.release
	return verdict{}, refuse(spawn.KindUndecided, "at last")
}
func (slowJudge) Generation() uint64 { return 0 }

// TestFloodOfRequestsIsRefused, not queued without end.
func TestFloodOfRequestsIsRefused(t *testing.T) {
	r := newRig(t, `exit 0`).start()
	j := slowJudge{make(chan struct{})}
	r.m.judge = j
	f := r.rawFront()
	f.frame(hello)
	go func() {
		for i := range uint64(maxInFlight + 50) {
			b, _ := spawn.Encode(spawn.SpawnRequest{Seq: i + 1, Token: "x"})
			for unix.Sendmsg(f.fd, b, nil, nil, unix.MSG_DONTWAIT) == unix.EAGAIN {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	expect := func(n int, kind spawn.Kind) {
		t.Helper()
		for range n {
			if x, ok := f.recv().(spawn.Refused); !ok || x.Kind != kind {
				t.Fatalf("got %#v, want a refusal of kind %v", x, kind)
			}
		}
	}
	expect(50, spawn.KindLimit)
	close(j.release)
	expect(maxInFlight, spawn.KindUndecided)
}

// TestFrontEndThatDoesNotReadIsHungUpOn, so that the monitor's memory is bounded.
func TestFrontEndThatDoesNotReadIsHungUpOn(t *testing.T) {
	r := newRig(t, `exit 0`).start()
	f := r.rawFront()
	f.frame(hello)
	go func() {
		for i := uint64(1); ; i++ {
			b, _ := spawn.Encode(spawn.SpawnRequest{Seq: i, Token: "x"})
			switch err := unix.Sendmsg(f.fd, b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err {
			case nil:
			case unix.EAGAIN:
				time.Sleep(time.Millisecond)
			default:
				return
			}
		}
	}()
	select {
	case <-f.seat.fault:
	case <-time.After(30 * time.Second):
		t.Fatal("the conversation goes on")
	}
	if n := len(f.seat.a.queue); n > maxQueue {
		t.Errorf("%d frames wait", n)
	}
}

// TestDraining: no new worker, but those that run can be renewed and stopped.
func TestDraining(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	w := r.spawn(c, r.token("alice"))
	r.m.stopping.Store(true)
	r.m.leases.close()
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindDraining, "")
	refused(t, renew(w, r.token("bob")), spawn.KindRefused, "")
	w.Stop()
	w.end(5 * time.Second)
}

// TestPermissionTableIsItsPage: every frame of a front end has its place, and only
// in the phases that docs/frames.md names.
func TestPermissionTableIsItsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/frames.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{phaseStarting: "starting", phaseServing: "serving", phaseStopping: "stopping"}
	all := []spawn.Type{spawn.TypeHello, spawn.TypeSpawn, spawn.TypeRenew, spawn.TypeKill, spawn.TypeInterrupt, spawn.TypeStatus}
	for p, name := range names {
		var got []string
		for _, typ := range all {
			if permitted[phase(p)][typ] != nil {
				got = append(got, typ.String())
			}
		}
		if len(permitted[phase(p)]) != len(got) {
			t.Errorf("phase %s permits a frame that is not listed here", name)
		}
		found := false
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| "+name+":") {
				found = strings.HasSuffix(line, "| "+strings.Join(got, " ")+" |\n")
			}
		}
		if !found {
			t.Errorf("docs/frames.md does not say that phase %s permits %v", name, got)
		}
	}
	if len(permitted) != len(names) {
		t.Errorf("%d phases, %d named", len(permitted), len(names))
	}
}

// TestHeldPipeHoldsNoFrameUp: a worker that keeps its pipe locked delays no frame that
// comes after its own, and no end of the conversation.
func TestHeldPipeHoldsNoFrameUp(t *testing.T) {
	ours, theirs, err := spawn.Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close() // so that what is sent comes back, and is closed here last
	conn, err := spawn.NewConn(ours, 0)
	if err != nil {
		t.Fatal(err)
	}
	fds := make([]int, 2)
	if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	stdin := os.NewFile(uintptr(fds[1]), "stdin")
	if _, err := stdin.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	release := hold(t, fds[0])
	defer release()
	a := newAttendant(nil, conn)
	a.send(outgoing{frame: spawn.Spawned{Seq: 1, Handle: 1, PID: 2, UID: 1000, Account: "alice"}, files: []*os.File{stdin}})
	select {
	case <-a.over:
	case <-time.After(5 * time.Second):
		t.Error("the monitor waits for the pipe")
	}
}

// hold keeps a pipe locked by its reading end, as a worker can: it moves bytes to a
// socket that has no room, until release is called.
func hold(t *testing.T, in int) (release func()) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.SendmsgN(pair[0], make([]byte, 4096), nil, nil, unix.MSG_DONTWAIT)
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		unix.Splice(in, nil, pair[0], nil, 4096, 0)
	}()
	time.Sleep(50 * time.Millisecond) // until it waits
	return func() {
		unix.Close(pair[1])
		<-over
		unix.Close(pair[0])
		unix.Close(in)
	}
}

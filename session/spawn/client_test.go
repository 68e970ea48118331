package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeMonitor is the other end of a Client, driven by the test.
type fakeMonitor struct {
	t      *testing.T
	conn   *Conn
	opened []*os.File // the workers' ends of pipes
}

func newFakeMonitor(t *testing.T, onCert func(cert, key *os.File)) (*Client, *fakeMonitor) {
	t.Helper()
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(b, onCert)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := NewConn(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); c.Close() })
	return c, &fakeMonitor{t: t, conn: conn}
}

// renew renews a lease and waits for the answer.
func renew(w Worker, token string) error {
	answer := make(chan error, 2)
	w.Renew(token, func(err error) { answer <- err })
	return <-answer
}

// next is the next frame of the front end.
func (m *fakeMonitor) next() Frame {
	m.t.Helper()
	b, _, err := m.conn.Read()
	if err != nil {
		m.t.Fatalf("read frame: %v", err)
	}
	f, err := ParseRequest(b)
	if err != nil {
		m.t.Fatal(err)
	}
	return f
}

func (m *fakeMonitor) send(f Frame, fds ...int) {
	m.t.Helper()
	b, err := Encode(f)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.conn.Write(b, fds, time.Time{}); err != nil {
		m.t.Fatal(err)
	}
}

// spawned answers a SPAWN with pipes and returns the worker's ends of them.
func (m *fakeMonitor) spawned(seq, handle uint64) (in, out, stderr *os.File) {
	m.t.Helper()
	var theirs, ours []*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			m.t.Fatal(err)
		}
		if i == 0 {
			r, w = w, r
		}
		theirs, ours = append(theirs, r), append(ours, w)
	}
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		m.t.Fatal(err)
	}
	fds := []int{int(theirs[0].Fd()), int(theirs[1].Fd()), int(theirs[2].Fd()), pidfd}
	m.send(Spawned{Seq: seq, Handle: handle, PID: uint32(os.Getpid()), UID: 1000, Account: "alice", Lease: 1700000000000}, fds...)
	for _, f := range theirs {
		f.Close()
	}
	unix.Close(pidfd)
	m.opened = append(m.opened, ours...)
	m.t.Cleanup(func() {
		for _, f := range ours {
			f.Close()
		}
	})
	return ours[0], ours[1], ours[2]
}

// spawnOne does one spawn from end to end.
func spawnOne(t *testing.T, c *Client, m *fakeMonitor, handle uint64) (Worker, *os.File, *os.File) {
	t.Helper()
	type res struct {
		w   Worker
		err error
	}
	got := make(chan res, 1)
	go func() {
		w, err := c.Spawn(t.Context(), Request{Server: 7, Token: "a.b.c"})
		got <- res{w, err}
	}()
	r, ok := m.next().(SpawnRequest)
	if !ok || r.Server != 7 || r.Token != "a.b.c" {
		t.Fatalf("got %#v, want a SPAWN for server 7", r)
	}
	in, out, _ := m.spawned(r.Seq, handle)
	g := <-got
	if g.err != nil {
		t.Fatal(g.err)
	}
	t.Cleanup(func() { g.w.(*worker).closeFiles() })
	return g.w, in, out
}

func TestSpawnDeliversAWorker(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	if err := c.Ready(); err != nil {
		t.Fatal(err)
	}
	if f := m.next(); f != (Hello{Version: ProtocolVersion}) {
		t.Fatalf("first frame is %#v, want HELLO", f)
	}
	w, in, out := spawnOne(t, c, m, 1)
	if w.PID() != os.Getpid() || w.UID() != 1000 || w.Account() != "alice" || !w.Lease().Equal(time.UnixMilli(1700000000000)) {
		t.Errorf("worker is %d %d %q %v", w.PID(), w.UID(), w.Account(), w.Lease())
	}
	for _, fd := range []uintptr{w.Stdin().Fd(), w.Stdout().Fd(), w.Stderr().Fd(), uintptr(w.(*worker).pidfd.fd)} {
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: close-on-exec is not set (%v)", fd, err)
		}
	}
	if _, err := w.Stdin().WriteString("ping\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := in.Read(buf); err != nil || string(buf[:n]) != "ping\n" {
		t.Errorf("worker read %q, %v", buf[:n], err)
	}
	if _, err := out.WriteString("pong\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := w.Stdout().Read(buf); err != nil || string(buf[:n]) != "pong\n" {
		t.Errorf("read %q, %v from worker", buf[:n], err)
	}
}

// TestPipesHaveDeadlines: a worker that neither reads nor writes holds nobody up.
func TestPipesHaveDeadlines(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	w, _, _ := spawnOne(t, c, m, 1)
	w.Stdout().SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := w.Stdout().Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a silent worker: %v", err)
	}
	w.Stdin().SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := w.Stdin().Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write to a deaf worker: %v", err)
	}
}

func TestManySpawnsAtOnceKeepTheirAnswers(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	const n = 64
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			_, err := c.Spawn(t.Context(), Request{Server: uint16(i)})
			errs[i] = err
		})
	}
	var asked []SpawnRequest
	last := uint64(0)
	for range n {
		r := m.next().(SpawnRequest)
		if r.Seq <= last {
			t.Errorf("sequence number %d after %d", r.Seq, last)
		}
		last = r.Seq
		asked = append(asked, r)
	}
	for i := range asked { // answers in the reverse order
		r := asked[n-1-i]
		m.send(Refused{Seq: r.Seq, Kind: KindLimit, Reason: fmt.Sprint(r.Server)})
	}
	wg.Wait()
	for i, err := range errs {
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindLimit || e.Reason != fmt.Sprint(i) {
			t.Errorf("spawn %d: %v", i, err)
		}
	}
}

func TestRefusalCarriesKindAndRetry(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	go func() {
		m.send(Refused{Seq: m.next().(SpawnRequest).Seq, Kind: KindRate, RetryAfter: 2500, Reason: "slow down"})
	}()
	_, err := c.Spawn(t.Context(), Request{})
	var e *Error
	if !errors.As(err, &e) || *e != (Error{Kind: KindRate, Reason: "slow down", RetryAfter: 2500 * time.Millisecond}) {
		t.Errorf("got %v", err)
	}
}

// TestLateWorkerIsKilled: whoever gives up waiting leaves no worker behind.
func TestLateWorkerIsKilled(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := c.Spawn(ctx, Request{})
		got <- err
	}()
	r := m.next().(SpawnRequest)
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled spawn: %v", err)
	}
	in, out, _ := m.spawned(r.Seq, 9)
	if k, ok := m.next().(KillRequest); !ok || k.Handle != 9 || k.Seq <= r.Seq {
		t.Fatalf("after a late worker: %#v, want KILL of handle 9", k)
	}
	if n, err := in.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("worker's stdin: %d, %v, want EOF", n, err)
	}
	if _, err := out.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("worker's stdout: %v, want EPIPE", err)
	}
	m.send(Exited{Handle: 9, Code: 0})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) != 0 {
		t.Errorf("%d requests are still pending", len(c.pending))
	}
}

func TestRenewMovesTheLease(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	w, _, _ := spawnOne(t, c, m, 3)
	go func() {
		r := m.next().(RenewRequest)
		if r.Handle != 3 || r.Token != "new" {
			t.Errorf("got %#v", r)
		}
		m.send(Renewed{Seq: r.Seq, Lease: 1800000000000})
		m.send(Refused{Seq: m.next().(RenewRequest).Seq, Kind: KindRefused, Reason: "not newer"})
	}()
	if err := renew(w, "new"); err != nil || !w.Lease().Equal(time.UnixMilli(1800000000000)) {
		t.Errorf("renew: %v, lease %v", err, w.Lease())
	}
	var e *Error
	if err := renew(w, "new"); !errors.As(err, &e) || e.Kind != KindRefused {
		t.Errorf("second renewal: %v", err)
	}
	if err := renew(w, strings.Repeat("x", MaxToken+1)); !errors.As(err, &e) || e.Kind != KindToken {
		t.Errorf("oversize token: %v", err)
	}
}

func TestExitedEndsTheWorker(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	w, in, _ := spawnOne(t, c, m, 1)
	w.Stop()
	w.Stop()
	if n, err := in.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("worker's stdin after Stop: %d, %v, want EOF", n, err)
	}
	if k := m.next().(KillRequest); k.Handle != 1 {
		t.Errorf("Stop sent %#v", k)
	}
	m.send(Exited{Handle: 1, Code: -1, Signal: 15, Reason: "lease expired"})
	<-w.Exited()
	if s := w.Status(); s != (Status{Code: -1, Signal: 15, Reason: "lease expired"}) {
		t.Errorf("status %+v", s)
	}
	var e *Error
	if err := renew(w, "x"); !errors.As(err, &e) || e.Kind != KindRefused {
		t.Errorf("renewal of an ended worker: %v", err)
	}
}

// TestEverythingFailsWithTheMonitor: nothing waits for a monitor that is gone.
func TestEverythingFailsWithTheMonitor(t *testing.T) {
	c, m := newFakeMonitor(t, nil)
	w, _, _ := spawnOne(t, c, m, 1)
	pending := make(chan error, 2)
	go func() { _, err := c.Spawn(t.Context(), Request{}); pending <- err }()
	go func() { pending <- renew(w, "x") }()
	m.next()
	m.next()
	m.conn.Close()
	for range 2 {
		var e *Error
		if err := <-pending; !errors.As(err, &e) || e.Kind != KindUnavailable {
			t.Errorf("pending request: %v", err)
		}
	}
	<-w.Exited()
	if s := w.Status(); s.Code != -1 || s.Reason == "" {
		t.Errorf("status %+v", s)
	}
	<-c.Done()
	if c.Err() == nil {
		t.Error("Err is nil after Done")
	}
	if _, err := c.Spawn(t.Context(), Request{}); err == nil {
		t.Error("spawn after the monitor's end succeeded")
	}
	w.Stop() // must not block or panic
}

func TestCertificateReachesTheCallback(t *testing.T) {
	type pair struct{ cert, key string }
	got := make(chan pair, 1)
	c, m := newFakeMonitor(t, func(cert, key *os.File) {
		a, _ := io.ReadAll(cert)
		b, _ := io.ReadAll(key)
		cert.Close()
		key.Close()
		got <- pair{string(a), string(b)}
	})
	var fds []int
	for _, text := range []string{"certificate", "key"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w.WriteString(text)
		w.Close()
		defer r.Close()
		fds = append(fds, int(r.Fd()))
	}
	m.send(Cert{}, fds...)
	if p := <-got; p != (pair{"certificate", "key"}) {
		t.Errorf("got %+v", p)
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// TestProtocolFaultsEndTheConversation: a monitor is trusted, but not blindly.
func TestProtocolFaultsEndTheConversation(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	good, _ := Encode(Spawned{Seq: 1, Handle: 1, PID: 1, UID: 1, Account: "a"})
	for name, send := range map[string]func(*fakeMonitor){
		"garbage":                    func(m *fakeMonitor) { m.conn.Write([]byte{0xee}, nil, time.Time{}) },
		"a request":                  func(m *fakeMonitor) { m.send(Hello{Version: 1}) },
		"SPAWNED without pipes":      func(m *fakeMonitor) { m.conn.Write(good, nil, time.Time{}) },
		"SPAWNED with three":         func(m *fakeMonitor) { m.conn.Write(good, []int{fd, fd, fd}, time.Time{}) },
		"SPAWNED with five":          func(m *fakeMonitor) { m.conn.Write(good, []int{fd, fd, fd, fd, fd}, time.Time{}) },
		"CERT without descriptors":   func(m *fakeMonitor) { m.send(Cert{}) },
		"REFUSED with a descriptor":  func(m *fakeMonitor) { m.send(Refused{Seq: 1}, fd) },
		"RENEWED that answers SPAWN": func(m *fakeMonitor) { m.send(Renewed{Seq: m.next().(SpawnRequest).Seq, Lease: 1}) },
		"one handle twice":           func(m *fakeMonitor) { m.spawned(1, 5); m.spawned(2, 5) },
	} {
		t.Run(name, func(t *testing.T) {
			c, m := newFakeMonitor(t, nil)
			failed := make(chan error, 1)
			go func() { _, err := c.Spawn(t.Context(), Request{}); failed <- err }()
			send(m)
			select {
			case <-c.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("the conversation goes on")
			}
			if w, err := c.Spawn(t.Context(), Request{}); err == nil {
				t.Errorf("got a worker: %v", w)
			}
		})
	}
}

// TestConnRefusesDescriptorsAndOversize is the monitor's side of the socket.
func TestConnRefusesDescriptorsAndOversize(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, c := range map[string]struct {
		send func(fd int) error
		want error
	}{
		"a descriptor": {func(fd int) error {
			return unix.Sendmsg(fd, []byte{1, 0, 1}, unix.UnixRights(int(null.Fd())), nil, 0)
		}, ErrDescriptors},
		"one byte too many": {func(fd int) error {
			return unix.Sendmsg(fd, make([]byte, MaxFrame+1), nil, nil, 0)
		}, ErrOversize},
		"far too many bytes": {func(fd int) error {
			return unix.Sendmsg(fd, make([]byte, 4*MaxFrame), nil, nil, 0)
		}, ErrOversize},
		"an empty message": {func(fd int) error { return unix.Sendmsg(fd, nil, nil, nil, 0) }, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, err := Pair()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			conn, err := NewConn(a, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			before := openFDs(t)
			if err := c.send(int(b.Fd())); err != nil {
				t.Fatal(err)
			}
			if _, _, err := conn.Read(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if after := openFDs(t); after > before { // fewer: the collector closed what an earlier test had left
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func TestNewConnRefusesOtherDescriptors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, err := NewConn(null, 0); err == nil {
		t.Error("/dev/null was taken for a socket")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	f := os.NewFile(uintptr(fds[0]), "stream")
	defer f.Close()
	if _, err := NewConn(f, 0); err == nil {
		t.Error("a stream socket was taken")
	}
}

// TestNoDescriptorLeaks runs workers through every way of ending.
func TestNoDescriptorLeaks(t *testing.T) {
	before := openFDs(t)
	c, m := newFakeMonitor(t, nil)
	for i := range uint64(5) {
		w, _, _ := spawnOne(t, c, m, i+1)
		m.send(Exited{Handle: i + 1})
		<-w.Exited()
		for _, f := range append(m.opened, w.Stdin(), w.Stdout(), w.Stderr()) {
			f.Close()
		}
	}
	m.conn.Close()
	c.Close()
	if after := openFDs(t); after > before { // fewer: the collector closed what an earlier test had left
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

package monitor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/authtest"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/spawn"
)

// TestLeaseEndsForReal: the front end holds the pipe and does nothing.
func TestLeaseEndsForReal(t *testing.T) {
	r := newRig(t, `trap '' TERM; echo end; while :; do sleep 1; done`)
	r.cfg.CredentialGrace = time.Second
	r.start()
	exp := time.Now().Add(2 * time.Second).Truncate(time.Second)
	w := r.spawn(r.front(), r.token("alice", authtest.Claim("exp", exp.Unix())))
	if want := exp.Add(time.Second); !w.Lease().Equal(want) {
		t.Errorf("lease until %v, want %v", w.Lease(), want)
	}
	st := w.end(6 * time.Second)
	late := time.Since(exp.Add(time.Second))
	if late < 0 || late > 1200*time.Millisecond || st.Reason != "lease expired" {
		t.Errorf("ended %v after the lease with %+v; want within 1s", late, st)
	}
	dead(t, 100*time.Millisecond, w.PID())
}

// TestRenewForReal: only a newer token of the same principal.
func TestRenewForReal(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	now := time.Now().Unix()
	exp := func(s int64) authtest.Change { return authtest.Claim("exp", now+s) }
	w := r.spawn(c, r.token("alice", exp(100)))
	for name, bad := range map[string]struct {
		token, reason string
		kind          spawn.Kind
	}{
		"another subject":  {r.token("bob", exp(900)), "another principal", spawn.KindRefused},
		"another client":   {r.token("alice", exp(900), authtest.Claim("client_id", "other")), "another principal", spawn.KindRefused},
		"the same expiry":  {r.token("alice", exp(100)), "not newer", spawn.KindRefused},
		"an older one":     {r.token("alice", exp(50)), "not newer", spawn.KindRefused},
		"not for us":       {r.token("alice", exp(900), authtest.Claim("aud", "https://x")), "audience", spawn.KindToken},
		"broken signature": {r.token("alice", exp(900)) + "AAAA", "", spawn.KindToken},
	} {
		t.Run(name, func(t *testing.T) { refused(t, renew(w, bad.token), bad.kind, bad.reason) })
	}
	if err := renew(w, r.token("alice", exp(900))); err != nil || w.Lease().Unix() != now+900 {
		t.Errorf("renewal: %v, lease until %v", err, w.Lease())
	}
	w.Stop()
	w.end(5 * time.Second)
	refused(t, renew(w, r.token("alice", exp(1000))), spawn.KindRefused, "has ended")
}

// TestWithdrawnKeyEndsWorkersForReal, and only those that stand on it.
func TestWithdrawnKeyEndsWorkersForReal(t *testing.T) {
	r := newRig(t, `echo end; sleep 60`).start()
	c := r.front()
	old := r.issuer.Current()
	doomed := r.spawn(c, r.token("alice"))
	r.issuer.Rotate("ES256")
	r.sendKeys()
	safe := r.spawn(c, r.token("alice"))
	stale := r.token("alice", authtest.SignedBy(old))
	r.issuer.Withdraw(old)
	r.sendKeys()
	if st := doomed.end(3 * time.Second); st.Reason != "key withdrawn" {
		t.Errorf("status %+v", st)
	}
	if !alive(safe.PID()) {
		t.Error("a worker of the other key ended")
	}
	answerAsks(t, r)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: stale})
	refused(t, err, spawn.KindToken, "unknown_key")
}

// answerAsks plays a keykeeper that sends its keys whenever it is asked.
func answerAsks(t *testing.T, r *rig) {
	go func() {
		for b := make([]byte, 8); ; {
			if n, err := r.keeper.Read(b); err != nil || n != 1 || b[0] != 'R' {
				return
			}
			sendKeys(t, r.keeper, r.issuer)
		}
	}()
}

// TestUnknownKeyWaitsAlone: a token of a key that the monitor does not have yet
// waits for it, and nobody else does.
func TestUnknownKeyWaitsAlone(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	old := r.issuer.Current()
	r.issuer.Rotate("ES256")
	late := r.token("alice")
	got := make(chan error, 1)
	go func() {
		w, err := c.Spawn(t.Context(), spawn.Request{Token: late})
		if err == nil {
			w.Stop()
		}
		got <- err
	}()
	b := make([]byte, 8)
	if n, err := r.keeper.Read(b); err != nil || string(b[:n]) != "R" {
		t.Fatalf("keykeeper was asked %q, %v", b[:n], err)
	}
	began := time.Now()
	r.spawn(c, r.token("alice", authtest.SignedBy(old)))
	if d := time.Since(began); d > time.Second {
		t.Errorf("another spawn took %v meanwhile", d)
	}
	r.sendKeys()
	if err := <-got; err != nil {
		t.Errorf("with its key: %v", err)
	}
}

// TestKeysThatNeverComeDecideNothing: in bounded time, and not as a bad token.
func TestKeysThatNeverComeDecideNothing(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	r.issuer.Rotate("ES256")
	began := time.Now()
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindUndecided, "")
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	empty := newRig(t, `echo end`)
	empty.cfg.MaxStale = time.Nanosecond
	empty.startWithoutKeys()
	_, err = empty.front().Spawn(t.Context(), spawn.Request{Token: empty.token("alice")})
	refused(t, err, spawn.KindUndecided, "no usable keys")
}

// startWithoutKeys makes the monitor alone.
func (r *rig) startWithoutKeys() {
	r.t.Helper()
	m, err := New(r.t.Context(), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
	r.t.Cleanup(r.close)
}

// TestLimitsForReal: a captured token buys no more than its cap, a principal no
// more than theirs, and the rate is told.
func TestLimitsForReal(t *testing.T) {
	r := newRig(t, `echo end; read x`)
	r.cfg.MaxPerToken, r.cfg.MaxPerPrincipal, r.cfg.SpawnRate, r.cfg.SpawnBurst = 2, 3, 0.01, 4
	r.start()
	c := r.front()
	tok := r.token("alice")
	r.spawn(c, tok)
	w := r.spawn(c, tok)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: tok})
	refused(t, err, spawn.KindLimit, "of this token")
	r.spawn(c, r.token("alice"))
	_, err = c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindLimit, "of this principal")
	w.Stop()
	w.end(5 * time.Second)
	w = r.spawn(c, r.token("alice"))
	w.Stop()
	w.end(5 * time.Second)
	_, err = c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindRate, "")
	var e *spawn.Error
	if errors.As(err, &e); e.RetryAfter < 90*time.Second || e.RetryAfter > 100*time.Second {
		t.Errorf("retry after %v, want about 100s", e.RetryAfter)
	}
}

// TestFrontEndThatEndsTakesItsWorkers, and the next one starts with nothing.
func TestFrontEndThatEndsTakesItsWorkers(t *testing.T) {
	r := newRig(t, stubborn).start()
	c := r.front()
	w := r.spawn(c, r.token("alice"))
	w.lines()
	c.Close()
	dead(t, 3*time.Second, w.PID())
	if !r.m.leasesGone(3 * time.Second) {
		t.Error("the lease stays")
	}
	again := r.spawn(r.front(), r.token("alice"))
	again.lines()
	if !alive(again.PID()) {
		t.Error("the next front end gets no worker")
	}
}

// TestConcurrentSpawnsAndLeaks runs many at once and counts what is left.
func TestConcurrentSpawnsAndLeaks(t *testing.T) {
	r := newRig(t, `echo end; read x`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal, r.cfg.MaxPerToken, r.cfg.SpawnBurst = 64, 64, 64, 1000
	r.start()
	c := r.front()
	r.spawn(c, r.token("alice")).Stop() // warm up
	r.m.leasesGone(5 * time.Second)
	r.tidyGroups()
	before := openFDs(t)
	var wg sync.WaitGroup
	for range 40 {
		tok := r.token("alice")
		wg.Go(func() {
			w, err := c.Spawn(context.Background(), spawn.Request{Token: tok})
			if err != nil {
				t.Error(err)
				return
			}
			w.Stdin().WriteString("x\n")
			<-w.Exited()
			for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
				f.Close()
			}
		})
	}
	wg.Wait()
	r.tidyGroups()
	for i := 0; openFDs(t) > before && i < 100; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if n := r.m.leases.count(); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// TestCancelledSpawnLeavesNoWorker: whoever gives up waiting.
func TestCancelledSpawnLeavesNoWorker(t *testing.T) {
	r := newRig(t, `echo end; read x`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal = 64, 64
	r.start()
	c := r.front()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Microsecond)
		if w, err := c.Spawn(ctx, spawn.Request{Token: r.token("alice")}); err == nil {
			w.Stop()
		}
		cancel()
	}
	r.spawn(c, r.token("alice")).Stop()
	if !r.m.leasesGone(time.Minute) { // twenty starts and ends, on a machine that may be busy
		t.Errorf("%d workers are left", r.m.leases.count())
	}
}

// TestGroupsThatCannotBeStartedIn: the worker starts all the same, by label, and
// the operator is told.
func TestGroupsThatCannotBeStartedIn(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	base := r.m.runner.groups.Load()
	if base == nil {
		t.Skip("SKIPPED: no control groups here")
	}
	inner, err := cgroup.Open(filepath.Base(base.Path()) + "-threaded")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	// A threaded group takes no new process of another domain (EOPNOTSUPP).
	if err := os.WriteFile(filepath.Join(inner.Path(), "cgroup.type"), []byte("threaded"), 0); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	r.m.runner.groups.Store(inner)
	w := r.spawn(r.front(), r.token("alice"))
	w.lines()
	r.log.Await(t, "starting in a control group does not work here")
	if r.m.runner.groups.Load() != nil {
		t.Error("groups are still used")
	}
	base.Close()
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

// TestWorkersYieldToTheFrontEnd: they are batch processes, and the parts are not.
func TestWorkersYieldToTheFrontEnd(t *testing.T) {
	const normal, batch = 0, 3
	if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != normal {
		t.Skip("the test runs under a policy that is kept")
	}
	r := newRig(t, `echo end; read x`).start()
	w := r.spawn(r.front(), r.token("alice"))
	policy := func(pid int) uint32 {
		a, err := unix.SchedGetAttr(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		return a.Policy
	}
	if got := policy(w.PID()); got != batch {
		t.Errorf("the worker's policy is %d", got)
	}
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	for name, part := range r.m.children {
		if got := policy(part.PID()); got != normal {
			t.Errorf("policy of the %s is %d", name, got)
		}
	}
}

// TestFrontEndThatHangsUp is not called compromised for it.
func TestFrontEndThatHangsUp(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.start()
	ours, theirs, err := spawn.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := spawn.NewConn(ours, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := newAttendant(r.m, conn)
	r.seats = append(r.seats, a)
	spec := proc.Spec{Path: "/bin/sleep", Argv: []string{"sleep", "60"}, Dir: "/"}
	if r.m.front != nil {
		spec.As = &proc.Identity{UID: r.m.front.UID, GID: r.m.front.GID}
	}
	child, err := r.m.host.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		r.m.attendFront(a, child)
		close(over)
	}()
	c, err := spawn.NewClient(theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(); err != nil {
		t.Fatal(err)
	}
	r.spawn(c, r.token("alice"))
	c.Close()
	<-over
	r.log.Await(t, `"reason":"the front end ended"`)
	if strings.Contains(r.log.String(), "compromised") {
		t.Errorf("it is called compromised:\n%s", r.log)
	}
}

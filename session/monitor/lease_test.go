package monitor

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/auth/identity"
	"gatehouse/session/accounts"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/spawn"
)

// fakeBody is a process tree that notes what is done to it, and when.
type fakeBody struct {
	began    time.Time
	endsOn   syscall.Signal // the signal that ends it; 0: only a kill does
	mu       sync.Mutex
	log      []string
	done     chan struct{}
	finished sync.Once
}

func newFakeBody(endsOn syscall.Signal) *fakeBody {
	return &fakeBody{began: time.Now(), endsOn: endsOn, done: make(chan struct{})}
}

func (b *fakeBody) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, fmt.Sprintf("%v %s", time.Since(b.began), what))
}

func (b *fakeBody) Done() <-chan struct{} { return b.done }
func (b *fakeBody) Status() proc.Status   { return proc.Status{} }
func (b *fakeBody) end()                  { b.finished.Do(func() { close(b.done) }) }

func (b *fakeBody) Signal(sig syscall.Signal) {
	b.note(map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGCONT: "CONT"}[sig])
	if sig == b.endsOn {
		b.end()
	}
}

func (b *fakeBody) Interrupt() { b.note("INT") }

func (b *fakeBody) Kill() {
	b.note("KILL")
	b.end()
}

func (b *fakeBody) history() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.log, ", ")
}

var (
	pAlice = identity.Principal{Issuer: "https://id.test", Subject: "alice", Client: "cli"}
	pBob   = identity.Principal{Issuer: "https://id.test", Subject: "bob", Client: "cli"}
)

func testLimits() limits {
	return limits{workers: 4, perPrincipal: 3, perToken: 2, rate: rate.Inf, burst: 1}
}

// mustReserve takes a lease of one hour.
func mustReserve(t *testing.T, tab *leases, p identity.Principal, tokenID string) *lease {
	t.Helper()
	l, err := tab.reserve(&verdict{principal: p, tokenID: tokenID, keyID: "k1"}, 0, assignment{}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func kindOf(err error) spawn.Kind {
	var e *spawn.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return spawn.KindInternal
}

func TestZeroLimitsAdmitNothing(t *testing.T) {
	tab := newLeases(limits{}, time.Now)
	if _, err := tab.reserve(&verdict{principal: pAlice}, 0, assignment{}, time.Time{}); kindOf(err) != spawn.KindLimit {
		t.Errorf("got %v", err)
	}
}

func TestCaps(t *testing.T) {
	tab := newLeases(testLimits(), time.Now)
	a1 := mustReserve(t, tab, pAlice, "t1")
	a2 := mustReserve(t, tab, pAlice, "t1")
	reserve := func(p identity.Principal, tok string) error {
		_, err := tab.reserve(&verdict{principal: p, tokenID: tok}, 0, assignment{}, time.Now().Add(time.Hour))
		return err
	}
	if err := reserve(pAlice, "t1"); kindOf(err) != spawn.KindLimit || !strings.Contains(err.Error(), "of this token") {
		t.Errorf("third worker of a token: %v", err)
	}
	a3 := mustReserve(t, tab, pAlice, "t2")
	if err := reserve(pAlice, "t3"); kindOf(err) != spawn.KindLimit || !strings.Contains(err.Error(), "of this principal") {
		t.Errorf("fourth worker of a principal: %v", err)
	}
	other := pAlice
	other.Client = "web"
	mustReserve(t, tab, other, "t4")
	if err := reserve(pBob, "t5"); kindOf(err) != spawn.KindLimit || !strings.Contains(err.Error(), "4 workers run") {
		t.Errorf("fifth worker: %v", err)
	}
	// A worker that is being ended makes room, but only so much.
	for _, l := range []*lease{a1, a2, a3} {
		l.run(newFakeBody(0))
		l.stop("test", ladder{time.Hour, 0})
	}
	for range 3 {
		mustReserve(t, tab, pAlice, "")
	}
	if err := reserve(pBob, "t5"); kindOf(err) != spawn.KindLimit {
		t.Errorf("beyond the cap again: %v", err)
	}
	a1.release()
	if tab.count() != 6 {
		t.Errorf("%d leases, want 6", tab.count())
	}
}

// TestEndingWorkersAreBounded: a front end that spawns and kills in a loop fills
// the second half of the table and then waits.
func TestEndingWorkersAreBounded(t *testing.T) {
	tab := newLeases(limits{workers: 2}, time.Now)
	for range 4 {
		l, err := tab.reserve(&verdict{principal: pAlice}, 0, assignment{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		l.run(newFakeBody(0))
		l.stop("test", ladder{time.Hour, 0})
	}
	if _, err := tab.reserve(&verdict{principal: pAlice}, 0, assignment{}, time.Time{}); kindOf(err) != spawn.KindLimit {
		t.Errorf("fifth: %v", err)
	}
}

func TestSpawnRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(limits{workers: 100, perPrincipal: 100, perToken: 100, rate: 0.5, burst: 3}, time.Now)
		take := func(p identity.Principal) error {
			l, err := tab.reserve(&verdict{principal: p}, 0, assignment{}, time.Time{})
			if err == nil {
				l.release()
			}
			return err
		}
		for range 3 {
			if err := take(pAlice); err != nil {
				t.Fatal(err)
			}
		}
		err := take(pAlice)
		var e *spawn.Error
		if !errors.As(err, &e) || e.Kind != spawn.KindRate || e.RetryAfter != 2*time.Second {
			t.Errorf("fourth spawn: %v, retry after %v; want 2s", err, e.RetryAfter)
		}
		if err := take(pBob); err != nil {
			t.Errorf("another principal pays for it: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := take(pAlice); err != nil {
			t.Errorf("after 2s: %v", err)
		}
		time.Sleep(time.Hour)
		if err := take(identity.Principal{Subject: "third"}); err != nil {
			t.Fatal(err)
		}
		if len(tab.buckets) != 1 {
			t.Errorf("%d buckets are kept; full ones say nothing", len(tab.buckets))
		}
		// Loopback: only the number of workers counts.
		free := newLeases(limits{workers: 1}, time.Now)
		for range 50 {
			l, err := free.reserve(&verdict{principal: identity.Loopback}, 0, assignment{}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			l.release()
		}
	})
}

func TestLadder(t *testing.T) {
	for name, c := range map[string]struct {
		endsOn syscall.Signal
		atEOF  bool
		how    ladder
		want   string
	}{
		"ends at EOF":        {0, true, ladder{2 * time.Second, 3 * time.Second}, ""},
		"ends at SIGTERM":    {syscall.SIGTERM, false, ladder{2 * time.Second, 3 * time.Second}, "2s TERM, 2s CONT"},
		"ignores everything": {0, false, ladder{2 * time.Second, 3 * time.Second}, "2s TERM, 2s CONT, 5s KILL"},
		"overdue":            {0, false, overdue, "0s TERM, 0s CONT, 800ms KILL"},
		"stopped process":    {syscall.SIGCONT, false, overdue, "0s TERM, 0s CONT"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := newLeases(testLimits(), time.Now)
				l := mustReserve(t, tab, pAlice, "t")
				b := newFakeBody(c.endsOn)
				l.run(b)
				l.stop("test", c.how)
				l.stop("again", ladder{})
				if c.atEOF {
					time.Sleep(time.Second)
					b.end()
				}
				time.Sleep(10 * time.Second)
				if got := b.history(); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
				if l.why() != "test" {
					t.Errorf("reason %q, want the first one", l.why())
				}
				l.release()
			})
		})
	}
}

// TestLeaseEndsOnTime: exp + leeway + grace, not a moment earlier, at most 1 s
// later, whatever the front end does.
func TestLeaseEndsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		l := mustReserve(t, tab, pAlice, "t")
		b := newFakeBody(0)
		l.run(b)
		time.Sleep(time.Hour - time.Millisecond)
		synctest.Wait()
		if h := b.history(); h != "" {
			t.Errorf("before its time: %s", h)
		}
		time.Sleep(2 * time.Second)
		if h, want := b.history(), "1h0m0s TERM, 1h0m0s CONT, 1h0m0.8s KILL"; h != want || l.why() != "lease expired" {
			t.Errorf("got %q (%s), want %q", h, l.why(), want)
		}
		l.release()
	})
}

// TestSlowEndDoesNotOutliveTheLease: a KILL just before the end buys no time.
func TestSlowEndDoesNotOutliveTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		l := mustReserve(t, tab, pAlice, "t")
		b := newFakeBody(0)
		l.run(b)
		time.Sleep(time.Hour - time.Second)
		l.stop("asked to", ladder{2 * time.Second, 3 * time.Second})
		time.Sleep(10 * time.Second)
		if h := b.history(); !strings.HasPrefix(h, "1h0m0s KILL") {
			t.Errorf("got %q, want a kill after one hour", h)
		}
		l.release()
	})
}

func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		l := mustReserve(t, tab, pAlice, "t1")
		b := newFakeBody(syscall.SIGTERM)
		l.run(b)
		end := time.Now().Add(time.Hour)
		l.verdict.served = end
		for name, c := range map[string]struct {
			p      identity.Principal
			served time.Time
		}{
			"another subject": {pBob, end.Add(time.Hour)},
			"another client":  {identity.Principal{Issuer: pAlice.Issuer, Subject: pAlice.Subject, Client: "web"}, end.Add(time.Hour)},
			"another issuer":  {identity.Principal{Issuer: "https://other.test", Subject: pAlice.Subject, Client: pAlice.Client}, end.Add(time.Hour)},
			"same expiry":     {pAlice, end},
			"older":           {pAlice, end.Add(-time.Second)},
			"never":           {pAlice, time.Time{}},
		} {
			if err := l.renew(&verdict{principal: c.p, served: c.served}, c.served); kindOf(err) != spawn.KindRefused {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(59 * time.Minute)
		if err := l.renew(&verdict{principal: pAlice, tokenID: "t2", keyID: "k2", served: end.Add(30 * time.Minute)}, end.Add(30*time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if h := b.history(); h != "" {
			t.Errorf("a renewed lease ended: %s", h)
		}
		time.Sleep(time.Minute + time.Second)
		if h := b.history(); h != "1h30m0s TERM, 1h30m0s CONT" {
			t.Errorf("got %q", h)
		}
		if err := l.renew(&verdict{principal: pAlice, served: end.Add(time.Hour)}, end.Add(time.Hour)); kindOf(err) != spawn.KindRefused {
			t.Errorf("renewal of a worker that ends: %v", err)
		}
		l.release()
	})
}

// TestSuspendedHost: the timers of the runtime stand still while a host sleeps, the
// wall clock does not.
func TestSuspendedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		tab := newLeases(testLimits(), func() time.Time { return time.Now().Add(time.Duration(slept.Load())) })
		l := mustReserve(t, tab, pAlice, "t")
		b := newFakeBody(syscall.SIGTERM)
		l.run(b)
		time.Sleep(time.Minute)
		slept.Store(int64(2 * time.Hour))
		time.Sleep(leaseCheck + time.Second)
		if b.history() == "" {
			t.Error("the lease outlived two hours of sleep")
		}
		l.release()
	})
}

func TestEndlessLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(limits{workers: 1}, time.Now)
		l, err := tab.reserve(&verdict{principal: identity.Loopback}, 0, assignment{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		b := newFakeBody(0)
		l.run(b)
		time.Sleep(10000 * time.Hour)
		if h := b.history(); h != "" {
			t.Errorf("a lease without an end ended: %s", h)
		}
		l.kill("test")
		l.release()
	})
}

func TestWithdrawnKeyEndsItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		mine, renewed, starting := mustReserve(t, tab, pAlice, "1"), mustReserve(t, tab, pAlice, "2"), mustReserve(t, tab, pBob, "3")
		otherIssuer := mustReserve(t, tab, identity.Principal{Issuer: "https://other.test", Subject: "x"}, "4")
		bodies := map[*lease]*fakeBody{}
		for _, l := range []*lease{mine, renewed, otherIssuer} {
			bodies[l] = newFakeBody(syscall.SIGTERM)
			l.run(bodies[l])
		}
		if err := renewed.renew(&verdict{principal: pAlice, keyID: "k2", served: time.Now()}, time.Now().Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		tab.withdraw("https://id.test", []string{"k0", "k1"}, ladder{0, time.Second})
		time.Sleep(time.Second)
		if h := bodies[mine].history(); h != "0s TERM, 0s CONT" || mine.why() != "key withdrawn" {
			t.Errorf("worker of the key: %q (%s)", h, mine.why())
		}
		for name, l := range map[string]*lease{"renewed under another key": renewed, "same key id of another issuer": otherIssuer} {
			if h := bodies[l].history(); h != "" {
				t.Errorf("%s: %s", name, h)
			}
		}
		// The one that was only being started ends as soon as it has a process.
		b := newFakeBody(syscall.SIGTERM)
		starting.run(b)
		time.Sleep(time.Second)
		if b.history() == "" {
			t.Error("a worker that was being started lives on")
		}
		for _, l := range []*lease{mine, renewed, starting, otherIssuer} {
			l.kill("")
			l.release()
		}
	})
}

func TestKillReachesAWorkerThatIsBeingStarted(t *testing.T) {
	tab := newLeases(testLimits(), time.Now)
	l := mustReserve(t, tab, pAlice, "t")
	l.kill("abort")
	b := newFakeBody(0)
	l.run(b)
	select {
	case <-b.Done():
	default:
		t.Error("it was not killed")
	}
	if l.why() != "abort" {
		t.Errorf("reason %q", l.why())
	}
}

func TestClosedTableAdmitsNothingAndEmpties(t *testing.T) {
	tab := newLeases(testLimits(), time.Now)
	l := mustReserve(t, tab, pAlice, "t")
	tab.close()
	if _, err := tab.reserve(&verdict{principal: pAlice}, 0, assignment{}, time.Time{}); kindOf(err) != spawn.KindDraining {
		t.Errorf("got %v", err)
	}
	empty := make(chan struct{})
	go func() { tab.wait(); close(empty) }()
	l.release()
	<-empty
}

func TestTokenIDs(t *testing.T) {
	if a, b := tokenIDOf("i", "j", "h.p.s1"), tokenIDOf("i", "j", "h.p.s2"); a != b {
		t.Error("another signature makes another token")
	}
	if a, b := tokenIDOf("i", "", "h.p.s1"), tokenIDOf("i", "", "h.p.s2"); a != b || a == "" {
		t.Errorf("without a jti: %q and %q", a, b)
	}
	if a, b := tokenIDOf("i", "j", "x"), tokenIDOf("i2", "j", "x"); a == b {
		t.Error("two issuers' tokens are one")
	}
}

func TestSameAssignment(t *testing.T) {
	base := assignment{account: accounts.Account{Name: "a", UID: 1000, GID: 1000, Groups: []uint32{1000, 1001}, Home: "/h"}}
	for name, change := range map[string]func(*assignment){
		"name":   func(a *assignment) { a.account.Name = "b" },
		"uid":    func(a *assignment) { a.account.UID++ },
		"gid":    func(a *assignment) { a.account.GID++ },
		"groups": func(a *assignment) { a.account.Groups = []uint32{1000} },
		"home":   func(a *assignment) { a.account.Home = "/x" },
	} {
		other := base
		change(&other)
		if base.same(&other) {
			t.Errorf("%s: seen as the same", name)
		}
	}
	other := base
	other.email, other.account.Shell = "x@y", "/bin/zsh"
	if !base.same(&other) {
		t.Error("what makes no other process was seen as another one")
	}
}

// An interrupt reaches a worker that runs, and none that is being ended.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newLeases(limits{workers: 1}, time.Now)
		l, err := table.reserve(&verdict{}, 0, assignment{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		l.interrupt() // no process yet
		b := newFakeBody(syscall.SIGTERM)
		l.run(b)
		l.interrupt()
		l.stop("enough", ladder{})
		l.interrupt()
		synctest.Wait()
		if got := b.history(); !strings.Contains(got, "0s INT") || strings.Count(got, "INT") != 1 {
			t.Errorf("got %s", got)
		}
	})
}

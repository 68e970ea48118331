package monitor

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/session/spawn"
)

// TestRenewalUnderAShorterGrace: a token that is newer is taken, and its key counts from
// then on, also when a reload made the grace so much shorter that the lease ends earlier.
func TestRenewalUnderAShorterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		expiry := time.Now().Add(5 * time.Minute)
		l, err := tab.reserve(&verdict{principal: pAlice, keyID: "k1", served: expiry}, 0, assignment{}, expiry.Add(8*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		b := newFakeBody(syscall.SIGTERM)
		l.run(b)
		expiry = expiry.Add(5 * time.Minute)
		if err := l.renew(&verdict{principal: pAlice, keyID: "k2", served: expiry}, expiry.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		tab.withdraw(pAlice.Issuer, []string{"k1"}, overdue)
		synctest.Wait()
		if h := b.history(); h != "" {
			t.Errorf("it still stood on the key before: %s", h)
		}
		time.Sleep(70*time.Minute + time.Second)
		if h := b.history(); h != "1h10m0s TERM, 1h10m0s CONT" {
			t.Errorf("got %q, want the end that the newer token and the shorter grace give", h)
		}
		l.release()
	})
}

// TestEndingWorkersOfAPrincipalAreBounded: who starts and ends workers that end slowly
// keeps others from nothing.
func TestEndingWorkersOfAPrincipalAreBounded(t *testing.T) {
	tab := newLeases(limits{workers: 100, perPrincipal: 2, perToken: 2, rate: rate.Inf, burst: 1}, time.Now)
	var ending []*lease
	for range 3 {
		l := mustReserve(t, tab, pAlice, "t1")
		l.run(newFakeBody(0))
		l.stop("test", ladder{time.Hour, 0})
		ending = append(ending, l)
	}
	mustReserve(t, tab, pAlice, "t1")
	another := func() error {
		_, err := tab.reserve(&verdict{principal: pAlice, tokenID: "t1"}, 0, assignment{}, time.Now().Add(time.Hour))
		return err
	}
	if err := another(); kindOf(err) != spawn.KindLimit || !strings.Contains(err.Error(), "1 workers of this principal run, 3 more") {
		t.Errorf("one beyond twice the cap: %v", err)
	}
	mustReserve(t, tab, pBob, "t2")
	ending[0].release()
	if err := another(); err != nil {
		t.Errorf("when one is gone: %v", err)
	}
}

// stuck is a process tree that takes its time to be killed: a walk through all
// processes of a host, say.
type stuck struct {
	*fakeBody
	release chan struct{}
}

func (b stuck) Kill() { <-b.release }

// TestOverdueKillHoldsNobodyUp: who asks for another worker meanwhile gets it.
func TestOverdueKillHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		l := mustReserve(t, tab, pAlice, "t1")
		b := stuck{newFakeBody(0), make(chan struct{})}
		l.run(b)
		l.stop("test", ladder{2 * time.Hour, 0})
		time.Sleep(time.Hour + time.Second) // the lease is over
		if tab.mu.TryLock() {
			tab.mu.Unlock()
		} else {
			t.Error("the table is locked while a worker is killed")
		}
		close(b.release)
		b.end()
		synctest.Wait()
		l.release()
	})
}

package monitor

import (
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeasesAreLookedAtTogether: however many leases there are, and whenever they began,
// the monitor wakes up for them once in leaseCheck.
func TestLeasesAreLookedAtTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock sync.Mutex
		looks := map[time.Time]int{}
		tab := newLeases(limits{workers: 100}, func() time.Time {
			lock.Lock()
			defer lock.Unlock()
			looks[time.Now()]++
			return time.Now()
		})
		var all []*lease
		for i := range 100 {
			time.Sleep(37 * time.Millisecond)
			l, err := tab.reserve(&verdict{principal: pAlice}, 0, assignment{}, time.Now().Add(time.Hour+time.Duration(i)))
			if err != nil {
				t.Fatal(err)
			}
			l.run(newFakeBody(syscall.SIGTERM))
			all = append(all, l)
		}
		lock.Lock()
		clear(looks)
		lock.Unlock()
		time.Sleep(10 * leaseCheck)
		lock.Lock()
		defer lock.Unlock()
		sum := 0
		for _, n := range looks {
			sum += n
		}
		if len(looks) != 10 || sum < 10*len(all) {
			t.Errorf("%d looks at %d moments in ten times leaseCheck, at %d leases", sum, len(looks), len(all))
		}
		for _, l := range all {
			defer l.release()
		}
	})
}

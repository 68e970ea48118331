package main

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitingPercent: what may wait never falls when more lives, and is never more than
// twice of that.
func TestWaitingPercent(t *testing.T) {
	for _, c := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing lives", 0, 200},
		{"a few sessions", 5 << 20, 200},
		{"half of what may wait", 8 << 20, 200},
		{"a little more", 10 << 20, 160},
		{"as much as may wait", 16 << 20, 100},
		{"half as much again", 24 << 20, 66},
		{"twice as much", 32 << 20, 50},
		{"a thousand sessions", 50 << 20, 50},
		{"far more", 1 << 50, 50},
	} {
		if got := waitingPercent(c.live); got != c.want {
			t.Errorf("%s: %d %%, want %d", c.name, got, c.want)
		}
	}
	var last uint64
	for live := uint64(0); live < 200<<20; live += 1 << 20 {
		room := live * uint64(waitingPercent(live)) / 100
		if room+2<<20 < last {
			t.Errorf("%d MiB live: %d bytes may wait, and %d before", live>>20, room, last)
		}
		last = room
	}
}

// now is the percentage at this time.
func (c *collector) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.percent
}

// TestCollectorTunes: the share follows what lives while there is little to do, is Go's
// at least while there is much, and is set only when the change is worth it.
func TestCollectorTunes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live atomic.Uint64
		var set, forced atomic.Int32 // how often
		var c *collector
		c = newCollector(live.Load, func(int) int { set.Add(1); return 0 }, func() { forced.Add(1); c.collected() })
		for _, step := range []struct {
			name   string
			after  time.Duration // since the step before
			live   uint64
			want   int   // percent
			set    int32 // times, until then
			forced int32 // collections of ours, until then
		}{
			{"a few sessions", time.Minute, 4 << 20, 200, 1, 0},
			{"not worth it", time.Minute, 8<<20 + 100<<10, 200, 1, 0}, // 197 %
			{"somewhat more", time.Minute, 18 << 20, 88, 2, 0},
			{"not worth it either", time.Minute, 17<<20 + 512<<10, 88, 2, 0}, // 91 %
			{"a thousand sessions", time.Minute, 60 << 20, 50, 3, 0},
			{"and calls", 500 * time.Millisecond, 60 << 20, 100, 4, 0},
			{"more of them", 900 * time.Millisecond, 60 << 20, 100, 4, 0},
			{"and none again", 3 * time.Second, 60 << 20, 50, 5, 1},
			{"some calls", 1100 * time.Millisecond, 60 << 20, 50, 5, 1},
			{"no session", time.Minute, 5 << 20, 200, 6, 1},
			{"calls without idle sessions", 100 * time.Millisecond, 5 << 20, 200, 6, 1},
			{"nothing", time.Hour, 5 << 20, 200, 6, 1},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			live.Store(step.live)
			c.collected()
			if p, n, m := c.now(), set.Load(), forced.Load(); p != step.want || n != step.set || m != step.forced {
				t.Errorf("%s: %d %%, set %d times, %d collections forced; want %d %%, %d and %d", step.name, p, n, m, step.want, step.set, step.forced)
			}
		}
	})
}

// TestCollectorRests: a second after the last collection of a busy time there is one
// more, and the share is small again; and no other follows.
func TestCollectorRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forced atomic.Int32
		var c *collector
		c = newCollector(func() uint64 { return 60 << 20 }, func(int) int { return 0 }, func() { forced.Add(1); c.collected() })
		for range 10 {
			c.collected()
			time.Sleep(often / 2)
		}
		if p, n := c.now(), forced.Load(); p != busyWaiting || n != 0 {
			t.Errorf("while busy: %d %%, %d collections forced; want %d %% and none", p, n, busyWaiting)
		}
		time.Sleep(often/2 + time.Millisecond)
		synctest.Wait()
		if p, n := c.now(), forced.Load(); p != leastWaiting || n != 1 {
			t.Errorf("a second later: %d %%, %d collections forced; want %d %% and one", p, n, leastWaiting)
		}
		time.Sleep(time.Hour)
		if n := forced.Load(); n != 1 {
			t.Errorf("an hour later %d collections were forced, want one", n)
		}
	})
}

// TestAfterCollections: the function is called after each collection, and can be told
// what lives by then.
func TestAfterCollections(t *testing.T) {
	live := newLive()
	found := make(chan uint64)
	ctx := t.Context()
	afterCollections(func() {
		select {
		case found <- live():
		case <-ctx.Done(): // the test is over
		}
	})
	limit := time.After(10 * time.Second)
	var held [][]byte
	for range 2 {
		held = append(held, make([]byte, 32<<20))
		for n, want := uint64(0), uint64(len(held))*32<<20; n < want; {
			runtime.GC()
			select {
			case n = <-found: // may be that of a collection before
			case <-limit:
				t.Fatalf("never told that %d bytes live", want)
			}
		}
	}
	runtime.KeepAlive(held)
}

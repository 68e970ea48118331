package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// What may wait for the collector of a front end that has little to do, beside what
// lives: waiting bytes, which is twice as much again at most, and not less than the share
// of leastWaiting percent. So a call beside few sessions pays for few collections, and a
// thousand idle sessions do not hold twice what they need (docs/decisions, 12).
const (
	waiting      = 16 << 20
	mostWaiting  = 200
	leastWaiting = 50
)

// A front end is busy when one collection follows another within often. It has busyWaiting
// percent at least then, the default of Go, so that calls do not pay for more collections.
const (
	often       = time.Second
	busyWaiting = 100
)

// worthIt is by how many percent the share must change to be set anew, which stops
// the front end for some microseconds.
const worthIt = 5

// waitingPercent is the collector's percentage (GOGC) for that many bytes of live heap,
// stacks and globals.
func waitingPercent(live uint64) int {
	if live <= waiting*100/mostWaiting {
		return mostWaiting
	}
	return max(int(waiting*100/live), leastWaiting)
}

// collector sets the percentage after each collection.
type collector struct {
	live func() uint64
	set  func(percent int) int

	mu      sync.Mutex  // guards what follows
	percent int         // what was set last
	last    time.Time   // the end of the last collection
	rest    *time.Timer // runs while the front end is busy; at its end it releases
}

// newCollector returns a collector for what is given: release collects, and gives what is
// free back to the system.
func newCollector(live func() uint64, set func(percent int) int, release func()) *collector {
	c := &collector{live: live, set: set, percent: 100} // as Go begins
	c.rest = time.AfterFunc(often, release)
	c.rest.Stop()
	return c
}

// tuneCollector begins to set the percentage of this process, for good.
func tuneCollector() {
	afterCollections(newCollector(newLive(), debug.SetGCPercent, debug.FreeOSMemory).collected)
}

// collected is called after each collection. One that follows a busy time by often is no
// sign of another.
func (c *collector) collected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	busy := now.Sub(c.last) < often
	c.last = now
	c.rest.Stop()
	want := waitingPercent(c.live())
	if busy && want < busyWaiting {
		want = busyWaiting
		c.rest.Reset(often)
	}
	c.share(want)
}

// share sets the percentage, c.mu held.
func (c *collector) share(want int) {
	if d := want - c.percent; d >= worthIt || d <= -worthIt {
		c.set(want)
		c.percent = want
	}
}

// newLive returns a function that returns what the collector last found to live.
func newLive() func() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	return func() (sum uint64) {
		metrics.Read(samples)
		for _, s := range samples {
			if s.Value.Kind() == metrics.KindUint64 {
				sum += s.Value.Uint64()
			}
		}
		return sum
	}
}

// afterCollections calls f, never twice at a time, soon after each collection.
func afterCollections(f func()) {
	type garbage struct{ _ *garbage } // nobody holds it, so each collection finds it
	var found func(*garbage)
	found = func(g *garbage) {
		f()
		runtime.SetFinalizer(g, found)
	}
	runtime.SetFinalizer(new(garbage), found)
}

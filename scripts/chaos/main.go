// Command chaos treats a running server badly and then looks for what it left: 32
// clients of four users call, cancel, drop connections and leave; their workers die,
// stop, flood and write rubbish; tokens expire and are refreshed; the configuration is
// read again all the time. Every call must be answered exactly once or see its
// connection closed, and at the end nothing may be left but what was there when the
// server was idle.
//
// Run by scripts/test-chaos.sh. Linux only.
package main

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		work()
		return
	}
	bin := flag.String("bin", "", "folder of the programs")
	dir := flag.String("dir", "", "folder for the world's files")
	minutes := flag.Float64("minutes", 3, "how long, without warm-up and the look at what is left")
	warm := flag.Duration("warm", 30*time.Second, "how long the warm-up is")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the run's seed; the same one makes the same choices")
	clients := flag.Int("clients", 32, "how many clients")
	times := flag.Bool("lifetime", false, "check the lifetimes in real time instead, and 500 sessions that nobody ends")
	only := flag.String("only", "", "with --lifetime: in that world alone")
	flag.Parse()
	if *times {
		if !lifetimes(*bin, *dir, *only) {
			os.Exit(1)
		}
		return
	}
	fmt.Printf("chaos: seed %d (again: --seed %d)\n", *seed, *seed)
	w, err := newWorld(*bin, *dir, stormy)
	if err == nil {
		err = run(w, *seed, *clients, *warm, time.Duration(*minutes*float64(time.Minute)))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("chaos: nothing is left")
}

// run warms up, does the damage, and compares.
func run(w *world, seed uint64, clients int, warm, long time.Duration) error {
	defer w.kill()
	if err := w.start(); err != nil {
		return err
	}
	if err := storm(w, seed+1, clients, warm); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	before, err := w.settle()
	if err != nil {
		return fmt.Errorf("after the warm-up: %w", err)
	}
	fmt.Printf("chaos: idle after the warm-up: %v\n", before)
	if err := storm(w, seed, clients, long); err != nil {
		return err
	}
	after, err := w.settle()
	if err != nil {
		return err
	}
	// The collector of an idle Go program runs every two minutes.
	for rest := time.Now(); after.within(before) != nil && time.Since(rest) < collected; time.Sleep(5 * time.Second) {
		if after, err = w.measure(); err != nil {
			return err
		}
	}
	fmt.Printf("chaos: idle at the end:        %v\n", after)
	if err := after.within(before); err != nil {
		return err
	}
	if n, err := w.goroutines(); err != nil || n > maxGoroutines {
		return fmt.Errorf("%d goroutines in the idle front end, at most %d: %v", n, maxGoroutines, err)
	}
	return w.stop()
}

// collected is how long an idle server may take to give memory back.
const collected = 3 * time.Minute

// maxGoroutines is what an idle front end may have: its listeners, its socket's
// readers, timers of the HTTP server.
const maxGoroutines = 40

// tally counts what happened, by name.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
	faults []string
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[what]++
}

func (t *tally) fault(format string, a ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, fmt.Sprintf(format, a...))
}

// storm lets the clients loose for that long.
func storm(w *world, seed uint64, clients int, long time.Duration) error {
	t := &tally{counts: map[string]int{}}
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := newClient(w, t, seed, i)
			for !stop.Load() {
				c.act()
			}
			c.leave()
		})
	}
	all.Go(func() { w.disturb(seed, &stop, t) })
	time.Sleep(long)
	stop.Store(true)
	all.Wait()
	fmt.Printf("chaos: %v: %v\n", long, t.counts)
	if len(t.faults) > 0 {
		for _, f := range t.faults[:min(len(t.faults), 20)] {
			fmt.Println("chaos: FAULT", f)
		}
		return fmt.Errorf("%d faults", len(t.faults))
	}
	if t.counts["answered"] < clients {
		return fmt.Errorf("only %d calls were answered", t.counts["answered"])
	}
	return nil
}

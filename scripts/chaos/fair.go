package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fairly is the policy under which one principal floods and another one works.
const fairly = `run_as: shared-account
limits: {max_sessions: 64, max_sessions_per_principal: 16}`

// How often and how long the calls of the quiet one are measured, and how much longer
// their p99 may be for sharing a server with the one who floods.
const (
	fairRounds = 5
	fairCalls  = 150
	fairLimit  = 10 * time.Millisecond
)

// floods are what one principal does without end, on 16 connections.
var floods = []struct {
	name string
	act  func(*trial)
}{
	{"initializes", func(t *trial) { t.session = ""; t.open() }},
	{"calls", func(t *trial) { t.post(toolCall(1, "echo", "x", 0)) }},
	{"answers that are not read", func(t *trial) {
		ctx, cancel := context.WithCancel(context.Background())
		if resp, err := t.request(ctx, "POST", toolCall(1, "flood", "x", 0)); err == nil {
			time.Sleep(300 * time.Millisecond)
			resp.Body.Close()
		}
		cancel()
	}},
}

// fairness measures a client's calls while another principal floods. The flood costs
// the machine its processors wherever it goes, so that it goes to another server first
// and then to the client's own, in turn: what the difference is over the noise is what
// sharing the server costs.
func fairness(w *world) error {
	other, err := newWorld(w.bin, filepath.Join(w.dir, "other"), fairly)
	if err != nil {
		return err
	}
	defer other.kill()
	if err := other.start(); err != nil {
		return err
	}
	c := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 5, 0)}
	c.token = w.mint("quiet", time.Hour)
	c.want(c.enter(), "no session")
	c.round() // warm
	alone := c.round()
	fmt.Printf("      p99 of a call alone: %v\n", alone)
	for _, f := range floods {
		var beside, shared []time.Duration
		for range fairRounds {
			stop := flood(other, f.act)
			beside = append(beside, c.round())
			stop()
			stop = flood(w, f.act)
			shared = append(shared, c.round())
			stop()
		}
		slices.Sort(beside)
		slices.Sort(shared)
		noise := beside[len(beside)-1] - beside[0]
		there, here := beside[fairRounds/2], shared[fairRounds/2]
		fmt.Printf("      p99 while another floods with %s: %v on another server (%v to %v), %v on the same (%v to %v)\n", f.name,
			there, beside[0], beside[fairRounds-1], here, shared[0], shared[fairRounds-1])
		c.want(here < there+noise+fairLimit, "p99 %v while another floods with %s, %v when it floods another server, noise %v", here, f.name, there, noise)
	}
	c.leave()
	if c.err == nil {
		fmt.Println("ok    one principal's flood does not hold up another")
	}
	return firstOf(c.err, other.quit(), w.stop())
}

// round does the calls and returns their p99.
func (t *trial) round() time.Duration {
	var took []time.Duration
	for i := range fairCalls {
		start := time.Now()
		status, body := t.post(toolCall(i, "echo", "mine", 0))
		t.want(status == 200 && strings.Contains(body, "mine"), "%d %s", status, body)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// flood has 16 connections of one principal do something without end.
func flood(w *world, act func(*trial)) (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			f := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 6, i)}
			f.user = "flooder"
			f.token = w.mint(f.user, time.Hour)
			f.until = time.Now().Add(time.Hour)
			f.open()
			for !over.Load() {
				act(f)
			}
			f.leave()
		})
	}
	time.Sleep(time.Second)
	return func() { over.Store(true); all.Wait() }
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fairly is the policy under which one principal floods and another one works.
const fairly = `limits: {max_sessions: 32, max_sessions_per_principal: 8}`

// Of the quiet one: how many calls a round, and how much longer its p99 may be while
// another floods. The flood's own client runs on this machine too and takes its share
// of the processors, so the bound is on what a person would notice.
const (
	fairCalls = 400
	fairLimit = 250 * time.Millisecond
)

// fairness measures a client's calls alone, three times, and then while one principal
// floods with initializes, with calls, and with answers that it does not read.
func fairness(w *world) error {
	c := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 5, 0)}
	c.token = w.mint("quiet", time.Hour)
	c.want(c.enter(), "no session")
	c.round() // warm
	var alone []time.Duration
	for range 3 {
		alone = append(alone, c.round())
	}
	noise := slices.Max(alone) - slices.Min(alone)
	fmt.Printf("      p99 of a call alone: %v (noise %v)\n", slices.Min(alone), noise)
	for _, f := range []struct {
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
	} {
		stop := c.flood(f.act)
		p99 := c.round()
		stop()
		fmt.Printf("      p99 while another floods with %s: %v\n", f.name, p99)
		c.want(p99 < slices.Max(alone)+noise+fairLimit, "p99 %v while another floods with %s, alone %v", p99, f.name, alone)
	}
	c.leave()
	if c.err == nil {
		fmt.Println("ok    one principal's flood does not hold up another")
	}
	return firstOf(c.err, w.stop())
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
func (t *trial) flood(act func(*trial)) (stop func()) {
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			f := &trial{client: newClient(t.w, &tally{counts: map[string]int{}}, 6, i)}
			f.user = "flooder"
			f.token = t.w.mint(f.user, time.Hour)
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

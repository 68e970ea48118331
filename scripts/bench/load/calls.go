package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const maxFailures = 200 // of one client, after which it stops

func measureCalls(o *options) (figures, error) {
	clients, err := openClients(o)
	if err != nil {
		return nil, err
	}
	out := repeat(o, clients, client.call).figures()
	return out, closeClients(clients)
}

// measureChurn opens a session, calls once and ends it, again and again.
func measureChurn(o *options) (figures, error) {
	clients, err := newClients(o)
	if err != nil {
		return nil, err
	}
	life := func(c client, id int64) error {
		if err := c.open(); err != nil {
			return err
		}
		return callAndEnd(c, id)
	}
	if err := patiently(o.patience, func() error { return life(clients[0], 1) }); err != nil {
		return nil, err
	}
	return repeat(o, clients, life).figures(), nil
}

// callAndEnd ends a session after one call and keeps the connection.
func callAndEnd(c client, id int64) error {
	if err := c.call(id); err != nil {
		return err
	}
	if r, ok := c.(*rawClient); ok {
		return r.end()
	}
	return c.close()
}

// restBetween is how long a client waits before it opens its next session.
const restBetween = 100 * time.Millisecond

// measureOpen opens one session after the other and times nothing but the opening.
func measureOpen(o *options) (figures, error) {
	o.clients = 1
	clients, err := openClients(o)
	if err != nil {
		return nil, err
	}
	c := clients[0]
	var opened []time.Duration
	for end := time.Now().Add(o.duration); time.Now().Before(end) || len(opened) == 0; {
		if err := callAndEnd(c, 2); err != nil {
			return nil, err
		}
		time.Sleep(restBetween)
		start := time.Now()
		if err := c.open(); err != nil {
			return nil, err
		}
		opened = append(opened, time.Since(start))
	}
	slices.Sort(opened)
	return figures{"n": len(opened), "open_p50_us": quantile(opened, .5), "errors": 0}, closeClients(clients)
}

// run is a time of load.
type run struct {
	latencies []time.Duration // ascending
	errors    int64
	lastError string
	elapsed   time.Duration
	used      usage // meanwhile; cpu alone is meant
	processes int   // after it
}

// repeat has every client do the same again and again until the time is over.
func repeat(o *options, clients []client, do func(c client, id int64) error) run {
	var (
		ids  atomic.Int64
		mu   sync.Mutex // guards the run
		r    run
		wait sync.WaitGroup
	)
	ids.Store(1000)
	before := tree(o.pid)
	start := time.Now()
	deadline := start.Add(o.duration)
	for _, c := range clients {
		wait.Go(func() {
			mine := make([]time.Duration, 0, 1<<14)
			for fails := 0; time.Now().Before(deadline) && fails < maxFailures; {
				t := time.Now()
				if err := do(c, ids.Add(1)); err != nil {
					fails++
					mu.Lock()
					r.errors, r.lastError = r.errors+1, err.Error()
					mu.Unlock()
					continue
				}
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			r.latencies = append(r.latencies, mine...)
			mu.Unlock()
		})
	}
	wait.Wait()
	r.elapsed = time.Since(start)
	after := tree(o.pid)
	r.used.front.cpu = after.front.cpu - before.front.cpu
	r.used.monitor.cpu = after.monitor.cpu - before.monitor.cpu
	r.used.workers.cpu = after.workers.cpu - before.workers.cpu
	r.processes = len(after.front.pids) + len(after.monitor.pids) + len(after.workers.pids)
	slices.Sort(r.latencies)
	return r
}

// figures are those of a run, for each call.
func (r run) figures() figures {
	n := float64(len(r.latencies))
	out := figures{"n": len(r.latencies), "errors": r.errors, "last_error": r.lastError, "rps": n / r.elapsed.Seconds(),
		"p50_us": quantile(r.latencies, .5), "p99_us": quantile(r.latencies, .99), "processes": r.processes}
	if n > 0 {
		out["front_us"] = r.used.cpu() * 1e6 / n
		out["worker_us"] = r.used.workers.cpu * 1e6 / n
	}
	return out
}

// clean is the error of a run that must have none.
func (r run) clean(what string) error {
	if r.errors > 0 || len(r.latencies) == 0 {
		return fmt.Errorf("%s: %d calls, %d errors, such as %s", what, len(r.latencies), r.errors, r.lastError)
	}
	return nil
}

// quantile of ascending times in microseconds.
func quantile(lat []time.Duration, p float64) float64 {
	if len(lat) == 0 {
		return 0
	}
	return float64(lat[min(len(lat)-1, int(p*float64(len(lat))))].Nanoseconds()) / 1000
}

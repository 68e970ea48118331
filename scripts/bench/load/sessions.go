package main

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// measureIdle says what an idle session with its connection costs in memory. Before
// each look a client calls for a while, so that buffers exist and the collector has
// run, and then there is a rest, in which the runtime gives memory back.
func measureIdle(o *options) (figures, error) {
	n := o.clients
	o.clients = 1
	caller, err := openClients(o)
	if err != nil {
		return nil, err
	}
	look := func() (usage, error) {
		if err := repeat(o, caller, client.call).clean("calls between"); err != nil {
			return usage{}, err
		}
		time.Sleep(o.duration)
		return tree(o.pid), nil
	}
	before, err := look()
	if err != nil {
		return nil, err
	}
	held, err := hold(o, n, always(o.kind), func(int) {})
	if err != nil {
		return nil, err
	}
	after, err := look()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(allAlive(held), closeAll(held), closeClients(caller)); err != nil {
		return nil, err
	}
	each := func(a, b share) float64 { return float64(b.memory-a.memory) / 1024 / float64(n) }
	return figures{"front_kib": each(before.front, after.front), "monitor_kib": each(before.monitor, after.monitor),
		"workers": len(after.workers.pids) - len(before.workers.pids), "errors": 0}, nil
}

// measureCrowd measures calls beside no and beside -n idle sessions, and how long the
// opening of the first 100, 200, … of those took.
func measureCrowd(o *options) (figures, error) {
	callers, err := openClients(o)
	if err != nil {
		return nil, err
	}
	alone := repeat(o, callers, client.call)
	step := max(1, o.n/10)
	var curve []point
	start := time.Now()
	held, err := hold(o, o.n, always(o.kind), func(i int) {
		if (i+1)%step == 0 {
			curve = append(curve, point{float64(i + 1), time.Since(start).Seconds()})
		}
	})
	if err != nil {
		return nil, err
	}
	time.Sleep(min(o.duration, 2*time.Second)) // until it is quiet
	beside := repeat(o, callers, client.call)
	if err := errors.Join(alone.clean("alone"), beside.clean("beside the idle"), allAlive(held), closeAll(held), closeClients(callers)); err != nil {
		return nil, err
	}
	return figures{"alone_p50_us": quantile(alone.latencies, .5), "alone_p99_us": quantile(alone.latencies, .99),
		"crowd_p50_us": quantile(beside.latencies, .5), "crowd_p99_us": quantile(beside.latencies, .99),
		"curve": curve, "exponent": exponent(curve), "errors": 0}, nil
}

// measureLeft opens sessions, half of them with a stream, says nothing more, and
// waits until their processes are gone.
func measureLeft(o *options) (figures, error) {
	n := o.clients
	o.clients = 1
	first, err := openClients(o) // waits until the front end serves
	if err != nil {
		return nil, err
	}
	if err := closeClients(first); err != nil {
		return nil, err
	}
	all := func(u usage) int { return len(u.front.pids) + len(u.monitor.pids) + len(u.workers.pids) }
	time.Sleep(time.Second) // that session's worker ends
	before := all(tree(o.pid))
	start := time.Now()
	half := func(i int) string { return []string{"none", "h1-stream"}[i%2] }
	if _, err := hold(o, n, half, func(int) {}); err != nil {
		return nil, err
	}
	opened, most := time.Since(start), all(tree(o.pid))-before
	if most < n {
		return nil, fmt.Errorf("%d processes for %d sessions", most, n)
	}
	left := most
	for end := time.Now().Add(o.duration); left > 0 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		left = all(tree(o.pid)) - before
	}
	return figures{"opened_s": opened.Seconds(), "most": most, "left": left, "gone_s": (time.Since(start) - opened).Seconds(), "errors": 0}, nil
}

// point of a curve: y at x.
type point [2]float64

// exponent is the b of y = a·x^b that fits best (least squares of the logarithms); 0
// for fewer than two points.
func exponent(ps []point) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range ps {
		x, y := math.Log(p[0]), math.Log(p[1])
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; n >= 2 && d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

package main

import (
	"errors"
	"slices"
	"time"
)

// tokenBlock is how many calls of one kind are made, at most, before the other kind's turn.
const tokenBlock = 250

// settle is how long a newer token may wait before the monitor is shown it, and more.
const settle = 1200 * time.Millisecond

// measureTokens calls in turns with tokens that were seen before and with tokens of the
// same subject that are presented for the first time: in one session, or in each of -c
// sessions once.
func measureTokens(o *options) (figures, error) {
	fresh, err := lines(o.freshFile)
	if err != nil {
		return nil, err
	}
	size := min(tokenBlock, len(fresh)/2)
	if size == 0 {
		return nil, errors.New("too few tokens in -fresh-file")
	}
	o.clients = min(o.clients, size)
	clients, err := openClients(o)
	if err != nil {
		return nil, err
	}
	known := make([]string, len(clients)) // the newest token of each session
	for i, c := range clients {
		known[i] = c.(*rawClient).token
	}
	var id int64 = 1000
	block := func(s *spent, token func(call, client int) string) error {
		before := tree(o.pid)
		for i := range size {
			c := clients[i%len(clients)].(*rawClient)
			c.token = token(i, i%len(clients))
			c.prepare()
			id++
			t := time.Now()
			if err := c.call(id); err != nil {
				return err
			}
			s.latencies = append(s.latencies, time.Since(t))
		}
		time.Sleep(settle)
		after := tree(o.pid)
		s.cpu += after.cpu() - before.cpu()
		return nil
	}
	var remembered, first spent
	for ; len(fresh) >= size; fresh = fresh[size:] {
		if err := block(&remembered, func(_, client int) string { return known[client] }); err != nil {
			return nil, err
		}
		if err := block(&first, func(call, client int) string {
			known[client] = fresh[call]
			return fresh[call]
		}); err != nil {
			return nil, err
		}
	}
	out := figures{"calls": len(first.latencies), "errors": 0,
		"remembered_cpu_us": remembered.perCall(), "first_cpu_us": first.perCall(), "more_cpu_us": first.perCall() - remembered.perCall(),
		"remembered_p50_us": remembered.median(), "first_p50_us": first.median(), "more_p50_us": first.median() - remembered.median()}
	return out, closeClients(clients)
}

// spent is what calls of one kind took.
type spent struct {
	latencies []time.Duration
	cpu       float64 // seconds
}

func (s *spent) perCall() float64 { return s.cpu * 1e6 / float64(len(s.latencies)) }

func (s *spent) median() float64 {
	slices.Sort(s.latencies)
	return quantile(s.latencies, .5)
}

package main

import (
	"errors"
	"slices"
	"time"
)

// tokenBlock is how many calls of one kind are made before the other kind's turn.
const tokenBlock = 50

// measureTokens calls in one session in turns with the token that opened it and with
// tokens of the same subject that are presented for the first time.
func measureTokens(o *options) (figures, error) {
	fresh, err := lines(o.freshFile)
	if err != nil {
		return nil, err
	}
	if len(fresh) < tokenBlock {
		return nil, errors.New("too few tokens in -fresh-file")
	}
	o.clients = 1
	clients, err := openClients(o)
	if err != nil {
		return nil, err
	}
	c := clients[0].(*rawClient)
	known := c.token
	var id int64 = 1000
	block := func(tokens func(i int) string) (spent, error) {
		var s spent
		before := tree(o.pid)
		for i := range tokenBlock {
			c.token = tokens(i)
			c.prepare()
			id++
			t := time.Now()
			if err := c.call(id); err != nil {
				return s, err
			}
			s.latencies = append(s.latencies, time.Since(t))
		}
		// A newer token is shown to the monitor behind the call's back.
		time.Sleep(20 * time.Millisecond)
		after := tree(o.pid)
		s.cpu = after.cpu() - before.cpu()
		return s, nil
	}
	var remembered, first spent
	for len(fresh) >= tokenBlock {
		// The newest token that was shown, so that nothing is news to the session.
		a, err := block(func(int) string { return known })
		if err != nil {
			return nil, err
		}
		b, err := block(func(i int) string { return fresh[i] })
		if err != nil {
			return nil, err
		}
		known, fresh = fresh[tokenBlock-1], fresh[tokenBlock:]
		remembered.add(a)
		first.add(b)
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

func (s *spent) add(t spent) {
	s.latencies = append(s.latencies, t.latencies...)
	s.cpu += t.cpu
}

func (s *spent) perCall() float64 { return s.cpu * 1e6 / float64(len(s.latencies)) }

func (s *spent) median() float64 {
	slices.Sort(s.latencies)
	return quantile(s.latencies, .5)
}

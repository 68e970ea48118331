package main

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// largeRepeats is how often a large result passes; the peak of all counts.
const largeRepeats = 3

// measureLarge says how far the front end's memory rises above what it held before
// while large results pass, in units of one result.
func measureLarge(o *options) (figures, error) {
	o.clients = 1
	clients, err := openClients(o)
	if err != nil {
		return nil, err
	}
	c := clients[0].(*rawClient)
	front := tree(o.pid).front.pids
	var before, after int64
	for _, pid := range front {
		before += status(pid, "VmRSS:")
		if err := resetPeak(pid); err != nil {
			return nil, err
		}
	}
	var peaks []float64
	for i := range largeRepeats {
		if err := c.large(int64(i)+1000, o.result); err != nil {
			return nil, err
		}
		after = 0
		for _, pid := range front {
			after += status(pid, "VmHWM:")
		}
		peaks = append(peaks, float64(after-before)/float64(o.result))
	}
	return figures{"before_mib": float64(before) / (1 << 20), "first": peaks[0], "peak": peaks[len(peaks)-1], "errors": 0}, closeClients(clients)
}

// large asks for a result of that many bytes of text.
func (r *rawClient) large(id int64, size int) error {
	answer, err := r.post(r.tool(nil, id, "blob", fmt.Sprintf(`"bytes":%d`, size)))
	if err == nil && len(answer) < size {
		err = fmt.Errorf("%d bytes instead of %d: %.200s", len(answer), size, answer)
	}
	return err
}

// measureSlow measures calls beside none and beside -n clients that do not read: half
// of them let the answer to a call lie, of -result bytes, and half a stream that the
// worker has as much to say on.
func measureSlow(o *options) (figures, error) {
	callers, err := openClients(o)
	if err != nil {
		return nil, err
	}
	tokens, err := lines(o.tokenFile)
	if err != nil {
		return nil, err
	}
	alone := repeat(o, callers, client.call)
	slow := make([]*slowClient, o.n)
	for i := range slow {
		slow[i] = &slowClient{rawClient: newRaw(o, pick(tokens, i)), stream: i%2 == 1}
		if err := slow[i].ask(o.result); err != nil {
			return nil, fmt.Errorf("slow client %d: %w", i, err)
		}
	}
	time.Sleep(min(o.duration, 2*time.Second)) // what can be written is written
	beside := repeat(o, callers, client.call)
	var unread int64
	for i, s := range slow {
		n, err := s.drain()
		if n == 0 {
			return nil, fmt.Errorf("there was nothing to read for slow client %d: %w", i, err)
		}
		unread += n
	}
	if err := errors.Join(alone.clean("alone"), beside.clean("beside the slow"), closeClients(callers)); err != nil {
		return nil, err
	}
	return figures{"alone_p50_us": quantile(alone.latencies, .5), "alone_p99_us": quantile(alone.latencies, .99),
		"slow_p50_us": quantile(beside.latencies, .5), "slow_p99_us": quantile(beside.latencies, .99),
		"unread_mib": float64(unread) / (1 << 20), "errors": 0}, nil
}

// slowClient makes something to read for itself and does not read it.
type slowClient struct {
	*rawClient
	stream bool
	asker  *rawClient // of the same session, with a stream
}

// ask has the worker say much, on the answer to a call or on the session's stream.
func (s *slowClient) ask(size int) error {
	if err := s.open(); err != nil {
		return err
	}
	if !s.stream {
		return s.send(s.tool(nil, 2, "blob", fmt.Sprintf(`"bytes":%d`, size)))
	}
	asker := *s.rawClient
	s.asker, s.c = &asker, nil // which keeps the connection
	if err := s.get(); err != nil {
		return err
	}
	return asker.send(s.tool(nil, 2, "flood", fmt.Sprintf(`"bytes":%d`, size)))
}

// drain reads what lies there, says how much that was, and ends the session.
func (s *slowClient) drain() (int64, error) {
	s.c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	n, _ := io.Copy(io.Discard, s.br) // to the deadline
	s.hangUp()
	if s.asker != nil {
		s.asker.hangUp()
	}
	return n, s.close()
}

package main

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// measureStreams opens -c streams, whose workers send a message each second by
// themselves, and says what the front end's CPU was for each message.
func measureStreams(o *options) (figures, error) {
	clients, err := newClients(o)
	if err != nil {
		return nil, err
	}
	var (
		count  atomic.Int64
		failed atomic.Pointer[error]
		wait   sync.WaitGroup
		ending atomic.Bool
	)
	for i, c := range clients {
		r := c.(*rawClient)
		open := func() error {
			if err := r.open(); err != nil {
				return err
			}
			return r.get()
		}
		if i == 0 {
			err = patiently(o.patience, open)
		} else {
			err = open()
		}
		if err != nil {
			return nil, fmt.Errorf("stream %d: %w", i, err)
		}
		wait.Go(func() {
			if err := r.countEvents(&count); !ending.Load() {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	time.Sleep(2 * time.Second) // what was kept before the stream was open
	before, n := tree(o.pid), count.Load()
	start := time.Now()
	time.Sleep(o.duration)
	after, elapsed := tree(o.pid), time.Since(start).Seconds()
	messages := float64(count.Load() - n)
	ending.Store(true)
	for _, c := range clients {
		c.(*rawClient).c.Close()
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return nil, fmt.Errorf("a stream ended: %w", *err)
	}
	for _, c := range clients {
		c.(*rawClient).c = nil
		if err := c.close(); err != nil {
			return nil, err
		}
	}
	rate := messages / elapsed / float64(len(clients))
	if rate < .8 || rate > 1.2 {
		return nil, fmt.Errorf("%.2f messages a second on each stream instead of one", rate)
	}
	each := func(a, b share) float64 { return (b.cpu - a.cpu) * 1e6 / messages }
	return figures{"messages": messages, "rate": rate, "front_us": each(before.front, after.front), "monitor_us": each(before.monitor, after.monitor),
		"worker_us": each(before.workers, after.workers), "errors": 0}, nil
}

// countEvents reads the stream to its end and counts the messages.
func (r *rawClient) countEvents(count *atomic.Int64) error {
	br := r.br
	for {
		l, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if bytes.HasPrefix(l, []byte("data:")) && bytes.Contains(l, []byte("notifications/message")) {
			count.Add(1)
		}
	}
}

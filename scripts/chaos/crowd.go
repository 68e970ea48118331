package main

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"time"
)

// many is for a crowd that leaves without a word.
const many = `run_as: shared-account
limits: {max_sessions: 600, max_sessions_per_principal: 200, spawn_rate: 1000, spawn_burst: 1000}
lifetime: {stream_loss_grace: 10s, streamless_timeout: 15s, reaper_interval: 1s, probe_interval: none}`

// Of the crowd: how many they are, and when at the latest those must be gone that had a
// stream, and all: its time, one pass of the reaper, and 5 s.
const (
	crowdSize   = 500
	streamGone  = (10 + 1 + 5) * time.Second
	everyoneOut = (15 + 1 + 5) * time.Second
)

// crowd opens sessions that nobody ends: half have closed a stream, half never had one.
func crowd(w *world) error {
	t := &tally{counts: map[string]int{}}
	clients := make(chan *client, crowdSize)
	var all sync.WaitGroup
	start := time.Now()
	for i := range 8 {
		all.Go(func() {
			for j := i; j < crowdSize; j += 8 {
				c := newClient(w, t, 3, j)
				c.token = w.mint(c.user, time.Hour)
				c.open()
				clients <- c
			}
		})
	}
	quiet := newTrial(w, "quiet", "a comment every 15 s on a quiet stream")
	quiet.want(quiet.enter(), "no session")
	comments := quiet.comments()
	all.Wait()
	close(clients)
	if len(t.faults) > 0 || t.counts["opened"] != crowdSize {
		return fmt.Errorf("%v, %v", t.counts, t.faults)
	}
	fmt.Printf("      %d sessions opened in %v; %d processes\n", crowdSize, time.Since(start).Round(time.Millisecond), len(w.processes()))
	i := 0
	for c := range clients {
		if i++; i%2 == 0 {
			c.listen()
		}
		c.leave()
	}
	left := time.Now()
	for {
		list, err := w.sessions()
		if err != nil {
			return err
		}
		if quiet.session != "" && len(comments) == 2 { // the first comes at once
			<-comments
			d := (<-comments).Sub(quiet.began)
			quiet.want(d > 14*time.Second && d < 17*time.Second, "the second comment came after %v", d)
			quiet.delete()
			quiet.leave()
		}
		took := time.Since(left)
		switch {
		case len(list) == 0:
			if _, err := w.measure(); err != nil { // a zombie or a worker that is left
				return err
			}
			quiet.want(quiet.session == "", "there was none")
			fmt.Printf("ok    %d sessions that nobody ended were gone %v after the last was left; no zombie\n", crowdSize, took.Round(100*time.Millisecond))
			return firstOf(verdict([]*trial{quiet}), w.stop())
		case took > everyoneOut, took > streamGone && len(list) > crowdSize/2:
			return fmt.Errorf("%d sessions are left after %v", len(list), took)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// comments opens a GET stream and returns when its comments come.
func (t *trial) comments() <-chan time.Time {
	ctx, cancel := context.WithCancel(context.Background())
	t.drop = cancel
	t.began = time.Now()
	out := make(chan time.Time, 16)
	resp, err := t.request(ctx, "GET", "")
	if t.want(err == nil, "%v", err); err != nil {
		return out
	}
	t.streams.Go(func() {
		defer resp.Body.Close()
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if in.Text() == ":" {
				out <- time.Now()
			}
		}
	})
	return out
}

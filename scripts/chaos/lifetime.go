package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// short is the policy with short times, one of each, so that a test can tell by the
// time which rule ended a session.
const short = `limits: {max_sessions: 64, max_sessions_per_principal: 32, spawn_rate: 100, spawn_burst: 100}
lifetime: {idle_timeout: 14s, probe_interval: 1s, probe_timeout: 1s, stream_loss_grace: 4s, streamless_timeout: 7s, reaper_interval: 500ms, request_timeout: 5s, credential_grace: 3s, drain_limit: 4s}`

// many is for a crowd that leaves without a word.
const many = `limits: {max_sessions: 600, max_sessions_per_principal: 200, spawn_rate: 1000, spawn_burst: 1000}
lifetime: {stream_loss_grace: 10s, streamless_timeout: 15s, reaper_interval: 1s, probe_interval: none}`

// brief has a limit on any session's life.
const brief = `lifetime: {max_lifetime: 3s, reaper_interval: 500ms}`

// worlds are the servers, each with a policy, on which promises are tried.
var worlds = []struct {
	name, settings string
	try            func(*world) error
}{
	{"short", short, sideBySide},
	{"many", many, crowd},
	{"brief", brief, briefly},
	{"fair", fairly, fairness},
}

// lifetimes tries all of it, or what is done in that world alone.
func lifetimes(bin, dir, only string) (good bool) {
	good = true
	for _, k := range worlds {
		if only != "" && only != k.name {
			continue
		}
		w, err := newWorld(bin, filepath.Join(dir, k.name), k.settings)
		if err == nil {
			if err = w.start(); err == nil {
				err = k.try(w)
			}
			w.kill()
		}
		if err != nil {
			fmt.Printf("FAIL  %s: %v\n", k.name, err)
			good = false
		}
	}
	return good
}

// sideBySide runs the trials, and then stops the server under a running call.
func sideBySide(w *world) error {
	var all sync.WaitGroup
	var list []*trial
	i := 0
	for name, f := range trials {
		t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 1, i), name: name}
		t.user = fmt.Sprintf("user-%d", i)
		t.token = w.mint(t.user, time.Hour)
		i++
		list = append(list, t)
		all.Go(func() {
			t.want(t.enter(), "no session")
			if t.err == nil {
				f(t)
			}
			t.leave()
		})
	}
	all.Wait()
	broken := 0
	for _, t := range list {
		if t.err != nil {
			broken++
			fmt.Printf("FAIL  %s: %v\n", t.name, t.err)
		} else {
			fmt.Printf("ok    %s\n", t.name)
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d promises are broken", broken)
	}
	return stopping(w)
}

// stopping: SIGTERM lets a running call finish, turns readiness false, refuses new
// sessions, and ends with 0.
func stopping(w *world) error {
	t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 2, 0)}
	t.token = w.mint(t.user, time.Hour)
	t.want(t.enter(), "no session")
	answer := make(chan string, 1)
	go func() { _, body := t.post(toolCall(1, "slow", "in time", 2000)); answer <- body }()
	time.Sleep(500 * time.Millisecond)
	w.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(500 * time.Millisecond)
	status, body := t.another(t.user).post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	t.want(status == 503, "a new session while it stops: %d %s", status, body)
	got := <-answer
	t.want(strings.Contains(got, "in time"), "the running call got %s", got)
	t.err = firstOf(t.err, w.stop())
	if t.err == nil {
		fmt.Println("ok    SIGTERM: running calls finish, new sessions are refused, nothing is left")
	}
	return t.err
}

// crowd opens 500 sessions that nobody ends: half have closed a stream, half never had
// one. All workers must be gone within the longer of the two times, a pass and 5 s.
func crowd(w *world) error {
	const n = 500
	t := &tally{counts: map[string]int{}}
	clients := make(chan *client, n)
	var all sync.WaitGroup
	start := time.Now()
	for i := range 8 {
		all.Go(func() {
			for j := i; j < n; j += 8 {
				c := newClient(w, t, 3, j)
				c.token = w.mint(c.user, time.Hour)
				c.open()
				clients <- c
			}
		})
	}
	all.Wait()
	close(clients)
	opened := t.counts["opened"]
	fmt.Printf("      %d of %d sessions opened in %v; %d processes\n", opened, n, time.Since(start).Round(time.Millisecond), len(w.processes()))
	i := 0
	for c := range clients {
		if i++; i%2 == 0 {
			c.listen()
		}
		c.leave()
	}
	left := time.Now()
	const limit = 15*time.Second + time.Second + 5*time.Second
	for {
		list, err := w.sessions()
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		if time.Since(left) > limit {
			return fmt.Errorf("%d sessions are left after %v", len(list), limit)
		}
		time.Sleep(250 * time.Millisecond)
	}
	took := time.Since(left)
	if _, err := w.measure(); err != nil { // a zombie or a worker that is left
		return err
	}
	if len(t.faults) > 0 || opened < n*9/10 {
		return fmt.Errorf("%d opened, %v", opened, t.faults)
	}
	fmt.Printf("ok    %d sessions that nobody ended were gone %v after the last was left; no zombie\n", opened, took.Round(100*time.Millisecond))
	return w.stop()
}

// briefly: a session ends at its time, however busy it is.
func briefly(w *world) error {
	t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 4, 0)}
	t.token = w.mint(t.user, time.Hour)
	t.want(t.enter(), "no session")
	t.get("", t.answer)
	go t.post(toolCall(1, "slow", "x", 20000))
	t.ends(3, 5)
	t.leave()
	if t.err == nil {
		fmt.Println("ok    the longest life of a session")
	}
	return firstOf(t.err, w.stop())
}

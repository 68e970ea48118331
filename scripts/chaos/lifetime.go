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
const short = `run_as: shared-account
limits: {max_sessions: 64, max_sessions_per_principal: 32, spawn_rate: 100, spawn_burst: 100}
lifetime: {idle_timeout: 14s, probe_interval: 1s, probe_timeout: 1s, stream_loss_grace: 4s, streamless_timeout: 7s, reaper_interval: 500ms, request_timeout: 5s, credential_grace: 3s, drain_limit: 4s}`

// brief has a limit on any session's life, and a trace of all messages.
const brief = `run_as: shared-account
log: {trace: true, trace_limit: 200}
lifetime: {max_lifetime: 3s, reaper_interval: 500ms}`

// worlds are the servers, each with a policy, on which promises are tried.
var worlds = []struct {
	name, settings string
	try            func(*world) error
}{
	{"short", short, shortly},
	{"many", many, crowd},
	{"brief", brief, briefly},
	{"few", few, fewPlaces},
	{"people", people, realAccounts},
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

// promise is one that is tried with a session of its own.
type promise struct {
	name string
	try  func(*trial)
}

// sideBySide tries promises at once, each as a user of its own.
func sideBySide(w *world, promises []promise) error {
	var all sync.WaitGroup
	var list []*trial
	for i, p := range promises {
		t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 1, i), name: p.name}
		t.user = fmt.Sprintf("user-%d", i)
		t.token = w.mint(t.user, time.Hour)
		list = append(list, t)
		all.Go(func() {
			t.want(t.enter(), "no session")
			if t.err == nil {
				p.try(t)
			}
			t.leave()
		})
	}
	all.Wait()
	return verdict(list)
}

// verdict says how the trials went.
func verdict(list []*trial) error {
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
	return nil
}

// shortly tries what can be tried at once, then reloads, and then stops the server
// under a running call.
func shortly(w *world) error {
	if err := sideBySide(w, promises); err != nil {
		return err
	}
	if err := sideBySide(w, []promise{{"a session lives through reloads, and a bad file changes nothing", (*trial).reloads}}); err != nil {
		return err
	}
	if err := frozen(w); err != nil {
		return err
	}
	return stopping(w)
}

// frozen stops the front end for longer than sessions may be quiet. That ends nobody,
// for time is counted in passes that ran; but a credential's time goes on, and the
// monitor holds it.
func frozen(w *world) error {
	t := newTrial(w, "patient", "a front end that stands still ends nobody, and keeps no worker beyond its lease")
	t.want(t.enter(), "no session")
	brief := t.another("brief")
	brief.token = w.mint(brief.user, 3*time.Second)
	brief.want(brief.enter(), "no session")
	front := w.front()
	t.want(front != 0 && syscall.Kill(front, syscall.SIGSTOP) == nil, "no front end to stop")
	time.Sleep(9 * time.Second)
	t.want(!brief.there(), "the worker outlives its lease")
	syscall.Kill(front, syscall.SIGCONT)
	time.Sleep(4 * time.Second)
	t.want(t.there(), "ended for the time that the front end stood still")
	t.ends(1, 5)
	t.err = firstOf(t.err, brief.err)
	return verdict([]*trial{t})
}

// stopping: SIGTERM lets a running call finish, turns readiness false, refuses new
// sessions, and ends with 0.
func stopping(w *world) error {
	t := newTrial(w, "last", "")
	t.want(t.enter(), "no session")
	answer := make(chan string, 1)
	go func() { _, body := t.post(toolCall(1, "slow", "in time", 2000)); answer <- body }()
	time.Sleep(500 * time.Millisecond)
	w.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(500 * time.Millisecond)
	status, body := t.another(t.user).post(initialize)
	t.want(status == 503, "a new session while it stops: %d %s", status, body)
	got := <-answer
	t.want(strings.Contains(got, "in time"), "the running call got %s", got)
	t.err = firstOf(t.err, w.stop())
	if t.err == nil {
		fmt.Println("ok    SIGTERM: running calls finish, new sessions are refused, nothing is left")
	}
	return t.err
}

// briefly: a session ends at its time, however busy it is; and what is traced.
func briefly(w *world) error {
	t := newTrial(w, "busy", "the longest life of a session")
	t.want(t.enter(), "no session")
	t.get("", t.answer)
	go t.post(toolCall(1, "slow", "x", 20000))
	t.ends(3, 5)
	t.leave()
	trace := &trial{client: t.client, name: "the trace has messages of both directions, and no token"}
	for _, text := range []string{"trace is on", `"POST","path":"/mcp"`, `"dir":"in"`, `"dir":"out"`, "clientInfo"} {
		trace.want(w.logged(text), "the log lacks %s", text)
	}
	_, signature, _ := strings.Cut(t.token, ".")
	trace.want(!w.logged(signature) && !w.logged("Bearer"), "the token is in the log")
	return firstOf(verdict([]*trial{t, trace}), w.stop())
}

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/toolsets/toolsettest"
)

const (
	raceFiles, racePerFile   = 4, 10
	raceSessions, racePeople = 8, 4
	raceOps                  = 500
)

// edits are the texts of functions by name.
type edits map[string]string

// told is a commit as a session knows it.
type told struct {
	author string
	edits  edits
	sure   bool // it was acknowledged; else the worker died over it
}

// lost is what was acknowledged and uncommitted when a worker died.
type lost struct {
	edits  edits
	during string // the message of the commit that it died over, empty for none
}

// ledger is what the sessions were told: the truth that the repository must show.
type ledger struct {
	mu      sync.Mutex        // guards what follows
	commits map[string]told   // by message
	lost    map[string][]lost // by person
	count   map[string]int    // of what was done
}

func (l *ledger) did(what string) {
	l.mu.Lock()
	l.count[what]++
	l.mu.Unlock()
}

// racer is one session that edits at random and remembers what it did.
type racer struct {
	t       *testing.T
	name    string
	open    func() *client
	kill    func(*client) // ends the worker without a word
	c       *client
	rnd     *rand.Rand
	ledger  *ledger
	pending edits // acknowledged and uncommitted
	n       int
	id      int
}

func (r *racer) step() {
	switch x := r.rnd.IntN(100); {
	case x < 60:
		r.edit()
	case x < 80:
		r.commit()
	case x < 88:
		r.refresh()
	case x < 94:
		r.abort()
	case x < 97:
		r.die()
	default:
		r.dieOverCommit()
	}
}

func (r *racer) must(tool string, a args) string {
	text, kind := r.c.call(tool, a)
	if kind != "" {
		r.t.Errorf("session %d: %s %v: %s: %s", r.id, tool, a, kind, text)
	}
	return text
}

func (r *racer) edit() {
	name := fmt.Sprintf("F%02d", r.rnd.IntN(raceFiles*racePerFile))
	r.must("get_function_source", args{"name": "race." + name})
	r.n++
	src := fmt.Sprintf("func %s() string { return \"%d-%d\" }", name, r.id, r.n)
	r.must("define_function", args{"package": "race", "source": src})
	r.pending[name] = src
	r.ledger.did("edits")
}

func (r *racer) message() string {
	r.n++
	return fmt.Sprintf("session %d commit %d", r.id, r.n)
}

// commits notes a commit of everything pending.
func (r *racer) commits(message string, sure bool) {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.ledger.commits[message] = told{r.name, maps.Clone(r.pending), sure}
}

func (r *racer) commit() {
	if len(r.pending) == 0 {
		r.edit()
	}
	message := r.message()
	text, kind := r.c.call("commit", args{"message": message})
	switch kind {
	case "":
		r.commits(message, true)
		clear(r.pending)
		r.ledger.did("commits")
	case "conflict":
		r.verify("a conflict")
		r.abort()
		r.ledger.did("conflicts")
	default:
		r.t.Errorf("session %d: commit: %s: %s", r.id, kind, text)
	}
}

func (r *racer) refresh() {
	if text, kind := r.c.call("refresh", nil); kind != "" && kind != "conflict" {
		r.t.Errorf("session %d: refresh: %s: %s", r.id, kind, text)
	}
	r.verify("refresh")
	r.ledger.did("refreshes")
}

func (r *racer) abort() {
	r.must("abort", nil)
	clear(r.pending)
	r.ledger.did("aborts")
}

// die loses the worker between two calls.
func (r *racer) die() {
	r.kill(r.c)
	r.begin("")
	r.ledger.did("deaths")
}

// dieOverCommit loses the worker during a commit: it may be adopted or not, but
// wholly and once.
func (r *racer) dieOverCommit() {
	if len(r.pending) == 0 {
		r.edit()
	}
	message := r.message()
	r.commits(message, false)
	answer := make(chan string, 1)
	c := r.c
	go func() {
		_, kind, _, err := c.try("commit", args{"message": message})
		if err != nil {
			kind = "died"
		}
		answer <- kind
	}()
	time.Sleep(time.Duration(r.rnd.IntN(150)) * time.Millisecond)
	r.kill(c)
	switch <-answer {
	case "": // it was faster
		r.commits(message, true)
		clear(r.pending)
	case "conflict":
		r.ledger.mu.Lock()
		delete(r.ledger.commits, message)
		r.ledger.mu.Unlock()
	}
	r.begin(message)
	r.ledger.did("deaths over a commit")
}

// begin opens a new session after a death. What was pending is lost work now.
func (r *racer) begin(during string) {
	r.c.Close()
	if len(r.pending) > 0 {
		r.ledger.mu.Lock()
		r.ledger.lost[r.name] = append(r.ledger.lost[r.name], lost{maps.Clone(r.pending), during})
		r.ledger.mu.Unlock()
		clear(r.pending)
	}
	r.c = r.open()
}

// verify looks whether everything uncommitted is still there.
func (r *racer) verify(after string) {
	for name, src := range r.pending {
		if got := r.must("get_function_source", args{"name": "race." + name}); !strings.Contains(got, src) {
			r.t.Errorf("session %d: %s was lost after %s:\n%s", r.id, name, after, got)
		}
	}
}

// raceSeed is the seed of the choices: GATEHOUSE_RACE_SEED or a new one.
func raceSeed(t *testing.T) (a, b uint64) {
	a, b = rand.Uint64(), rand.Uint64()
	if s := os.Getenv("GATEHOUSE_RACE_SEED"); s != "" {
		if _, err := fmt.Sscanf(s, "%d,%d", &a, &b); err != nil {
			t.Fatalf("GATEHOUSE_RACE_SEED is not N,N: %v", err)
		}
	}
	t.Logf("to make the same choices again: GATEHOUSE_RACE_SEED=%d,%d", a, b)
	return a, b
}

// race has eight sessions of four people edit, commit, refresh, abort and die at
// random, and looks at what is left.
func (s *stage) race(names []string, open func(name string) *client, kill func(*client)) {
	t := s.t
	led := &ledger{commits: map[string]told{}, lost: map[string][]lost{}, count: map[string]int{}}
	s1, s2 := raceSeed(t)
	var wg sync.WaitGroup
	for i := range raceSessions {
		name := names[i%len(names)]
		r := &racer{t: t, name: name, open: func() *client { return open(name) }, kill: kill,
			rnd: rand.New(rand.NewPCG(s1, s2+uint64(i))), ledger: led, pending: edits{}, id: i}
		r.c = r.open()
		steps := raceOps / raceSessions
		if i < raceOps%raceSessions {
			steps++
		}
		wg.Go(func() {
			for range steps {
				r.step()
			}
			r.verify("everything")
			r.c.Close()
		})
	}
	wg.Wait()
	t.Logf("done: %v", led.count)
	for _, what := range []string{"edits", "commits", "conflicts", "refreshes", "aborts", "deaths", "deaths over a commit"} {
		if led.count[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
	adopted := s.checkHistory(led)
	for name, all := range led.lost {
		s.checkLost(open(name), slices.DeleteFunc(all, func(l lost) bool { return adopted[l.during] }))
	}
}

// TestRandomSessionsLoseNothing runs the race with workers alone, all under the
// test's own account. TestRaceThroughTheFrontEnd has four.
func TestRandomSessionsLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	st := newStage(t)
	st.repo = toolsettest.Seed(t, toolsettest.Unpack(t, raceModule()))
	people := map[string]*person{}
	var names []string
	for i := range racePeople {
		name := fmt.Sprint("p", i)
		names, people[name] = append(names, name), st.person(name, 0)
	}
	st.race(names, func(name string) *client { return people[name].start() }, func(c *client) {
		_ = c.cmd.Process.Kill()
		_ = c.Wait()
	})
}

// TestRaceThroughTheFrontEnd runs it over TLS with four real accounts.
// scripts/test-toolsets.sh makes them.
func TestRaceThroughTheFrontEnd(t *testing.T) {
	repo := os.Getenv("GATEHOUSE_RACE_REPOSITORY")
	if repo == "" {
		t.Skip("scripts/test-toolsets.sh runs it")
	}
	h := newHost(t, repo)
	var mu sync.Mutex // guards pids
	pids := map[*client]int{}
	h.race([]string{"alice", "bob", "dave", "erin"}, func(name string) *client {
		c := h.connect(name, legacy)
		pid := h.worker(c)
		mu.Lock()
		pids[c] = pid
		mu.Unlock()
		return c
	}, func(c *client) {
		mu.Lock()
		pid := pids[c]
		mu.Unlock()
		h.end(pid)
	})
}

// TestWriteTheRaceModule makes the repository for TestRaceThroughTheFrontEnd.
func TestWriteTheRaceModule(t *testing.T) {
	dir := os.Getenv("GATEHOUSE_RACE_SOURCE")
	if dir == "" {
		t.Skip("scripts/test-toolsets.sh runs it")
	}
	toolsettest.Git(t, t.TempDir(), "clone", "--quiet", "--bare", toolsettest.Seed(t, toolsettest.Unpack(t, raceModule())), dir)
}

// raceModule is a module of forty functions.
func raceModule() string {
	text := "-- go.mod --\nmodule example.com/race\n\ngo 1.24\n"
	for f := range raceFiles {
		text += fmt.Sprintf("-- f%d.go --\npackage race\n", f)
		for i := range racePerFile {
			text += fmt.Sprintf("\nfunc F%02d() string { return \"seed\" }\n", f*racePerFile+i)
		}
	}
	return text
}

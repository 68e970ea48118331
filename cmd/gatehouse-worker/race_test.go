package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"gatehouse/toolsets/toolsettest"
)

const (
	raceFiles, racePerFile   = 4, 10
	raceSessions, racePeople = 8, 4
	raceOps                  = 500
)

// ledger is what the sessions were told: the truth that the repository must show.
type ledger struct {
	mu      sync.Mutex                   // guards what follows
	commits map[string]map[string]string // message -> function -> text, acknowledged
}

// racer is one session that edits at random and remembers what it did.
type racer struct {
	t       *testing.T
	p       *person
	c       *client
	rnd     *rand.Rand
	ledger  *ledger
	pending map[string]string // function -> text, acknowledged and uncommitted
	n       int
	id      int
}

func (r *racer) step() {
	switch x := r.rnd.IntN(100); {
	case x < 60:
		r.edit()
	case x < 82:
		r.commit()
	case x < 90:
		r.refresh()
	case x < 96:
		r.must("abort", nil)
		clear(r.pending)
	default:
		if err := r.c.cmd.Process.Kill(); err != nil {
			r.t.Error(err)
		}
		r.c.Close()
		r.c = r.p.start()
		clear(r.pending)
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
	text, kind := r.c.call("get_function_source", args{"name": "race." + name})
	if kind != "" {
		r.t.Errorf("session %d: read %s: %s", r.id, name, text)
		return
	}
	r.n++
	src := fmt.Sprintf("func %s() string { return \"%d-%d\" }", name, r.id, r.n)
	r.must("define_function", args{"package": "race", "source": src})
	r.pending[name] = src
}

func (r *racer) commit() {
	if len(r.pending) == 0 {
		return
	}
	r.n++
	message := fmt.Sprintf("session %d commit %d", r.id, r.n)
	text, kind := r.c.call("commit", args{"message": message})
	switch kind {
	case "":
		r.ledger.mu.Lock()
		done := map[string]string{}
		for k, v := range r.pending {
			done[k] = v
		}
		r.ledger.commits[message] = done
		r.ledger.mu.Unlock()
		clear(r.pending)
	case "conflict":
		r.verify(text)
		r.must("abort", nil)
		clear(r.pending)
	default:
		r.t.Errorf("session %d: commit: %s: %s", r.id, kind, text)
	}
}

func (r *racer) refresh() {
	if text, kind := r.c.call("refresh", nil); kind != "" && kind != "conflict" {
		r.t.Errorf("session %d: refresh: %s: %s", r.id, kind, text)
	}
	r.verify("refresh")
}

// verify looks whether everything uncommitted is still there.
func (r *racer) verify(after string) {
	for name, src := range r.pending {
		if got := r.must("get_function_source", args{"name": "race." + name}); !strings.Contains(got, src) {
			r.t.Errorf("session %d: %s was lost after %s:\n%s", r.id, name, after, got)
		}
	}
}

// TestRandomSessionsLoseNothing has eight sessions of four people edit, commit,
// refresh, abort and die at random on one repository with forty functions.
func TestRandomSessionsLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	st := newStage(t)
	seed := filepath.Join(st.dir, "race-seed")
	writeRaceModule(t, seed)
	st.repo = toolsettest.Seed(t, seed)
	led := &ledger{commits: map[string]map[string]string{}}
	s1, s2 := rand.Uint64(), rand.Uint64()
	t.Logf("random seed %d, %d", s1, s2)
	var people []*person
	for i := range racePeople {
		people = append(people, st.person(fmt.Sprint("p", i), 0))
	}
	var wg sync.WaitGroup
	for i := range raceSessions {
		r := &racer{t: t, p: people[i%racePeople], rnd: rand.New(rand.NewPCG(s1, s2+uint64(i))), ledger: led, pending: map[string]string{}, id: i}
		r.c = r.p.start()
		wg.Go(func() {
			for range raceOps / raceSessions {
				r.step()
			}
		})
	}
	wg.Wait()
	st.checkHistory(led)
}

func writeRaceModule(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{"go.mod": "module example.com/race\n\ngo 1.24\n"}
	for f := range raceFiles {
		src := "package race\n"
		for i := range racePerFile {
			src += fmt.Sprintf("\nfunc F%02d() string { return \"seed\" }\n", f*racePerFile+i)
		}
		files[fmt.Sprintf("f%d.go", f)] = src
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, src := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkHistory compares the branch with what was acknowledged.
func (s *stage) checkHistory(led *ledger) {
	t := s.t
	s.git("fsck", "--strict")
	if n := s.git("rev-list", "--merges", "--count", "main"); n != "0" {
		t.Errorf("the history is not linear: %s merges", n)
	}
	messages := strings.Split(s.git("log", "--reverse", "--format=%s", "main"), "\n")
	hashes := strings.Split(s.git("log", "--reverse", "--format=%H", "main"), "\n")
	if len(messages) != len(led.commits)+1 {
		t.Errorf("%d commits on the branch, %d acknowledged", len(messages)-1, len(led.commits))
	}
	want := map[string]string{}
	for i, m := range messages[1:] {
		edits, ok := led.commits[m]
		if !ok {
			t.Errorf("%q is on the branch and was not acknowledged, or is there twice", m)
		}
		delete(led.commits, m)
		for name, src := range edits {
			want[name] = src
		}
		have := s.functions(hashes[i+1])
		for name, src := range want {
			if have[name] != src {
				t.Errorf("after %q: %s is %q, want %q", m, name, have[name], src)
			}
		}
		for name, src := range have {
			if want[name] == "" && !strings.Contains(src, `"seed"`) {
				t.Errorf("after %q: %s is %q, which nobody committed", m, name, src)
			}
		}
	}
	for m := range led.commits {
		t.Errorf("%q was acknowledged and is not on the branch", m)
	}
	t.Logf("%d commits", len(messages)-1)
}

var raceFunc = regexp.MustCompile(`(?m)^func (F\d\d)\(\) string \{.*\}$`)

func (s *stage) functions(commit string) map[string]string {
	out := map[string]string{}
	for f := range raceFiles {
		for _, m := range raceFunc.FindAllStringSubmatch(s.git("show", fmt.Sprintf("%s:f%d.go", commit, f)), -1) {
			out[m[1]] = m[0]
		}
	}
	return out
}

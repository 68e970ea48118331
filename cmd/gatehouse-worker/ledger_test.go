package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gatehouse/toolsets/session"
	"gatehouse/toolsets/toolsettest"
)

// checkHistory compares the branch with what the sessions were told: each
// acknowledged commit is there once, by its author, and every function is at
// every commit what the last commit that named it said. It returns the messages
// of the commits on the branch.
func (s *stage) checkHistory(led *ledger) map[string]bool {
	t := s.t
	s.git("fsck", "--strict")
	if n := s.git("rev-list", "--merges", "--count", "main"); n != "0" {
		t.Errorf("the history is not linear: %s merges", n)
	}
	left, adopted := maps.Clone(led.commits), map[string]bool{}
	var want edits
	for i, line := range strings.Split(s.git("log", "--reverse", "--format=%H%x09%an <%ae>%x09%cn <%ce>%x09%s", "main"), "\n") {
		f := strings.SplitN(line, "\t", 4)
		if i == 0 {
			want = s.functions(f[0])
			continue
		}
		c, ok := left[f[3]]
		if !ok {
			t.Errorf("%q is on the branch and was not acknowledged, or is there twice", f[3])
			continue
		}
		delete(left, f[3])
		adopted[f[3]] = true
		if who := fmt.Sprintf("%s <%s@example.com>", c.author, c.author); f[1] != who || f[2] != who {
			t.Errorf("%q is by %s, committed by %s; want %s", f[3], f[1], f[2], who)
		}
		maps.Copy(want, c.edits)
		have := s.functions(f[0])
		for name, src := range have {
			if want[name] != src {
				t.Errorf("after %q: %s is %q, want %q", f[3], name, src, want[name])
			}
		}
		if len(have) != raceFiles*racePerFile {
			t.Errorf("after %q there are %d functions", f[3], len(have))
		}
	}
	unsure := 0
	for m, c := range left {
		if c.sure {
			t.Errorf("%q was acknowledged and is not on the branch", m)
		} else {
			unsure++
		}
	}
	t.Logf("%d commits on the branch as told; %d were not adopted when the worker died over them", len(adopted), unsure)
	return adopted
}

var raceFunc = regexp.MustCompile(`(?m)^func (F\d\d)\(\) string \{.*\}$`)

func functionsOf(src string) edits {
	out := edits{}
	for _, m := range raceFunc.FindAllStringSubmatch(src, -1) {
		out[m[1]] = m[0]
	}
	return out
}

func (s *stage) functions(commit string) edits {
	var src strings.Builder
	for f := range raceFiles {
		src.WriteString(s.git("show", fmt.Sprintf("%s:f%d.go", commit, f)) + "\n")
	}
	return functionsOf(src.String())
}

// checkLost looks whether everything that a person's workers had when they died
// can be got back.
func (s *stage) checkLost(c *client, all []lost) {
	t := s.t
	_, kind, raw := c.answer("status", nil)
	var st session.Status
	if err := json.Unmarshal(raw, &st); err != nil || kind != "" {
		t.Fatalf("status: %s, %v", kind, err)
	}
	var kept []edits
	for _, l := range st.Lost {
		src := ""
		for f := range raceFiles {
			src += toolsettest.Git(t, s.dir, "-c", "safe.directory=*", "--git-dir="+l.Repository, "show", fmt.Sprintf("%s:f%d.go", l.Ref, f)) + "\n"
		}
		kept = append(kept, functionsOf(src))
	}
	for _, l := range all {
		if !slices.ContainsFunc(kept, func(k edits) bool {
			for name, src := range l.edits {
				if k[name] != src {
					return false
				}
			}
			return true
		}) {
			t.Errorf("%s: lost for good: %v", c.name, l)
		}
	}
	t.Logf("%s: %d times work was lost, all of it in the %d refs that status shows", c.name, len(all), len(kept))
}

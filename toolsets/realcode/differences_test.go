package realcode

import (
	"os"
	"strings"
	"testing"
)

// differences are the places where an answer of ours is not that of the other
// program, each with a reason: testdata/differences.txt.
type differences struct {
	listed map[string][2]string // module, check and symbol -> difference and reason
	seen   map[string]bool
	found  map[string]bool
}

func key(module, check, symbol string) string { return module + " | " + check + " | " + symbol }

func readDifferences(t *testing.T) *differences {
	t.Helper()
	d := &differences{map[string][2]string{}, map[string]bool{}, map[string]bool{}}
	b, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, " | ")
		if len(f) != 5 || f[3] == "" || f[4] == "" {
			t.Fatalf("differences.txt: want module | check | symbol | difference | reason: %s", line)
		}
		k := key(f[0], f[1], f[2])
		if _, twice := d.listed[k]; twice {
			t.Fatalf("differences.txt: twice: %s", k)
		}
		d.listed[k] = [2]string{f[3], f[4]}
	}
	return d
}

// note says what differs ("" for nothing) and fails unless that is listed.
func (d *differences) note(t *testing.T, module, check, symbol, diff string) {
	t.Helper()
	k := key(module, check, symbol)
	d.seen[k] = true
	if diff == "" {
		return
	}
	d.found[k] = true
	if want := d.listed[k][0]; want != diff {
		t.Errorf("not listed: %s | %s", k, diff)
	}
}

// finish fails for what is listed and does not differ any more, of what was
// looked at; with all set also for what was not looked at.
func (d *differences) finish(t *testing.T, module string, all bool) {
	t.Helper()
	for k := range d.listed {
		if strings.HasPrefix(k, module+" | ") && !d.found[k] && (all || d.seen[k]) {
			t.Errorf("listed in differences.txt, and does not differ: %s", k)
		}
	}
}

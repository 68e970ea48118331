package monitor

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestRelayKeepsLinesWhole(t *testing.T) {
	var got bytes.Buffer
	r := &relay{to: &got}
	const parts, lines = 4, 200
	for p := range parts {
		w, err := r.attach()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer w.Close()
			for i := range lines {
				line := fmt.Sprintf("part %d line %d %s\n", p, i, strings.Repeat("x", i))
				w.WriteString(line[:len(line)/2])
				w.WriteString(line[len(line)/2:])
			}
			w.WriteString("the end without a line end")
		}()
	}
	r.all.Wait()
	seen := map[string]int{}
	for line := range strings.Lines(got.String()) {
		var p, i int
		if line == "the end without a line end\n" {
			seen["end"]++
			continue
		}
		if n, _ := fmt.Sscanf(line, "part %d line %d ", &p, &i); n != 2 || line != fmt.Sprintf("part %d line %d %s\n", p, i, strings.Repeat("x", i)) {
			t.Fatalf("a line was broken: %q", line)
		}
		seen[fmt.Sprint(p)]++
	}
	for p := range parts {
		if seen[fmt.Sprint(p)] != lines {
			t.Errorf("part %d: %d lines of %d", p, seen[fmt.Sprint(p)], lines)
		}
	}
	if seen["end"] != parts {
		t.Errorf("%d ends of %d", seen["end"], parts)
	}
}

func TestRelayCutsEndlessLines(t *testing.T) {
	var got bytes.Buffer
	r := &relay{to: &got}
	w, err := r.attach()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("0123456789", 3*relayLine/10)
	w.WriteString(long)
	w.Close()
	r.all.Wait()
	for line := range strings.Lines(got.String()) {
		if len(line) > relayLine {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if text := strings.ReplaceAll(got.String(), "\n", ""); text != long {
		t.Errorf("%d of %d bytes came through", len(text), len(long))
	}
}

// A part's output is a pipe, so that a part that was taken over cannot empty the
// log that it ends up in.
func TestPartsCannotTruncateTheLog(t *testing.T) {
	r := &relay{to: &bytes.Buffer{}}
	w, err := r.attach()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := syscall.Ftruncate(int(w.Fd()), 0); err == nil {
		t.Error("the part's output can be truncated")
	}
}

// TestRelayLeavesTracesOut: what the runtime prints of its scheduler is not in the log,
// and all else is, lines beside and within which the word stands too.
func TestRelayLeavesTracesOut(t *testing.T) {
	const first, last = "a log line about SCHED 1\n", "{\"reason\":\"SCHED \"}\n"
	print := func(w *os.File, env ...string) {
		t.Helper()
		w.WriteString(first)
		c := exec.Command(os.Args[0], "-test.run=^TestRelayCutsEndlessLines$", "-test.count=20")
		c.Env, c.Stderr = append(os.Environ(), env...), w
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		w.WriteString(last)
	}
	own, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	print(own, "GODEBUG=schedtrace=1")
	if b, _ := os.ReadFile(own.Name()); !bytes.Contains(b, []byte("\nSCHED ")) {
		t.Fatalf("the runtime printed no trace: %q", b)
	}
	var got bytes.Buffer
	r := &relay{to: &got}
	w, err := r.attach()
	if err != nil {
		t.Fatal(err)
	}
	print(w, "GODEBUG=schedtrace=1")
	w.Close()
	r.all.Wait()
	if got.String() != first+last {
		t.Errorf("relayed %q, want %q", got.String(), first+last)
	}
}

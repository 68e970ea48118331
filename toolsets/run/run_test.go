package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var env = []string{"PATH=" + os.Getenv("PATH")}

func TestOutputIsBoundedAndDrained(t *testing.T) {
	out, err := Run(t.Context(), Cmd{Args: []string{"sh", "-c", "yes | head -c 3000000; echo err >&2; exit 3"}, Env: env, MaxOutput: 1000})
	if err != nil || len(out.Stdout) > 1100 || !out.Cut || out.Code != 3 || string(out.Stderr) != "err\n" {
		t.Errorf("%d bytes, cut %v, code %d, stderr %q, %v", len(out.Stdout), out.Cut, out.Code, out.Stderr, err)
	}
}

// TestBothEndsAreKept writes more than is kept in pieces of many sizes.
func TestBothEndsAreKept(t *testing.T) {
	var all []byte
	for i := range 5000 {
		all = strconv.AppendInt(all, int64(i), 10)
	}
	for _, size := range []int{1, 7, 100, 149, 151, 1000, len(all)} {
		for _, most := range []int{1, 2, 3, 100, len(all) - 1, len(all), len(all) + 1} {
			b := Bounded{Max: most}
			for at := 0; at < len(all); at += size {
				if n, err := b.Write(all[at:min(at+size, len(all))]); err != nil || n != min(size, len(all)-at) {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			want := string(all)
			if over := len(all) - most; over > 0 {
				want = fmt.Sprintf("%s\n...[%d bytes were left out here]...\n%s", all[:most/2], over, all[most/2+over:])
			}
			if got := string(b.Bytes()); got != want || b.Cut() != (most < len(all)) {
				t.Errorf("of pieces of %d bytes, at most %d: cut %v, %.200s", size, most, b.Cut(), got)
			}
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	out, err := Run(t.Context(), Cmd{Args: []string{"printf", `one\n\nthree is long\nlast`}, Env: env, MaxOutput: 5, Lines: func(l []byte) { got = append(got, string(l)) }})
	if s := strings.Join(got, "|"); err != nil || s != "one||three|last" || !out.Cut {
		t.Errorf("lines %q, cut %v, %v", s, out.Cut, err)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// daemon prints the pid of a process that left the group and holds no pipe.
const daemon = `setsid sh -c 'trap "" TERM; echo $$ > "$0"; exec sleep 60' "$1" </dev/null >/dev/null 2>&1 & while [ ! -s "$1" ]; do sleep 0.01; done; `

func pidFrom(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	return pid
}

func TestNothingOutlivesTheCall(t *testing.T) {
	name := t.TempDir() + "/pid"
	if _, err := Run(t.Context(), Cmd{Args: []string{"sh", "-c", daemon, "sh", name}, Env: env, Sweep: true}); err != nil {
		t.Fatal(err)
	}
	pid := pidFrom(t, name)
	for i := 0; alive(pid); i++ {
		if i > 100 {
			t.Fatal("a process that left its group is alive after the call")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCancelStopsEverythingSoon(t *testing.T) {
	name := t.TempDir() + "/pid"
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("enough")
	time.AfterFunc(300*time.Millisecond, func() { cancel(because) })
	start := time.Now()
	_, err := Run(ctx, Cmd{Args: []string{"sh", "-c", daemon + `trap "" TERM; sleep 60 & wait; sleep 60`, "sh", name}, Env: env, Sweep: true})
	if !errors.Is(err, because) || time.Since(start) > 2*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	if pid := pidFrom(t, name); alive(pid) {
		time.Sleep(50 * time.Millisecond)
		if alive(pid) {
			t.Error("a process is left")
		}
	}
}

func TestMissingProgram(t *testing.T) {
	if _, err := Run(t.Context(), Cmd{Args: []string{"/nonexistent/x"}, Env: env}); err == nil || !strings.HasPrefix(err.Error(), "start x: ") {
		t.Errorf("error %v", err)
	}
}

func TestEnv(t *testing.T) {
	got := Env([]string{"A=1", "B=2", "bad", "=x"}, []string{"A=3", "C=a\x00b"})
	if s := strings.Join(got, " "); s != "A=3 B=2" {
		t.Errorf("environment %q", s)
	}
}

// TestOrphansAreReaped: what a call leaves behind becomes the worker's child, and
// must not stay in the list of processes after it was ended.
func TestOrphansAreReaped(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	dir := t.TempDir()
	group := `(echo $(exec sh -c 'echo $PPID') > "$2"; exec sleep 60) </dev/null >/dev/null 2>&1 & while [ ! -s "$2" ]; do sleep 0.01; done; `
	for range 3 { // a new number of a process is not that of an old one
		names := []string{dir + "/session", dir + "/group"}
		for _, n := range names {
			_ = os.Remove(n)
		}
		if _, err := Run(t.Context(), Cmd{Args: append([]string{"sh", "-c", daemon + group, "sh"}, names...), Env: env, Sweep: true}); err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			pid := pidFrom(t, n)
			if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
				t.Errorf("%s is still listed: %s", n, stat)
			}
		}
	}
}

package guard

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/session/privdrop"
)

// run runs a shell script as the monitor below a guard; $0 is the descriptor of the
// guard's socket.
func run(t *testing.T, script string, inherited []*os.File, signals <-chan os.Signal) (code int, log string, err error) {
	t.Helper()
	if err := privdrop.CloseOnExec(3); err != nil { // as the program does
		t.Fatal(err)
	}
	var b bytes.Buffer
	g := Guard{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Inherited: inherited, Log: zerolog.New(&b),
	}
	code, err = g.Run(signals)
	return code, b.String(), err
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": ExitAsked, "exit 1": ExitRefused} {
		if code, _, err := run(t, script, nil, nil); code != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", script, code, err, want)
		}
	}
}

func TestProgramThatCannotStart(t *testing.T) {
	g := Guard{Path: "/no/such/program", Argv: []string{"x"}, Log: zerolog.Nop()}
	if code, err := g.Run(nil); code != ExitRefused || err == nil {
		t.Errorf("%d, %v", code, err)
	}
}

// TestCrashesAreRestarted, with an alert each, and not for ever.
func TestCrashesAreRestarted(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	code, log, err := run(t, fmt.Sprintf("echo x >>%s; kill -SEGV $$", count), nil, nil)
	b, _ := os.ReadFile(count)
	if n := strings.Count(string(b), "x"); n != maxCrashes || code != ExitRefused || err == nil {
		t.Errorf("%d runs, code %d, %v; want %d runs and a refusal", n, code, err, maxCrashes)
	}
	if n := strings.Count(log, `"alert":true`); n != maxCrashes {
		t.Errorf("%d alerts:\n%s", n, log)
	}
	code, _, err = run(t, fmt.Sprintf("test -e %s.2 && exit 0; echo >%s.2; exit 2", count, count), nil, nil)
	if code != ExitAsked || err != nil {
		t.Errorf("one crash and then a good end: %d, %v", code, err)
	}
}

// TestWhatIsLeftIsEnded, however it hides.
func TestWhatIsLeftIsEnded(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	code, _, err := run(t, fmt.Sprintf(`(setsid sh -c '(setsid sleep 811 & echo $! >>%[1]s) & trap "" TERM; sleep 812 & echo $! >>%[1]s; wait' &)
		sleep 0.3; exit 1`, pids), nil, nil)
	if code != ExitRefused || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	b, _ := os.ReadFile(pids)
	left := strings.Fields(string(b))
	if len(left) != 2 {
		t.Fatalf("processes %q", left)
	}
	for _, f := range left {
		if pid, _ := strconv.Atoi(f); syscall.Kill(pid, 0) != syscall.ESRCH {
			t.Errorf("process %d lives on", pid)
		}
	}
}

// TestSignalsArePassedOn: SIGHUP as it is, SIGINT as SIGTERM, after which the end
// counts as asked for.
func TestSignalsArePassedOn(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("started by nohup: a shell below cannot trap SIGHUP")
	}
	dir := t.TempDir()
	saw, ready := filepath.Join(dir, "saw"), filepath.Join(dir, "ready")
	signals := make(chan os.Signal, 2)
	go func() {
		for range 500 {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		signals <- syscall.SIGHUP
		time.Sleep(200 * time.Millisecond)
		signals <- syscall.SIGINT
	}()
	code, log, err := run(t, fmt.Sprintf(`trap 'echo HUP >>%[1]s' HUP; trap 'echo TERM >>%[1]s; kill -KILL $$' TERM
		echo >&$0; echo >%[2]s; while :; do sleep 0.05; done`, saw, ready), nil, signals)
	b, _ := os.ReadFile(saw)
	if code != ExitAsked || err != nil || string(b) != "HUP\nTERM\n" || log != "" {
		t.Errorf("code %d, %v, saw %q, log %s", code, err, b, log)
	}
}

// TestSignalsWaitForTheMonitor: what comes before it can take a signal does not end it,
// and is passed on afterwards.
func TestSignalsWaitForTheMonitor(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("started by nohup: a shell below cannot trap SIGHUP")
	}
	saw := filepath.Join(t.TempDir(), "saw")
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGHUP
	code, log, err := run(t, fmt.Sprintf(`sleep 0.3; trap 'echo HUP >>%[1]s; exit 0' HUP
		echo >&$0; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; done; exit 1`, saw), nil, signals)
	b, _ := os.ReadFile(saw)
	if code != ExitAsked || err != nil || string(b) != "HUP\n" {
		t.Errorf("code %d, %v, saw %q, log %s", code, err, b, log)
	}
}

// TestReloadOutlivesACrash: a monitor that takes the place of one that had a SIGHUP gets one too, and
// one that came while none ran is not lost.
func TestReloadOutlivesACrash(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("started by nohup: a shell below cannot trap SIGHUP")
	}
	for name, first := range map[string]string{
		"while it ran":   `trap 'kill -KILL $$' HUP; echo >&$0; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; done; exit 1`,
		"while none ran": `exit 2`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			signals := make(chan os.Signal, 1)
			signals <- syscall.SIGHUP
			code, log, err := run(t, fmt.Sprintf(`cd %s; if mkdir first; then %s; fi
				trap 'echo HUP >>saw; exit 0' HUP; echo >&$0; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; done; exit 1`, dir, first), nil, signals)
			b, _ := os.ReadFile(filepath.Join(dir, "saw"))
			if code != ExitAsked || err != nil || string(b) != "HUP\n" {
				t.Errorf("code %d, %v, saw %q, log %s", code, err, b, log)
			}
		})
	}
}

// TestDescriptors: the inherited ones keep their numbers, the socket follows them, and
// nobody below holds its other end.
func TestDescriptors(t *testing.T) {
	dir := t.TempDir()
	var files []*os.File
	for _, name := range []string{"plan", "listener"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	out := filepath.Join(dir, "out")
	run(t, fmt.Sprintf(`readlink /proc/$$/fd/3 /proc/$$/fd/4 >%s; echo "$0" >>%[1]s; ls /proc/$$/fd | grep -c . >>%[1]s; exit 1`, out), files, nil)
	b, _ := os.ReadFile(out)
	got := strings.Fields(string(b))
	if len(got) != 4 || got[0] != files[0].Name() || got[1] != files[1].Name() || got[2] != "5" {
		t.Errorf("got %q", got)
	}
	// 0 1 2, two files, the socket, and what the shell itself has open meanwhile.
	if n, _ := strconv.Atoi(got[3]); n > 7 {
		t.Errorf("%d descriptors", n)
	}
}

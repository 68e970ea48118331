package privdrop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// probe builds testdata/probe once: a program without cgo, as ours are, since a
// test binary may be built with it.
var probe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ghtest-probe-")
	if err != nil {
		return "", err
	}
	os.Chmod(dir, 0o755)
	bin := filepath.Join(dir, "probe")
	cmd := exec.Command("go", "build", "-o", bin, "./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return bin, cmd.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := probe(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

type state struct {
	Threads    []map[string]string
	Umask      int
	Core       struct{ Cur, Max uint64 }
	Dumpable   int
	Securebits int
	MayKill    bool
}

// run runs the probe as uid and returns what it printed on stdout and stderr.
func run(t *testing.T, uid int, steps ...string) (stdout, stderr string, err error) {
	t.Helper()
	bin, err := probe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, steps...)
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func runState(t *testing.T, uid int, steps ...string) state {
	t.Helper()
	out, errs, err := run(t, uid, steps...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", steps, err, errs)
	}
	var s state
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Threads) < 5 {
		t.Fatalf("only %d threads were looked at", len(s.Threads))
	}
	return s
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
}

const (
	none     = "0000000000000000"
	kept     = "00000000000000e0" // kill, setgid, setuid
	withPCap = "00000000000001e0"
)

func (s *state) everyThread(t *testing.T, want map[string]string) {
	t.Helper()
	for i, th := range s.Threads {
		for k, v := range want {
			if th[k] != v {
				t.Errorf("thread %d: %s is %s, want %s", i, k, th[k], v)
			}
		}
	}
}

func TestMonitorAsRootKeepsOnlyWhatItNeeds(t *testing.T) {
	needRoot(t)
	s := runState(t, 0, "monitor", "prove-monitor")
	s.everyThread(t, map[string]string{
		"CapEff": kept, "CapPrm": kept, "CapInh": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1",
	})
	if s.Umask != 0o077 || s.Core.Cur != 0 || s.Core.Max != 0 || s.Dumpable != 0 || s.Securebits != lockedSecurebits || !s.MayKill {
		t.Errorf("umask %04o, core %v, dumpable %d, securebits %#x, may kill %v", s.Umask, s.Core, s.Dumpable, s.Securebits, s.MayKill)
	}
}

// TestChildOfMonitorHasNothing: even a child that stays uid 0 gets no capability.
func TestChildOfMonitorHasNothing(t *testing.T) {
	needRoot(t)
	out, errs, err := run(t, 0, "monitor", "exec-status")
	if err != nil {
		t.Fatal(err, errs)
	}
	for _, line := range []string{"CapPrm:\t" + none, "CapEff:\t" + none, "CapBnd:\t" + none, "CapInh:\t" + none, "CapAmb:\t" + none, "NoNewPrivs:\t1", "Uid:\t0\t0\t0\t0"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("status lacks %q", line)
		}
	}
}

// TestGuardPassesOnWhatTheMonitorNeeds: the monitor that a guard starts can lock
// itself, and gets nothing that the guard did not keep.
func TestGuardPassesOnWhatTheMonitorNeeds(t *testing.T) {
	needRoot(t)
	s := runState(t, 0, "guard")
	s.everyThread(t, map[string]string{"CapEff": withPCap, "CapPrm": withPCap, "CapBnd": withPCap, "NoNewPrivs": "1"})
	s = runState(t, 0, "guard", "exec-self")
	s.everyThread(t, map[string]string{"CapEff": withPCap, "CapPrm": withPCap, "CapBnd": withPCap, "NoNewPrivs": "1"})
}

// TestOptionalCapabilities: what a container does not have is done without, unless
// nothing would work without it.
func TestOptionalCapabilities(t *testing.T) {
	needRoot(t)
	s := runState(t, 0, "monitor-with-optional", "prove-with-optional")
	s.everyThread(t, map[string]string{"CapEff": "00000000000000e4", "CapPrm": "00000000000000e4"})
	s = runState(t, 0, "lose-some", "monitor-with-optional", "prove-with-optional")
	s.everyThread(t, map[string]string{"CapEff": kept, "CapPrm": kept, "CapBnd": none})
	if _, errs, err := run(t, 0, "lose-some", "monitor-with-more"); err == nil || !strings.Contains(errs, "not permitted here") {
		t.Errorf("without CAP_CHOWN: %v, %s", err, errs)
	}
}

func TestMonitorWithoutRoot(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = 65534
	}
	s := runState(t, uid, "monitor", "prove-monitor", "prove-none")
	s.everyThread(t, map[string]string{"CapEff": none, "CapPrm": none, "CapInh": none, "CapAmb": none, "NoNewPrivs": "1"})
	if s.Umask != 0o077 || s.Core.Max != 0 || s.Dumpable != 0 {
		t.Errorf("umask %04o, core %v, dumpable %d", s.Umask, s.Core, s.Dumpable)
	}
}

// TestProofsFail: a proof that can't fail proves nothing.
func TestProofsFail(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		uid   int
		steps []string
		want  string
	}{
		"root":                        {0, []string{"prove-none"}, "uid is 0/0/0"},
		"root without capabilities":   {0, []string{"monitor", "prove-none"}, "uid is 0/0/0"},
		"monitor that dropped naught": {0, []string{"prove-monitor"}, "prove privilege gone"},
		"guard taken for a monitor":   {0, []string{"guard", "prove-monitor"}, "prove privilege gone"},
		"user who may gain":           {65534, []string{"prove-none"}, "no-new-privileges is not set"},
	} {
		_, errs, err := run(t, c.uid, c.steps...)
		if err == nil || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %v, %q; want an error with %q", name, err, errs, c.want)
		}
	}
}

// TestEveryWayBackIsTried: as root all of them work, so that each one is shown to
// be a real attempt.
func TestEveryWayBackIsTried(t *testing.T) {
	needRoot(t)
	// The two that no process can ever do stand for the kernel's promise.
	never := map[string]bool{"clear no-new-privileges": true, "raise an ambient capability": true}
	for _, w := range append(append([]attempt{asGroupZero}, waysBack...), asRoot...) {
		err := tryAll([]attempt{w})
		if worked := err != nil; worked == never[w.name] {
			t.Errorf("%s: worked %v as root", w.name, worked)
		}
	}
}

func TestCloseOnExecMarksStrays(t *testing.T) {
	uid := os.Geteuid()
	if _, errs, err := run(t, uid, "close-on-exec"); err != nil {
		t.Error(err, errs)
	}
}

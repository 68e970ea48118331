package monitor

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session/spawn"
)

// TestStartFailuresAreReported in bounded time, name the reason for the log, and
// leave nothing behind.
func TestStartFailuresAreReported(t *testing.T) {
	r := newRig(t, "")
	make := func(name, content string, mode os.FileMode) []string {
		return []string{writeFile(t, filepath.Join(r.dir, name), content, mode)}
	}
	servers := []struct {
		name   string
		argv   []string
		reason string
		cwd    string
	}{
		{"no interpreter", make("noint", "#!/no/such/interpreter\n", 0o755), "no such file", ""},
		{"not a program", make("noexec", "\x7fNOT", 0o755), "exec format error", ""},
		{"not for this account", make("mine", "#!/bin/sh\n", 0o755), "permission denied", ""},
		{"folder missing", []string{"/bin/true"}, "no such file", filepath.Join(r.dir, "none")},
	}
	r.cfg.Servers = nil
	for _, s := range servers {
		r.cfg.Servers = append(r.cfg.Servers, Server{Path: "/" + s.name, Audiences: []string{authtest.Audience}, Command: s.argv, Cwd: s.cwd})
	}
	r.start()
	os.Chmod(filepath.Join(r.dir, "mine"), 0o700) // still executable for root
	if os.Geteuid() != 0 {
		os.Chmod(filepath.Join(r.dir, "mine"), 0o600)
	}
	c := r.front()
	for i, s := range servers {
		began := time.Now()
		_, err := c.Spawn(t.Context(), spawn.Request{Server: uint16(i), Token: r.token("alice")})
		refused(t, err, spawn.KindUnavailable, s.reason)
		if d := time.Since(began); d > time.Second {
			t.Errorf("%s: took %v", s.name, d)
		}
	}
	for name, change := range map[string]func(){
		"removed":     func() { os.Remove(filepath.Join(r.dir, "noint")) },
		"made loose":  func() { os.Chmod(filepath.Join(r.dir, "noexec"), 0o777) },
		"not plain x": func() { os.Chmod(filepath.Join(r.dir, "noexec"), 0o644) },
	} {
		change()
		if _, err := c.Spawn(t.Context(), spawn.Request{Server: 1, Token: r.token("alice")}); kindOf(err) != spawn.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.m.leases.count(); n != 0 {
		t.Errorf("%d places were not given back", n)
	}
}

// TestWorkerThatDiesAtOnce is delivered and its end reported, with what it said.
func TestWorkerThatDiesAtOnce(t *testing.T) {
	r := newRig(t, "echo 'missing API_KEY' >&2; exit 3").start()
	c := r.front()
	for range 20 {
		w := r.spawn(c, r.token("alice"))
		if st := w.end(5 * time.Second); st.Code != 3 || st.Reason != "" {
			t.Errorf("status %+v", st)
		}
		b := make([]byte, 64)
		if n, _ := w.Stderr().Read(b); string(b[:n]) != "missing API_KEY\n" {
			t.Errorf("standard error %q", b[:n])
		}
	}
	r.log.Await(t, `"status":"exit status 3"`)
}

// stubborn is a worker with a tree that does everything to stay.
const stubborn = `trap '' TERM HUP INT
(trap '' TERM; setsid sh -c 'trap "" TERM; sleep 611 & echo $! ; sleep 612 & echo $!; wait' &)
(setsid sh -c '(trap "" TERM; setsid sleep 613 & echo $!) & wait' &)
sleep 614 & echo $!
sleep 0.3; echo $$; echo end
while :; do sleep 1; done`

func testTreeDies(t *testing.T, contained bool) {
	r := newRig(t, stubborn).start()
	if contained && r.m.runner.groups.Load() == nil {
		t.Skip("SKIPPED: no control groups here")
	}
	if !contained {
		if base := r.m.runner.groups.Swap(nil); base != nil {
			defer base.Close()
		}
	}
	c := r.front()
	w, other := r.spawn(c, r.token("alice")), r.spawn(c, r.token("alice"))
	var pids []int
	for _, l := range w.lines() {
		pid, err := strconv.Atoi(l)
		if err != nil {
			t.Fatalf("not a process id: %q", l)
		}
		pids = append(pids, pid)
	}
	others := other.lines()
	if len(pids) != 5 {
		t.Fatalf("processes %v, want 5", pids)
	}
	began := time.Now()
	w.Stop()
	st := w.end(5 * time.Second)
	if st.Signal != int(syscall.SIGKILL) {
		t.Errorf("status %+v", st)
	}
	dead(t, 100*time.Millisecond, pids...) // Exited means that all are gone
	t.Logf("gone after %v", time.Since(began))
	for _, l := range others {
		if pid, _ := strconv.Atoi(l); !alive(pid) {
			t.Errorf("process %d of another worker was killed too", pid)
		}
	}
}

func TestWholeTreeDiesInItsGroup(t *testing.T)     { testTreeDies(t, true) }
func TestWholeTreeDiesWithoutAGroup(t *testing.T)  { testTreeDies(t, false) }
func TestLeaderThatExitsTakesItsTree(t *testing.T) { testLeaderExits(t) }

func testLeaderExits(t *testing.T) {
	r := newRig(t, `setsid sleep 615 & echo $!; sleep 616 & echo $!; sleep 0.2; echo end; read x; exit 7`).start()
	w := r.spawn(r.front(), r.token("alice"))
	var pids []int
	for _, l := range w.lines() {
		pid, _ := strconv.Atoi(l)
		pids = append(pids, pid)
	}
	w.Stdin().Close()
	if st := w.end(2 * time.Second); st != (spawn.Status{Code: 7}) {
		t.Errorf("status %+v, want its own exit code and no reason", st)
	}
	dead(t, 100*time.Millisecond, pids...)
}

// TestStopIsPatient: EOF first, then SIGTERM.
func TestStopIsPatient(t *testing.T) {
	r := newRig(t, `trap 'echo TERM; exit 5' TERM; echo end; cat; echo EOF; sleep 60 & wait`).start()
	w := r.spawn(r.front(), r.token("alice"))
	w.lines()
	w.Stop()
	if a, b := w.line(), w.line(); a != "EOF" || b != "TERM" {
		t.Errorf("worker saw %q, then %q", a, b)
	}
	if st := w.end(2 * time.Second); st.Code != 5 || st.Reason != "stop requested" {
		t.Errorf("status %+v", st)
	}
}

// TestStoppedWorkerDies: SIGSTOP is no way to stay.
func TestStoppedWorkerDies(t *testing.T) {
	r := newRig(t, `echo end; kill -STOP $$; sleep 60`).start()
	w := r.spawn(r.front(), r.token("alice"))
	w.lines()
	w.Stop()
	w.end(2 * time.Second)
	dead(t, time.Second, w.PID())
}

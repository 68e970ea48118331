package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/spawn"
)

// tree is a worker whose processes do everything to stay.
const tree = `trap '' TERM HUP INT
(setsid sh -c 'trap "" TERM; sleep 711 & echo $! ; wait' &)
(setsid sh -c '(trap "" TERM; setsid sleep 712 & echo $!) & wait' &)
sleep 713 & echo $!; sleep 0.3; echo $$; echo end
while :; do sleep 1; done`

// worlds are the ways to run that must leave nothing behind: with control groups
// as root, and with labels as an ordinary user.
func worlds(t *testing.T, fn func(t *testing.T, root bool)) {
	t.Run("root", func(t *testing.T) {
		accountstest.NeedRoot(t)
		fn(t, true)
	})
	t.Run("user", func(t *testing.T) { fn(t, false) })
}

// TestKilledMonitorLeavesNothing, and the service comes back without sessions.
func TestKilledMonitorLeavesNothing(t *testing.T) {
	worlds(t, func(t *testing.T, root bool) {
		s := newService(t, root, tree).start()
		r, c := s.ready()
		_, lines := s.worker(c, "alice")
		monitor, keeper := s.monitorPID(), s.keykeeper().PID
		syscall.Kill(monitor, syscall.SIGKILL)
		gone(t, 3*time.Second, append(atoi(t, lines), monitor, r.PID, keeper)...)
		<-c.Done()
		again, c2 := s.frontEnd(r.PID, nil)
		if err := c2.Ready(); err != nil {
			t.Fatal(err)
		}
		if again.PPID == monitor {
			t.Error("the same monitor")
		}
		if _, more := s.worker(c2, "alice"); len(more) != 4 {
			t.Errorf("worker after the restart: %q", more)
		}
		if !strings.Contains(s.logged(), "the monitor crashed or was killed") {
			t.Error("no alert in the log")
		}
	})
}

// TestKilledGuardLeavesNothing: the monitor sees to it.
func TestKilledGuardLeavesNothing(t *testing.T) {
	worlds(t, func(t *testing.T, root bool) {
		s := newService(t, root, tree).start()
		r, c := s.ready()
		_, lines := s.worker(c, "alice")
		monitor, keeper := s.monitorPID(), s.keykeeper().PID
		s.cmd.Process.Kill()
		gone(t, 8*time.Second, append(atoi(t, lines), monitor, r.PID, keeper)...)
	})
}

// TestKilledPartsComeBack: front end and keykeeper, each for itself.
func TestKilledPartsComeBack(t *testing.T) {
	worlds(t, func(t *testing.T, root bool) {
		s := newService(t, root, tree).start()
		r, c := s.ready()
		_, lines := s.worker(c, "alice")
		keeper := s.keykeeper().PID
		os.Truncate(filepath.Join(s.dir, "keykeeper.json"), 0)
		syscall.Kill(keeper, syscall.SIGKILL)
		if k := s.keykeeper(); k.PID == keeper {
			t.Error("the same keykeeper")
		}
		for _, pid := range atoi(t, lines) {
			if !alive(pid) {
				t.Error("a worker ended with the keykeeper")
			}
		}
		keeper = s.keykeeper().PID
		os.Truncate(filepath.Join(s.dir, "keykeeper.json"), 0)
		syscall.Kill(r.PID, syscall.SIGKILL)
		c.Close() // our copy of its socket
		gone(t, 5*time.Second, atoi(t, lines)...)
		next, c2 := s.frontEnd(r.PID, nil)
		if err := c2.Ready(); err != nil {
			t.Fatal(err)
		}
		s.worker(c2, "alice")
		// The old front end may have spoilt the socket to the keykeeper: both get a new one.
		k := s.keykeeper()
		if k.PID == keeper || k.FDs["5"] == "" || next.FDs["5"] == r.FDs["5"] {
			t.Errorf("keykeeper %d, then %d; socket to it %s, then %s", keeper, k.PID, r.FDs["5"], next.FDs["5"])
		}
	})
}

// TestCompromisedFrontEndIsKilled and replaced; an alert is in the log.
func TestCompromisedFrontEndIsKilled(t *testing.T) {
	accountstest.NeedRoot(t)
	s := newService(t, true, tree).start()
	r, fds, err := s.ask()
	for i := 0; err != nil && i < 500; i++ {
		time.Sleep(10 * time.Millisecond)
		r, fds, err = s.ask()
	}
	if err != nil {
		t.Fatal(err)
	}
	closeAll(fds[1:])
	socket := os.NewFile(uintptr(fds[0]), "socket")
	defer socket.Close()
	socket.Write([]byte{0x02}) // SPAWN, cut short, and before HELLO
	gone(t, 3*time.Second, r.PID)
	s.awaitLog(`"alert":true`, 1)
	_, c := s.frontEnd(r.PID, nil)
	c.Ready()
	s.worker(c, "bob")
}

// TestStop: SIGTERM reaches the front end, workers get their time, nothing is left.
func TestStop(t *testing.T) {
	worlds(t, func(t *testing.T, root bool) {
		s := newService(t, root, tree).start()
		r, c := s.ready()
		_, lines := s.worker(c, "alice")
		monitor, keeper := s.monitorPID(), s.keykeeper().PID
		began := time.Now()
		s.cmd.Process.Signal(syscall.SIGTERM)
		if code := s.wait(10 * time.Second); code != 0 {
			t.Errorf("exit status %d", code)
		}
		t.Logf("stopped after %v", time.Since(began))
		gone(t, 0, append(atoi(t, lines), monitor, r.PID, keeper)...)
		for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			if left, _ := filepath.Glob(fmt.Sprintf("%s/gatehouse-%d-*", dir, s.cmd.Process.Pid)); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		}
	})
}

// TestStopWithAFrontEndThatDoesNot: it has the drain limit and not more, and its
// workers end beside it.
func TestStopWithAFrontEndThatDoesNot(t *testing.T) {
	s := newService(t, false, tree)
	s.front["IgnoreTerm"] = true
	s.start()
	r, c := s.ready()
	_, lines := s.worker(c, "alice")
	began := time.Now()
	s.cmd.Process.Signal(syscall.SIGINT)
	if code := s.wait(10 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	m := &s.plan.Monitor
	if d, limit := time.Since(began), m.DrainLimit+m.KillGrace+m.KillGraceHard+4*time.Second; d < m.DrainLimit || d > limit {
		t.Errorf("took %v, want between %v and %v", d, m.DrainLimit, limit)
	}
	gone(t, 0, append(atoi(t, lines), r.PID)...)
}

// TestSecondSignalIsImmediate.
func TestSecondSignalIsImmediate(t *testing.T) {
	s := newService(t, false, tree)
	s.front["IgnoreTerm"] = true
	s.plan.Monitor.DrainLimit = time.Minute
	s.start()
	r, c := s.ready()
	_, lines := s.worker(c, "alice")
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.awaitLog("running calls may finish", 1)
	s.cmd.Process.Signal(syscall.SIGTERM) // the same signal by another way
	time.Sleep(700 * time.Millisecond)
	if !alive(r.PID) {
		t.Error("the same signal, twice at once, was taken for a second one")
	}
	began := time.Now()
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.wait(5 * time.Second)
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	gone(t, 0, append(atoi(t, lines), r.PID)...)
}

// TestNoZombies: workers that double-fork short helpers leave none to the monitor.
func TestNoZombies(t *testing.T) {
	s := newService(t, false, `for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 0.1' &); done; sleep 0.3; echo end; read x`)
	s.loopback()
	s.start()
	_, c := s.ready()
	var workers []spawn.Worker
	for range 10 {
		w, _ := s.worker(c, "")
		workers = append(workers, w)
	}
	monitor := s.monitorPID()
	for i := 0; len(children(monitor)) > 11 && i < 300; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if kids := children(monitor); len(kids) != 11 {
		t.Errorf("monitor has %d children, want the front end and 10 workers", len(kids))
	}
	for _, w := range workers {
		w.Stop()
		<-w.Exited()
	}
	for i := 0; len(children(monitor)) > 1 && i < 300; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if kids := children(monitor); len(kids) != 1 {
		t.Errorf("monitor has %d children, want the front end alone", len(kids))
	}
}

// TestFrontEndThatNeverServes: the service gives up and says why.
func TestFrontEndThatNeverServes(t *testing.T) {
	s := newService(t, false, describe)
	s.front["Deaf"] = true
	s.start()
	if code := s.wait(20 * time.Second); code != 1 {
		t.Errorf("exit status %d", code)
	}
	if l := s.logged(); !strings.Contains(l, "front end ended 5 times before it was ready; the last time: exit status 3") {
		t.Error("the reason is not in the log")
	}
}

// TestRefusesToStart: once, with a reason, and without a restart.
func TestRefusesToStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *service)
		want   string
	}{
		"unknown way to run":   {func(s *service) { s.plan.Monitor.RunAs = "anything" }, "unknown way to run"},
		"log level":            {func(s *service) { s.plan.Monitor.LogLevel = "loud" }, "log level"},
		"no listeners":         {func(s *service) { s.plan.Monitor.Listeners = 0 }, "0 listeners"},
		"certificate missing":  {func(s *service) { os.Remove(s.plan.Monitor.TLSCert) }, "open certificate"},
		"relative command":     {func(s *service) { s.plan.Monitor.Servers[0].Worker.Command = []string{"sh"} }, "not an absolute path"},
		"state of another uid": {func(s *service) { s.plan.Monitor.StateDir = "/usr" }, "belongs to uid 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, false, describe)
			c.change(s)
			s.start()
			if code := s.wait(20 * time.Second); code != 1 {
				t.Errorf("exit status %d", code)
			}
			if l := s.logged(); !strings.Contains(l, c.want) || strings.Contains(l, "crashed") {
				t.Errorf("log lacks %q", c.want)
			}
		})
	}
}

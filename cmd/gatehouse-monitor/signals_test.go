package main

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHangupsFromTheFirstMoment: a SIGHUP that comes before the programs can take it
// ends none of them. "gatehouse serve" hands over with SIGHUP ignored.
func TestHangupsFromTheFirstMoment(t *testing.T) {
	s := newService(t, false, "echo end; exec sleep 60")
	s.loopback()
	signal.Ignore(syscall.SIGHUP) // and so in what is started now
	s.start()
	signal.Reset(syscall.SIGHUP)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
				s.cmd.Process.Signal(syscall.SIGHUP) // the guard passes it on
			}
		}
	}()
	_, c := s.ready()
	close(stop)
	<-stopped
	s.worker(c, "")
	if log := s.logged(); strings.Contains(log, "crashed") || strings.Contains(log, "part of the service ended") {
		t.Error("a process did not live through its first moments")
	}
}

// TestNoSignalIsBlockedInAWorker, whatever the service was started with.
func TestNoSignalIsBlockedInAWorker(t *testing.T) {
	s := newService(t, false, "")
	s.loopback()
	// No shell, which would unblock them for itself.
	s.plan.Monitor.Servers[0].Worker.Command = []string{"/bin/sed", "-n", "-e", "/^Sig[BI]/p", "-e", "$aend", "/proc/self/status"}
	func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var set, was unix.Sigset_t
		set.Val[0] = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGUSR1-1)
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &was); err != nil {
			t.Fatal(err)
		}
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil)
		s.start()
	}()
	_, c := s.ready()
	_, got := s.worker(c, "")
	if want := []string{"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLogThatNobodyReads: the service outlives whoever reads its log.
func TestLogThatNobodyReads(t *testing.T) {
	s := newService(t, false, "echo end; exec sleep 60")
	s.loopback()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s.stderr = w
	s.start()
	r.Close()
	first, c := s.ready()
	s.worker(c, "")
	c.Close()
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil { // which is logged
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		next, fds, err := s.ask()
		closeAll(fds)
		if err == nil && next.PID != first.PID {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no other front end: %v", err)
		}
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.wait(10 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

package cgroup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestGroupIsUsedAgain by the next worker, out of reach of whoever had it before, and
// removed when no worker comes.
func TestGroupIsUsedAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root's groups are used again")
	}
	synctest.Test(t, func(t *testing.T) {
		b := base(t)
		first, second, third := group(t, b), group(t, b), group(t, b)
		path := first.place.path
		run(t, first, "echo up").Wait()
		if err := first.Release(time.Second); err != nil {
			t.Fatal(err)
		}
		again := group(t, b)
		if got := again.place.path; got != path {
			t.Fatalf("the next group is %s, want %s", got, path)
		}
		cmd := run(t, again, "echo up; exec sleep 60")
		if pids, err := first.Processes(); err != nil || len(pids) != 0 {
			t.Errorf("the former owner sees %v, %v", pids, err)
		}
		for name, do := range map[string]func() error{
			"signal":  func() error { return first.Signal(syscall.SIGKILL) },
			"kill":    first.Kill,
			"release": func() error { return first.Release(time.Second) },
		} {
			if err := do(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if first.Dir() != nil {
			t.Error("the former owner could start something in it")
		}
		if pids, err := again.Processes(); err != nil || len(pids) != 1 {
			t.Errorf("the new owner's processes: %v, %v", pids, err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		for _, g := range []*Group{again, second, third} {
			if err := g.Release(time.Second); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(spareRest)
		synctest.Wait()
		if d := dirs(b.Path(), ""); len(d) != 0 {
			t.Errorf("%v are left after a rest", d)
		}
	})
}

// TestGroupInUseIsNotUsedAgain: what still runs in it is killed, and it is removed.
func TestGroupInUseIsNotUsedAgain(t *testing.T) {
	b := base(t)
	g := group(t, b)
	path := g.place.path
	cmd := run(t, g, "(setsid sleep 60 &); echo up; sleep 60")
	go cmd.Wait()
	if err := g.Release(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", filepath.Base(path), err)
	}
	if next := group(t, b); next.place.path == path {
		t.Error("it was given out again")
	}
}

// TestKilledGroupIsNotUsedAgain: Linux would kill the next process as well.
func TestKilledGroupIsNotUsedAgain(t *testing.T) {
	b := base(t)
	g := group(t, b)
	path := g.place.path
	cmd := run(t, g, "echo up; sleep 60")
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := g.Release(time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", filepath.Base(path), err)
	}
}

// TestFewGroupsAreKept, however many workers end together.
func TestFewGroupsAreKept(t *testing.T) {
	b := base(t)
	var all []*Group
	for range maxSpare + 3 {
		all = append(all, group(t, b))
	}
	for _, g := range all {
		if err := g.Release(time.Second); err != nil {
			t.Error(err)
		}
	}
	want := maxSpare
	if os.Geteuid() != 0 {
		want = 0
	}
	if d := dirs(b.Path(), ""); len(d) != want {
		t.Errorf("%d are kept, want %d", len(d), want)
	}
}

func group(t *testing.T, b *Base) *Group {
	t.Helper()
	g, err := b.New()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

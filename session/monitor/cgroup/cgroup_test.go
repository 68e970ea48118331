package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func base(t *testing.T) *Base {
	t.Helper()
	b, err := Open(fmt.Sprintf("ghtest-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")))
	if errors.Is(err, ErrUnavailable) {
		t.Skipf("SKIPPED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(b.Path()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left", b.Path())
		}
	})
	return b
}

// run starts a shell in the group; it prints "up" when its script is under way.
func run(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.Dir().Fd()), Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 3)); n == 0 {
		t.Fatalf("script did not come up: %v", err)
	}
	return cmd
}

func TestWholeTreeIsSignalledAndKilled(t *testing.T) {
	b := base(t)
	g, err := b.New()
	if err != nil {
		t.Fatal(err)
	}
	cmd := run(t, g, `(setsid sh -c 'trap "" TERM; sleep 60 & sleep 60' &); sleep 60 & sleep 0.2; echo up; wait`)
	pids, err := g.procs()
	if err != nil || len(pids) < 4 {
		t.Fatalf("processes %v, %v; want at least 4", pids, err)
	}
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	left := pids
	for i := 0; len(left) > 3 && i < 100; i++ {
		time.Sleep(10 * time.Millisecond)
		left, _ = g.procs()
	}
	if len(left) == 0 || len(left) >= len(pids) {
		t.Errorf("%d of %d processes left after SIGTERM; only those that ignore it should be", len(left), len(pids))
	}
	began := time.Now()
	if err := g.Release(2 * time.Second); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("took %v", d)
	}
	if _, err := os.Stat(filepath.Join(b.Path(), "w1")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the group's folder is left")
	}
}

// TestNestedGroupsGoToo: a worker may make groups of its own where it may write.
func TestNestedGroupsGoToo(t *testing.T) {
	b := base(t)
	g, err := b.New()
	if err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(b.Path(), "w1", "inner", "most")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := run(t, g, fmt.Sprintf("sh -c 'echo $$ >%s/cgroup.procs; sleep 60' & sleep 0.2; echo up; wait", inner))
	if err := g.Release(2 * time.Second); err != nil {
		t.Error(err)
	}
	cmd.Wait()
}

func TestLeftoversAreCleared(t *testing.T) {
	b := base(t)
	g, err := b.New()
	if err != nil {
		t.Fatal(err)
	}
	cmd := run(t, g, "echo up; sleep 60")
	again, err := Open(filepath.Base(b.Path()))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Clear(); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	if d := dirs(b.Path(), ""); len(d) != 0 {
		t.Errorf("%v are left", d)
	}
	neighbour, err := Open(filepath.Base(b.Path()) + "-neighbour")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(b.Siblings(), filepath.Base(neighbour.Path())) {
		t.Errorf("siblings %v", b.Siblings())
	}
	if err := b.Sweep(filepath.Base(neighbour.Path())); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(neighbour.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Error("the neighbour is left")
	}
}

func TestOwnGroup(t *testing.T) {
	const v2 = "41 31 0:38 %s %s rw,relatime shared:3 - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct{ mount, self, want string }{
		"hybrid host":       {"30 25 0:26 / /sys rw - sysfs sysfs rw\n" + fmt.Sprintf(v2, "/", "/sys/fs/cgroup/unified"), "3:cpu:/x\n0::/\n", "/sys/fs/cgroup/unified"},
		"unified host":      {fmt.Sprintf(v2, "/", "/sys/fs/cgroup"), "0::/system.slice/g.service\n", "/sys/fs/cgroup/system.slice/g.service"},
		"container":         {fmt.Sprintf(v2, "/docker/ab", "/sys/fs/cgroup"), "0::/docker/ab/sub\n", "/sys/fs/cgroup/sub"},
		"container's root":  {fmt.Sprintf(v2, "/docker/ab", "/sys/fs/cgroup"), "0::/docker/ab\n", "/sys/fs/cgroup"},
		"similar name":      {fmt.Sprintf(v2, "/docker/ab", "/sys/fs/cgroup"), "0::/docker/abc\n", ""},
		"outside":           {fmt.Sprintf(v2, "/", "/sys/fs/cgroup"), "0::/../other\n", ""},
		"path with a blank": {fmt.Sprintf(v2, "/", `/sys/fs/c\040group`), "0::/\n", "/sys/fs/c group"},
		"only v1":           {"30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "3:cpu:/x\n", ""},
		"in no group":       {fmt.Sprintf(v2, "/", "/sys/fs/cgroup"), "3:cpu:/x\n", ""},
	} {
		dir := t.TempDir()
		mount, self := filepath.Join(dir, "mountinfo"), filepath.Join(dir, "cgroup")
		os.WriteFile(mount, []byte(c.mount), 0o600)
		os.WriteFile(self, []byte(c.self), 0o600)
		got, err := own(mount, self)
		if got != c.want || (err != nil) != (c.want == "") || (err != nil && !errors.Is(err, ErrUnavailable)) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

func TestPlaceThatIsNoCgroup(t *testing.T) {
	dir := t.TempDir()
	if _, err := openIn(dir, "x"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an ordinary folder: %v", err)
	}
	if d := dirs(dir, ""); len(d) != 0 {
		t.Errorf("%v is left in it", d)
	}
	if _, err := openIn(filepath.Join(dir, "none"), "x"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestLeftoverGroups(t *testing.T) {
	me := Name(os.Getpid())
	for name, want := range map[string]bool{
		me: false, me + "0": true, "gatehouse-1-0": true, "gatehouse-99999999-5": true,
		"gatehouse-99999999": false, "gatehouse-x-1": false, "system.slice": false, "gatehouse-0-0": false, "gatehouse--1-2": false,
	} {
		if name == "gatehouse-1-0" && startTime(1) == "0" {
			continue
		}
		if got := IsLeftover(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestManyProcessesAreSignalled with few descriptors: a worker that forks without end
// uses up none that others need.
func TestManyProcessesAreSignalled(t *testing.T) {
	b := base(t)
	g, err := b.New()
	if err != nil {
		t.Fatal(err)
	}
	cmd := run(t, g, "for i in $(seq 150); do sleep 60 & done; echo up; wait")
	go cmd.Wait()
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(f.Fd())
	f.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: next + signalAtOnce + 8, Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	err = g.Signal(syscall.SIGTERM)
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &usual)
	if err != nil {
		t.Fatal(err)
	}
	var left []int
	for range 500 {
		if left, _ = g.procs(); len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("%d processes were not signalled", len(left))
	}
	if err := g.Release(2 * time.Second); err != nil {
		t.Error(err)
	}
}

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/privdrop"
)

var host = NewHost()

// shell is a child that runs a script, with its standard output in the file.
func shell(t *testing.T, script string) (Spec, *os.File) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	return Spec{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/", Files: []*os.File{null, out, out},
		RunsAsRootOnPurpose: os.Geteuid() == 0,
	}, out
}

func start(t *testing.T, s Spec) *Child {
	t.Helper()
	c, err := host.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.SignalGroup(syscall.SIGKILL)
		<-c.Done()
	})
	return c
}

func finish(t *testing.T, c *Child) Status {
	t.Helper()
	select {
	case <-c.Done():
		return c.Status()
	case <-time.After(10 * time.Second):
		t.Fatal("child does not end")
		return Status{}
	}
}

func text(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStatus(t *testing.T) {
	for script, want := range map[string]Status{
		"exit 0":        {Code: 0},
		"exit 3":        {Code: 3},
		"kill -TERM $$": {Code: -1, Signal: 15},
		"kill -KILL $$": {Code: -1, Signal: 9},
	} {
		s, _ := shell(t, script)
		if got := finish(t, start(t, s)); got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
	}
}

// TestChildIsBuilt: environment, working folder, session and descriptors are the
// spec's and nobody else's.
func TestChildIsBuilt(t *testing.T) {
	t.Setenv("SECRET", "leaks")
	stray, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stray)
	if err := privdrop.CloseOnExec(3); err != nil { // as every program does that uses this package
		t.Fatal(err)
	}
	s, out := shell(t, `pwd; /usr/bin/env; cut -d' ' -f5-6 /proc/self/stat; ls /proc/$$/fd; exit 0`)
	s.Env = []string{"A=1", "PATH=/usr/bin:/bin"}
	s.Dir = "/usr"
	c := start(t, s)
	finish(t, c)
	got := strings.Split(strings.TrimSpace(text(t, out)), "\n")
	var env []string
	for _, l := range got[1:] {
		if strings.Contains(l, "=") && !strings.HasPrefix(l, "PWD=") && !strings.HasPrefix(l, "_=") {
			env = append(env, l)
		}
	}
	if got[0] != "/usr" || !slices.Equal(env, s.Env) {
		t.Errorf("folder %s, environment %q", got[0], env)
	}
	if want := fmt.Sprintf("%d %d", c.PID(), c.PID()); !slices.Contains(got, want) {
		t.Errorf("process group and session are not the child's own (%s): %q", want, got)
	}
	if fds := got[len(got)-3:]; !slices.Equal(fds, []string{"0", "1", "2"}) || got[len(got)-4] == "0" {
		t.Errorf("child's descriptors: %q", fds)
	}
	s, out = shell(t, "/usr/bin/env -u PWD -u _ -u SHLVL -u OLDPWD")
	finish(t, start(t, s))
	if e := text(t, out); e != "" {
		t.Errorf("a nil environment became %q", e)
	}
}

// TestExecFailuresAreReported, with the errno, and leave nothing behind.
func TestExecFailuresAreReported(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	host.reapOrphans()
	before, kids := openFDs(t), len(Children())
	for name, c := range map[string]struct {
		path, dir string
		want      syscall.Errno
	}{
		"missing":             {filepath.Join(dir, "none"), "/", syscall.ENOENT},
		"not executable":      {write("plain", "#!/bin/sh\n", 0o644), "/", syscall.EACCES},
		"a folder":            {dir, "/", syscall.EACCES},
		"no format":           {write("noformat", "\x00\x01", 0o755), "/", syscall.ENOEXEC},
		"interpreter missing": {write("script", "#!/no/such/thing\n", 0o755), "/", syscall.ENOENT},
		"folder missing":      {"/bin/true", filepath.Join(dir, "none"), syscall.ENOENT},
	} {
		_, err := host.Start(Spec{Path: c.path, Argv: []string{"x"}, Dir: c.dir, RunsAsRootOnPurpose: os.Geteuid() == 0})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if left := Children(); len(left) > kids {
		t.Errorf("%d children before, %v after", kids, left)
	}
	if after := openFDs(t); after > before { // fewer: the collector closed what an earlier test had left
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestNoChildIsRootByAccident is the last check before a fork.
func TestNoChildIsRootByAccident(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	const minus1 = ^uint32(0)
	for name, as := range map[string]*Identity{
		"our own":        nil,
		"uid 0":          {UID: 0, GID: 1000},
		"gid 0":          {UID: 1000, GID: 0},
		"uid -1":         {UID: minus1, GID: 1000},
		"gid -1":         {UID: 1000, GID: minus1},
		"member of root": {UID: 1000, GID: 1000, Groups: []uint32{1000, 0}},
	} {
		if c, err := host.Start(Spec{Path: "/bin/true", Argv: []string{"true"}, Dir: "/", As: as}); !errors.Is(err, ErrRoot) {
			t.Errorf("%s: %v, %v; want ErrRoot", name, c, err)
		}
	}
	s, out := shell(t, "grep -E '^(Uid|Gid|Groups)' /proc/self/status")
	s.RunsAsRootOnPurpose = false
	s.As = &Identity{UID: 4711, GID: 4712, Groups: []uint32{4712, 4713}}
	finish(t, start(t, s))
	if got, want := strings.Join(strings.Fields(text(t, out)), " "), "Uid: 4711 4711 4711 4711 Gid: 4712 4712 4712 4712 Groups: 4712 4713"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.As.Groups = nil
	s.Argv[2] = "grep -E '^Groups' /proc/self/status"
	out.Truncate(0)
	out.Seek(0, 0)
	finish(t, start(t, s))
	if got := strings.Join(strings.Fields(text(t, out)), " "); got != "Groups:" {
		t.Errorf("no groups asked for, got %s", got)
	}
}

// TestGroupDiesWithItsLeader: what a worker left in its process group goes with it.
func TestGroupDiesWithItsLeader(t *testing.T) {
	s, out := shell(t, "sleep 60 & echo $!; exit 0")
	c := start(t, s)
	finish(t, c)
	pid, err := strconv.Atoi(strings.TrimSpace(text(t, out)))
	if err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("process %d of the group lives on", pid)
	}
	if err := c.Signal(syscall.SIGTERM); !errors.Is(err, ErrEnded) {
		t.Errorf("signal after the end: %v", err)
	}
}

// gone waits a little for a process to end; zombies have ended.
func gone(pid int) bool {
	for range 200 {
		if isZombie(pid) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestPIDFDTellsOfTheEnd(t *testing.T) {
	s, _ := shell(t, "read x; exit 0")
	fds := make([]int, 2) // os.Pipe makes non-blocking ones
	if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	s.Files[0], s.KeepPIDFD = r, true
	c := start(t, s)
	r.Close()
	f := c.TakePIDFD()
	if f == nil || c.TakePIDFD() != nil {
		t.Fatal("want one pidfd and one only")
	}
	defer f.Close()
	poll := func() int16 {
		p := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		unix.Poll(p, 0)
		return p[0].Revents
	}
	if poll() != 0 {
		t.Error("readable while the child runs")
	}
	w.Close()
	finish(t, c)
	if poll()&unix.POLLIN == 0 {
		t.Error("not readable although the child has ended")
	}
}

// TestChildOutlivesTheGoroutineThatAskedForIt: the death signal belongs to the
// thread that forked, so a caller's thread may end.
func TestChildOutlivesTheGoroutineThatAskedForIt(t *testing.T) {
	s, _ := shell(t, "sleep 60")
	got := make(chan *Child)
	go func() {
		runtime.LockOSThread() // ends with the goroutine
		c, err := host.Start(s)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	c := <-got
	time.Sleep(50 * time.Millisecond)
	select {
	case <-c.Done():
		t.Errorf("child died with the thread: %v", c.Status())
	default:
	}
	c.Signal(syscall.SIGKILL)
	finish(t, c)
}

// TestLabelFollowsTheTree: through setsid, double forks and exec.
func TestLabelFollowsTheTree(t *testing.T) {
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	const mine, other = 77, 78
	s, out := shell(t, `setsid sh -c 'sleep 61 & sleep 62 & echo x' ; (setsid sleep 63 &) ; echo up; trap "" TERM; sleep 64 & wait; wait`)
	s.Label = mine
	c := start(t, s)
	for !strings.Contains(text(t, out), "up") {
		time.Sleep(5 * time.Millisecond)
	}
	s2, _ := shell(t, "exec sleep 65")
	s2.Label = other
	bystander := start(t, s2)
	for range 400 { // the last of them come after "up"
		if len(Labelled(mine)) == 5 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if n := len(Labelled(mine)); n != 5 {
		t.Errorf("%d processes have the label, want 5: the shell and four sleepers", n)
	}
	c.Signal(syscall.SIGKILL)
	finish(t, c)
	for range 100 {
		if host.SignalOrphans(mine, syscall.SIGKILL) == 0 {
			break
		}
		host.reapOrphans()
		time.Sleep(5 * time.Millisecond)
	}
	if left := Labelled(mine); len(left) != 0 {
		t.Errorf("%v still run", left)
	}
	if left := Labelled(other); len(left) != 1 {
		t.Errorf("bystander: %v", left)
	}
	host.reapOrphans()
	for _, pid := range Children() {
		if pid != bystander.PID() {
			t.Errorf("zombie or orphan %d is left", pid)
		}
	}
	var lim unix.Rlimit
	unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &lim)
	if lim.Cur == labelBase+mine || lim.Cur == labelBase+other {
		t.Error("we carry the label ourselves")
	}
}

// TestOrphansAreReaped: a worker that double-forks short helpers leaves no zombie.
func TestOrphansAreReaped(t *testing.T) {
	if err := Adopt(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { host.ReapOrphans(ctx); close(done) }()
	s, _ := shell(t, `for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'exit 1' &) ; done; sleep 0.2`)
	if st := finish(t, start(t, s)); st != (Status{}) {
		t.Errorf("child's own status was taken: %v", st)
	}
	for i := 0; len(Children()) > 0 && i < 100; i++ {
		time.Sleep(20 * time.Millisecond)
	}
	if left := Children(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	cancel()
	<-done
}

func TestChildrenByParentAgrees(t *testing.T) {
	s, _ := shell(t, "sleep 60")
	c := start(t, s)
	if a, b := Children(), childrenByParent(os.Getpid()); !slices.Contains(a, c.PID()) || !slices.Contains(b, c.PID()) {
		t.Errorf("children %v and %v, want %d in both", a, b, c.PID())
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

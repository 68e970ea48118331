package proc

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/folder"
	"gatehouse/session/folder/foldertest"
)

const nobody = 65534

// asNobody has a child print its folder as an account that is not ours, if we are root.
func asNobody(t *testing.T, dir string) (Spec, *os.File) {
	t.Helper()
	s, out := shell(t, "pwd -P; exit 0")
	s.Dir = dir
	if os.Geteuid() == 0 {
		s.As, s.RunsAsRootOnPurpose = &Identity{UID: nobody, GID: nobody, Groups: []uint32{nobody, 4242}}, false
	}
	return s, out
}

// passable is a folder that everybody can pass through; as root one in a place that only
// root can write, as homes are.
func passable(t *testing.T) string {
	t.Helper()
	parent := ""
	if os.Geteuid() == 0 {
		parent = "/home"
	}
	dir, err := os.MkdirTemp(parent, "ghtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	return dir
}

// folders are working folders, and the error that entering them gives.
func folders(t *testing.T) map[string]error {
	t.Helper()
	base := passable(t)
	make := func(name string, mode os.FileMode, uid, gid int) string {
		path := filepath.Join(base, name)
		os.Mkdir(path, 0o700)
		if os.Geteuid() == 0 {
			os.Chown(path, uid, gid)
		}
		os.Chmod(path, mode)
		return path
	}
	os.Symlink("his", filepath.Join(base, "link"))
	all := map[string]error{
		make("his", 0o700, nobody, nobody): nil, make("team's", 0o710, 1, 4242): nil,
		filepath.Join(base, "link"): nil, filepath.Join(base, "none"): syscall.ENOENT,
	}
	if os.Geteuid() == 0 {
		closed := make("closed", 0o700, 0, 0)
		os.Mkdir(filepath.Join(closed, "below"), 0o777)
		all[closed], all[filepath.Join(closed, "below")] = syscall.EACCES, syscall.EACCES
		all[make("another's", 0o710, 1, 4243)] = syscall.EACCES
		all[make("not the owner's", 0o077, nobody, nobody)] = syscall.EACCES
		listed := make("listed", 0o755, 0, 0)
		os.Mkdir(filepath.Join(listed, "below"), 0o700)
		os.Chown(filepath.Join(listed, "below"), nobody, nobody)
		if err := unix.Setxattr(listed, "system.posix_acl_access", allButNobody(), 0); err != nil {
			t.Logf("SKIPPED: access control lists: %v", err)
		} else {
			all[listed], all[filepath.Join(listed, "below")] = syscall.EACCES, syscall.EACCES
		}
	}
	return all
}

// allButNobody is an access control list (linux/posix_acl_xattr.h) that lets everybody
// pass but one account.
func allButNobody() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 7, ^uint32(0)}, {2, 0, nobody}, {4, 5, ^uint32(0)}, {16, 5, ^uint32(0)}, {32, 5, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// TestFolderIsEnteredAsTheUser: with the rights of the account and no others, and the
// thread has its own again.
func TestFolderIsEnteredAsTheUser(t *testing.T) {
	h := NewHost()
	sure := 0
	for dir, want := range folders(t) {
		s, out := asNobody(t, dir)
		if fd, err := folder.OpenQuick(dir); err == nil {
			if folder.Enterable(fd, dir, nobody) {
				sure++
			}
			unix.Close(fd)
		}
		c, err := h.Start(s)
		var in *FolderError
		if !errors.Is(err, want) || want != nil && !errors.As(err, &in) {
			t.Errorf("%s: %v, want %v", dir, err, want)
		}
		if err != nil {
			continue
		}
		<-c.Done()
		if got, _ := filepath.EvalSymlinks(dir); strings.TrimSpace(text(t, out)) != got {
			t.Errorf("in %q, want %q", text(t, out), got)
		}
	}
	if os.Geteuid() == 0 && folder.Local("/home") && sure != 1 {
		t.Errorf("%d folders may be entered for sure, want his alone", sure)
	}
	usual, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) < 2 {
		t.Fatal(threads, err)
	}
	for _, path := range threads {
		now, err := os.ReadFile(path)
		for _, key := range []string{"\nUid:", "\nGid:", "\nGroups:", "\nCapEff:"} {
			if err == nil && field(now, key) != field(usual, key) {
				t.Errorf("%s: %s is %q, was %q", path, key, field(now, key), field(usual, key))
			}
		}
	}
}

func field(status []byte, key string) string {
	_, rest, _ := strings.Cut(string(status), key)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// TestFolderWithoutOwn: where a thread can have no working folder of its own, the child
// enters the place that was looked at, also from a process that nobody may look into.
func TestFolderWithoutOwn(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	h := &Host{children: map[int]*Child{}}
	h.groups, _ = unix.Getgroups()
	for dir, want := range folders(t) {
		s, out := asNobody(t, dir)
		turn, err := h.folders.Take(dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := h.serve(&job{spec: &s, turn: turn}, false)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", dir, err, want)
		}
		if err != nil {
			continue
		}
		<-c.Done()
		if got, _ := filepath.EvalSymlinks(dir); strings.TrimSpace(text(t, out)) != got {
			t.Errorf("in %q, want %q", text(t, out), got)
		}
	}
}

// TestFolderThatHangs costs its own start and a thread: others start, and what was given
// up is not started when the folder answers.
func TestFolderThatHangs(t *testing.T) {
	dir := passable(t)
	f := foldertest.Mount(t, dir, 0)
	f.Hang(foldertest.Access)
	h := NewHost()
	s, out := shell(t, "echo started; exit 0")
	s.Dir = dir
	done := make(chan error, 1)
	go func() { _, err := h.Start(s); done <- err }()
	f.Await()
	for range 10 {
		other, _ := shell(t, "exit 0")
		other.Dir = t.TempDir()
		c, err := h.Start(other)
		if err != nil {
			t.Fatal(err)
		}
		finish(t, c)
	}
	if n := h.starters.Load(); n != 2 {
		t.Errorf("%d threads", n)
	}
	if len(done) > 0 {
		t.Error("the others were served only when all was over")
	}
	var silent *folder.Silent
	if err := <-done; !errors.As(err, &silent) {
		t.Errorf("a folder that hangs: %v", err)
	}
	f.Answer()
	for i := 0; h.entering.Load() > 0; i++ {
		if i > 500 {
			t.Fatal("the thread does not come back")
		}
		time.Sleep(10 * time.Millisecond)
	}
	c, err := h.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, c)
	if got := text(t, out); got != "started\n" {
		t.Errorf("started: %q", got)
	}
	f.Unmount()
}

package safepath

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes files below a folder that only we can write.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "open", "sticky"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, d, "prog"), 0o755)
	}
	write(t, filepath.Join(dir, "bin", "plain"), 0o644)
	write(t, filepath.Join(dir, "bin", "loose"), 0o757)
	for link, target := range map[string]string{
		"bin/link": "prog", "bin/up": "../bin/./prog", "bin/far": dir + "/bin/prog",
		"bin/bad": "../open/prog", "bin/loop": "loop", "bin/gone": "nothing", "dir": "bin",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	chmod(t, filepath.Join(dir, "open"), 0o777)
	chmod(t, filepath.Join(dir, "sticky"), 0o777|os.ModeSticky)
	return dir
}

func write(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestProgram(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]string{ // "" means accepted
		"bin/prog":        "",
		"bin/link":        "",
		"bin/up":          "",
		"bin/far":         "",
		"dir/link":        "",
		"bin/../bin/prog": "",
		"bin//prog":       "",
		"bin/plain":       "not executable",
		"bin/loose":       "everybody may write it",
		"bin":             "not a regular file",
		"open/prog":       "everybody may write it",
		"bin/bad":         "everybody may write it",
		"bin/loop":        "too many levels",
		"bin/gone":        "no such file",
		"bin/prog/x":      "not a directory",
		"nothing":         "no such file",
	} {
		got, err := Program(dir+"/"+path, os.Geteuid())
		switch {
		case want == "" && (err != nil || got != filepath.Join(dir, "bin/prog")):
			t.Errorf("%s: %q, %v; want it accepted", path, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v; want an error with %q", path, err, want)
		}
	}
	if _, err := Program("bin/prog", os.Geteuid()); err == nil {
		t.Error("a relative path was accepted")
	}
}

// TestStickyFolder: in /tmp others can't replace root's files, in a sticky folder
// of somebody else its owner can.
func TestStickyFolder(t *testing.T) {
	dir := tree(t)
	_, err := Program(dir+"/sticky/prog", os.Geteuid())
	if root := os.Geteuid() == 0; root != (err == nil) {
		t.Errorf("as root %v: %v", root, err)
	}
}

func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	dir := tree(t)
	for _, own := range []string{"bin/prog", "bin", "."} {
		if err := os.Lchown(filepath.Join(dir, own), 65534, 65534); err != nil {
			t.Fatal(err)
		}
		_, err := Program(dir+"/bin/prog", 0)
		if !IsUnsafe(err) || !strings.Contains(err.Error(), "belongs to uid 65534") {
			t.Errorf("%s of another user: %v", own, err)
		}
		if _, err := Program(dir+"/bin/prog", 65534); err != nil {
			t.Errorf("%s of the trusted user: %v", own, err)
		}
		os.Lchown(filepath.Join(dir, own), 0, 0)
	}
	os.Lchown(dir+"/bin/link", 65534, 65534)
	if _, err := Program(dir+"/bin/link", 0); !IsUnsafe(err) {
		t.Errorf("another user's symbolic link: %v", err)
	}
	// Group 0 is root's own; any other group with write access is somebody else.
	chmod(t, dir+"/bin", 0o775)
	if _, err := Program(dir+"/bin/prog", 0); err != nil {
		t.Errorf("folder that group 0 may write: %v", err)
	}
	os.Lchown(dir+"/bin", 0, 50)
	chmod(t, dir+"/bin", 0o775)
	if _, err := Program(dir+"/bin/prog", 0); !IsUnsafe(err) {
		t.Errorf("folder that group 50 may write: %v", err)
	}
}

// TestAccessList: whom an access control list lets write shows in the mode as the group,
// which is root's here.
func TestAccessList(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	const write, read = 6, 4
	for _, c := range []struct {
		path string
		may  uint16
		safe bool
	}{{"bin/prog", write, false}, {"bin", write, false}, {"bin/prog", read, true}, {"bin", read, true}} {
		dir := tree(t)
		chmod(t, dir+"/bin/prog", 0o775) // without a list group 0 may
		if err := unix.Setxattr(filepath.Join(dir, c.path), accessList, listFor(65534, c.may), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skipf("SKIPPED: no access control lists in %s", dir)
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := Program(dir+"/bin/prog", 0); c.safe != (err == nil) || !c.safe && !strings.Contains(err.Error(), "setfacl") {
			t.Errorf("%s, list with %o: %v", c.path, c.may, err)
		}
		f, err := Open(dir+"/bin/prog", 0, 10)
		if wantSafe := c.safe || c.path == "bin"; wantSafe != (err == nil) {
			t.Errorf("opened, with %s in a list with %o: %v", c.path, c.may, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// listFor is an access control list that gives one user more than others have, as the
// kernel takes it (linux/posix_acl_xattr.h).
func listFor(uid uint32, may uint16) []byte {
	const nobody = ^uint32(0)
	b := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range []struct {
		tag, may uint16
		id       uint32
	}{{1, 7, nobody}, {2, may, uid}, {4, 5, nobody}, {16, may | 1, nobody}, {32, 5, nobody}} { // owner, user, group, most, others
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.may)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

func TestOpen(t *testing.T) {
	dir := tree(t)
	f, err := Open(dir+"/bin/plain", os.Geteuid(), 1)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := syscall.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for path, limit := range map[string]int64{"bin/loose": 10, "bin/plain": 0, "bin": 10, "fifo": 10} {
		if f, err := Open(filepath.Join(dir, path), os.Geteuid(), limit); !IsUnsafe(err) {
			t.Errorf("%s: %v, %v; want a refusal", path, f, err)
		}
	}
	if _, err := Open(dir+"/nothing", os.Geteuid(), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

package view

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse/toolsets"
)

// asNobody runs a test once more as an account that rights bind, when it runs as
// root. It reports whether there is nothing left to do.
func asNobody(t *testing.T) (done bool) {
	t.Helper()
	if os.Getuid() != 0 {
		return false
	}
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as another account: %v\n%s", err, out)
	}
	return true
}

// TestUnwritableFolders: tests may take the right to write from folders of the
// view, and even the right to look into them. Abort is the way out all the same.
func TestUnwritableFolders(t *testing.T) {
	if asNobody(t) {
		return
	}
	w := newWorld(t)
	v, bob := w.view("alice"), w.view("bob")
	lock := func() {
		write(t, v.Dir, "made/below/x.txt", "x")
		write(t, v.Dir, "shut/below/x.txt", "x")
		for _, c := range []struct {
			name string
			mode os.FileMode
		}{{"made/below", 0o500}, {"made", 0o500}, {"shut/below", 0}, {"shut", 0}, {".", 0o500}} {
			if err := os.Chmod(filepath.Join(v.Dir, c.name), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		v.Touched()
	}
	lock()
	if _, err := v.Abort(t.Context()); err != nil {
		t.Errorf("abort: %v", err)
	}
	if in, err := os.ReadDir(v.Dir); err != nil || len(in) != 5 {
		t.Errorf("after it the view holds %v, %v", in, err)
	}
	lock()
	bob.edit(t, "a.go", "return 1", "return 11")
	if _, err := bob.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Refresh(t.Context()); err != nil {
		t.Errorf("refresh: %v", err)
	}
	if b, err := v.ReadFile("a.go"); err != nil || !strings.Contains(string(b), "return 11") {
		t.Errorf("after it a.go is %s, %v", b, err)
	}
}

// TestRepositoriesInAView: what a test has made of its own is not committed as a
// submodule that nobody can fetch.
func TestRepositoriesInAView(t *testing.T) {
	w := newWorld(t)
	v := w.view("alice")
	v.edit(t, "a.go", "return 1", "return 11")
	sub := filepath.Join(v.Dir, "sub")
	w.git("", "init", "--quiet", sub)
	write(t, sub, "x.txt", "x\n")
	w.git(sub, "add", ".")
	w.git(sub, "commit", "--quiet", "-m", "x")
	if _, err := v.Commit(t.Context(), ""); kind(err) != toolsets.Refused || !strings.Contains(err.Error(), "sub is a Git repository of its own") {
		t.Errorf("committed: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(sub, ".git")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Errorf("without it: %v", err)
	}
	if got := w.git(w.repo, "ls-tree", "-r", "--name-only", "main", "sub"); got != "sub/x.txt" {
		t.Errorf("the branch holds %q", got)
	}
}

// TestShallowRepository: a shared repository may lack its older commits.
func TestShallowRepository(t *testing.T) {
	w := newWorld(t)
	bob := w.view("bob")
	bob.edit(t, "a.go", "return 1", "return 11")
	if _, err := bob.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow.git")
	w.git("", "clone", "--quiet", "--bare", "--depth=1", "file://"+w.repo, shallow)
	w.repo = shallow
	v, other := w.view("alice"), w.view("bob")
	if info, err := v.Info(t.Context()); err != nil || info.Subject != "Change One" {
		t.Errorf("info %+v, %v", info, err)
	}
	v.edit(t, "a.go", "return 11", "return 111")
	other.edit(t, "a.go", "return 2", "return 22")
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if info, err := other.Info(t.Context()); err != nil || info.Behind != 1 {
		t.Errorf("info %+v, %v", info, err)
	}
	if res, err := other.Commit(t.Context(), ""); err != nil || res.Merged != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/toolsets"
)

func TestOtherRepositories(t *testing.T) {
	t.Run("sha256", func(t *testing.T) {
		w := newWorld(t, "--object-format=sha256")
		v := w.view("alice")
		v.edit(t, "a.go", "return 1", "return 11")
		if res, err := v.Commit(t.Context(), ""); err != nil || len(res.Commit) != 64 {
			t.Errorf("%+v, %v", res, err)
		}
		v.edit(t, "a.go", "return 2", "return 22")
		v.set.Close("test")
		if lost, err := w.person("alice", v.set.cfg.StateDir).Lost(t.Context()); err != nil || len(lost) != 1 {
			t.Errorf("lost %v, %v", lost, err)
		}
	})
	t.Run("submodule", func(t *testing.T) {
		w := newWorld(t)
		seed := filepath.Join(t.TempDir(), "more")
		w.git("", "clone", "--quiet", w.repo, seed)
		link := w.git(seed, "rev-parse", "HEAD")
		write(t, seed, ".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::sh -c true\n")
		w.git(seed, "add", ".gitmodules")
		w.git(seed, "update-index", "--add", "--cacheinfo", "160000,"+link+",sub")
		w.git(seed, "commit", "--quiet", "-m", "Add a submodule")
		w.git(seed, "push", "--quiet", "origin", "HEAD:refs/heads/main")
		v := w.view("alice")
		if ch, err := v.Changes(t.Context()); err != nil || len(ch) != 0 {
			t.Errorf("changes at first: %v, %v", ch, err)
		}
		if in, err := os.ReadDir(filepath.Join(v.Dir, "sub")); err != nil || len(in) != 0 {
			t.Errorf("in the submodule's folder: %v, %v", in, err)
		}
		v.edit(t, "a.go", "return 1", "return 11")
		if _, err := v.Commit(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if got := w.git(w.repo, "ls-tree", "main", "sub"); got != "160000 commit "+link+"\tsub" {
			t.Errorf("the submodule is now %q", got)
		}
		if err := v.WriteFile(t.Context(), "sub/x.txt", []byte("x")); err == nil {
			if _, err := v.Commit(t.Context(), ""); err == nil && w.git(w.repo, "ls-tree", "main", "sub") != "160000 commit "+link+"\tsub" {
				t.Error("a file in the submodule's folder replaced the submodule")
			}
		}
	})
	t.Run("with a working tree", func(t *testing.T) {
		w := newWorld(t)
		clone := filepath.Join(t.TempDir(), "clone")
		w.git("", "clone", "--quiet", w.repo, clone)
		w.repo = clone
		v := w.view("alice")
		v.edit(t, "a.go", "return 1", "return 11")
		if _, err := v.Commit(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(clone, "a.go")); err != nil || !strings.Contains(string(b), "return 11") {
			t.Errorf("its working tree: %s, %v", b, err)
		}
		write(t, clone, "a.go", "package p // owner's edit\n")
		v.edit(t, "a.go", "return 2", "return 22")
		if _, err := v.Commit(t.Context(), ""); kind(err) != toolsets.Refused || !strings.Contains(err.Error(), "working tree") {
			t.Errorf("with the owner's edits in it: %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, c := range []struct{ repo, branch, want string }{
			{t.TempDir(), "", "not a git repository"},
			{filepath.Join(t.TempDir(), "gone"), "", "no such file"},
			{newWorld(t).repo, "--upload-pack=x", "no branch"},
			{newWorld(t).repo, "a..b", "no name for a branch"},
			{newWorld(t).repo, "other", "no branch other"},
		} {
			s := NewSet(Config{Repository: c.repo, Branch: c.branch, StateDir: t.TempDir(), Account: "a", Env: []string{"PATH=" + os.Getenv("PATH")}, Now: time.Now})
			if _, err := s.Open(t.Context(), "main"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if _, err := NewSet(Config{}).Open(t.Context(), "main"); kind(err) != toolsets.Refused {
			t.Errorf("no workspace: %v", err)
		}
	})
}

// TestFilesAndFolders: what one side removes or turns into a folder is merged,
// and never at the cost of what the other side has there.
func TestFilesAndFolders(t *testing.T) {
	w := newWorld(t)
	alice := w.view("alice")
	for name, c := range map[string]struct {
		alice, bob func(v *View) error
		want       toolsets.Kind
	}{
		"removed here, other files there": {
			func(v *View) error { return v.WriteFile(t.Context(), "one/a.txt", []byte("a")) },
			func(v *View) error { return v.RemoveFile("notes.txt") }, ""},
		"a folder instead of a file": {
			func(v *View) error { return v.WriteFile(t.Context(), "two.txt", []byte("a")) },
			func(v *View) error {
				return errors.Join(v.RemoveFile(".gitignore"), v.WriteFile(t.Context(), ".gitignore/x", []byte("b")))
			}, ""},
		"a file where the other has a folder": {
			func(v *View) error { return v.WriteFile(t.Context(), "three/a.txt", []byte("a")) },
			func(v *View) error { return v.WriteFile(t.Context(), "three", []byte("b")) }, toolsets.Conflict},
		"a folder where the other has a file": {
			func(v *View) error { return v.WriteFile(t.Context(), "four", []byte("a")) },
			func(v *View) error { return v.WriteFile(t.Context(), "four/a.txt", []byte("b")) }, toolsets.Conflict},
	} {
		bob := w.view("bob")
		if err := errors.Join(c.alice(alice), c.bob(bob)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := alice.Commit(t.Context(), ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := bob.Commit(t.Context(), ""); kind(err) != c.want || c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := alice.Refresh(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	got := strings.Fields(w.git(w.repo, "ls-tree", "-r", "--name-only", "main"))
	if want := []string{".gitignore/x", "a.go", "four", "go.mod", "one/a.txt", "three/a.txt", "two.txt"}; !slices.Equal(got, want) {
		t.Errorf("the branch holds %v", got)
	}
}

// TestSeveralRepositoriesOfOneAccount: workers on different repositories share
// the account's private folder and nothing in it.
func TestSeveralRepositoriesOfOneAccount(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	if os.Getuid() == 0 { // then Git asks who owns a repository
		for _, w := range []*world{a, b} {
			if err := os.Chown(w.repo, 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}
	}
	state := t.TempDir()
	var views []*View
	for _, w := range []*world{a, b} {
		v, err := w.person("alice", state).Open(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		v.edit(t, "a.go", "return 1", "return 11")
		views = append(views, v)
	}
	if _, err := views[0].Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	views[1].set.mu.Lock()
	views[1].set.lock.Close() // it dies
	views[1].set.mu.Unlock()
	if lost, err := a.person("alice", state).Lost(t.Context()); err != nil || len(lost) != 0 {
		t.Errorf("lost work on the first: %v, %v", lost, err)
	}
	if lost, err := b.person("alice", state).Lost(t.Context()); err != nil || len(lost) != 1 {
		t.Errorf("lost work on the second: %v, %v", lost, err)
	}
}

// TestRacingCommits has several sessions commit at once; each acknowledged
// commit must be on the branch exactly once and the history linear.
func TestRacingCommits(t *testing.T) {
	w := newWorld(t)
	const people, each = 4, 5
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]bool{}
	for p := range people {
		v := w.view(fmt.Sprint("p", p))
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("f%d_%d.go", p, i)
				if err := v.WriteFile(context.Background(), name, fmt.Appendf(nil, "package p\n\nfunc F%d_%d() {}\n", p, i)); err != nil {
					t.Error(err)
					return
				}
				res, err := v.Commit(context.Background(), name)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[name] = true
				mu.Unlock()
				_ = res
			}
		})
	}
	wg.Wait()
	subjects := strings.Split(w.git(w.repo, "log", "--format=%s", "main"), "\n")
	if len(subjects) != people*each+1 || len(acked) != people*each {
		t.Fatalf("%d commits, %d acknowledged", len(subjects), len(acked))
	}
	for name := range acked {
		n := 0
		for _, s := range subjects {
			if s == name {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is on the branch %d times", name, n)
		}
	}
	if merges := w.git(w.repo, "rev-list", "--merges", "--count", "main"); merges != "0" {
		t.Errorf("%s merges", merges)
	}
	w.git(w.repo, "fsck", "--strict")
}

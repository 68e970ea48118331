package view

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/toolsets"
)

// TestEditsOfIgnoredFilesCount: a program made a file that the ignore rules cover;
// what a tool writes into it is committed all the same, and is kept after a crash.
func TestEditsOfIgnoredFilesCount(t *testing.T) {
	w := newWorld(t)
	state := t.TempDir()
	set := w.person("alice", state)
	v, err := set.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	write(t, v.Dir, "ignored/made.go", "package ignored\n")
	v.Touched()
	v.edit(t, "ignored/made.go", "package ignored\n", "package ignored\n\nfunc Mine() {}\n")
	if ch, err := v.Changes(t.Context()); err != nil || len(ch) != 1 {
		t.Errorf("changes %+v, %v", ch, err)
	}
	if err := os.CopyFS(filepath.Dir(v.Dir)+"-dead", os.DirFS(filepath.Dir(v.Dir))); err != nil {
		t.Fatal(err)
	}
	if lost, err := set.Lost(t.Context()); err != nil || len(lost) != 1 {
		t.Errorf("lost work %+v, %v", lost, err)
	}
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := w.git(w.repo, "show", "main:ignored/made.go"); !strings.Contains(got, "Mine") {
		t.Errorf("committed: %s", got)
	}
}

// TestAbortFreesEveryView: whatever a killed git or a program did to the view's
// own repository, abort is the way out; a lock alone stops no commit.
func TestAbortFreesEveryView(t *testing.T) {
	w := newWorld(t)
	for name, spoil := range map[string]func(v *View) error{
		"index.lock": func(v *View) error { return os.WriteFile(filepath.Join(v.git.gitDir, "index.lock"), nil, 0o600) },
		"broken index": func(v *View) error {
			return os.WriteFile(filepath.Join(v.git.gitDir, "index"), []byte("DIRC no"), 0o600)
		},
		"no repository": func(v *View) error { return os.RemoveAll(v.git.gitDir) },
		"no objects":    func(v *View) error { return os.RemoveAll(filepath.Join(v.git.gitDir, "objects")) },
	} {
		v := w.view("alice")
		v.edit(t, "a.go", "return 1", "return 11")
		if err := spoil(v); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Abort(t.Context()); err != nil {
			t.Errorf("%s: abort: %v", name, err)
			continue
		}
		v.edit(t, "a.go", "return 1 ", "return 1 + 0 ")
		if name == "index.lock" {
			if err := spoil(v); err != nil {
				t.Fatal(err)
			}
		}
		if res, err := v.Commit(t.Context(), name); err != nil || res.Commit == "" {
			t.Errorf("%s: commit afterwards: %+v, %v", name, res, err)
		}
		v.edit(t, "a.go", "return 1 + 0 ", "return 1 ")
		if _, err := v.Commit(t.Context(), name+" again"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeathDuringRefresh: a refresh that is killed while git writes the files has
// lost none of the view's changes. A note of changes that is left behind is
// forgotten with the next move, or it would hide what is done afterwards.
func TestDeathDuringRefresh(t *testing.T) {
	w := newWorld(t)
	alice := w.view("alice")
	state := t.TempDir()
	set := w.person("bob", state)
	bob, err := set.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	alice.edit(t, "a.go", "return 1", "return 11")
	if _, err := alice.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	bob.edit(t, "a.go", "return 2", "return 22")
	// A git that is killed between removing the old file and writing the new one.
	bin := t.TempDir()
	write(t, bin, "git", "#!/bin/sh\nPATH="+os.Getenv("PATH")+"\ncase \" $* \" in *\" read-tree --reset -u \"*) rm -f a.go; exit 137;; esac\nexec git \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err = bob.Refresh(t.Context())
	t.Setenv("PATH", strings.TrimPrefix(os.Getenv("PATH"), bin+":"))
	if err == nil {
		t.Fatal("the refresh did not fail")
	}
	if err := os.CopyFS(filepath.Dir(bob.Dir)+"-dead", os.DirFS(filepath.Dir(bob.Dir))); err != nil {
		t.Fatal(err)
	}
	lost, err := set.Lost(t.Context())
	if err != nil || len(lost) != 1 {
		t.Fatalf("lost work %+v, %v", lost, err)
	}
	if got := w.git(lost[0].Repository, "-c", "safe.directory=*", "show", lost[0].Ref); !strings.Contains(got, "+func Two() int { return 22 }") || strings.Contains(got, "return 11") {
		t.Errorf("%s is:\n%s", lost[0].Ref, got)
	}
	if _, err := bob.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	bob.edit(t, "a.go", "return 2", "return 222")
	set.Close("the lease ran out")
	lost, err = w.person("bob", state).Lost(t.Context())
	if err != nil || len(lost) != 2 {
		t.Fatalf("lost work %+v, %v", lost, err)
	}
	if got := w.git(lost[0].Repository, "-c", "safe.directory=*", "show", lost[0].Ref+":a.go"); !strings.Contains(got, "return 222") {
		t.Errorf("%s holds:\n%s", lost[0].Ref, got)
	}
}

// TestTheSharedRepositoryRunsNothing: programs that its configuration names for
// objects that are missing or borrowed are not run.
func TestTheSharedRepositoryRunsNothing(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(t.TempDir(), "ran")
	evil := ": >'" + mark + "';:"
	other := filepath.Join(t.TempDir(), "other.git")
	w.git("", "init", "--quiet", "--bare", other)
	write(t, w.repo, "objects/info/alternates", filepath.Join(other, "objects")+"\n")
	for k, v := range map[string]string{
		"core.alternateRefsCommand": evil, "core.repositoryFormatVersion": "1", "extensions.partialClone": "evil",
		"remote.evil.url": other, "remote.evil.promisor": "true", "remote.evil.uploadpack": evil,
	} {
		w.git(w.repo, "config", k, v)
	}
	v := w.view("alice")
	v.edit(t, "a.go", "return 1", "return 11")
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the commit ran something of the repository")
		os.Remove(mark)
	}
	write(t, w.repo, "refs/heads/gone", strings.Repeat("1", 40)+"\n")
	s := NewSet(Config{Repository: w.repo, Branch: "gone", StateDir: t.TempDir(), Account: "a", Env: []string{"PATH=" + os.Getenv("PATH")}, Now: time.Now})
	if _, err := s.Open(t.Context(), "main"); err == nil {
		t.Error("a branch without its commit was opened")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a missing commit ran something of the repository")
	}
}

// TestSubmodulesOfBothSides: two changes of a submodule are a conflict.
func TestSubmodulesOfBothSides(t *testing.T) {
	w := newWorld(t)
	seed := filepath.Join(t.TempDir(), "more")
	w.git("", "clone", "--quiet", w.repo, seed)
	link := w.git(seed, "rev-parse", "HEAD")
	put := func(id string) {
		w.git(seed, "update-index", "--add", "--cacheinfo", "160000,"+id+",sub")
		w.git(seed, "commit", "--quiet", "-m", "Move the submodule")
		w.git(seed, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	}
	put(link)
	v := w.view("alice")
	if err := os.Remove(filepath.Join(v.Dir, "sub")); err != nil {
		t.Fatal(err)
	}
	v.Touched()
	put(strings.Repeat("2", 40))
	if _, err := v.Refresh(t.Context()); kind(err) != toolsets.Conflict {
		t.Errorf("refresh: %v", err)
	}
}

// TestALookDuringAWriteHidesNothing: a result of another call may look at the
// changes between a write's beginning and its end.
func TestALookDuringAWriteHidesNothing(t *testing.T) {
	v := newWorld(t).view("alice")
	if _, err := v.Changes(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.writes("a.go")
	if ch, ok := v.knownChanges(); !ok || len(ch) != 0 {
		t.Errorf("before the file is there: %v, %v", ch, ok)
	}
	if err := v.replace("a.go", []byte("package p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v.wrote("a.go")
	if ch, err := v.Changes(context.Background()); err != nil || len(ch) != 1 {
		t.Errorf("afterwards: %v, %v", ch, err)
	}
}

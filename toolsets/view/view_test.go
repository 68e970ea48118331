package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/toolsets"
)

const fileA = "package p\n\n// One is first.\nfunc One() int { return 1 }\n\nfunc Two() int { return 2 }\n"

// world is a shared repository and the people who work on it.
type world struct {
	t    *testing.T
	repo string
	env  []string
}

func newWorld(t *testing.T, gitArgs ...string) *world {
	t.Helper()
	w := &world{t: t, repo: filepath.Join(t.TempDir(), "shared repo.git"),
		env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=Seed", "GIT_AUTHOR_EMAIL=s@example.com", "GIT_COMMITTER_NAME=Seed", "GIT_COMMITTER_EMAIL=s@example.com"}}
	w.git("", append([]string{"init", "--quiet", "--bare", "--initial-branch=main", w.repo}, gitArgs...)...)
	seed := filepath.Join(t.TempDir(), "seed")
	w.git("", append([]string{"init", "--quiet", "--initial-branch=main", seed}, gitArgs...)...)
	write(t, seed, "go.mod", "module example.com/p\n\ngo 1.24\n")
	write(t, seed, "a.go", fileA)
	write(t, seed, "notes.txt", "alpha\nbeta\ngamma\ndelta\n")
	write(t, seed, ".gitignore", "ignored/\n")
	w.git(seed, "add", ".")
	w.git(seed, "commit", "--quiet", "-m", "Seed")
	w.git(seed, "push", "--quiet", w.repo, "HEAD:refs/heads/main")
	return w
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, w.env
	if dir == "" {
		cmd.Dir = filepath.Dir(w.repo)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w *world) person(name, state string) *Set {
	s := NewSet(Config{Repository: w.repo, StateDir: state, Account: name, Name: strings.ToUpper(name), Email: name + "@example.com",
		Env: []string{"PATH=" + os.Getenv("PATH")}, IdleEnd: "30 m", Now: time.Now})
	w.t.Cleanup(func() { s.Close("test ended") })
	return s
}

func (w *world) view(name string) *View {
	w.t.Helper()
	v, err := w.person(name, w.t.TempDir()).Open(w.t.Context(), "main")
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (v *View) edit(t *testing.T, name, old, new string) {
	t.Helper()
	b, err := v.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s does not hold %q:\n%s", name, old, b)
	}
	if err := v.WriteFile(t.Context(), name, []byte(strings.Replace(string(b), old, new, 1))); err != nil {
		t.Fatal(err)
	}
}

func kind(err error) toolsets.Kind {
	var f *toolsets.Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return ""
}

func TestDisjointChangesOfOneFileAreMerged(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.view("alice"), w.view("bob")
	alice.edit(t, "a.go", "return 1", "return 11")
	bob.edit(t, "a.go", "return 2", "return 22")
	bob.edit(t, "notes.txt", "delta", "DELTA")
	if _, err := alice.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	alice.edit(t, "notes.txt", "alpha", "ALPHA")
	if _, err := alice.Commit(t.Context(), "Shout"); err != nil {
		t.Fatal(err)
	}
	res, err := bob.Commit(t.Context(), "")
	if err != nil || res.Merged != 2 || len(res.Changes) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	got := w.git(w.repo, "show", "main:a.go") + w.git(w.repo, "show", "main:notes.txt")
	if want := "package p\n\n// One is first.\nfunc One() int { return 11 }\n\nfunc Two() int { return 22 }ALPHA\nbeta\ngamma\nDELTA"; got != want {
		t.Errorf("merged:\n%s", got)
	}
	if log := w.git(w.repo, "log", "--format=%an <%ae> %cn: %s", "main"); log != "BOB <bob@example.com> BOB: Change Two, notes.txt\nALICE <alice@example.com> ALICE: Shout\nALICE <alice@example.com> ALICE: Change One\nSeed <s@example.com> Seed: Seed" {
		t.Errorf("log:\n%s", log)
	}
	if b, _ := bob.ReadFile("a.go"); !strings.Contains(string(b), "return 11") {
		t.Error("bob's view lacks alice's change")
	}
	if ch, err := bob.Changes(t.Context()); err != nil || len(ch) != 0 {
		t.Errorf("bob's changes after the commit: %v, %v", ch, err)
	}
}

func TestTheSameDeclarationConflicts(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.view("alice"), w.view("bob")
	alice.edit(t, "a.go", "return 1", "return 11")
	if _, err := alice.Commit(t.Context(), "Eleven"); err != nil {
		t.Fatal(err)
	}
	head := w.git(w.repo, "rev-parse", "main")
	bob.edit(t, "a.go", "return 1 ", "return 111 ")
	base := bob.Base()
	for what, f := range map[string]func() error{
		"commit":  func() error { _, err := bob.Commit(t.Context(), ""); return err },
		"refresh": func() error { _, err := bob.Refresh(t.Context()); return err },
	} {
		err := f()
		if kind(err) != toolsets.Conflict {
			t.Fatalf("%s: %v", what, err)
		}
		for _, part := range []string{"a.go: One", "ALICE", head[:10]} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s does not name %s: %v", what, part, err)
			}
		}
		b, _ := bob.ReadFile("a.go")
		if bob.Base() != base || !strings.Contains(string(b), "return 111") {
			t.Errorf("%s moved the view", what)
		}
	}
	if now := w.git(w.repo, "rev-parse", "main"); now != head {
		t.Error("something was adopted")
	}
	if _, err := bob.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, _ := bob.ReadFile("a.go"); bob.Base() != head || !strings.Contains(string(b), "return 11 ") {
		t.Errorf("after abort: %s", b)
	}
}

func TestTheSameChangeTwiceIsCommittedOnce(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.view("alice"), w.view("bob")
	for _, v := range []*View{alice, bob} {
		v.edit(t, "a.go", "return 1", "return 11")
	}
	if _, err := alice.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	res, err := bob.Commit(t.Context(), "")
	if err != nil || res.Commit != "" || bob.Base() != w.git(w.repo, "rev-parse", "main") {
		t.Errorf("%+v, %v, base %s", res, err, bob.Base())
	}
	if n := w.git(w.repo, "rev-list", "--count", "main"); n != "2" {
		t.Errorf("%s commits", n)
	}
}

func TestConflictsOutsideGoFiles(t *testing.T) {
	w := newWorld(t)
	alice := w.view("alice")
	for name, c := range map[string]struct{ alice, bob func(v *View) error }{
		"the same line": {
			func(v *View) error { v.edit(t, "notes.txt", "beta", "BETA"); return nil },
			func(v *View) error { v.edit(t, "notes.txt", "beta", "Beta"); return nil }},
		"deleted here": {
			func(v *View) error { v.edit(t, "notes.txt", "gamma", "g"); return nil },
			func(v *View) error { return v.RemoveFile("notes.txt") }},
		"added by both": {
			func(v *View) error { return v.WriteFile(t.Context(), "new.txt", []byte("a")) },
			func(v *View) error { return v.WriteFile(t.Context(), "new.txt", []byte("b")) }},
		"declared by both in two files": {
			func(v *View) error { return v.WriteFile(t.Context(), "x.go", []byte("package p\n\nfunc X() {}\n")) },
			func(v *View) error { return v.WriteFile(t.Context(), "y.go", []byte("package p\n\nfunc X() {}\n")) }},
	} {
		bob := w.view("bob")
		if err := errors.Join(c.alice(alice), c.bob(bob)); err != nil {
			t.Fatal(err)
		}
		if _, err := alice.Commit(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.Commit(t.Context(), ""); kind(err) != toolsets.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMergedTreeMustTypeCheckWhenBothSidesDo(t *testing.T) {
	w := newWorld(t)
	alice := w.view("alice")
	bobSet := w.person("bob", t.TempDir())
	// The check stands for the compiler: alice renames, bob still calls.
	bobSet.SetChecker(func(_ context.Context, v *View) ([]string, error) {
		a, err := v.ReadFile("a.go")
		if err != nil {
			return nil, err
		}
		b, _ := v.ReadFile("b.go")
		if strings.Contains(string(b), "One()") && !strings.Contains(string(a), "func One()") {
			return []string{"b.go:3:20: undefined: One"}, nil
		}
		return nil, nil
	})
	bob, err := bobSet.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	alice.edit(t, "a.go", "func One()", "func Uno()")
	if _, err := alice.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := bob.WriteFile(t.Context(), "b.go", []byte("package p\n\nfunc Three() int { return One() + 2 }\n")); err != nil {
		t.Fatal(err)
	}
	_, err = bob.Commit(t.Context(), "")
	if kind(err) != toolsets.Conflict || !strings.Contains(err.Error(), "undefined: One") {
		t.Fatalf("commit: %v", err)
	}
	if b, _ := bob.ReadFile("a.go"); !strings.Contains(string(b), "func One()") {
		t.Error("the failed commit moved the view")
	}
	if _, err := bob.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	bob.edit(t, "b.go", "One()", "Uno()")
	if _, err := bob.Commit(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func TestBlindWriteGuard(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.view("alice"), w.view("bob")
	one := []byte("// One is first.\nfunc One() int { return 1 }\n")
	if bob.Known(".", "One", one) != NeverRead {
		t.Error("known without having been read")
	}
	bob.MarkRead(".", "One", one)
	bob.MarkRead(".", "Two", []byte("func Two() int { return 2 }"))
	if bob.Known(".", "One", one) != Fresh {
		t.Error("not known after having been read")
	}
	alice.edit(t, "a.go", "return 1", "return 11")
	if _, err := alice.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	bob.takeNotes()
	if _, err := bob.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bob.Known(".", "One", []byte("// One is first.\nfunc One() int { return 11 }\n")) != Stale {
		t.Error("refresh left the read fresh")
	}
	lines := bob.set.Footer(t.Context(), "main")
	if len(lines) != 1 || !strings.Contains(lines[0], "a.go: One") || strings.Contains(lines[0], "Two") {
		t.Errorf("notes %q", lines)
	}
	if again := bob.set.Footer(t.Context(), "main"); again != nil {
		t.Errorf("said twice: %q", again)
	}
}

func TestFooterCountsUncommittedChanges(t *testing.T) {
	w := newWorld(t)
	s := w.person("alice", t.TempDir())
	v, err := s.Open(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if lines := s.Footer(t.Context(), "other"); len(lines) != 1 || !strings.HasPrefix(lines[0], `[view] opened a new view "other" at commit `) {
		t.Errorf("first footer %q", lines)
	}
	v.edit(t, "a.go", "return 1", "return 11")
	v.edit(t, "a.go", "return 2", "return 22")
	if err := v.WriteFile(t.Context(), "ignored/x.txt", []byte("kept all the same")); err != nil {
		t.Fatal(err)
	}
	want := `[session] 3 uncommitted changes of view "other" in 2 files (commit to keep, abort to discard); idle sessions end after 30 m`
	if lines := s.Footer(t.Context(), "other"); len(lines) != 1 || lines[0] != want {
		t.Errorf("footer %q", lines)
	}
	if lines := s.Footer(t.Context(), "main"); lines != nil {
		t.Errorf("a view that is not open says %q", lines)
	}
}

func TestLostWorkIsKept(t *testing.T) {
	w := newWorld(t)
	state := t.TempDir()
	first := w.person("alice", state)
	v, err := first.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	v.edit(t, "a.go", "return 1", "return 11")
	first.Close("the lease ran out")

	second := w.person("alice", state)
	v, err = second.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	v.edit(t, "a.go", "return 2", "return 22")
	second.mu.Lock()
	second.lock.Close() // what the kernel does when the worker is killed
	second.mu.Unlock()

	third := w.person("alice", state)
	lost, err := third.Lost(t.Context())
	if err != nil || len(lost) != 2 {
		t.Fatalf("lost work %+v, %v", lost, err)
	}
	for i, want := range []string{"return 22", "return 11"} {
		l := lost[i]
		if !strings.HasPrefix(l.Ref, "refs/gatehouse/lost/2") || !strings.HasSuffix(l.Ref, "-alice") {
			t.Errorf("ref %s", l.Ref)
		}
		if got := w.git(l.Repository, "-c", "safe.directory=*", "show", l.Ref+":a.go"); !strings.Contains(got, want) {
			t.Errorf("%s holds:\n%s", l.Ref, got)
		}
	}
	if !strings.Contains(lost[1].Subject, "the lease ran out") {
		t.Errorf("subject %q", lost[1].Subject)
	}
	if left, _ := filepath.Glob(filepath.Join(state, "sessions", "*", "*")); len(left) != 0 {
		t.Errorf("folders left: %v", left)
	}
	third.SetPolicy(false, time.Nanosecond)
	if _, err := third.Open(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	if lost, err := third.Lost(t.Context()); err != nil || len(lost) != 0 {
		t.Errorf("after keep_lost: %v, %v", lost, err)
	}
}

func TestHooksRunOnlyWhenTheOperatorSaysSo(t *testing.T) {
	w := newWorld(t)
	write(t, w.repo, "hooks/pre-receive", "#!/bin/sh\necho not today >&2\nexit 1\n")
	if err := os.Chmod(filepath.Join(w.repo, "hooks/pre-receive"), 0o755); err != nil {
		t.Fatal(err)
	}
	v := w.view("alice")
	v.edit(t, "a.go", "return 1", "return 11")
	v.set.SetPolicy(true, time.Hour)
	_, err := v.Commit(t.Context(), "")
	if kind(err) != toolsets.Refused || !strings.Contains(err.Error(), "a hook of the shared repository declined") || !strings.Contains(err.Error(), "not today") {
		t.Fatalf("with hooks: %v", err)
	}
	v.set.SetPolicy(false, time.Hour)
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Errorf("without hooks: %v", err)
	}
}

func TestPathsStayInsideTheView(t *testing.T) {
	w := newWorld(t)
	v := w.view("alice")
	outside := t.TempDir()
	for link, to := range map[string]string{"out": outside, "file": filepath.Join(outside, "f"), "in": "sub"} {
		if err := os.Symlink(to, filepath.Join(v.Dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", ".", "/etc/x", "../x", "a/../../x", ".git/config", "sub/.GIT/x", "out/x", "file", "in/x", "a//b"} {
		if err := v.WriteFile(t.Context(), name, []byte("x")); err == nil {
			t.Errorf("wrote %q", name)
		}
		if err := v.RemoveFile(name); err == nil {
			t.Errorf("removed %q", name)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("outside: %v", left)
	}
	if _, err := v.ReadFile("out/x"); err == nil {
		t.Error("read through a link out of the view")
	}
	odd := "sub dir/--exec=x\n.txt"
	if err := v.WriteFile(t.Context(), odd, []byte("odd")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Commit(t.Context(), "--amend"); err != nil {
		t.Fatal(err)
	}
	if got := w.git(w.repo, "show", "main:"+odd); got != "odd" {
		t.Errorf("odd name holds %q", got)
	}
	if got := w.git(w.repo, "log", "-1", "--format=%s", "main"); got != "--amend" {
		t.Errorf("subject %q", got)
	}
}

func TestViewsOfOneSession(t *testing.T) {
	w := newWorld(t)
	s := w.person("alice", t.TempDir())
	a, err := s.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Open(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	a.edit(t, "a.go", "return 1", "return 11")
	if ch, err := b.Changes(t.Context()); err != nil || len(ch) != 0 {
		t.Errorf("view b: %v, %v", ch, err)
	}
	for i := range MaxViews - 2 {
		if _, err := s.Open(t.Context(), fmt.Sprint("v", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Open(t.Context(), "ninth"); kind(err) != toolsets.Refused {
		t.Errorf("ninth view: %v", err)
	}
	info, err := a.Info(t.Context())
	if err != nil || info.Subject != "Seed" || info.Behind != 0 || len(info.Changes) != 1 || !slices.Equal(info.Changes[0].Declarations, []string{"One"}) {
		t.Errorf("info %+v, %v", info, err)
	}
}

package view

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/toolsets"
)

// attributed makes the shared repository one with a working tree, whose files
// have attributes that convert them there: what is in Git is in stored.
func attributed(t *testing.T) (w *world, clone string, stored map[string]string) {
	w = newWorld(t)
	clone = filepath.Join(t.TempDir(), "clone")
	w.git("", "clone", "--quiet", w.repo, clone)
	stored = map[string]string{
		".gitattributes": "*.txt text\n*.bat text eol=crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16 text\n*.auto text=auto\n*.eol eol=lf\n*.filtered filter=x\n",
		"a.bat":          "one\ntwo\n", "a.id": "$Id$\nx\n", "a.u16": "wide\n", "a.auto": "x\n", "a.eol": "x\n", "a.filtered": "x\n",
	}
	for name, text := range stored {
		if name == "a.u16" {
			text = "\xff\xfew\x00i\x00d\x00e\x00\n\x00"
		}
		write(t, clone, name, text)
	}
	w.git(clone, "add", ".")
	w.git(clone, "commit", "--quiet", "-m", "Attributes")
	w.repo = clone
	return w, clone, stored
}

// TestAttributesDoNotConvert: a view holds what is stored, byte for byte, what a
// commit stores is what the view holds, and other working trees stay clean.
func TestAttributesDoNotConvert(t *testing.T) {
	w, clone, stored := attributed(t)
	v := w.view("alice")
	if ch, err := v.Changes(t.Context()); err != nil || len(ch) != 0 {
		t.Errorf("changes of a fresh view: %+v, %v", ch, err)
	}
	for name, text := range stored {
		if b, err := v.ReadFile(name); name != ".gitattributes" && (err != nil || string(b) != text) {
			t.Errorf("%s in the view: %q, %v", name, b, err)
		}
	}
	for name, text := range stored {
		if name != ".gitattributes" {
			if err := v.WriteFile(t.Context(), name, []byte(text+"more x\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for name, text := range stored {
		if got := w.git(clone, "cat-file", "blob", "main:"+name); name != ".gitattributes" && got != text+"more x" {
			t.Errorf("%s in Git: %q", name, got)
		}
	}
	if got := w.status(clone, "a.bat", "a.id", "a.u16", "a.auto", "a.eol"); got != "" {
		t.Errorf("the owner's working tree:\n%s", got)
	}
	if b, err := os.ReadFile(filepath.Join(clone, "a.bat")); err != nil || string(b) != "one\r\ntwo\r\nmore x\r\n" {
		t.Errorf("the owner's a.bat: %q, %v", b, err)
	}
}

var long = time.Unix(1_000_000_000, 0)

// TestOldLineEndsStay: what is stored unlike the attributes say was so before:
// it is no change of a view, and stays so in the lines around one.
func TestOldLineEndsStay(t *testing.T) {
	w := newWorld(t)
	seed := filepath.Join(t.TempDir(), "seed")
	w.git("", "clone", "--quiet", w.repo, seed)
	const old = "one\r\ntwo\r\n$Id: x$\n"
	write(t, seed, "old.dat", old)
	w.git(seed, "add", ".")
	write(t, seed, ".gitattributes", "*.dat text ident\n")
	w.git(seed, "add", ".gitattributes")
	w.git(seed, "commit", "--quiet", "-m", "Attributes")
	w.git(seed, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	v := w.view("alice")
	if ch, err := v.Changes(t.Context()); err != nil || len(ch) != 0 {
		t.Errorf("changes of a fresh view: %+v, %v", ch, err)
	}
	v.edit(t, "old.dat", "two", "three\r\nfour")
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got := w.git(w.repo, "cat-file", "blob", "main:old.dat"); got != "one\r\nthree\r\nfour\r\n$Id: x$" {
		t.Errorf("in Git: %q", got)
	}
}

// status has git look at what files of a working tree hold, whatever it knows of
// them.
func (w *world) status(dir string, names ...string) string {
	for _, n := range names {
		if err := os.Chtimes(filepath.Join(dir, n), long, long); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.git(dir, append([]string{"status", "--porcelain", "--"}, names...)...)
}

// TestNoForeignLineEnds: what Git would never store in a file it is not given:
// it would be a change in every other working tree, and end all commits to a
// repository that has one.
func TestNoForeignLineEnds(t *testing.T) {
	w, clone, _ := attributed(t)
	v := w.view("alice")
	for name, text := range map[string]string{"notes.txt": "a\r\nb\r\n", "new.txt": "a\r\n", "a.id": "$Id: 12$\r\n", "a.auto": "a\r\n", "a.eol": "a\r\n"} {
		if err := v.WriteFile(t.Context(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"notes.txt": "a\nb", "new.txt": "a", "a.id": "$Id$\r", "a.auto": "a\r", "a.eol": "a"} {
		if got := w.git(clone, "cat-file", "blob", "main:"+name); got != want {
			t.Errorf("%s in Git: %q", name, got)
		}
	}
	if b, err := v.ReadFile("notes.txt"); err != nil || string(b) != "a\nb\n" {
		t.Errorf("notes.txt in the view: %q, %v", b, err)
	}
	if got := w.status(clone, "notes.txt", "new.txt", "a.id", "a.auto", "a.eol"); got != "" {
		t.Errorf("the owner's working tree:\n%s", got)
	}
	if n := strings.Join(v.takeNotes(), "\n"); !strings.Contains(n, "as .gitattributes wants it: a.eol, a.id, new.txt, notes.txt") {
		t.Errorf("notes: %s", n)
	}
	// The same once more is no change, and a conflict leaves the view as it was.
	if err := v.WriteFile(t.Context(), "notes.txt", []byte("a\r\nb\r\n")); err != nil {
		t.Fatal(err)
	}
	if res, err := v.Commit(t.Context(), ""); err != nil || res.Commit != "" {
		t.Errorf("the same once more: %+v, %v", res, err)
	}
	bob := w.view("bob")
	for _, c := range []struct {
		v    *View
		text string
	}{{v, "x\r\nb\r\n"}, {bob, "y\r\nb\r\n"}} {
		if err := c.v.WriteFile(t.Context(), "notes.txt", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bob.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Commit(t.Context(), ""); kind(err) != toolsets.Conflict {
		t.Errorf("a conflict: %v", err)
	}
	if b, err := v.ReadFile("notes.txt"); err != nil || string(b) != "x\r\nb\r\n" {
		t.Errorf("after a conflict: %q, %v", b, err)
	}
}

// TestPipesAreNotWaitedFor: a pipe that a test has left where a file was can be
// looked at and written over.
func TestPipesAreNotWaitedFor(t *testing.T) {
	v := newWorld(t).view("alice")
	for range 2 {
		if err := os.Remove(filepath.Join(v.Dir, "a.go")); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(v.Dir, "a.go"), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := v.ReadFile("a.go"); err == nil {
			t.Errorf("read %q", b)
		}
		if err := v.WriteFile(t.Context(), "a.go", []byte(fileA)); err != nil {
			t.Fatal(err)
		}
		if b, err := v.ReadFile("a.go"); err != nil || string(b) != fileA {
			t.Errorf("read %q, %v", b, err)
		}
		if _, err := v.Changes(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"a.go", "d/pipe"} {
		write(t, v.Dir, name, "")
		if err := os.Remove(filepath.Join(v.Dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(filepath.Join(v.Dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v.Touched()
	if _, err := v.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(v.Dir, "d/pipe")); err == nil {
		t.Error("abort has left a pipe")
	}
	if b, err := v.ReadFile("a.go"); err != nil || string(b) != fileA {
		t.Errorf("after abort: %q, %v", b, err)
	}
}

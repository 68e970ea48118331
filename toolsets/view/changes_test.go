package view

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestChangesAreWhatGitSays writes and removes files through the view at random
// and beside it, and compares the changes with those that git finds.
func TestChangesAreWhatGitSays(t *testing.T) {
	v := newWorld(t).view("alice")
	seed := rand.Uint64()
	t.Logf("random seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a.go", "b.go", "d/c.go", "d.go", "notes.txt", "ignored/x.go"}
	texts := []string{fileA, "package p\n\nfunc One() int { return 1 }\n", "package p\n\nfunc One() int { return 2 }\n\nfunc Two() {}\n", "no go\n", "package p\r\n\r\nfunc R() {}\r\n"}
	known := 0
	for step := range 40 {
		name := names[r.IntN(len(names))]
		switch _, err := os.Lstat(filepath.Join(v.Dir, name)); {
		case r.IntN(8) == 0: // a test does
			write(t, v.Dir, names[r.IntN(5)], texts[r.IntN(len(texts))])
			v.Touched()
		case r.IntN(4) == 0 && err == nil:
			if err := v.RemoveFile(name); err != nil {
				t.Fatal(err)
			}
		default:
			if err := v.WriteFile(t.Context(), name, []byte(texts[r.IntN(len(texts))])); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(3) == 0 {
			continue // several at once
		}
		if _, ok := v.knownChanges(); ok {
			known++
		}
		got, err := v.Changes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append([]Change{}, got...)
		v.Touched()
		want, err := v.Changes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d:\n%+v\ngit says\n%+v", step, got, want)
		}
	}
	if known == 0 {
		t.Error("git was asked each time")
	}
}

// TestEditsDoNotAskGit: the reminder after an edit costs no git command, and
// neither does a second edit of a file.
func TestEditsDoNotAskGit(t *testing.T) {
	v := newWorld(t).view("alice")
	v.edit(t, "a.go", "return 1", "return 11")
	if _, err := v.Changes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(v.git.gitDir, v.git.gitDir+".away"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := v.WriteFile(t.Context(), "a.go", fmt.Appendf(nil, "package p\n\nfunc F() int { return %d }\n", i)); err != nil {
			t.Fatal(err)
		}
		if ch, err := v.Changes(t.Context()); err != nil || len(ch) != 1 || ch[0].Path != "a.go" {
			t.Errorf("changes %+v, %v", ch, err)
		}
	}
	if err := os.Rename(v.git.gitDir+".away", v.git.gitDir); err != nil {
		t.Fatal(err)
	}
}

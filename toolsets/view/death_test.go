package view

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLocksOfTheDead: a commit that was killed in a bad moment leaves lock files
// in the shared repository. Those who wait remove them, and go on one by one.
func TestLocksOfTheDead(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.view("alice"), w.view("bob")
	alice.edit(t, "a.go", "return 1", "return 11")
	bob.edit(t, "a.go", "return 2", "return 22")
	for _, name := range []string{"refs/heads/main.lock", "HEAD.lock"} {
		if err := os.WriteFile(filepath.Join(w.repo, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	alice.set.shared.patience, bob.set.shared.patience = time.Second, time.Second
	for _, v := range []*View{alice, bob} {
		wg.Go(func() {
			if res, err := v.Commit(context.Background(), ""); err != nil || res.Commit == "" {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	if n := w.git(w.repo, "rev-list", "--count", "main"); n != "3" {
		t.Errorf("%s commits", n)
	}
}

// TestLocksOfTheLivingAreRespected: a lock file that changes belongs to somebody.
func TestLocksOfTheLivingAreRespected(t *testing.T) {
	name := filepath.Join(t.TempDir(), "main.lock")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	// Another commit's file, which may even have the same number.
	if err := os.Chtimes(name, time.Time{}, before.ModTime().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := takeOver(name, before); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(name); err != nil {
		t.Error("the lock of somebody else was removed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitLock(ctx, name, time.Hour); err == nil {
		t.Error("waiting does not end with the call")
	}
	if err := awaitLock(t.Context(), name+".none", time.Hour); err != nil {
		t.Errorf("without a lock: %v", err)
	}
}

// TestDeathWhileAnotherTreeIsLookedAt: while a merge is checked the view's folder
// holds the other side's files. Whoever dies then has lost their own.
func TestDeathWhileAnotherTreeIsLookedAt(t *testing.T) {
	w := newWorld(t)
	alice := w.view("alice")
	state := t.TempDir()
	set := w.person("bob", state)
	looks := 0
	set.SetChecker(func(_ context.Context, v *View) ([]string, error) {
		switch looks++; looks {
		case 2:
			return []string{"a.go:1:1: broken by the merge"}, nil
		case 3: // the head alone is in the folder now
			if b, err := v.ReadFile("a.go"); err != nil || strings.Contains(string(b), "return 22") {
				t.Errorf("this is not the other side's tree: %s, %v", b, err)
			}
			if w.git(v.Dir, "for-each-ref", asideRef) == "" {
				t.Error("nothing says what the view's own tree is")
			}
			// What a crash leaves is the session's folder as it is now.
			if err := os.CopyFS(filepath.Dir(v.Dir)+"-dead", os.DirFS(filepath.Dir(v.Dir))); err != nil {
				t.Fatal(err)
			}
		}
		return nil, nil
	})
	bob, err := set.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	alice.edit(t, "a.go", "return 1", "return 11")
	if _, err := alice.Commit(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	bob.edit(t, "a.go", "return 2", "return 22")
	_, _ = bob.Commit(t.Context(), "")
	if looks != 3 {
		t.Fatalf("the checker looked %d times", looks)
	}
	lost, err := set.Lost(t.Context())
	if err != nil || len(lost) != 1 {
		t.Fatalf("lost work %+v, %v", lost, err)
	}
	if got := w.git(lost[0].Repository, "-c", "safe.directory=*", "show", lost[0].Ref+":a.go"); !strings.Contains(got, "return 22") || strings.Contains(got, "return 11") {
		t.Errorf("%s holds:\n%s", lost[0].Ref, got)
	}
	if left := w.git(bob.Dir, "for-each-ref", asideRef); left != "" {
		t.Errorf("the note is still there: %s", left)
	}
}

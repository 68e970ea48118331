package testing

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/view"
)

const waiting = `
-- go.mod --
module example.com/m

go 1.24
-- a_test.go --
package m

import (
	"os"
	"testing"
	"time"
)

func TestWaits(t *testing.T) {
	if err := os.WriteFile("started", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := os.Stat("edited.go"); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("nobody edited")
}
`

// TestFilesCanBeEditedWhileTestsRun: an edit does not wait for the tests, and the
// answer says that there was one. What moves the view waits.
func TestFilesCanBeEditedWhileTestsRun(t *testing.T) {
	b := toolsettest.New(t, waiting, sets)
	b.OK("list_tests", nil)
	v, err := b.Set.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		a := b.Call("run_test", map[string]any{"package": "m", "test": "TestWaits"})
		answer <- a.Text
	}()
	for {
		if _, err := os.Stat(filepath.Join(v.Dir, "started")); err == nil {
			break
		}
		select {
		case got := <-answer:
			t.Fatalf("the test did not start: %s", got)
		case <-time.After(10 * time.Millisecond):
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := v.Lock(short, view.Move); err == nil {
		t.Error("the view could be moved under a running test")
	}
	unlock, err := v.Lock(t.Context(), view.Write)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.WriteFile(t.Context(), "edited.go", []byte("package m\n")); err != nil {
		t.Fatal(err)
	}
	unlock()
	got := <-answer
	for _, want := range []string{"TestWaits passed", "\n[view] files were edited while the tests ran"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	unlock, err = v.Lock(t.Context(), view.Move)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

package filestate

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, path string) State {
	t.Helper()
	s, err := Of(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestChangesShow: each way in which a file can change is another state, even when
// size and modification time are put back.
func TestChangesShow(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, path string)
	}{
		{"longer", func(t *testing.T, path string) { write(t, path, "alice:x:1000:extra") }},
		{"as long", func(t *testing.T, path string) { write(t, path, "bobby:x:1000") }},
		{"replaced", func(t *testing.T, path string) {
			write(t, path+".new", "bobby:x:1000")
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}},
		{"mode", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o640); err != nil {
				t.Fatal(err)
			}
		}},
		{"time put back", func(t *testing.T, path string) {
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, "bobby:x:1000")
			if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "passwd")
			write(t, path, "alice:x:1000")
			before := state(t, path)
			if before != state(t, path) {
				t.Fatal("a file that nobody touched has two states")
			}
			time.Sleep(20 * time.Millisecond) // more than a step of the kernel's clock
			tt.change(t, path)
			if before == state(t, path) {
				t.Error("the change does not show")
			}
		})
	}
}

func TestSettled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	write(t, path, "alice:x:1000")
	s, now := state(t, path), time.Now()
	if s.Settled(now) {
		t.Error("settled at once: a change within the same tick of the clock would not show")
	}
	if s.Settled(now.Add(-time.Hour)) {
		t.Error("settled although it changed in what is the future")
	}
	if !s.Settled(now.Add(settle + time.Second)) {
		t.Error("never settled")
	}
	if (State{}).Settled(now) {
		t.Error("no file is settled")
	}
}

func TestDescriptorAndPathAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	write(t, path, "alice:x:1000")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := OfFD(f.Fd())
	if err != nil || s != state(t, path) {
		t.Errorf("%+v, %v, want %+v", s, err, state(t, path))
	}
	if _, err := Of(path + ".absent"); !os.IsNotExist(err) {
		t.Errorf("an absent file: %v", err)
	}
}

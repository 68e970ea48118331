package conf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRealHost asks the machine itself, with files of this test.
func TestRealHost(t *testing.T) {
	h, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.exposed(file); err != nil {
		t.Errorf("a file of our own: %v", err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := h.exposed(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that everybody may write: %v", err)
	}
	if err := h.exposed(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := h.ReadFile(dir); err == nil {
		t.Error("a folder can be read as a file")
	}
	if b, err := h.ReadFile(file); err != nil || string(b) != "x" {
		t.Errorf("%q %v", b, err)
	}
	if _, _, err := h.LookupUser("no-such-account-here"); err == nil {
		t.Error("found an account that is not there")
	}
	if uid, gid, err := h.LookupUser("root"); err != nil || uid != 0 || gid != 0 {
		t.Errorf("root: %d %d %v", uid, gid, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if got := h.closed(file); got != file {
		t.Errorf("closed: %q", got)
	}
	if got := h.closed("/etc"); got != "" {
		t.Errorf("closed /etc: %q", got)
	}
}

// TestReadFileHasALimit: a file that never ends must not fill the memory.
func TestReadFileHasALimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, maxRead+1); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(file); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("got %v", err)
	}
}

package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// watch knows what a part of the file system was.
type watch struct {
	dirs   []string
	except []string
	before map[string]string
}

// newWatch looks at everything below some folders but what is excepted.
func newWatch(t *testing.T, dirs []string, except ...string) *watch {
	t.Helper()
	w := &watch{dirs: dirs, except: append(except, accountFiles...)}
	w.before = w.look(t)
	return w
}

// accountFiles are what the machine's own programs write at any time.
var accountFiles = func() []string {
	out := []string{"/etc/.pwd.lock"}
	for _, n := range []string{"passwd", "group", "shadow", "gshadow", "subuid", "subgid"} {
		out = append(out, "/etc/"+n, "/etc/"+n+"-", "/etc/"+n+".lock", "/etc/"+n+"+")
	}
	return out
}()

func (w *watch) look(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range w.dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil && name == dir {
				return err // nothing would be watched
			}
			if slices.Contains(w.except, name) {
				if d != nil && d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if err != nil {
				return nil
			}
			fi, err := d.Info()
			switch {
			case err != nil:
			case d.IsDir():
				out[name] = fi.Mode().String()
			default:
				out[name] = fi.ModTime().String() + " " + fi.Mode().String()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// changes names what was made, changed or removed since.
func (w *watch) changes(t *testing.T) []string {
	t.Helper()
	now := w.look(t)
	var out []string
	for name, s := range now {
		if w.before[name] != s {
			out = append(out, name)
		}
	}
	for name := range w.before {
		if _, ok := now[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TestTheWatchSeesChanges, or the tests below it would prove nothing.
func TestTheWatchSeesChanges(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		if err := os.WriteFile(at(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{"changed", "removed", "mode", "kept"} {
		write(n)
	}
	if err := os.Mkdir(at("free"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWatch(t, []string{dir}, at("free"))
	if c := w.changes(t); len(c) != 0 {
		t.Errorf("at first: %v", c)
	}
	write("changed")
	write("free/x")
	write("made")
	if err := os.Remove(at("removed")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at("mode"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := w.changes(t), []string{at("changed"), at("made"), at("mode"), at("removed")}; !slices.Equal(got, want) {
		t.Errorf("seen: %v", got)
	}
}

// children lists the processes whose parent is pid.
func children(pid int) []string {
	var out []string
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		stat, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue
		}
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(out, string(stat))
		}
	}
	return out
}

func TestLeftProcessesAreSeen(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if kids := children(os.Getpid()); len(kids) == 0 || !strings.Contains(strings.Join(kids, "\n"), "(sleep)") {
		t.Errorf("seen: %v", kids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

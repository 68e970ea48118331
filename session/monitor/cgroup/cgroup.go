// Package cgroup keeps every worker in a control group of its own (cgroup v2), so
// that its whole process tree can be signalled and killed, however it forks. No
// controllers are used: containment is all that is wanted, and so it also works
// on hosts whose controllers are bound to the v1 hierarchies.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnavailable says that there is no writable cgroup v2 here; the reason is
// wrapped around it.
var ErrUnavailable = errors.New("cgroup v2 is not available")

// Base is the directory below which the groups of one monitor lie.
type Base struct {
	path string

	mu    sync.Mutex // guards what follows
	made  int        // groups so far, for their names
	spare []*place   // empty, and nobody's
	rest  *time.Timer
}

// Open makes a directory of that name, or takes it over with all that is left in
// it, below the control group of this process.
func Open(name string) (*Base, error) {
	parent, err := own("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return openIn(parent, name)
}

func openIn(parent, name string) (*Base, error) {
	path := filepath.Join(parent, name)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	b := &Base{path: path}
	// cgroup.kill came with Linux 5.14; a cgroup that is not ours shows here too.
	if err := unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK); err != nil {
		unix.Rmdir(path)
		return nil, fmt.Errorf("%w: cgroup.kill: %w", ErrUnavailable, err)
	}
	return b, nil
}

// Path is the directory.
func (b *Base) Path() string { return b.path }

// Siblings returns the names of the directories beside b's own.
func (b *Base) Siblings() []string {
	return dirs(filepath.Dir(b.path), filepath.Base(b.path))
}

// Sweep kills everything in the sibling directory of that name and removes it.
func (b *Base) Sweep(sibling string) error {
	return destroy(filepath.Join(filepath.Dir(b.path), filepath.Base(sibling)), 2*time.Second)
}

// Clear kills everything in all groups below b and removes them.
func (b *Base) Clear() error {
	b.Tidy()
	var errs []error
	for _, d := range dirs(b.path, "") {
		errs = append(errs, destroy(filepath.Join(b.path, d), 2*time.Second))
	}
	return errors.Join(errs...)
}

// Close kills what is left and removes the directory.
func (b *Base) Close() error {
	b.Tidy()
	return destroy(b.path, 2*time.Second)
}

func kill(path string) error {
	f, err := os.OpenFile(filepath.Join(path, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString("1"); err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	return nil
}

// destroy removes a directory and those that a process inside made, deepest
// first. A directory can't be removed before the kernel has let go of the last
// process, some time after it died; one that can be is empty.
func destroy(path string, limit time.Duration) error {
	if err := unix.Rmdir(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := kill(path); err != nil {
		if removeTree(path) == nil { // nothing was in it
			return nil
		}
		return err
	}
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := removeTree(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		time.Sleep(pause)
		if pause > 10*time.Millisecond {
			kill(path)
		}
	}
}

func removeTree(path string) error {
	for _, d := range dirs(path, "") {
		if err := removeTree(filepath.Join(path, d)); err != nil {
			return err
		}
	}
	return unix.Rmdir(path)
}

// dirs returns the names of the directories in path, without one.
func dirs(path, without string) []string {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != without {
			names = append(names, e.Name())
		}
	}
	return names
}

// own finds the directory of this process in the v2 hierarchy.
func own(mountinfo, self string) (string, error) {
	root, mountpoint, err := findMount(mountinfo)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(self)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for line := range strings.Lines(string(b)) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		rel, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
		if !ok || strings.Contains(path, "..") || (rel != "" && rel[0] != '/') {
			return "", fmt.Errorf("%w: our group is outside of what is mounted", ErrUnavailable)
		}
		return filepath.Join(mountpoint, rel), nil
	}
	return "", fmt.Errorf("%w: this process is in none", ErrUnavailable)
}

// findMount returns root and mount point of the cgroup2 filesystem
// (proc_pid_mountinfo(5)).
func findMount(mountinfo string) (root, mountpoint string, err error) {
	f, err := os.Open(mountinfo)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		before, after, ok := strings.Cut(sc.Text(), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(mount) >= 5 && len(kind) > 0 && kind[0] == "cgroup2" {
			return unescape(mount[3]), unescape(mount[4]), nil
		}
	}
	return "", "", fmt.Errorf("%w: it is not mounted", ErrUnavailable)
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

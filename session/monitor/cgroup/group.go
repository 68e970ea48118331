package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSpare is how many empty groups are kept for the next workers.
	maxSpare = 16
	// spareRest is how long they are kept when no worker ends.
	spareRest = 2 * time.Second
	// signalAtOnce is how many processes are held open to be signalled: a worker that
	// forks without end must not use up our descriptors.
	signalAtOnce = 64
)

// Group is one worker's control group. What is asked of it after Release has no
// effect: its directory may be another worker's by then.
type Group struct {
	base *Base

	mu    sync.Mutex // held while its processes are looked for or signalled
	place *place     // nil once released
}

// place is the directory of a group, with what is held open of it.
type place struct {
	path   string
	dir    *os.File
	events int  // cgroup.events
	killed bool // by cgroup.kill: Linux kills what is started in it later, too (seen with 6.18)
}

// New gives out a group with nothing in it: one that a worker has left, or a new one.
func (b *Base) New() (*Group, error) {
	b.mu.Lock()
	if n := len(b.spare); n > 0 {
		p := b.spare[n-1]
		b.spare = b.spare[:n-1]
		b.mu.Unlock()
		return &Group{base: b, place: p}, nil
	}
	b.made++
	path := filepath.Join(b.path, "w"+strconv.Itoa(b.made))
	b.mu.Unlock()
	p, err := newPlace(path)
	if err != nil {
		return nil, err
	}
	return &Group{base: b, place: p}, nil
}

func newPlace(path string) (*place, error) {
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Rmdir(path)
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	p := &place{path: path, dir: os.NewFile(uintptr(dir), path)}
	if p.events, err = unix.Openat(dir, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		p.dir.Close()
		unix.Rmdir(path)
		return nil, fmt.Errorf("open cgroup.events: %w", err)
	}
	return p, nil
}

// empty reports whether no process lives in the group or in one below it. Zombies do
// not count, for the kernel neither: it is what rmdir looks at as well.
func (p *place) empty() bool {
	var b [256]byte
	n, err := unix.Pread(p.events, b[:], 0)
	return err == nil && strings.Contains("\n"+string(b[:n]), "\npopulated 0\n")
}

// remove kills what is in the directory and removes it.
func (p *place) remove(limit time.Duration) error {
	unix.Close(p.events)
	p.dir.Close()
	return destroy(p.path, limit)
}

// keep takes a place for the next worker, if it is empty for good: nobody but root can
// put a process or a group into what is root's. One that had to be killed is not kept.
func (b *Base) keep(p *place) bool {
	if unix.Geteuid() != 0 || p.killed || !p.empty() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spare) >= maxSpare {
		return false
	}
	b.spare = append(b.spare, p)
	if b.rest == nil {
		b.rest = time.AfterFunc(spareRest, b.Tidy)
	} else {
		b.rest.Reset(spareRest)
	}
	return true
}

// Tidy removes the groups that are kept.
func (b *Base) Tidy() {
	b.mu.Lock()
	spare := b.spare
	b.spare = nil
	b.mu.Unlock()
	for _, p := range spare {
		p.remove(time.Second) // what can't be removed now is when the service ends
	}
}

// Release kills what is in the group, waits until it is empty and gives it back. It
// gives up after limit. It may be repeated.
func (g *Group) Release(limit time.Duration) error {
	g.mu.Lock()
	p := g.place
	g.place = nil
	g.mu.Unlock()
	if p == nil || g.base.keep(p) {
		return nil
	}
	return p.remove(limit)
}

// Dir is the directory, to start a process in; nil after Release.
// Whoever has it does not close it.
func (g *Group) Dir() *os.File {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.place == nil {
		return nil
	}
	return g.place.dir
}

// Signal signals every process in the group.
func (g *Group) Signal(sig syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	pids, err := g.procs()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(pids, signalAtOnce) {
		if err := g.signalSome(some, sig); err != nil {
			return err
		}
	}
	return nil
}

// signalSome signals those of the processes that are in the group. g.mu is held.
func (g *Group) signalSome(pids []int, sig syscall.Signal) error {
	fds := make(map[int]int, len(pids))
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
			defer unix.Close(fd)
		}
	}
	again, err := g.procs() // what is still there after it was opened is what was meant
	if err != nil {
		return err
	}
	for pid, fd := range fds {
		if slices.Contains(again, pid) {
			unix.PidfdSendSignal(fd, sig, nil, 0)
		}
	}
	return nil
}

// procs is Processes with g.mu held.
func (g *Group) procs() ([]int, error) {
	if g.place == nil {
		return nil, nil
	}
	b, err := os.ReadFile(filepath.Join(g.place.path, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("read cgroup: %w", err)
	}
	var pids []int
	for f := range strings.FieldsSeq(string(b)) {
		// 0 is a process of another pid namespace, which can't be signalled.
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Processes are the ids of the processes in the group.
func (g *Group) Processes() ([]int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.procs()
}

// Kill kills every process in the group at once, also those being forked.
func (g *Group) Kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.place == nil {
		return nil
	}
	g.place.killed = true
	return kill(g.place.path)
}

// Package proc starts child processes and learns of their end. All of them are
// started by goroutines that hold their threads for ever, because the kernel
// sends a child's death signal when the thread that started it ends. Nothing in
// a process that uses this package may use os/exec.
package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"gatehouse/session/folder"
)

// ErrRoot is returned for a child that would run as root and was not declared to.
var ErrRoot = errors.New("start process: it would run as root")

// Identity is whom a child runs as.
type Identity struct {
	UID, GID uint32
	Groups   []uint32 // all supplementary groups; nil: none
}

// Spec describes a child completely: nothing is inherited but the limits, the
// umask and the attributes that the whole process was locked to.
type Spec struct {
	Path  string   // absolute
	Argv  []string // with the name first
	Env   []string // nil: an empty environment
	Dir   string   // working directory, absolute, entered as the child's user: see FolderError
	Files []*os.File
	// As is the child's identity, which comes with an empty session keyring; nil: ours,
	// which must not be root, with our keyring.
	As *Identity
	// Cgroup is a directory of the unified hierarchy to start in; nil: ours.
	Cgroup *os.File
	// Label, if not 0, marks the child and all that descend from it, for Labelled.
	Label uint64
	// Batch has the child, and all that descend from it, take the processor from nobody
	// when it wakes up: see batch.
	Batch bool
	// SameSession leaves the child in our session, in a process group of its own.
	// The zero value gives it a session of its own.
	SameSession bool
	// RunsAsRootOnPurpose lets the child be root: the guard's monitor alone.
	RunsAsRootOnPurpose bool
	// KeepPIDFD has a second pidfd made, for TakePIDFD.
	KeepPIDFD bool
	// OutlivesUs leaves out the death signal that ends the child with us.
	OutlivesUs bool
}

// Host starts processes. There is one in a program.
type Host struct {
	jobs     chan *job
	starters atomic.Int64 // threads that take jobs
	entering atomic.Int64 // those of them that are entering a folder
	folders  folder.Turns
	groups   []int // ours

	mu       sync.Mutex // held while a child is made and while orphans are reaped
	children map[int]*Child
}

// NewHost returns a Host. Its goroutine and thread stay for the life of the
// program.
func NewHost() *Host {
	h := &Host{jobs: make(chan *job), children: make(map[int]*Child)}
	h.groups, _ = unix.Getgroups() // it can fail for a wrong argument alone
	h.starters.Add(1)
	go h.starter()
	return h
}

// start runs on a starter's thread. dir is the folder that the child enters; "": the
// thread's own.
func (h *Host) start(s *Spec, dir string) (*Child, error) {
	fds, err := numbers(s.Files)
	if err != nil {
		return nil, err
	}
	pidfd := -1
	sys := &syscall.SysProcAttr{
		Setsid:  !s.SameSession,
		Setpgid: s.SameSession,
		PidFD:   &pidfd,
	}
	if !s.OutlivesUs {
		sys.Pdeathsig = syscall.SIGKILL
	}
	if s.As != nil {
		sys.Credential = &syscall.Credential{Uid: s.As.UID, Gid: s.As.GID, Groups: s.As.Groups}
	}
	if s.Cgroup != nil {
		n, err := numbers([]*os.File{s.Cgroup})
		if err != nil {
			return nil, err
		}
		sys.UseCgroupFD, sys.CgroupFD = true, int(n[0])
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: s.Env, Files: fds, Sys: sys}
	if attr.Env == nil {
		attr.Env = []string{}
	}
	if s.Batch {
		defer batch()()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.Label != 0 { // which is the whole process' for the moment
		restore, err := label(s.Label)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	if err := s.refuseRoot(); err != nil { // last, so that nothing changes the answer
		return nil, err
	}
	pid, err := syscall.ForkExec(s.Path, s.Argv, attr)
	runtime.KeepAlive(s)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Path, err)
	}
	c, err := newChild(h, pid, pidfd, s.KeepPIDFD)
	if err != nil {
		unix.Kill(pid, unix.SIGKILL)
		reap(pid)
		return nil, err
	}
	h.children[pid] = c
	return c, nil
}

// refuseRoot is the hard check: whatever was decided before, no child is root
// unless its spec says so in words.
func (s *Spec) refuseRoot() error {
	if s.RunsAsRootOnPurpose {
		return nil
	}
	if s.As == nil {
		r, e, saved := unix.Getresuid()
		if r == 0 || e == 0 || saved == 0 {
			return ErrRoot
		}
		return nil
	}
	const nobody = ^uint32(0) // -1 leaves an id as it is
	if s.As.UID == 0 || s.As.GID == 0 || s.As.UID == nobody || s.As.GID == nobody || slices.Contains(s.As.Groups, 0) {
		return ErrRoot
	}
	return nil
}

// numbers returns the descriptors of files; nil leaves its number closed.
func numbers(files []*os.File) ([]uintptr, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = ^uintptr(0)
		if f == nil {
			continue
		}
		rc, err := f.SyscallConn()
		if err == nil {
			err = rc.Control(func(fd uintptr) { fds[i] = fd })
		}
		if err != nil {
			return nil, fmt.Errorf("start process: descriptor %d: %w", i, err)
		}
	}
	return fds, nil
}

// reap waits for a child that is known to end.
func reap(pid int) (ws unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			return ws
		}
	}
}

// unblockSignals has no signal blocked in this thread.
func unblockSignals() {
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil) // fails for a bad address alone
}

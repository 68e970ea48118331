package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gatehouse/session/folder"
)

// A starter is a thread that makes children. While a child is made the whole process
// waits, until its program runs, so nothing may happen in between that can take long.
// The child's working folder is therefore entered before, by the starter, which has a
// working folder of its own for that, and the child inherits it. A folder that does not
// answer costs one starter, and there is another one then.

// FolderError is why a working folder was not entered. Nothing was started. Inside is a
// *folder.Silent for one that does not answer within folder.Limit, a *folder.Foreign for
// one on a file system of a user's, or what the system said.
type FolderError struct {
	Dir string
	Err error
}

func (e *FolderError) Error() string { return fmt.Sprintf("enter %s: %v", e.Dir, e.Err) }
func (e *FolderError) Unwrap() error { return e.Err }

// job is a child to start.
type job struct {
	spec  *Spec
	turn  *folder.Turn // to enter the folder; nil: one that need not be waited for
	fate  atomic.Int32
	reply chan result // with room for one
}

// What becomes of a job is decided once: its child is made, or nobody waits for it.
const (
	undecided int32 = iota
	started
	givenUp
)

func (j *job) decide(fate int32) bool { return j.fate.CompareAndSwap(undecided, fate) }

type result struct {
	child *Child
	err   error
}

// Start starts a child and returns when its program runs. The error of a program
// that can't be executed, a folder that can't be entered or an identity that
// can't be taken is a syscall.Errno inside; for folders see FolderError.
func (h *Host) Start(s Spec) (*Child, error) {
	if err := s.refuseRoot(); err != nil { // no thread takes rights that no child may have
		return nil, err
	}
	j := &job{spec: &s, reply: make(chan result, 1)}
	if folder.Local(s.Dir) {
		h.hand(j)
		if r := <-j.reply; r.err != folder.ErrMayWait {
			return r.child, r.err
		}
	}
	turn, err := h.folders.Take(s.Dir)
	if err != nil {
		return nil, &FolderError{s.Dir, err}
	}
	j.turn = turn
	h.hand(j)
	limit := time.NewTimer(folder.Limit)
	defer limit.Stop()
	select {
	case r := <-j.reply:
		return r.child, r.err
	case <-limit.C:
	}
	if j.decide(givenUp) {
		return nil, &FolderError{s.Dir, j.turn.Late()}
	}
	r := <-j.reply
	return r.child, r.err
}

// patience is how long a job waits for the starters before one is added.
const patience = 20 * time.Millisecond

// hand gives a job to a starter, and adds one when all others wait for folders.
func (h *Host) hand(j *job) {
	select {
	case h.jobs <- j:
		return
	default:
	}
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for {
		select {
		case h.jobs <- j:
			return
		case <-tick.C:
			if n := h.starters.Load(); h.entering.Load() >= n && h.starters.CompareAndSwap(n, n+1) {
				go h.starter()
			}
		}
	}
}

func (h *Host) starter() {
	runtime.LockOSThread() // for ever: see the package comment
	unblockSignals()       // here, and so in our children: whoever started us may have blocked some
	// Containers may forbid it, as they forbid to mount.
	own := unix.Unshare(unix.CLONE_FS) == nil
	for j := range h.jobs {
		c, err := h.serve(j, own)
		j.reply <- result{c, err}
		if errors.Is(err, errStillOther) {
			h.starters.Add(-1)
			select {} // the thread must not end, for its children's sake
		}
	}
}

// serve enters the child's folder and starts the child. own says whether the thread's
// working folder is its own; without one the child enters the folder, in the place that
// was looked at, whatever was mounted over it since.
func (h *Host) serve(j *job, own bool) (*Child, error) {
	s := j.spec
	h.entering.Add(1)
	fd, err := h.open(j, own)
	h.entering.Add(-1)
	if j.turn != nil {
		j.turn.Done()
	}
	switch {
	case err == folder.ErrMayWait:
		return nil, err
	case err != nil:
		return nil, &FolderError{s.Dir, err}
	}
	defer unix.Close(fd)
	dir := ""
	if own {
		defer unix.Chdir("/") // no mount is kept busy
	} else {
		dir = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	if !j.decide(started) {
		return nil, nil // nobody hears of it
	}
	return h.start(s, dir)
}

// open opens the child's folder, with the file rights of its account, and, when the
// thread's working folder is its own, enters it.
func (h *Host) open(j *job, own bool) (fd int, err error) {
	s, look := j.spec, folder.Open
	if j.turn == nil {
		look = folder.OpenQuick
	}
	if s.As == nil {
		return enter(s.Dir, look, own)
	}
	if err := emptyKeyring(); err != nil { // before: it gives rights to file systems as well
		return -1, err
	}
	if j.turn == nil {
		fd, err := look(s.Dir)
		switch {
		case err == folder.ErrMayWait:
			return -1, err
		case err == nil && folder.Enterable(fd, s.Dir, s.As.UID) && (!own || unix.Fchdir(fd) == nil):
			return fd, nil
		case err == nil:
			unix.Close(fd)
		}
	}
	err = assume(s.As)
	if err == nil {
		fd, err = enter(s.Dir, look, own)
	}
	if again := h.resume(); again != nil {
		if err == nil {
			unix.Close(fd)
		}
		err = again
	}
	return fd, err
}

// enter opens a folder and, if the thread's working folder is its own, enters it.
func enter(dir string, look func(string) (int, error), own bool) (fd int, err error) {
	if fd, err = look(dir); err != nil || !own {
		return fd, err
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Fchdir(fd)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// errStillOther is returned by a thread that could not become itself again.
var errStillOther = errors.New("the thread still has an account's file rights")

// assume gives the thread the file rights of an account (credentials(7), setfsuid(2)),
// which are those of nobody else for a file system, and leaves it what it is otherwise.
func assume(as *Identity) error {
	if err := setGroups(as.Groups); err != nil {
		return fmt.Errorf("take the file rights of uid %d: %w", as.UID, err)
	}
	if !setFileIDs(as.UID, as.GID) {
		return fmt.Errorf("take the file rights of uid %d: %w", as.UID, unix.EPERM)
	}
	return nil
}

// resume takes back what assume did.
func (h *Host) resume() error {
	groups := make([]uint32, len(h.groups))
	for i, g := range h.groups {
		groups[i] = uint32(g)
	}
	if !setFileIDs(uint32(os.Geteuid()), uint32(os.Getegid())) || setGroups(groups) != nil {
		return errStillOther
	}
	return nil
}

// setGroups is setgroups(2) for the thread alone.
func setGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, err := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); err != 0 {
		return err
	}
	return nil
}

// setFileIDs is setfsgid(2) and setfsuid(2), which tell what was before and not
// whether anything was done.
func setFileIDs(uid, gid uint32) bool {
	const none = ^uintptr(0)
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	nowGID, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, none, 0, 0)
	nowUID, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, none, 0, 0)
	return uint32(nowUID) == uid && uint32(nowGID) == gid
}

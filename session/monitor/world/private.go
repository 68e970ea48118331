package world

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Private is the folder of one worker that shares its account with others.
type Private struct {
	path     string
	uid, gid uint32
}

// Privates is the folder in which one running service keeps the private folders of
// its workers. It is locked while the service runs, so that another one with the same
// state folder tells it from what a service that is gone has left behind.
type Privates struct {
	path string
	lock *os.File
}

// privatesPrefix begins the name of every Privates' folder.
const privatesPrefix = "r-"

// lockLimit is how long another service may take to look through the state folder.
const lockLimit = 10 * time.Second

// OpenPrivate makes the folder for a service's private folders below state, and
// removes those of services that run no more. state is made if it is missing; others
// may pass through it but not list it.
func OpenPrivate(state string) (*Privates, error) {
	parent, err := openParent(state)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if err := clearPrivate(parent.Name()); err != nil {
		return nil, fmt.Errorf("clear folder for workers: %w", err)
	}
	path := filepath.Join(parent.Name(), privatesPrefix+rand.Text()[:16])
	if err := os.Mkdir(path, 0o711); err != nil {
		return nil, fmt.Errorf("make folder for workers: %w", err)
	}
	lock, err := lockFolder(path, 0)
	if err == nil {
		err = lock.Chmod(0o711) // whatever the umask
	}
	if err != nil {
		closeFiles(lock)
		os.Remove(path)
		return nil, fmt.Errorf("make folder for workers: %w", err)
	}
	return &Privates{path, lock}, nil
}

// openParent makes what is above the private folders, and locks it against other
// services that start until it is closed.
func openParent(state string) (*os.File, error) {
	parent := filepath.Join(state, "work")
	for _, dir := range []string{state, parent} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("make folder for workers: %w", err)
		}
		st, err := os.Stat(dir)
		if err != nil {
			return nil, fmt.Errorf("make folder for workers: %w", err)
		}
		if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
			return nil, fmt.Errorf("make folder for workers: %s belongs to uid %d", dir, uid)
		}
		if want := st.Mode().Perm() | 0o711; st.Mode().Perm() != want && os.Geteuid() == 0 {
			if err := os.Chmod(dir, want); err != nil {
				return nil, fmt.Errorf("make folder for workers: %w", err)
			}
		}
	}
	f, err := lockFolder(parent, lockLimit)
	if err != nil {
		return nil, fmt.Errorf("make folder for workers: %w", err)
	}
	return f, nil
}

// lockFolder opens a folder and locks it for as long as it is open, waiting at most
// that long for whoever holds the lock. Accounts that can't list it can't lock it.
func lockFolder(path string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) && (!errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline)) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// clearPrivate removes all in parent but what a running service has locked. What
// can't be removed stays; nothing of it is used again.
func clearPrivate(parent string) error {
	left, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range left {
		path := filepath.Join(parent, e.Name())
		switch {
		case !e.IsDir():
		case strings.HasPrefix(e.Name(), privatesPrefix):
			if lock, err := lockFolder(path, 0); err == nil {
				removePrivates(path)
				lock.Close()
			}
		default: // as services before this one had them
			removeLeft(path, e)
		}
	}
	return nil
}

func removePrivates(path string) error {
	left, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range left {
		if e.IsDir() {
			removeLeft(filepath.Join(path, e.Name()), e)
		}
	}
	return os.Remove(path)
}

func removeLeft(path string, e fs.DirEntry) {
	if info, err := e.Info(); err == nil {
		st := info.Sys().(*syscall.Stat_t)
		(&Private{path, st.Uid, st.Gid}).Remove()
	}
}

// Path is the folder; "" of nil.
func (p *Privates) Path() string {
	if p == nil {
		return ""
	}
	return p.path
}

// Close removes the folder, and what is left in it, when no worker runs any more.
func (p *Privates) Close() error {
	if p == nil {
		return nil
	}
	defer p.lock.Close()
	if err := removePrivates(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove folder for workers: %w", err)
	}
	return nil
}

// New makes a folder that only uid can use.
func (p *Privates) New(uid, gid uint32) (*Private, error) { return newPrivate(p.path, uid, gid) }

func newPrivate(parent string, uid, gid uint32) (*Private, error) {
	path := filepath.Join(parent, "w-"+rand.Text()[:16])
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, fmt.Errorf("make private folder: %w", err)
	}
	p := &Private{path, uid, gid}
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, int(uid), int(gid)); err != nil {
			os.Remove(path)
			return nil, fmt.Errorf("make private folder: %w", err)
		}
	}
	return p, nil
}

// Path is the folder; "" of nil.
func (p *Private) Path() string {
	if p == nil {
		return ""
	}
	return p.path
}

// Remove removes the folder and all in it. The content is removed with the rights
// of its owner, so that a worker can't make us remove anything else. A folder that can
// be removed at once is empty: nothing below it is looked at, and its name is in a
// folder of ours.
func (p *Private) Remove() error {
	if p == nil {
		return nil
	}
	err := unix.Rmdir(p.path)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if err = asOwner(p.uid, p.gid, func() error { return removeContent(p.path) }); err == nil {
			err = unix.Rmdir(p.path)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove private folder: %w", err)
	}
	return nil
}

// removeContent removes all below dir. Folders that their owner closed against
// himself are opened first.
func removeContent(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if err := os.RemoveAll(path); err == nil {
			continue
		}
		filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				os.Chmod(p, 0o700)
			}
			return nil
		})
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// asOwner runs fn with the file rights of an account, on a thread that is thrown
// away afterwards (setfsuid(2) is per thread). Without root it just runs fn.
func asOwner(uid, gid uint32, fn func() error) error {
	if os.Geteuid() != 0 {
		return fn()
	}
	if uid == 0 {
		return errors.New("owner is root")
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
		unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
		if now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0); uint32(now) != uid {
			result <- errors.New("can't take the rights of the owner")
			return
		}
		result <- fn()
	}()
	return <-result
}

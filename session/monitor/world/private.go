package world

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Private is the folder of one worker that shares its account with others.
type Private struct {
	path     string
	uid, gid uint32
}

// OpenPrivate makes the folder that holds private folders, or takes it over and
// removes what an earlier run left in it. state is made if it is missing; others
// may pass through it but not list it.
func OpenPrivate(state string) (parent string, err error) {
	parent = filepath.Join(state, "work")
	for _, dir := range []string{state, parent} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return "", fmt.Errorf("make folder for workers: %w", err)
		}
		st, err := os.Stat(dir)
		if err != nil {
			return "", fmt.Errorf("make folder for workers: %w", err)
		}
		if uid := int(st.Sys().(*syscall.Stat_t).Uid); uid != os.Geteuid() {
			return "", fmt.Errorf("make folder for workers: %s belongs to uid %d", dir, uid)
		}
		if want := st.Mode().Perm() | 0o711; st.Mode().Perm() != want && os.Geteuid() == 0 {
			if err := os.Chmod(dir, want); err != nil {
				return "", fmt.Errorf("make folder for workers: %w", err)
			}
		}
	}
	left, err := os.ReadDir(parent)
	if err != nil {
		return "", fmt.Errorf("clear folder for workers: %w", err)
	}
	for _, e := range left {
		if info, err := e.Info(); err == nil && e.IsDir() {
			st := info.Sys().(*syscall.Stat_t)
			(&Private{filepath.Join(parent, e.Name()), st.Uid, st.Gid}).Remove()
		}
	}
	return parent, nil
}

// NewPrivate makes a folder that only uid can use.
func NewPrivate(parent string, uid, gid uint32) (*Private, error) {
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
// of its owner, so that a worker can't make us remove anything else.
func (p *Private) Remove() error {
	if p == nil {
		return nil
	}
	err := asOwner(p.uid, p.gid, func() error { return removeContent(p.path) })
	if err != nil {
		return fmt.Errorf("remove private folder: %w", err)
	}
	if err := os.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

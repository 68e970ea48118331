// Package folder looks at folders of users, whose file systems may not answer: one on
// a network whose server is gone, or one that a user made (FUSE). It asks nothing of a
// file system that a user runs, and bounds how long anybody waits for the others, and
// how many threads (docs/decisions/0016-homes.md).
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Foreign is a folder on a file system that a user mounted and runs (FUSE): it answers
// when he likes, and with what he likes.
type Foreign struct {
	Path string
	UID  uint32 // who mounted it
}

func (e *Foreign) Error() string {
	return fmt.Sprintf("a file system that uid %d mounted (FUSE) is at %s", e.UID, e.Path)
}

// errMoved is what became of a folder whose file system was taken away in that moment.
var errMoved = errors.New("it was unmounted in that moment")

// Open opens a folder as a place (O_PATH), close-on-exec; symbolic links are followed.
// A folder on a file system of a user's is refused with a *Foreign before anything was
// asked of it; root's file systems, and our own account's, are not. What the system
// says of the folder is an *fs.PathError; other errors say nothing of it.
func Open(path string) (fd int, err error) { return open(path, 0) }

// ErrMayWait is what OpenQuick returns for a folder that others may have to answer for.
var ErrMayWait = errors.New("open folder: others may have to answer for it")

// OpenQuick is Open for a folder in front of which there is no symbolic link, and no file
// system but those of this machine's disks and memory: nobody has to be waited for.
func OpenQuick(path string) (fd int, err error) {
	if !Local(path) {
		return -1, ErrMayWait
	}
	fd, err = open(path, unix.RESOLVE_NO_SYMLINKS)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // a link, or a system without openat2(2)
		return -1, ErrMayWait
	}
	return fd, err
}

// Local reports whether a path leads through this machine's own file systems alone, as
// far as the path says: there may be symbolic links in it.
func Local(path string) bool { return mounted.local(path) }

func open(path string, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve}
	for {
		if resolve == 0 {
			fd, err = unix.Open(path, int(how.Flags), 0)
		} else {
			fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
		}
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := mounted.judge(fd, path); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// judge refuses a folder on a user's file system. The file system must not have been
// asked for anything yet.
func (t *mounts) judge(fd int, path string) error {
	id, err := mountID(fd)
	if err != nil {
		return fmt.Errorf("find mount of %s: %w", path, err)
	}
	uid, ok, err := t.owner(id)
	switch {
	case err != nil:
		return fmt.Errorf("read mounts (is /proc mounted?): %w", err)
	case !ok:
		return fmt.Errorf("find mount of %s: %w", path, errMoved)
	case uid != 0 && int(uid) != os.Geteuid():
		return &Foreign{path, uid}
	}
	return nil
}

// Stat describes a folder: Open, and fstat(2). It waits for an answer as Do does.
func (t *Turns) Stat(path string) (*unix.Stat_t, error) {
	if fd, err := OpenQuick(path); err != ErrMayWait {
		return stat(fd, path, err)
	}
	return Do(t, path, func() (*unix.Stat_t, error) {
		fd, err := Open(path)
		return stat(fd, path, err)
	})
}

// stat describes what was opened, unless that failed, and closes it.
func stat(fd int, path string, err error) (*unix.Stat_t, error) {
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return &st, nil
}

// Package safepath tells whether a file can be trusted: whether nobody but root
// and one named user could have written it, replaced it, or put something else
// in the place of a folder above it.
package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links a path may go through (path_resolution(7)).
const maxLinks = 40

// Unsafe says who else could change a path.
type Unsafe struct {
	Path string // the component at fault
	Why  string
}

func (e *Unsafe) Error() string { return fmt.Sprintf("%s: %s", e.Path, e.Why) }

// File checks an absolute path to a regular file: the file, every folder above
// it and every symbolic link on the way belong to root or to uid, and nobody
// else may write there. It returns the path without symbolic links. A refusal is
// an *Unsafe; other errors are the file system's.
func File(path string, uid int) (string, error) {
	resolved, st, err := walk(path, uid)
	if err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", &Unsafe{path, "not a regular file"}
	}
	return resolved, nil
}

// Program is File for something to execute.
func Program(path string, uid int) (string, error) {
	resolved, st, err := walk(path, uid)
	switch {
	case err != nil:
		return "", err
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", &Unsafe{path, "not a regular file"}
	case st.Mode&0o111 == 0:
		return "", &Unsafe{path, "not executable"}
	}
	return resolved, nil
}

// Open opens a file for reading and checks the opened file alone: a regular file
// that belongs to root or to uid, which nobody else may write, of at most limit
// bytes. Use File as well where the folders matter.
func Open(path string, uid int, limit int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not hold us up
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	listed := false
	rc, err := f.SyscallConn()
	if err == nil {
		var statErr error
		err = rc.Control(func(fd uintptr) {
			statErr = unix.Fstat(int(fd), &st)
			_, aclErr := unix.Fgetxattr(int(fd), accessList, nil)
			listed = aclErr == nil
		})
		if err == nil {
			err = statErr
		}
	}
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = &Unsafe{path, "not a regular file"}
	case st.Size > limit:
		err = &Unsafe{path, fmt.Sprintf("larger than %d bytes", limit)}
	default:
		err = judge(path, &st, uid, func() bool { return listed })
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// walk goes down the path, component by component.
func walk(path string, uid int) (string, *unix.Stat_t, error) {
	if !filepath.IsAbs(path) {
		return "", nil, &Unsafe{path, "not an absolute path"}
	}
	var st unix.Stat_t
	at, rest, links := "/", path, 0 // at never has a symbolic link in it
	for {
		if err := lstat(at, &st); err != nil {
			return "", nil, err
		}
		if err := judge(at, &st, uid, func() bool { return hasList(at) }); err != nil {
			return "", nil, err
		}
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			return at, &st, nil
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return "", nil, fmt.Errorf("open %s: %w", at, unix.ENOTDIR)
		}
		name, after, _ := strings.Cut(rest, "/")
		next := filepath.Join(at, name) // "." and ".." as well, since at is resolved
		if err := lstat(next, &st); err != nil {
			return "", nil, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at, rest = next, after
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fmt.Errorf("open %s: %w", path, unix.ELOOP)
		}
		if int(st.Uid) != 0 && int(st.Uid) != uid {
			return "", nil, foreign(next, &st)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + after
	}
}

func lstat(path string, st *unix.Stat_t) error {
	if err := unix.Lstat(path, st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return nil
}

// accessList is where a file's access control list lies (acl(5)). With one, the group's
// part of the mode is the most that anybody in the list has.
const accessList = "system.posix_acl_access"

// hasList reports whether a file or folder that is no symbolic link has such a list.
func hasList(path string) bool {
	_, err := unix.Lgetxattr(path, accessList, nil)
	return err == nil
}

// judge applies the rule to one file or folder. A folder like /tmp, which is
// root's and sticky, protects what belongs to root or uid in it. listed says whether it
// has an access control list, and is asked only if that matters.
func judge(path string, st *unix.Stat_t, uid int, listed func() bool) error {
	if int(st.Uid) != 0 && int(st.Uid) != uid {
		return foreign(path, st)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0 && st.Uid == 0 {
		return nil
	}
	if st.Mode&0o002 != 0 {
		return &Unsafe{path, fmt.Sprintf("mode %04o: everybody may write it (chmod o-w)", st.Mode&0o7777)}
	}
	if st.Mode&0o020 == 0 {
		return nil
	}
	if st.Gid != 0 {
		return &Unsafe{path, fmt.Sprintf("mode %04o: group %d may write it (chmod g-w)", st.Mode&0o7777, st.Gid)}
	}
	if listed() {
		return &Unsafe{path, "its access control list lets others write it (setfacl -b)"}
	}
	return nil
}

func foreign(path string, st *unix.Stat_t) error {
	return &Unsafe{path, fmt.Sprintf("belongs to uid %d (chown root)", st.Uid)}
}

// IsUnsafe reports whether err is a refusal and not a fault of the file system.
func IsUnsafe(err error) bool {
	var u *Unsafe
	return errors.As(err, &u)
}

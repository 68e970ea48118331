package folder

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Enterable reports whether an account may enter, for sure, a folder that OpenQuick has
// opened: it is the account's own, or root's, and everybody may pass those above it. No
// is no answer. It spares to try with the account's rights, which costs ten times as much.
func Enterable(fd int, path string, uid uint32) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	if !(st.Uid == uid && st.Mode&unix.S_IXUSR != 0) && !passable(path) {
		return false
	}
	for path != "/" {
		if path = filepath.Dir(path); !passable(path) {
			return false
		}
	}
	return true
}

// passable reports whether a folder is root's, nobody else may write it, and everybody
// may pass it: access control lists are looked at only where no user can have mounted
// anything.
func passable(path string) bool {
	const passed, written = unix.S_IXUSR | unix.S_IXGRP | unix.S_IXOTH, unix.S_IWGRP | unix.S_IWOTH
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_UID, &st)
	if err != nil || st.Uid != 0 || st.Mode&passed != passed || st.Mode&written != 0 {
		return false
	}
	_, err = unix.Lgetxattr(path, "system.posix_acl_access", nil)
	return err == unix.ENODATA || err == unix.EOPNOTSUPP
}

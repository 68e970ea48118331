// Package filestate tells whether a file is the one that was looked at before, so
// that what was read of it need not be read again.
package filestate

import (
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// settle is how long a file must have been left alone before its times tell every
// further change: some kernels move them in steps of a few milliseconds, some file
// systems in steps of up to two seconds.
const settle = 2 * time.Second

// State is a file as far as it can be seen from outside. States are compared with
// ==. The zero State is no file's.
type State struct {
	dev, ino     uint64
	size         int64
	mtime, ctime unix.Timespec
}

// Of is the state of the file that path leads to.
func Of(path string) (State, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return State{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stateOf(&st), nil
}

// OfFD is the state of an open file.
func OfFD(fd uintptr) (State, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return State{}, fmt.Errorf("stat descriptor: %w", err)
	}
	return stateOf(&st), nil
}

func stateOf(st *unix.Stat_t) State {
	return State{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// Settled reports whether any change after now would show in the state: the last one
// lies back far enough. A time that is yet to come does not.
func (s State) Settled(now time.Time) bool {
	last := max(s.mtime.Nano(), s.ctime.Nano())
	return s != State{} && now.UnixNano()-last >= int64(settle)
}

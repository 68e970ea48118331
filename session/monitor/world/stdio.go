package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gatehouse/session/settings"
)

// Stdio are the pipes of one worker: pipes and no sockets, so that a worker can't
// push descriptors at the front end.
type Stdio struct {
	// The worker's ends, in blocking mode.
	In, Out, Err *os.File
	// The front end's ends, in non-blocking mode: what is written to Stdin comes
	// out of In.
	Stdin, Stdout, Stderr *os.File
}

// NewStdio makes the pipes, close-on-exec. As root they are given to uid, so that
// a worker may open /dev/stdin, /dev/stdout and /dev/stderr by name.
func NewStdio(uid, gid uint32) (*Stdio, error) {
	s, root := &Stdio{}, unix.Geteuid() == 0
	for _, p := range []struct {
		ours    **os.File
		workers **os.File
		weWrite bool
	}{
		{&s.Stdin, &s.In, true}, {&s.Stdout, &s.Out, false}, {&s.Stderr, &s.Err, false},
	} {
		fds := make([]int, 2)
		if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
			s.Close()
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		ours, workers := fds[0], fds[1]
		if p.weWrite {
			ours, workers = workers, ours
		}
		// The mode is changed afterwards: we only pass them on, and the runtime need not
		// watch them.
		*p.ours, *p.workers = os.NewFile(uintptr(ours), "pipe"), os.NewFile(uintptr(workers), "pipe")
		err := unix.SetNonblock(ours, true)
		if err == nil && root {
			err = unix.Fchown(ours, int(uid), int(gid))
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("prepare pipe: %w", err)
		}
	}
	return s, nil
}

// CloseWorkers closes the worker's ends, once it has them.
func (s *Stdio) CloseWorkers() { closeFiles(s.In, s.Out, s.Err) }

// Close closes all ends.
func (s *Stdio) Close() { closeFiles(s.In, s.Out, s.Err, s.Stdin, s.Stdout, s.Stderr) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// maxSettings is the largest settings document in bytes.
const maxSettings = 1 << 20

// SettingsFile writes a worker's settings to a sealed memory file, at offset 0.
func SettingsFile(s *settings.Settings) (*os.File, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write worker settings: %w", err)
	}
	if len(b) > maxSettings {
		return nil, errors.New("write worker settings: larger than 1 MiB")
	}
	return SealedFile("gatehouse-settings", b)
}

// seals make a memory file constant for everybody who gets it.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// SealedFile returns a close-on-exec memory file with that content, which nobody
// can change any more.
func SealedFile(name string, content []byte) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(content, 0); err != nil { // the offset stays 0
		f.Close()
		return nil, fmt.Errorf("write memory file: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal memory file: %w", err)
	}
	return f, nil
}

// IsSealed reports whether f is a memory file that nobody can change any more.
func IsSealed(f *os.File) bool {
	rc, err := f.SyscallConn()
	if err != nil {
		return false
	}
	got := 0
	var sealErr error
	err = rc.Control(func(fd uintptr) { got, sealErr = unix.FcntlInt(fd, unix.F_GET_SEALS, 0) })
	return err == nil && sealErr == nil && got&seals == seals
}

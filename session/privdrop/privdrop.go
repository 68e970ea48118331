// Package privdrop gives up privilege for good and then proves it gone by trying
// to get it back. Everything is done on all threads at once, and inherited by
// every process that is started later; so binaries that use it are built without
// cgo, under which Go can't reach threads that it did not make.
package privdrop

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capability is a Linux capability (capabilities(7)).
type Capability int

// The capabilities that some process of ours keeps.
const (
	Chown         Capability = unix.CAP_CHOWN           // private directories and pipes of workers
	DACOverride   Capability = unix.CAP_DAC_OVERRIDE    // the guard alone: control groups in a closed folder
	DACReadSearch Capability = unix.CAP_DAC_READ_SEARCH // a TLS key of any owner, homes below closed folders
	Kill          Capability = unix.CAP_KILL
	SetGID        Capability = unix.CAP_SETGID
	SetUID        Capability = unix.CAP_SETUID
	SetPCap       Capability = unix.CAP_SETPCAP // the guard alone, so that the monitor can lock itself
)

// optional are the capabilities without which everything works on most hosts, and
// which containers tend to lack.
var optional = maskOf([]Capability{DACOverride, DACReadSearch})

// Securebits of the monitor: being root gives no capability at exec, ambient
// capabilities can't be raised, both locked; the fix-up that clears capabilities
// when the uid changes from 0 is locked on.
const lockedSecurebits = secNoRoot | secNoRootLocked | secNoFixupLocked | secKeepCapsLocked | secNoAmbient | secNoAmbientLocked

// From linux/securebits.h.
const (
	secNoRoot          = 1 << 0
	secNoRootLocked    = 1 << 1
	secNoFixupLocked   = 1 << 3
	secKeepCapsLocked  = 1 << 5
	secNoAmbient       = 1 << 6
	secNoAmbientLocked = 1 << 7
)

// Monitor locks the process down to the given capabilities and leaves none to
// any program it starts: no new privileges, bounding and ambient set empty,
// securebits locked, not dumpable, no core files, umask 077. Without root all
// capabilities are given up. It fails when a wanted capability is not there, but for
// DACOverride and DACReadSearch, which are kept where there are any.
func Monitor(keep ...Capability) error {
	if unix.Geteuid() != 0 {
		keep = nil
	}
	if err := common(); err != nil {
		return err
	}
	if unix.Geteuid() == 0 {
		if err := prctl("set securebits (CAP_SETPCAP is needed)", unix.PR_SET_SECUREBITS, lockedSecurebits, 0); err != nil {
			return err
		}
		if err := dropBounding(nil); err != nil {
			return err
		}
	}
	return setCapabilities(keep)
}

// Guard is Monitor for the process above the monitor: what it keeps, the
// monitor that it starts gets, and nothing else.
func Guard(keep ...Capability) error {
	if unix.Geteuid() != 0 {
		keep = nil
	}
	if err := common(); err != nil {
		return err
	}
	if unix.Geteuid() == 0 {
		if err := dropBounding(keep); err != nil {
			return err
		}
	}
	return setCapabilities(keep)
}

// common is what every process of ours gives up, root or not.
func common() error {
	if err := prctl("set no-new-privileges", unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	if err := prctl("clear ambient capabilities", unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return err
	}
	// One per address space, so one thread is enough. Without it a worker of the
	// same uid could attach to us with ptrace.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set not dumpable: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	unix.Umask(0o077)
	return nil
}

// prctl does one prctl on all threads.
func prctl(doing string, op, a, b uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, op, a, b, 0, 0, 0)
	return threadsError(doing, errno)
}

func threadsError(doing string, errno syscall.Errno) error {
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return fmt.Errorf("%s: this binary was built with cgo; build it with CGO_ENABLED=0", doing)
	}
	return fmt.Errorf("%s: %w", doing, errno)
}

// dropBounding empties the bounding set, but for keep.
func dropBounding(keep []Capability) error {
	for c := Capability(0); ; c++ {
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err == unix.EINVAL {
			return nil // past the last capability of this kernel
		}
		if err != nil {
			return fmt.Errorf("read bounding set: %w", err)
		}
		if in == 0 || slices.Contains(keep, c) {
			continue
		}
		if err := prctl("empty the bounding set (CAP_SETPCAP is needed)", unix.PR_CAPBSET_DROP, uintptr(c), 0); err != nil {
			return err
		}
	}
}

// setCapabilities makes keep the permitted and effective set of all threads and
// empties the inheritable one.
func setCapabilities(keep []Capability) error {
	now, err := current()
	if err != nil {
		return err
	}
	want := maskOf(keep) &^ (optional &^ now.permitted)
	if missing := want &^ now.permitted; missing != 0 {
		return fmt.Errorf("keep capabilities %#x: not permitted here (a container or unit without them?)", missing)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(want), Permitted: uint32(want)},
		{Effective: uint32(want >> 32), Permitted: uint32(want >> 32)},
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data[0])), 0)
	return threadsError("give up capabilities", errno)
}

// sets are the capability sets of the calling thread.
type sets struct{ effective, permitted, inheritable uint64 }

func current() (sets, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	if err := unix.Capget(&hdr, &d[0]); err != nil {
		return sets{}, fmt.Errorf("read capabilities: %w", err)
	}
	join := func(lo, hi uint32) uint64 { return uint64(hi)<<32 | uint64(lo) }
	return sets{
		effective:   join(d[0].Effective, d[1].Effective),
		permitted:   join(d[0].Permitted, d[1].Permitted),
		inheritable: join(d[0].Inheritable, d[1].Inheritable),
	}, nil
}

// Has reports whether the calling thread may use the capability now.
func Has(c Capability) bool {
	s, err := current()
	return err == nil && s.effective&maskOf([]Capability{c}) != 0
}

func maskOf(list []Capability) (mask uint64) {
	for _, c := range list {
		mask |= 1 << uint(c)
	}
	return mask
}

// CloseOnExec marks every descriptor from first on close-on-exec, so that a
// child gets what is named for it and nothing else.
func CloseOnExec(first uint) error {
	err := unix.CloseRange(first, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("mark descriptors close-on-exec: kernel older than 5.11: %w", err)
	}
	if err != nil {
		return fmt.Errorf("mark descriptors close-on-exec: %w", err)
	}
	return nil
}

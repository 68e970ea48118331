package privdrop

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ProveMonitor shows that after Monitor nothing but keep is left: it reads the
// state of every thread and tries to get privilege back in each known way. An
// error means that the process must end.
func ProveMonitor(keep ...Capability) error {
	if unix.Geteuid() != 0 {
		return ProveNone()
	}
	now, err := current()
	if err != nil {
		return err
	}
	want := maskOf(keep) &^ (optional &^ now.permitted)
	if err := checkThreads(want, true); err != nil {
		return err
	}
	return tryAll(waysBack)
}

// ProveNone shows that the process is not root, has no capability and can get
// neither: the keykeeper calls it when it starts, and a monitor without root. An error
// means that the process must end.
func ProveNone() error {
	r, e, s := unix.Getresuid()
	if r == 0 || e == 0 || s == 0 {
		return fmt.Errorf("prove privilege gone: uid is %d/%d/%d", r, e, s)
	}
	if err := checkThreads(0, false); err != nil {
		return err
	}
	ways := slices.Concat(waysBack, asRoot)
	if !hasGroupZero() {
		ways = append(ways, asGroupZero)
	}
	return tryAll(ways)
}

// attempt is one way to get privilege back. try returns nil when it worked. An
// attempt that works changes the calling thread at most.
type attempt struct {
	name string
	try  func() error
}

var waysBack = []attempt{
	{"raise a capability", raiseAny},
	{"raise an ambient capability", func() error {
		return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0)
	}},
	{"clear no-new-privileges", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) }},
	{"unlock securebits", func() error { return unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0) }},
	{"set the host name to what it is", sameHostname},
	{"change root to what it is", func() error { return unix.Chroot("/") }},
}

var asRoot = []attempt{
	{"become root", func() error { return raw(unix.SYS_SETRESUID, 0, 0, 0) }},
	{"become root for file access", func() error {
		raw(unix.SYS_SETFSUID, 0, 0, 0) // never fails: the second call returns what is set
		now, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
		if int(now) == 0 {
			return nil
		}
		return unix.EPERM
	}},
	{"give up groups", func() error { return raw(unix.SYS_SETGROUPS, 0, 0, 0) }},
}

var asGroupZero = attempt{"become group 0", func() error { return raw(unix.SYS_SETRESGID, 0, 0, 0) }}

// tryAll runs the attempts on a thread that is thrown away afterwards, so that
// one that works does not leave the process half changed.
func tryAll(ways []attempt) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var errs []error
		for _, w := range ways {
			if w.try() == nil {
				errs = append(errs, fmt.Errorf("prove privilege gone: could %s", w.name))
			}
		}
		result <- errors.Join(errs...)
	}()
	return <-result
}

func raw(trap, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(trap, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// raiseAny tries each capability that no process of ours keeps.
func raiseAny() error {
	now, err := current()
	if err != nil {
		return nil // can't try, so not proven
	}
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains([]Capability{Chown, DACOverride, DACReadSearch, Kill, SetGID, SetUID, SetPCap}, Capability(c)) {
			continue
		}
		want := now.permitted | 1<<c
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		d := [2]unix.CapUserData{
			{Effective: uint32(want), Permitted: uint32(want)},
			{Effective: uint32(want >> 32), Permitted: uint32(want >> 32)},
		}
		if unix.Capset(&hdr, &d[0]) == nil { // of this thread alone
			return nil
		}
	}
	return unix.EPERM
}

func sameHostname() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil // can't try, so not proven
	}
	return unix.Sethostname([]byte(unix.ByteSliceToString(u.Nodename[:])))
}

func hasGroupZero() bool {
	r, e, s := unix.Getresgid()
	return r == 0 || e == 0 || s == 0
}

// checkThreads reads the kernel's view of every thread: capabilities exactly
// want (bounding set empty when bounded), no new privileges.
func checkThreads(want uint64, bounded bool) error {
	paths, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(paths) == 0 {
		return errors.New("prove privilege gone: read /proc/self/task: nothing there")
	}
	for _, p := range paths {
		status, err := readStatus(p)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return fmt.Errorf("prove privilege gone: %w", err)
		}
		expect := map[string]uint64{"CapEff": want, "CapPrm": want, "CapInh": 0, "CapAmb": 0}
		if bounded {
			expect["CapBnd"] = 0
		}
		for name, v := range expect {
			got, err := strconv.ParseUint(status[name], 16, 64)
			if err != nil || got != v {
				return fmt.Errorf("prove privilege gone: %s: %s is %q, want %#x", p, name, status[name], v)
			}
		}
		if status["NoNewPrivs"] != "1" {
			return fmt.Errorf("prove privilege gone: %s: no-new-privileges is not set", p)
		}
	}
	return nil
}

func readStatus(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := make(map[string]string)
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if k, v, ok := strings.Cut(sc.Text(), ":"); ok {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m, sc.Err()
}

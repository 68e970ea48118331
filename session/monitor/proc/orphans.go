package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt makes the program the one to which processes below it are handed when
// their parent ends (PR_SET_CHILD_SUBREAPER).
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}

// orphanPause is how long a zombie may wait: most of those that a SIGCHLD tells of are
// children of ours, which are reaped by then, and nobody is in a hurry for the others.
const orphanPause = 100 * time.Millisecond

// ReapOrphans takes the zombies of adopted processes away until ctx ends. It
// leaves the host's own children alone, and must not run in a program that
// starts processes by other means.
func (h *Host) ReapOrphans(ctx context.Context) {
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGCHLD)
	defer signal.Stop(sigs)
	tick := time.NewTicker(5 * time.Second) // for a signal that came while we looked
	defer tick.Stop()
	for {
		h.reapOrphans()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			continue
		case <-sigs:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(orphanPause):
		}
	}
}

func (h *Host) reapOrphans() {
	if !anyZombie() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, pid := range Children() {
		if h.children[pid] == nil {
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// anyZombie reports whether a child of ours has ended and was not reaped.
func anyZombie() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == int32(unix.SIGCHLD)
}

// Children returns the process ids of our children, adopted ones and zombies
// included.
func Children() []int {
	const tasks = "/proc/self/task"
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return childrenByParent(os.Getpid())
	}
	var pids []int
	missing := 0
	for _, t := range threads {
		b, err := os.ReadFile(tasks + "/" + t.Name() + "/children")
		if err != nil {
			missing++ // the thread has ended, or the kernel has no such file
			continue
		}
		for f := range strings.FieldsSeq(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if missing == len(threads) {
		return childrenByParent(os.Getpid())
	}
	return pids
}

// childrenByParent is Children for kernels without the children file.
func childrenByParent(parent int) []int {
	var pids []int
	for _, pid := range all() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		if f := afterName(b); len(f) > 1 && string(f[1]) == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// afterName returns the fields of a stat line from the state on. The command
// name before them, in parentheses, may hold anything.
func afterName(stat []byte) [][]byte {
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

func isZombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := afterName(b)
	return err != nil || len(f) == 0 || string(f[0]) == "Z"
}

// all returns every process id that /proc shows.
func all() []int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A label is how a worker's tree is found where there is no cgroup for it: the
// soft limit of real-time CPU microseconds, which children inherit, which /proc
// shows, and which means nothing to a process that may not use real-time
// scheduling. It starts so high that it could never be met either, and holds the
// process id of whoever gave it, so that two services on a host never meet.
const labelBase = 1 << 50

// NewLabel makes a label that no other living process gives: a number, of which the
// lower 28 bits count, and our process id.
func NewLabel(number uint64) uint64 {
	return uint64(os.Getpid())<<28 | number&(1<<28-1)
}

// label makes the next child carry the label and returns what undoes it.
func label(l uint64) (restore func(), err error) {
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &old); err != nil {
		return nil, fmt.Errorf("label process: %w", err)
	}
	if old.Max < labelBase+l {
		return func() {}, nil // an administrator's limit: the process group has to do
	}
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: labelBase + l, Max: old.Max}, nil); err != nil {
		return nil, fmt.Errorf("label process: %w", err)
	}
	return func() { unix.Prlimit(0, unix.RLIMIT_RTTIME, &old, nil) }, nil
}

// Labelled returns the living processes that carry the label, but for ourselves.
// A process that changes its own limits on purpose escapes it.
func Labelled(l uint64) []int {
	var pids []int
	for _, pid := range all() {
		if pid != os.Getpid() && hasLabel(pid, l) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasLabel(pid int, l uint64) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil || isZombie(pid) {
		return false
	}
	_, rest, ok := bytes.Cut(b, []byte("\nMax realtime timeout"))
	f := bytes.Fields(rest)
	return ok && len(f) > 0 && string(f[0]) == strconv.FormatUint(labelBase+l, 10)
}

// SignalLabelled signals every living process with the label and returns how
// many there were. It looks at all processes of the host.
func SignalLabelled(l uint64, sig syscall.Signal) int {
	return signalIfLabelled(Labelled(l), l, sig)
}

// SignalOrphans is SignalLabelled for those processes that were handed to us (see
// Adopt), which is cheap. Once a worker's first process has ended, all others hang
// below these, and are handed to us as their parents end.
func (h *Host) SignalOrphans(l uint64, sig syscall.Signal) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pids []int
	for _, pid := range Children() {
		if h.children[pid] == nil && hasLabel(pid, l) {
			pids = append(pids, pid)
		}
	}
	return signalIfLabelled(pids, l, sig)
}

func signalIfLabelled(pids []int, l uint64, sig syscall.Signal) (n int) {
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if hasLabel(pid, l) { // still the same process: the pidfd is of one that has it
			if err := unix.PidfdSendSignal(fd, sig, nil, 0); err == nil {
				n++
			}
		}
		unix.Close(fd)
	}
	return n
}

// EndAll kills every child, adopted ones included, until there is none or the
// time is over. Killing a process hands its children to us, so that the whole
// tree goes. It is for a program whose Host is finished with, or has none.
func EndAll(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		for _, pid := range Children() {
			unix.Kill(pid, unix.SIGKILL)
		}
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return nil
			}
			if pid <= 0 {
				break
			}
		}
		if time.Now().After(deadline) {
			return errors.New("end processes: some do not end")
		}
		time.Sleep(pause)
	}
}

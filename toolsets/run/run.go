// Package run starts the programs that tools need (git, go, test binaries) and
// makes sure that nothing they start outlives the call.
package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cmd is one program to run to its end.
type Cmd struct {
	// Args is argv; Args[0] is looked up in PATH.
	Args []string
	Dir  string
	// Env is the whole environment.
	Env   []string
	Stdin io.Reader
	// MaxOutput bounds what is kept of each output, in bytes; 0 means 1 MiB. Of
	// more the middle is read and dropped, so that the program does not block.
	MaxOutput int
	// Memory bounds the data of each process, in bytes; 0 for no bound.
	Memory uint64
	// Lines, when set, gets the standard output line by line (without the
	// newline) instead of its being kept.
	Lines func(line []byte)
	// Extra files become descriptors 3 and following.
	Extra []*os.File
	// Sweep also ends processes that left the process group. For programs that
	// run code of the workspace.
	Sweep bool
}

// Output is what a program said.
type Output struct {
	Stdout, Stderr []byte
	Cut            bool // something was dropped
	Code           int  // exit code; -1 when ended by a signal
	Signal         syscall.Signal
}

// Mark is the environment variable by which a call's processes are found again.
const Mark = "GATEHOUSE_CALL"

// Run runs the program and everything it starts to their end. When ctx ends it
// stops them within a second and returns the context's cause. A program that
// fails by itself is no error: see Output.Code. What can't be started is one.
func Run(ctx context.Context, c Cmd) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{}, context.Cause(ctx)
	}
	max := c.MaxOutput
	if max == 0 {
		max = 1 << 20
	}
	mark := rand.Text()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.ExtraFiles = c.Dir, c.Stdin, c.Extra
	cmd.Env = append(append([]string{}, c.Env...), Mark+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	stdout, stderr := Bounded{Max: max}, Bounded{Max: max}
	lines := lineWriter{f: c.Lines, max: max}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if c.Lines != nil {
		cmd.Stdout = &lines
	}
	if err := cmd.Start(); err != nil {
		return Output{}, fmt.Errorf("start %s: %w", filepath.Base(c.Args[0]), err)
	}
	pid := cmd.Process.Pid
	if c.Memory > 0 {
		// Children inherit the limit. The program itself runs a moment without it.
		lim := unix.Rlimit{Cur: c.Memory, Max: c.Memory}
		_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &lim, nil)
	}
	exited := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stopOnEnd(ctx, pid, exited)
	}()
	waitExit(pid)
	_ = unix.Kill(-pid, unix.SIGKILL) // the leader is not reaped yet: the group is still its own
	var swept []int
	if c.Sweep {
		swept = sweep(Mark + "=" + mark)
	}
	close(exited)
	<-stopped
	err := cmd.Wait()
	reap(append(swept, -pid))
	lines.flush()
	out := Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Cut: stdout.Cut() || stderr.Cut() || lines.cut, Code: cmd.ProcessState.ExitCode()}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		out.Signal = ws.Signal()
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return out, fmt.Errorf("run %s: %w", filepath.Base(c.Args[0]), err)
	}
	return out, nil
}

// stopOnEnd ends the process group when ctx does: SIGTERM, then SIGKILL.
func stopOnEnd(ctx context.Context, pid int, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-ctx.Done():
	}
	_ = unix.Kill(-pid, unix.SIGTERM)
	select {
	case <-exited:
	case <-time.After(500 * time.Millisecond):
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
}

// waitExit returns when the process has ended, and leaves it unreaped.
func waitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// reap collects what has ended of the given processes, and of process groups by
// their negative number. They were killed, and are ours when the worker adopts
// orphans: each would stay in the list of processes as long as the worker does.
func reap(all []int) {
	for range 50 {
		left := false
		for _, pid := range all {
			got := pid
			for got != 0 {
				var err error
				var ws unix.WaitStatus
				if got, err = unix.Wait4(pid, &ws, unix.WNOHANG, nil); err != nil && err != unix.EINTR {
					break // no child of ours
				}
			}
			left = left || got == 0
		}
		if !left {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// sweep kills the processes of this account whose environment holds mark, until
// there are none, and returns them. A process that cleared its environment escapes
// it; the worker's own end (cgroup or process group) catches that one.
func sweep(mark string) (killed []int) {
	for range 50 {
		found := false
		procs, err := os.ReadDir("/proc")
		if err != nil {
			return killed
		}
		for _, p := range procs {
			pid, err := strconv.Atoi(p.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			env, err := os.ReadFile("/proc/" + p.Name() + "/environ")
			if err != nil || !hasVar(env, mark) {
				continue
			}
			if unix.Kill(pid, unix.SIGKILL) == nil {
				found, killed = true, append(killed, pid)
			}
		}
		if !found {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return killed
}

func hasVar(env []byte, mark string) bool {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if string(v) == mark {
			return true
		}
	}
	return false
}

// lineWriter hands out lines; of a line longer than max the rest is dropped.
type lineWriter struct {
	f   func([]byte)
	max int
	cut bool
	mu  sync.Mutex // guards buf
	buf []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if room := w.max - len(w.buf); len(part) > room {
			part, w.cut = part[:room], true
		}
		w.buf = append(w.buf, part...)
		if i < 0 {
			return n, nil
		}
		w.f(w.buf)
		w.buf, p = w.buf[:0], p[i+1:]
	}
}

func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.buf) > 0 {
		w.f(w.buf)
		w.buf = nil
	}
}

// Env makes an environment from name=value pairs, the later ones winning.
func Env(parts ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, p := range parts {
		for _, kv := range p {
			name, _, ok := strings.Cut(kv, "=")
			if !ok || name == "" || strings.ContainsRune(kv, 0) {
				continue
			}
			if i, seen := at[name]; seen {
				out[i] = kv
				continue
			}
			at[name] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

// EndChildren kills every child of this process. It is for the end of a worker
// that adopts its orphans (PR_SET_CHILD_SUBREAPER), when nothing may be left.
func EndChildren() {
	self := strconv.Itoa(os.Getpid())
	for range 50 {
		found := false
		procs, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		for _, p := range procs {
			stat, err := os.ReadFile("/proc/" + p.Name() + "/stat")
			if err != nil {
				continue
			}
			// pid (name) state ppid …; the name may hold anything.
			f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			pid, err := strconv.Atoi(p.Name())
			if err != nil || len(f) < 2 || f[1] != self || f[0] == "Z" {
				continue
			}
			found = unix.Kill(pid, unix.SIGKILL) == nil || found
		}
		if !found {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// idle is what an idle server uses.
type idle struct {
	fds, threads, groups int
	memory               map[string]int64 // KiB that the process itself allocated, by process
}

func (i idle) String() string {
	return fmt.Sprintf("%d descriptors, %d threads, %d control groups, memory %v KiB", i.fds, i.threads, i.groups, i.memory)
}

// within compares with an earlier figure: descriptors and groups exactly, memory to
// 10 % (and a MiB, which a page of the heap makes).
func (i idle) within(before idle) error {
	if i.fds > before.fds || i.groups > before.groups {
		return fmt.Errorf("descriptors or control groups are left: %v, before %v", i, before)
	}
	for name, kib := range i.memory {
		if was := before.memory[name]; kib > was+was/10+1024 {
			return fmt.Errorf("the %s grew from %d to %d KiB", name, was, kib)
		}
	}
	return nil
}

// process is what /proc says of one.
type process struct {
	pid, parent int
	state, name string
	argv        []string
}

func processesAll() (out []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		stat, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue
		}
		open, close := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
		f := strings.Fields(string(stat[close+1:]))
		p := process{name: string(stat[open+1 : close]), state: f[0]}
		p.pid, _ = strconv.Atoi(filepath.Base(d))
		p.parent, _ = strconv.Atoi(f[1])
		cmdline, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		p.argv = strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		out = append(out, p)
	}
	return out
}

// processes are those of the server under test: what descends from it, and what was
// started from its folder. Zombies count.
func (w *world) processes() (out []process) {
	ours := map[int]bool{w.cmd.Process.Pid: true}
	all := processesAll()
	for range 8 { // as deep as the tree may be
		for _, p := range all {
			if ours[p.parent] || strings.HasPrefix(p.argv[0], w.bin+"/gatehouse") || w.isWorker(p.pid) {
				ours[p.pid] = true
			}
		}
	}
	for _, p := range all {
		if ours[p.pid] {
			out = append(out, p)
		}
	}
	return out
}

// isWorker reports whether a process is a worker of ours.
func (w *world) isWorker(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(b), filepath.Join(w.bin, "chaos")+"\x00worker")
}

// measure looks at an idle server: nothing may run but its own four processes.
func (w *world) measure() (idle, error) {
	i := idle{memory: map[string]int64{}}
	for _, p := range w.processes() {
		role := strings.TrimPrefix(strings.Join(p.argv[:min(2, len(p.argv))], " "), w.bin+"/")
		switch {
		case p.state == "Z":
			return i, fmt.Errorf("process %d (%s) is a zombie", p.pid, p.name)
		case !strings.HasPrefix(role, "gatehouse"):
			return i, fmt.Errorf("process %d is left: %q", p.pid, p.argv)
		}
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return i, err
		}
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
		i.fds += len(fds)
		i.threads += len(tasks)
		i.memory[role] = allocated(p.pid)
	}
	i.groups = w.groups()
	return i, nil
}

// allocated is in KiB: anonymous memory. Pages of the program itself are the page
// cache's and grow as more of the program is run for the first time.
func allocated(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}

// groups counts the control groups of workers.
func (w *world) groups() (n int) {
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, fmt.Sprintf("gatehouse-%d", w.cmd.Process.Pid)) && workerGroup.MatchString(d.Name()) {
			n++
		}
		return nil
	})
	return n
}

var workerGroup = regexp.MustCompile(`^w[0-9]+$`)

// front is the process id of the front end; 0: there is none.
func (w *world) front() (pid int) {
	for _, p := range w.processes() {
		if len(p.argv) > 1 && p.argv[1] == "front" {
			pid = p.pid
		}
	}
	return pid
}

// goroutines has the idle front end show its goroutines, which ends it; the monitor
// starts another.
func (w *world) goroutines() (int, error) {
	front := w.front()
	if front == 0 {
		return 0, errors.New("no front end")
	}
	st, err := w.log.Stat()
	if err != nil {
		return 0, err
	}
	from := st.Size()
	syscall.Kill(front, syscall.SIGQUIT)
	time.Sleep(3 * time.Second)
	b, err := os.ReadFile(w.log.Name())
	if err != nil {
		return 0, err
	}
	if n := len(goroutine.FindAll(b[from:], -1)); n > 0 {
		return n, nil
	}
	return 0, errors.New("it showed none")
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)

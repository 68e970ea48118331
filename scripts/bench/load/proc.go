package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usage is what a tree of processes has used, by the part that a process plays.
type usage struct {
	front   share // all but the rest: of gatehouse, the front end
	monitor share // monitor, its guard and the keykeeper
	workers share
}

type share struct {
	cpu    float64 // seconds, user and system
	memory int64   // bytes that the processes hold for themselves (RssAnon); not of workers
	pids   []int
}

// cpu is what the front end and its helpers have used, workers apart.
func (u *usage) cpu() float64 { return u.front.cpu + u.monitor.cpu }

// of returns the part of the process with that name, as the kernel cuts it.
func (u *usage) of(name string) *share {
	switch name {
	case "worker":
		return &u.workers
	case "gatehouse-monit", "gatehouse-keyke":
		return &u.monitor
	}
	return &u.front
}

// tree adds up the processes below and including root; root 0 has none.
func tree(root int) usage {
	var u usage
	names, kids := map[int]string{}, map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // ended meanwhile
		}
		open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		pid, _ := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
		rest := strings.Fields(string(b[shut+2:]))
		parent, _ := strconv.Atoi(rest[1])
		kids[parent] = append(kids[parent], pid)
		names[pid] = string(b[open+1 : shut])
	}
	var walk func(int)
	walk = func(pid int) {
		name, ok := names[pid]
		if !ok {
			return
		}
		s := u.of(name)
		s.cpu += cpuTime(pid)
		s.pids = append(s.pids, pid)
		if s != &u.workers {
			s.memory += status(pid, "RssAnon:")
		}
		for _, k := range kids[pid] {
			walk(k)
		}
	}
	if root != 0 {
		walk(root)
	}
	return u
}

// cpuTime reads another process's CPU clock (clock_getcpuclockid(3)), which counts
// nanoseconds where /proc counts hundredths; 0 for one that has ended.
func cpuTime(pid int) float64 {
	const scheduled = 2 // CPUCLOCK_SCHED
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|scheduled), &ts) != nil {
		return 0
	}
	return float64(ts.Nano()) / 1e9
}

// status reads one of a process's sizes in bytes; 0 for a process that has ended.
func status(pid int, name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n << 10
}

// resetPeak makes VmHWM count anew.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

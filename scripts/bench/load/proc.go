package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is what a tree of processes has used, in seconds of CPU; processes
// called "worker" are counted apart. memory is what the others hold for themselves,
// in bytes (VmRSS without files).
type usage struct {
	front, workers float64
	memory         int64
	n              int
}

const ticks = 100 // USER_HZ on every Linux that Go runs on

// tree adds up the processes below and including root.
func tree(root int) usage {
	var u usage
	if root == 0 {
		return u
	}
	type proc struct {
		worker bool
		cpu    float64
	}
	procs, kids := map[int]proc{}, map[int][]int{}
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
		user, _ := strconv.ParseFloat(rest[11], 64)
		sys, _ := strconv.ParseFloat(rest[12], 64)
		kids[parent] = append(kids[parent], pid)
		procs[pid] = proc{string(b[open+1:shut]) == "worker", (user + sys) / ticks}
	}
	var walk func(int)
	walk = func(pid int) {
		p, ok := procs[pid]
		if !ok {
			return
		}
		u.n++
		if p.worker {
			u.workers += p.cpu
		} else {
			u.front += p.cpu
			u.memory += anonymous(pid)
		}
		for _, k := range kids[pid] {
			walk(k)
		}
	}
	walk(root)
	return u
}

// anonymous is the RssAnon of a process in bytes.
func anonymous(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0 // ended meanwhile
	}
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[0], 10, 64)
	return n << 10
}

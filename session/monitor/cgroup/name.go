package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// prefix begins the name of a service's directory; its owner's process id and start
// time follow.
const prefix = "gatehouse-"

// Name is the name of the directory of the service whose topmost process that is.
func Name(pid int) string { return prefix + strconv.Itoa(pid) + "-" + startTime(pid) }

// IsLeftover reports whether a directory of that name was made for a service that
// does not run any more.
func IsLeftover(name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	id, start, ok2 := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(id)
	return ok && ok2 && err == nil && pid > 0 && startTime(pid) != start
}

// startTime is when a process started, in clock ticks since boot, which together
// with its id names it for good; "0" when there is no such process.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "0"
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before may hold anything
	if len(f) < 20 {
		return "0"
	}
	return string(f[19])
}

// OpenFor makes the directory of the service whose topmost process that is, or
// takes it over, with nothing in it, and removes those of services that do not run
// any more.
func OpenFor(pid int) (*Base, error) {
	b, err := Open(Name(pid))
	if err != nil {
		return nil, err
	}
	if err := b.Clear(); err != nil {
		return nil, err
	}
	for _, name := range b.Siblings() {
		if IsLeftover(name) {
			b.Sweep(name) // not ours to complain about: it may be another user's
		}
	}
	return b, nil
}

package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gatehouse/auth/printable"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listeningState = "0A"

// holder words who listens on the port, as far as /proc tells: "by process 812
// (nginx)". Sockets of other users' processes, and of those that hide their files as our
// own do, can only be attributed by root.
func holder(proc string, a netip.Addr, port int) string {
	inodes := sockets(proc, a, port)
	if len(inodes) == 0 {
		return "by a process that can't be seen from here"
	}
	pids := owners(proc, inodes)
	if len(pids) == 0 {
		return "by a process that this account may not look at (root can see which)"
	}
	words := make([]string, len(pids))
	for i, pid := range pids {
		words[i] = fmt.Sprintf("%d (%s)", pid, processName(proc, pid))
	}
	if len(words) == 1 {
		return "by process " + words[0]
	}
	return "by the processes " + strings.Join(words, ", ")
}

// sockets returns the inodes of the sockets that listen on the port at an
// address that collides with a.
func sockets(proc string, a netip.Addr, port int) []string {
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Scan() {
			f := strings.Fields(lines.Text())
			if len(f) < 10 || f[3] != listeningState {
				continue
			}
			if local, ok := parseLocal(f[1]); ok && int(local.Port()) == port && collide(local.Addr(), a) {
				out = append(out, f[9])
			}
		}
	}
	return out
}

// collide reports whether two listeners on one port exclude each other.
func collide(x, y netip.Addr) bool {
	x, y = x.Unmap(), y.Unmap()
	return x == y || x.IsUnspecified() && (x.Is6() || y.Is4()) || y.IsUnspecified() && (y.Is6() || x.Is4())
}

// parseLocal reads "0100007F:1F40": 32-bit words in the machine's byte order,
// little-endian on all that Go and Debian run on but s390x.
func parseLocal(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(host)
	if !ok || err != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr, uint16(n)), ok && err == nil
}

// owners finds the processes that have one of the sockets open, lowest first.
func owners(proc string, inodes []string) []int {
	var out []int
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return nil
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if !isSocket || !slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err == nil && !slices.Contains(out, pid) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// processName is the name of a process, safe to print.
func processName(proc string, pid int) string {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "comm"))
	if err != nil {
		return "unknown"
	}
	return printable.Text(strings.TrimSuffix(string(b), "\n"), printable.Value)
}

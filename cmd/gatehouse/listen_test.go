package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func mustEndpoints(t *testing.T, addresses ...string) []endpoint {
	t.Helper()
	ends, err := endpoints(addresses)
	if err != nil {
		t.Fatal(err)
	}
	return ends
}

// needIPv6 skips aloud on hosts without it.
func needIPv6(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("this host has no IPv6 loopback: ", err)
	}
	ln.Close()
}

func TestEndpoints(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"localhost", "[{127.0.0.1 true} {::1 true}]"},
		{"127.0.0.1", "[{127.0.0.1 false}]"},
		{"localhost ::1", "[{127.0.0.1 true} {::1 false}]"},
		{"0.0.0.0 ::", "[{0.0.0.0 false} {:: false}]"},
		{"0.0.0.0 127.0.0.1", "[{0.0.0.0 false}]"},
		{"localhost 0.0.0.0", "[{::1 true} {0.0.0.0 false}]"},
		{"127.0.0.1 :: ::1", "[{:: false}]"},
	} {
		var got []string
		for _, e := range mustEndpoints(t, strings.Fields(c.given)...) {
			got = append(got, fmt.Sprintf("{%s %v}", e.addr, e.optional))
		}
		if got := fmt.Sprint(got); got != c.want {
			t.Errorf("%s: %s, want %s", c.given, got, c.want)
		}
	}
	var many []string
	for i := range maxListeners + 1 {
		many = append(many, "127.0.0."+strconv.Itoa(i+1))
	}
	if _, err := endpoints(many); err == nil {
		t.Error("more listeners than there are descriptors kept free")
	}
}

// TestBothFamiliesOrNone: localhost is two addresses, and a server that has only
// one of them is unreachable for half of the clients.
func TestBothFamiliesOrNone(t *testing.T) {
	needIPv6(t)
	lns, err := listen(mustEndpoints(t, "localhost"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(lns)
	if len(lns) != 2 || lns[0].Addr().(*net.TCPAddr).Port != lns[1].Addr().(*net.TCPAddr).Port {
		t.Fatalf("listens on %v", addressesOf(lns))
	}
	closeAll(lns)
	for _, taken := range []string{"[::1]:0", "127.0.0.1:0"} {
		other, err := net.Listen("tcp", taken)
		if err != nil {
			t.Fatal(err)
		}
		port := other.Addr().(*net.TCPAddr).Port
		half, err := listen(mustEndpoints(t, "localhost"), port)
		if err == nil || half != nil || !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("%s taken: %v, %v", taken, addressesOf(half), err)
		}
		if pid := strconv.Itoa(os.Getpid()); !strings.Contains(err.Error(), "process "+pid+" (") {
			t.Errorf("%v does not name process %s", err, pid)
		}
		other.Close()
		again, err := listen(mustEndpoints(t, "localhost"), port)
		if err != nil {
			t.Errorf("the refused start has left something bound: %v", err)
		}
		closeAll(again)
	}
}

// TestSecondFamilyIsOptional: an address that the host lacks stops the start
// when it was asked for, and not when it came along with localhost.
func TestSecondFamilyIsOptional(t *testing.T) {
	absent := netip.MustParseAddr("2001:db8::1") // documentation only, RFC 3849
	lns, err := listen([]endpoint{{netip.MustParseAddr("127.0.0.1"), true}, {absent, true}}, 0)
	if err != nil || len(lns) != 1 {
		t.Errorf("optional: %v, %v", addressesOf(lns), err)
	}
	closeAll(lns)
	if lns, err := listen([]endpoint{{netip.MustParseAddr("127.0.0.1"), true}, {absent, false}}, 0); err == nil || !strings.Contains(err.Error(), "MCP_BIND_ADDRESS") {
		t.Errorf("asked for: %v, %v", addressesOf(lns), err)
	}
	if lns, err := listen([]endpoint{{absent, true}}, 0); err == nil {
		t.Errorf("none left: %v", addressesOf(lns))
	}
}

func TestSocketTable(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F40":                         "127.0.0.1:8000",
		"00000000:01BB":                         "0.0.0.0:443",
		"00000000000000000000000001000000:1F40": "[::1]:8000",
		"0000000000000000FFFF00000100007F:0050": "[::ffff:127.0.0.1]:80",
		"B80D0120000000000000000001000000:0050": "[2001:db8::1]:80",
	} {
		if got, ok := parseLocal(text); !ok || got.String() != want {
			t.Errorf("%s: %v %v, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ":", "0100007F", "01007F:1F40", "zz:1", "0100007F:zz", "0100007F:12345"} {
		if got, ok := parseLocal(text); ok {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestCollision(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"127.0.0.1", "127.0.0.1", true}, {"127.0.0.1", "127.0.0.2", false}, {"0.0.0.0", "127.0.0.1", true},
		{"::", "127.0.0.1", true}, {"::1", "127.0.0.1", false}, {"0.0.0.0", "::1", false}, {"::ffff:127.0.0.1", "127.0.0.1", true},
	} {
		a, b := netip.MustParseAddr(c.a), netip.MustParseAddr(c.b)
		if collide(a, b) != c.want || collide(b, a) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

// TestHolder reads a process table of this test's making.
func TestHolder(t *testing.T) {
	proc := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(proc, "net"), 0o755))
	must(os.WriteFile(filepath.Join(proc, "net", "tcp"), []byte("  sl  local_address rem_address   st\n"+
		"   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"+
		"   1: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1\n"+
		"   2: 0100007F:1F42 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 4713 1\n"), 0o644))
	for pid, comm := range map[string]string{"812": "ngi\x1bnx\n", "900": "other\n"} {
		must(os.MkdirAll(filepath.Join(proc, pid, "fd"), 0o755))
		must(os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(comm), 0o644))
	}
	must(os.Symlink("socket:[4711]", filepath.Join(proc, "812", "fd", "7")))
	must(os.Symlink("/dev/null", filepath.Join(proc, "900", "fd", "0")))
	a := netip.MustParseAddr("127.0.0.1")
	for port, want := range map[int]string{
		8000: `by process 812 (ngi\u001bnx)`,
		8001: "by a process that this account may not look at (root can see which)",
		8002: "by a process that can't be seen from here", // a connection, no listener
		8003: "by a process that can't be seen from here",
	} {
		if got := holder(proc, a, port); got != want {
			t.Errorf("port %d: %s, want %s", port, got, want)
		}
	}
}

func TestVersionLine(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.0.0-2026"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"}}}
	for _, c := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"", info, "gatehouse v0.0.0-2026 commit 0123456789ab with changes go1.26.8"},
		{"v1.2.3", info, "gatehouse v1.2.3 commit 0123456789ab with changes go1.26.8"},
		{"", nil, "gatehouse unknown"},
		{"v1.2.3", nil, "gatehouse v1.2.3"},
	} {
		if got := describeBuild(c.linked, c.info); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

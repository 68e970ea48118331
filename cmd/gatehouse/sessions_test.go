package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSessionsSocket: a port is the whole number, and what another account's server
// has is not offered.
func TestSessionsSocket(t *testing.T) {
	dir := t.TempDir()
	short, err := os.MkdirTemp("", "ops") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	for _, name := range []string{"gatehouse-8443.sock", "gatehouse-443.sock", "closed-443.sock"} {
		l, err := net.Listen("unix", filepath.Join(short, name))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.Chmod(filepath.Join(short, "closed-443.sock"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"live-1.sock", "live-2.sock"} { // 2 is what a dead server has left
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, name)})
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(filepath.Join(short, name))
		if name == "live-2.sock" {
			l.SetUnlinkOnClose(false)
			l.Close()
		}
	}
	own, foreign, live := filepath.Join(short, "gatehouse-*.sock"), filepath.Join(short, "closed-*.sock"), filepath.Join(short, "live-*.sock")
	for _, c := range []struct {
		name   string
		cmd    sessionsCmd
		places []string
		want   string
		err    string
		asUser bool // root may use every socket
	}{
		{name: "named", cmd: sessionsCmd{Socket: "/a"}, places: []string{own}, want: "/a"},
		{name: "end of another port", cmd: sessionsCmd{Port: 443}, places: []string{own}, want: filepath.Join(short, "gatehouse-443.sock")},
		{name: "the longer port", cmd: sessionsCmd{Port: 8443}, places: []string{own}, want: filepath.Join(short, "gatehouse-8443.sock")},
		{name: "no such port", cmd: sessionsCmd{Port: 43}, places: []string{own}, err: "for port 43"},
		{name: "none", places: []string{filepath.Join(dir, "*.sock")}, err: "--socket"},
		{name: "beside a dead server's", places: []string{live}, want: filepath.Join(short, "live-1.sock")},
		{name: "switched off", cmd: sessionsCmd{Socket: "none"}, places: []string{own}, err: "operators.socket is none"},
		{name: "several", places: []string{own}, err: "several servers"},
		{name: "ours beside a foreign one", cmd: sessionsCmd{Port: 443}, places: []string{foreign, own}, want: filepath.Join(short, "gatehouse-443.sock"), asUser: true},
		{name: "a foreign one", places: []string{foreign}, err: "is not for this account", asUser: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.asUser && os.Geteuid() == 0 {
				t.Skip("root may use every socket")
			}
			got, err := c.cmd.socket(c.places)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

// TestSessionsNamedSocket: a socket that was named is answered for like one that was found.
func TestSessionsNamedSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "ops") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	left, closed := filepath.Join(dir, "left.sock"), filepath.Join(dir, "closed.sock")
	for _, path := range []string{left, closed} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		defer l.Close()
		if path == left { // what a dead server leaves
			l.Close()
		}
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	says := map[string]string{filepath.Join(dir, "none.sock"): "no server answers at ", left: "no server answers at "}
	if os.Geteuid() != 0 { // root may use every socket
		says[closed] = "is not for this account"
	}
	for path, want := range says {
		cmd := sessionsCmd{Socket: path}
		if _, err := cmd.ask(operatorRequest{}, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestSessionsRows: what waits for a session and what the front end did not describe
// look like neither a session nor each other.
func TestSessionsRows(t *testing.T) {
	for _, c := range []struct {
		name, want string
		w          operatorWorker
	}{
		{"a session", "k3Jx0a 4s 1 yes", operatorWorker{Known: true, Session: "k3Jx0a", IdleMS: 4000, Calls: 1, Stream: true}},
		{"not described", "? ? ? ?", operatorWorker{}},
		{"warm", "(warm) - - -", operatorWorker{Warm: true}},
		{"what a terminal would obey", `\u009b2J\u202ex 0s 0 no`, operatorWorker{Known: true, Session: "\u009b2J\u202ex"}},
	} {
		row := c.w.row(time.Now())
		if got := strings.Join([]string{row[1], row[7], row[8], row[9]}, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

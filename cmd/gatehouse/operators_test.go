package main

import (
	"bytes"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse/cmd/internal/conf"
)

// operatorsConf is a configuration with the socket at that path, for nobody's group.
func operatorsConf(t *testing.T, path string) *conf.Config {
	t.Helper()
	return operatorsOf(t, path, "no-such-group")
}

func operatorsOf(t *testing.T, path, group string) *conf.Config {
	t.Helper()
	host, err := conf.ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	c, _, _ := conf.Load(conf.Input{Environ: []string{"MCP_MODE=loopback", "MCP_OPERATORS_SOCKET=" + path, "MCP_OPERATORS_GROUP=" + group}}, host)
	return c
}

// TestOperatorsGroup: as root the socket is for the group that is configured too, for
// nobody's when there is none of that name, and never for root's.
func TestOperatorsGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: nobody else gives a socket to a group")
	}
	group, err := user.LookupGroupId("65534")
	if err != nil {
		t.Skip("this host has no group 65534: ", err)
	}
	for name, want := range map[string]struct {
		mode os.FileMode
		gid  uint32
	}{group.Name: {0o660, 65534}, "no-such-group": {0o600, 0}, "root": {0o600, 0}} {
		path := filepath.Join(t.TempDir(), "op.sock")
		ln, err := bindOperators(operatorsOf(t, path, name), 8000)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if sys := st.Sys().(*syscall.Stat_t); st.Mode().Perm() != want.mode || sys.Uid != 0 || sys.Gid != want.gid {
			t.Errorf("%s: mode %04o, uid %d, gid %d; want %04o of root and %d", name, st.Mode().Perm(), sys.Uid, sys.Gid, want.mode, want.gid)
		}
	}
}

func TestOperatorsSocketIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "op.sock")
	ln, err := bindOperators(operatorsConf(t, path), 8000)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v, want 0600", st.Mode(), err)
	}
	if _, err := bindOperators(operatorsConf(t, path), 8000); err == nil || !strings.Contains(err.Error(), "another server listens on it") {
		t.Errorf("a second server: %v", err)
	}
	ln.Close() // which leaves the file, as a killed server does
	again, err := bindOperators(operatorsConf(t, path), 8000)
	if err != nil {
		t.Fatalf("after a server that was killed: %v", err)
	}
	again.Close()
	os.Remove(path)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bindOperators(operatorsConf(t, path), 8000); err == nil {
		t.Error("a file that is no socket was taken")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("a file that is no socket was removed")
	}
	if ln, err := bindOperators(operatorsConf(t, "none"), 8000); ln != nil || err != nil {
		t.Errorf("none: %v, %v", ln, err)
	}
}

// fakeMonitor answers each request with the same lines, and keeps the request.
func fakeMonitor(t *testing.T, answer string) (path string, asked func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "op.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	requests := make(chan string, 8)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			n, _ := c.Read(b)
			requests <- string(b[:n])
			c.Write([]byte(answer))
			c.Close()
		}
	}()
	return path, func() string { return <-requests }
}

func TestSessionsCommand(t *testing.T) {
	const worker = `{"id":"w7","account":"alice","uid":1000,"subject":"s\u001b1","client":"cli","server":"/mcp","pid":81,"since":"2026-01-01T00:00:00Z","memory":1048576,"known":true,"session":"abcdef","idle_ms":61000,"calls":2,"stream":true}` + "\n"
	const silent = `{"id":"w8","account":"bob","server":"/mcp","pid":82,"since":"2026-01-01T00:00:00Z","known":false}` + "\n"
	path, asked := fakeMonitor(t, worker+silent+`{"done":2}`+"\n")
	say := func(args ...string) (code int, out, complaint string) {
		var stdout, stderr bytes.Buffer
		code = run(append([]string{"sessions", "--socket", path}, args...), streams{strings.NewReader(""), &stdout, &stderr, nil})
		return code, stdout.String(), stderr.String()
	}
	code, out, complaint := say()
	if code != 0 || asked() != `{"op":"list"}`+"\n" {
		t.Fatalf("%d %s", code, complaint)
	}
	rows := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range [][]string{{"ID", "SESSION", "MEMORY"}, {"w7", "abcdef", "alice", `s\u001b1`, "1m1s", "2", "yes", "1.0 MiB"}, {"w8", "?", "bob"}} {
		for _, w := range want {
			if len(rows) != 3 || !strings.Contains(rows[i], w) {
				t.Fatalf("line %d lacks %q:\n%s", i, w, out)
			}
		}
	}
	if code, out, _ := say("list", "--json"); code != 0 || out != worker+silent {
		t.Errorf("JSON: %d %s", code, out)
	}
	asked()
	if code, out, _ := say("end", "--account", "alice", "--id", "w7"); code != 0 || out != "2 ended\n" || asked() != `{"op":"end","account":"alice","id":"w7"}`+"\n" {
		t.Errorf("end: %d %s", code, out)
	}
	if code, _, complaint := say("end"); code != exitUsage || !strings.Contains(complaint, "--account") {
		t.Errorf("end without a word whom: %d %s", code, complaint)
	}
	path, _ = fakeMonitor(t, `{"done":0,"error":"an operator can list and end"}`+"\n")
	if code, _, complaint := say(); code != exitFailed || !strings.Contains(complaint, "an operator can list and end") {
		t.Errorf("refused: %d %s", code, complaint)
	}
	path = filepath.Join(t.TempDir(), "none.sock")
	if code, _, complaint := say(); code != exitFailed || !strings.Contains(complaint, "no server answers at") {
		t.Errorf("no server: %d %s", code, complaint)
	}
}

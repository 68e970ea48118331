// Package scripts_test holds what of the shell library can be tested by itself.
package scripts_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bash runs a script with lib.sh in it and a state folder of its own.
func bash(t *testing.T, state, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("bash", "-c", "set -euo pipefail; umask 022; . ./lib.sh\n"+script)
	cmd.Env = append(os.Environ(), "MCP_STATE_DIR="+state)
	return cmd
}

// TestTwoStartsOnOnePort: the second must not take the first one's half-started
// server for what a dead one has left, and what the first has started must not stand
// in the way of a later start.
func TestTwoStartsOnOnePort(t *testing.T) {
	state := t.TempDir()
	run := filepath.Join(state, "run", "8443")
	first := bash(t, state, `prepare_state; begin_run "$RUNS/8443" loopback http://localhost:8443/mcp
launch "$RUNS/8443/other.pid" "$RUNS/8443/other.log" sleep 60
echo "$LAUNCHED"; read -r _`)
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Command("kill", strings.TrimSpace(pid)).Run()

	begin := `begin_run "$RUNS/8443" loopback http://localhost:8443/mcp`
	if b, err := bash(t, state, begin).CombinedOutput(); err == nil || !strings.Contains(string(b), "another start on port 8443 is under way") {
		t.Errorf("second start beside the first: %v\n%s", err, b)
	}
	if _, err := os.Stat(filepath.Join(run, "info")); err != nil {
		t.Errorf("the first start's folder was cleared: %v", err)
	}
	if b, err := bash(t, state, `begin_run "$RUNS/8444" loopback http://localhost:8444/mcp`).CombinedOutput(); err != nil {
		t.Errorf("start on another port: %v\n%s", err, b)
	}
	in.Close()
	first.Wait() // its read fails, and so does it
	if b, err := bash(t, state, begin).CombinedOutput(); err != nil {
		t.Errorf("start after the first: %v\n%s", err, b)
	}
}

// TestLockFilesAreOurs: whoever can open a lock file can hold its lock.
func TestLockFilesAreOurs(t *testing.T) {
	state := t.TempDir()
	old := filepath.Join(state, "old.lock")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	os.Chmod(old, 0o644)
	fresh := filepath.Join(state, "new.lock")
	if b, err := bash(t, state, `lock_file "$MCP_STATE_DIR/old.lock"; lock_file "$MCP_STATE_DIR/new.lock"`).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	for _, path := range []string{old, fresh} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want 0600", path, st.Mode(), err)
		}
	}
}

// TestReadyIsOurOwn: another server on the port answers too, and a start that it
// keeps from listening has failed.
func TestReadyIsOurOwn(t *testing.T) {
	script := `BIN=$MCP_STATE_DIR/bin; mkdir "$BIN"; printf '#!/bin/sh\n' >"$BIN/gatehouse-demo"; chmod 755 "$BIN/gatehouse-demo" # a probe that is answered
sleep 60 & trap 'kill %1' EXIT
log=$MCP_STATE_DIR/log; echo 'gatehouse: the port is in use' >"$log"
! wait_ready $! 1 "$log" http://127.0.0.1:8000/healthz 2>/dev/null || { echo 'not ours, and ready'; exit 1; }
echo 'gatehouse: listening on http://127.0.0.1:8000/mcp' >>"$log"
wait_ready $! 5 "$log" http://127.0.0.1:8000/healthz
: >"$log"
said=$(wait_ready $! 1 "$log" http://127.0.0.1:8000/healthz 2>&1) || grep -q 'is there room for' <<<"$said" || { echo "an empty log: $said"; exit 1; }`
	if b, err := bash(t, t.TempDir(), script).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, b)
	}
}

// TestStopWaitsForAStart: else it would stop half of it, and the rest would go on.
func TestStopWaitsForAStart(t *testing.T) {
	state := t.TempDir()
	start := bash(t, state, `prepare_state; begin_run "$RUNS/8443" loopback http://localhost:8443/mcp; echo begun; read -r _`)
	in, err := start.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := start.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stop := exec.Command("./stop-server.sh")
	stop.Env = append(os.Environ(), "MCP_STATE_DIR="+state)
	said, err := stop.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stop.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(said).ReadString('\n'); !strings.Contains(line, "a start on port 8443 is under way") {
		t.Errorf("stop says %q", line)
	}
	info := filepath.Join(state, "run", "8443", "info")
	if _, err := os.Stat(info); err != nil {
		t.Errorf("while the start is under way: %v", err)
	}
	in.Close()
	start.Wait() // its read fails, and so does it
	if err := stop.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(info); err == nil {
		t.Error("the start's folder was not cleared afterwards")
	}
}

// TestStopWantsAPort: "nothing of ours runs on port 08000" would be no answer.
func TestStopWantsAPort(t *testing.T) {
	for _, port := range []string{"", "0", "08000", "65536", "99999"} {
		stop := exec.Command("./stop-server.sh", port)
		stop.Env = append(os.Environ(), "MCP_STATE_DIR="+t.TempDir())
		if b, err := stop.CombinedOutput(); err == nil || !strings.Contains(string(b), "want a port number") {
			t.Errorf("%q: %v\n%s", port, err, b)
		}
	}
}

// TestRootsUmask: other accounts run what root installs.
func TestRootsUmask(t *testing.T) {
	want := "0022"
	if os.Geteuid() != 0 {
		want = "0077"
	}
	cmd := exec.Command("bash", "-c", "umask 077; . ./lib.sh; umask")
	if b, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(b)) != want {
		t.Errorf("%v, %q; want %s", err, b, want)
	}
}

// TestStateFolderThatWasNotChosen: passing on the default would win over the
// configuration file.
func TestStateFolderThatWasNotChosen(t *testing.T) {
	for given, want := range map[string]string{"": "", "/srv/state": "/srv/state", "state": ""} {
		cmd := exec.Command("bash", "-c", `. ./lib.sh; settle_state; printf %s "${MCP_STATE_DIR:-}"`)
		cmd.Env = append(os.Environ(), "MCP_STATE_DIR="+given)
		if given == "state" {
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			want = filepath.Join(here, given)
		}
		if b, err := cmd.CombinedOutput(); err != nil || string(b) != want {
			t.Errorf("%q: %v, %q; want %q", given, err, b, want)
		}
	}
}

// TestWorkspaceThatWasCutShort: what failed half-way leaves nothing and can be run again.
func TestWorkspaceThatWasCutShort(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git here")
	}
	dir, tools := t.TempDir(), t.TempDir()
	broken := "#!/bin/sh\nfor a; do [ \"$a\" != push ] || exit 1; done\nexec " + git + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(tools, "git"), []byte(broken), 0o755); err != nil {
		t.Fatal(err)
	}
	repository := filepath.Join(dir, "sample.git")
	cut := exec.Command("./setup-workspace.sh", repository, "--sample")
	cut.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	if b, err := cut.CombinedOutput(); err == nil {
		t.Fatalf("without git push:\n%s", b)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if b, err := exec.Command("./setup-workspace.sh", repository, "--sample", "--branch", "trunk").CombinedOutput(); err != nil {
		t.Fatalf("again: %v\n%s", err, b)
	}
	copied := filepath.Join(dir, "copy.git")
	b, err := exec.Command("./setup-workspace.sh", copied, "--from", repository).CombinedOutput()
	if err != nil || !strings.Contains(string(b), "shared branch trunk") {
		t.Errorf("a copy: %v\n%s", err, b)
	}
	if b, err := exec.Command("./setup-workspace.sh", filepath.Join(dir, "other.git"), "--from", repository, "--branch", "absent").CombinedOutput(); err == nil {
		t.Errorf("a copy with a branch that the source lacks:\n%s", b)
	}
}

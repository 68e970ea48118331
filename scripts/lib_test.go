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

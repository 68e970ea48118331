package scripts_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// eachScript runs a test for every script that people start.
func eachScript(t *testing.T, test func(t *testing.T, name string)) {
	t.Helper()
	names, err := filepath.Glob("*.sh")
	if err != nil || len(names) < 20 {
		t.Fatalf("scripts: %q, %v", names, err)
	}
	for _, name := range names {
		if name != "lib.sh" && name != "test-lib.sh" {
			t.Run(name, func(t *testing.T) { test(t, name) })
		}
	}
}

// run starts a script whose home, state, cache and temporary folders are one of the
// test's own, and says what it printed, its exit code, and what it left there.
func run(t *testing.T, name string, args ...string) (out, complaint string, code int, left []string) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./"+name, args...)
	cmd.WaitDelay = time.Second
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MCP_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+dir, "MCP_STATE_DIR="+dir+"/state", "GATEHOUSE_TEST_CACHE="+dir+"/cache", "TMPDIR="+dir)
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	return o.String(), e.String(), cmd.ProcessState.ExitCode(), left
}

// TestScriptsExplainThemselves: --help says how, on stdout, and does nothing.
func TestScriptsExplainThemselves(t *testing.T) {
	eachScript(t, func(t *testing.T, name string) {
		out, complaint, code, left := run(t, name, "--help")
		if code != 0 || !strings.HasPrefix(out, "usage: scripts/"+name) || complaint != "" || len(left) != 0 {
			t.Errorf("exit code %d, left %q\n%s%s", code, left, out, complaint)
		}
	})
}

// TestScriptsRefuseWhatTheyDoNotKnow: a slip is named, and nothing is begun.
func TestScriptsRefuseWhatTheyDoNotKnow(t *testing.T) {
	eachScript(t, func(t *testing.T, name string) {
		out, complaint, code, left := run(t, name, "--no-such-option")
		if code != 2 || !strings.Contains(complaint, "--no-such-option") || out != "" || len(left) != 0 {
			t.Errorf("exit code %d, left %q\n%s%s", code, left, out, complaint)
		}
	})
}

// TestScriptsSayWhatTheyLack: what a script cannot do is refused with its reason and
// the exit status that its help names.
func TestScriptsSayWhatTheyLack(t *testing.T) {
	for _, c := range []struct {
		name, args string
		code       int
		says       string
	}{
		{"setup-workspace.sh", "/proc/nowhere/code.git --sample", 2, "no place for the repository: mkdir"},
		{"setup-workspace.sh", "code.git --branch a..b", 2, "is no name for a branch"},
		{"setup-oidc-users.sh", "--keycloak https://localhost:1 --realm staff --realm-only --audience https://x.example/mcp --admin-password-file /nowhere",
			2, "setup-oidc-users.sh: --admin-password-file /nowhere: cannot be read"},
		{"test-tls.sh", "localhost:8443", 1, "want the server's URL"},
		{"test-tls.sh", "https://localhost:8443/mcp", 1, "a token is missing"},
	} {
		out, complaint, code, _ := run(t, c.name, strings.Fields(c.args)...)
		if code != c.code || !strings.HasPrefix(complaint, c.name+": ") || !strings.Contains(complaint, c.says) {
			t.Errorf("%s %s: exit code %d\n%s%s", c.name, c.args, code, out, complaint)
		}
	}
	if b, err := bash(t, "/proc/nowhere", "prepare_state").CombinedOutput(); err == nil || !strings.Contains(string(b), "MCP_STATE_DIR chooses another place") {
		t.Errorf("a state folder that cannot be: %v\n%s", err, b)
	}
}

// Package accountstest makes real operating-system accounts for tests that run as
// root, and removes them. Their names begin with Prefix and end with the process id
// of the test, so that several test programs can run at once and leftovers of one
// that was killed are found.
package accountstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Prefix begins the name of everything that tests make.
const Prefix = "ghtest-"

// People are the accounts of one test program.
type People struct {
	Alice, Bob          string // people, with homes, in the group Team
	Front, Keys, Worker string // system accounts without homes
	Team                string
}

var roles = []string{"alice", "bob", "front", "keys", "work"}

func name(role string, pid int) string { return fmt.Sprintf("%s%s-%d", Prefix, role, pid) }

// Main runs a test program: as root with people made before and removed after the
// tests, else with none and a line that says so.
func Main(m *testing.M, people *People) (code int) {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "SKIPPED: tests that need root, since this is not root")
		return m.Run()
	}
	defer remove(os.Getpid())
	made, err := makePeople()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make test accounts:", err)
		return 1
	}
	*people = made
	return m.Run()
}

func makePeople() (People, error) {
	removeLeftovers()
	pid := os.Getpid()
	p := People{
		Alice: name("alice", pid), Bob: name("bob", pid), Front: name("front", pid),
		Keys: name("keys", pid), Worker: name("work", pid), Team: name("team", pid),
	}
	if err := Admin("groupadd", p.Team); err != nil {
		return p, err
	}
	for _, who := range []string{p.Alice, p.Bob} {
		if err := Admin("useradd", "-m", "-U", "-p", "*", "-s", "/bin/sh", "-K", "HOME_MODE=0700", "-G", p.Team, who); err != nil {
			return p, err
		}
	}
	for _, who := range []string{p.Front, p.Keys, p.Worker} {
		if err := Admin("useradd", "-r", "-M", "-U", "-d", "/nonexistent", "-s", "/usr/sbin/nologin", who); err != nil {
			return p, err
		}
	}
	return p, nil
}

// removeLeftovers removes the accounts of test programs that do not run any more.
func removeLeftovers() {
	all, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(all)) {
		account, _, _ := strings.Cut(line, ":")
		rest, ours := strings.CutPrefix(account, Prefix)
		_, id, _ := strings.Cut(rest, "-")
		if pid, err := strconv.Atoi(id); ours && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			remove(pid)
		}
	}
}

func remove(pid int) {
	for _, role := range roles {
		if _, err := user.Lookup(name(role, pid)); err == nil {
			if err := Admin("userdel", "-r", name(role, pid)); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	if _, err := user.LookupGroup(name("team", pid)); err == nil {
		Admin("groupdel", name("team", pid))
	}
}

// Admin runs a tool of the shadow suite, waiting for its lock.
func Admin(tool string, args ...string) error {
	for try := 0; ; try++ {
		out, err := exec.Command(tool, args...).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return nil
		case tool == "userdel" && errors.As(err, &exit) && exit.ExitCode() == 12: // there was no home or mailbox
			return nil
		case try > 50 || !strings.Contains(string(out), "lock"):
			return fmt.Errorf("%s %v: %w: %s", tool, args, err, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// NeedRoot skips a test, aloud, that needs root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
}

// IDs returns the uid and gid of an account.
func IDs(t testing.TB, account string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(account)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

// GID returns the number of a group.
func GID(t testing.TB, group string) int {
	t.Helper()
	g, err := user.LookupGroup(group)
	if err != nil {
		t.Fatal(err)
	}
	gid, _ := strconv.Atoi(g.Gid)
	return gid
}

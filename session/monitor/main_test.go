package monitor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"
)

// people are the accounts that tests make when they run as root.
type people struct {
	alice, bob, front, keys, worker string
	team                            string // a group that alice and bob are in
}

var folk people

const testPrefix = "ghtest-"

func TestMain(m *testing.M) {
	if code, isHelper := runHelper(); isHelper {
		os.Exit(code)
	}
	code := 1
	func() {
		if os.Geteuid() == 0 {
			defer removePeople(os.Getpid())
			if err := makePeople(); err != nil {
				fmt.Fprintln(os.Stderr, "make test accounts:", err)
				return
			}
		} else {
			fmt.Fprintln(os.Stderr, "SKIPPED: tests that need root, since this is not root")
		}
		code = m.Run()
		removeBuilt()
	}()
	os.Exit(code)
}

// makePeople makes accounts whose names hold our process id, after removing those
// of test processes that were killed.
func makePeople() error {
	if all, err := os.ReadFile("/etc/passwd"); err == nil {
		for line := range strings.Lines(string(all)) {
			name, _, _ := strings.Cut(line, ":")
			_, id, _ := strings.Cut(strings.TrimPrefix(name, testPrefix), "-")
			pid, err := strconv.Atoi(id)
			if strings.HasPrefix(name, testPrefix) && err == nil && startTime(pid) == "0" {
				removePeople(pid)
			}
		}
	}
	name := func(role string) string { return fmt.Sprintf("%s%s-%d", testPrefix, role, os.Getpid()) }
	folk = people{
		alice: name("alice"), bob: name("bob"), front: name("front"), keys: name("keys"), worker: name("work"), team: name("team"),
	}
	if err := admin("groupadd", folk.team); err != nil {
		return err
	}
	for _, p := range []string{folk.alice, folk.bob} {
		if err := admin("useradd", "-m", "-U", "-p", "*", "-s", "/bin/sh", "-K", "HOME_MODE=0700", "-G", folk.team, p); err != nil {
			return err
		}
	}
	for _, p := range []string{folk.front, folk.keys, folk.worker} {
		if err := admin("useradd", "-r", "-M", "-U", "-d", "/nonexistent", "-s", "/usr/sbin/nologin", p); err != nil {
			return err
		}
	}
	return nil
}

func removePeople(pid int) {
	for _, role := range []string{"alice", "bob", "front", "keys", "work"} {
		name := fmt.Sprintf("%s%s-%d", testPrefix, role, pid)
		if _, err := user.Lookup(name); err == nil {
			if err := admin("userdel", "-r", name); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	if group := fmt.Sprintf("%steam-%d", testPrefix, pid); groupExists(group) {
		admin("groupdel", group)
	}
}

func groupExists(name string) bool {
	_, err := user.LookupGroup(name)
	return err == nil
}

// admin runs a tool of the shadow suite, waiting for its lock.
func admin(tool string, args ...string) error {
	for try := 0; ; try++ {
		out, err := exec.Command(tool, args...).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return nil
		case tool == "userdel" && errors.As(err, &exit) && exit.ExitCode() == 12: // no mailbox to remove
			return nil
		case try > 50 || !strings.Contains(string(out), "lock"):
			return fmt.Errorf("%s %v: %w: %s", tool, args, err, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
}

func lookup(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

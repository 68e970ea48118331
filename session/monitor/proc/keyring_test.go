package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be a child that looks at its session keyring.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "keyring" {
		lookAtKeyring(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// lookAtKeyring says whether a key of that name is in the session keyring, and puts one
// there that a later child could find.
func lookAtKeyring(name string) {
	_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", name, 0)
	_, err2 := unix.AddKey("user", "ghtest-theirs", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	fmt.Println(name, err == nil, err2)
}

// TestKeyringIsTheChildsOwn: a child of another account finds no key that is in our
// session keyring or in that of the child before it, and may put its own there.
func TestKeyringIsTheChildsOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	self, names := openCopy(t), []string{"ghtest-ours", "ghtest-theirs"}
	var specs []*Spec
	var outs []*os.File
	for i, name := range names {
		s, out := shell(t, "")
		s.Path, s.Argv = self, []string{"x", "keyring", name}
		s.As, s.RunsAsRootOnPurpose = &Identity{UID: 4711 + uint32(i), GID: 4711}, false
		specs, outs = append(specs, &s), append(outs, out)
	}
	if err := besideAKey(specs); errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skipf("SKIPPED: there are no keyrings here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if got, want := text(t, outs[i]), name+" false <nil>\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// besideAKey starts children as the host's thread does, one after the other, on a thread
// that has a key in its session keyring.
func besideAKey(specs []*Spec) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the keyring goes with the thread
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if err == nil {
			_, err = unix.AddKey("user", "ghtest-ours", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
		}
		for _, s := range specs {
			if err != nil {
				break
			}
			j := &job{spec: s}
			if j.turn, err = host.folders.Take(s.Dir); err != nil {
				break
			}
			var c *Child
			if c, err = host.serve(j, false); err == nil {
				<-c.Done()
			}
		}
		result <- err
	}()
	return <-result
}

// openCopy is a copy of the test binary that every account can run.
func openCopy(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ghtest-proc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "child")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(name, b, 0o755)); err != nil {
		t.Fatal(err)
	}
	return name
}

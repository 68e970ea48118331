package world

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/session/accounts"
	"gatehouse/session/settings"
)

var update = flag.Bool("update", false, "write the golden files")

var alice = accounts.Account{Name: "alice", UID: 1001, GID: 1001, Home: "/home/alice", Shell: "/bin/bash"}

// TestEnvironIsExactly compares with a golden file: what a worker finds is
// documented, and a change to it has to be meant.
func TestEnvironIsExactly(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "leaks")
	t.Setenv("LD_PRELOAD", "/tmp/evil.so")
	t.Setenv("TZ", "Nowhere")
	dir := t.TempDir()
	envFile := filepath.Join(dir, "env")
	if err := os.WriteFile(envFile, []byte("# keys\nAPI_KEY=s3cret=with=equals and blanks \n\nEMPTY=\nFROM=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, c := range []struct {
		name  string
		cmd   Command
		place Place
	}{
		{"plain", Command{}, Place{Account: alice}},
		{"shared account, time zone", Command{}, Place{Account: alice, TmpDir: "/var/lib/gatehouse/work/w-1", TZ: "Europe/Zurich"}},
		{"configured", Command{Env: map[string]string{"FROM": "env", "PATH": "/opt/bin:/usr/bin"}, EnvFile: envFile, UID: os.Geteuid()}, Place{Account: alice}},
	} {
		env, err := c.cmd.Environ(c.place)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "# %s\n%s\n\n", c.name, strings.Join(env, "\n"))
	}
	const golden = "testdata/environ.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got.String() {
		t.Errorf("environment is\n%s\nwant\n%s(%v)", got.String(), want, err)
	}
}

func TestEnvFileIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"A=1\nB=2":                      "",
		"A=":                            "",
		"A='":                           "",
		"# A\n  \nA=#1":                 "",
		"A":                             "line 1 is not NAME=value",
		"A=1\n=2":                       "line 2",
		"A=1\r\n":                       "line 1 ends with a carriage return",
		"export A=1":                    "line 1",
		" A=1":                          "line 1",
		"A =1":                          "line 1",
		"1A=1":                          "line 1",
		"A-B=1":                         "line 1",
		"Ä=1":                           "line 1",
		"A='x'":                         "quotes would be part of the value",
		`A="x"`:                         "quotes would be part of the value",
		"A=1\nA=2":                      "line 2: A stands there twice",
		"A=\x00":                        "line 1",
		"A=\xff":                        "line 1",
		"HOME=/root":                    "HOME comes from the account",
		"USER=root":                     "USER comes from the account",
		strings.Repeat("A", 256) + "=1": "line 1",
	} {
		_, err := ParseEnvFile(text)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// TestEnvFileErrorsHoldNoSecret: a secret must not reach a log by a typing error.
func TestEnvFileErrorsHoldNoSecret(t *testing.T) {
	for _, text := range []string{"s3cret", "A B=s3cret", "A='s3cret'", "A=s3cret\x00", "A=1\nA=s3cret", "A=s3cret\r"} {
		if _, err := ParseEnvFile(text); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheck(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	prog, loose, envFile := filepath.Join(dir, "prog"), filepath.Join(dir, "loose"), filepath.Join(dir, "env")
	for path, mode := range map[string]os.FileMode{prog: 0o755, loose: 0o777, envFile: 0o666} {
		os.WriteFile(path, []byte("A=1\n"), 0o600)
		os.Chmod(path, mode)
	}
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		cmd  Command
		want string
	}{
		"good":                        {Command{Argv: []string{"/bin/sh", "-c", "x"}, Strict: true}, ""},
		"no command":                  {Command{}, "empty"},
		"empty program":               {Command{Argv: []string{""}}, "empty"},
		"relative":                    {Command{Argv: []string{"sh"}}, "not an absolute path"},
		"relative with a slash":       {Command{Argv: []string{"./sh"}}, "not an absolute path"},
		"NUL in an argument":          {Command{Argv: []string{"/bin/sh", "a\x00b"}}, "NUL"},
		"anybody may change it":       {Command{Argv: []string{loose}, Strict: true}, "may write it"},
		"not strict":                  {Command{Argv: []string{loose}}, ""},
		"missing, strict":             {Command{Argv: []string{"/bin/no-such-program"}, Strict: true}, "no such file"},
		"relative folder":             {Command{Argv: []string{"/bin/sh"}, Cwd: "x"}, "not an absolute path"},
		"bad variable":                {Command{Argv: []string{"/bin/sh"}, Env: map[string]string{"A B": ""}}, "no variable name"},
		"HOME set":                    {Command{Argv: []string{"/bin/sh"}, Env: map[string]string{"HOME": "/"}}, "comes from the account"},
		"NUL in a value":              {Command{Argv: []string{"/bin/sh"}, Env: map[string]string{"A": "\x00"}}, "NUL"},
		"env_file that others change": {Command{Argv: []string{"/bin/sh"}, EnvFile: envFile, UID: os.Geteuid()}, "everybody may write it"},
		"env_file missing":            {Command{Argv: []string{"/bin/sh"}, EnvFile: envFile + "x"}, "no such file"},
	} {
		err := c.cmd.Check()
		if name == "anybody may change it" && !root {
			continue // it belongs to us, who are not trusted
		}
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

func TestStdioArePipesWithTheRightModes(t *testing.T) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if uid == 0 {
		uid, gid = 4711, 4712
	}
	s, err := NewStdio(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for f, nonblocking := range map[*os.File]bool{s.In: false, s.Out: false, s.Err: false, s.Stdin: true, s.Stdout: true, s.Stderr: true} {
		rc, err := f.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		rc.Control(func(fd uintptr) {
			var st unix.Stat_t
			unix.Fstat(int(fd), &st)
			flags, _ := unix.FcntlInt(fd, unix.F_GETFL, 0)
			cloexec, _ := unix.FcntlInt(fd, unix.F_GETFD, 0)
			if st.Mode&unix.S_IFMT != unix.S_IFIFO || st.Uid != uid || st.Gid != gid || (flags&unix.O_NONBLOCK != 0) != nonblocking || cloexec != unix.FD_CLOEXEC {
				t.Errorf("mode %o of %d:%d, flags %o, close-on-exec %d; non-blocking wanted: %v", st.Mode, st.Uid, st.Gid, flags, cloexec, nonblocking)
			}
		})
	}
	for from, to := range map[*os.File]*os.File{s.Stdin: s.In, s.Out: s.Stdout, s.Err: s.Stderr} {
		from.WriteString("x")
		from.Close()
		if b, err := io.ReadAll(to); string(b) != "x" || err != nil {
			t.Errorf("read %q, %v", b, err)
		}
	}
}

func TestSettingsFileIsSealed(t *testing.T) {
	want := settings.Settings{Issuer: "https://id.test", Subject: "s", Account: "alice", Scopes: []string{"mcp:use"}, Server: "/mcp"}
	f, err := SettingsFile(&want)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !IsSealed(f) {
		t.Error("not sealed")
	}
	b, err := io.ReadAll(f) // from offset 0, as the worker reads it
	var got settings.Settings
	if err != nil || json.Unmarshal(b, &got) != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %s, %v", b, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("write to it: %v", err)
	}
	if err := f.Truncate(0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("truncate it: %v", err)
	}
	if _, err := SettingsFile(&settings.Settings{Title: strings.Repeat("x", maxSettings)}); err == nil {
		t.Error("settings beyond the limit were written")
	}
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if IsSealed(plain) {
		t.Error("an ordinary file passes for sealed")
	}
}

func TestPrivateFolder(t *testing.T) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if uid == 0 {
		uid, gid = 4711, 4711
	}
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	state := filepath.Join(reachable(t), "state")
	parent, err := OpenPrivate(state)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parent.New(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(p.Path())
	if sys := st.Sys().(*syscall.Stat_t); err != nil || sys.Uid != uid || st.Mode().Perm() != 0o700 {
		t.Errorf("folder of uid %d, mode %v, %v", sys.Uid, st.Mode(), err)
	}
	for _, dir := range []string{parent.Path(), filepath.Dir(parent.Path())} {
		if st, _ := os.Stat(dir); os.Geteuid() == 0 && st.Mode().Perm() != 0o711 {
			t.Errorf("%s has mode %v; accounts must be able to pass and not to list", dir, st.Mode())
		}
	}
	victim := filepath.Join(t.TempDir(), "victim")
	os.WriteFile(victim, nil, 0o644)
	fill(t, p.Path(), victim, uid, gid)
	if err := p.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder is left")
	}
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("what a link pointed to is gone: %v", err)
	}
	if err := p.Remove(); err != nil {
		t.Errorf("second removal: %v", err)
	}
	empty, err := parent.New(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(empty.Path(), 0) // its owner may
	if err := empty.Remove(); err != nil {
		t.Errorf("an empty folder that its owner closed: %v", err)
	}
	if _, err := os.Stat(empty.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Error("the empty folder is left")
	}
	if err := (*Private)(nil).Remove(); err != nil || (*Private)(nil).Path() != "" {
		t.Errorf("no folder: %v", err)
	}
}

// TestPrivateFoldersOfTwoServices: a service that starts removes what one that is
// gone has left, and nothing of one that runs.
func TestPrivateFoldersOfTwoServices(t *testing.T) {
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if uid == 0 {
		uid, gid = 4711, 4711
	}
	state := filepath.Join(reachable(t), "state")
	victim := filepath.Join(t.TempDir(), "victim")
	os.WriteFile(victim, nil, 0o644)
	first, err := OpenPrivate(state)
	if err != nil {
		t.Fatal(err)
	}
	p, err := first.New(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, p.Path(), victim, uid, gid)
	old := filepath.Join(state, "work", "w-old") // where services had them before
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	os.Lchown(old, int(uid), int(gid))

	second, err := OpenPrivate(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(p.Path(), "link")); err != nil {
		t.Errorf("the second service took away what the first one's worker uses: %v", err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Error("a folder of before is left")
	}
	first.lock.Close() // as when it is killed
	third, err := OpenPrivate(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Error("a killed service's folder is left")
	}
	for _, s := range []*Privates{second, third, nil} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(state, "work")); err != nil || len(left) != 0 {
		t.Errorf("%d folders are left, %v", len(left), err)
	}
}

// reachable is a folder that every account can pass through.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ghtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fill puts into a private folder what a worker could: links out of it, and
// folders that it closed.
func fill(t *testing.T, dir, victim string, uid, gid uint32) {
	t.Helper()
	closed := filepath.Join(dir, "closed", "deeper")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(closed, "file"), nil, 0o600)
	os.Symlink(victim, filepath.Join(dir, "link"))
	os.Symlink(filepath.Dir(victim), filepath.Join(dir, "closed", "up"))
	if os.Geteuid() == 0 {
		filepath.Walk(dir, func(p string, _ os.FileInfo, _ error) error { return os.Lchown(p, int(uid), int(gid)) })
	}
	os.Chmod(filepath.Join(dir, "closed", "deeper"), 0)
	os.Chmod(filepath.Join(dir, "closed"), 0)
}

// TestRemovalHasOnlyTheOwnersRights: what belongs to somebody else is not removed,
// even if the folder is said to be another account's.
func TestRemovalHasOnlyTheOwnersRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	parent := reachable(t)
	p, err := newPrivate(parent, 4711, 4711)
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(p.Path(), "foreign")
	os.Mkdir(foreign, 0o755)
	os.WriteFile(filepath.Join(foreign, "file"), nil, 0o644)
	os.Lchown(foreign, 4713, 4713)
	if err := p.Remove(); err == nil {
		t.Error("removed without a word")
	}
	if _, err := os.Stat(filepath.Join(foreign, "file")); err != nil {
		t.Errorf("another account's file is gone: %v", err)
	}
	if err := (&Private{path: p.Path(), uid: 0}).Remove(); err == nil {
		t.Error("root's rights were used")
	}
}

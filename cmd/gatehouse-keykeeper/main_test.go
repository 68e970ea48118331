package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/identity"
	"gatehouse/auth/issuertest"
	"gatehouse/auth/keys"
	"gatehouse/cmd/internal/plan"
)

// TestMain lets the test binary be the program, started as the monitor starts it:
// without a way to new privileges.
func TestMain(m *testing.M) {
	switch os.Getenv("BE_GATEHOUSE_KEYKEEPER") {
	case "":
		os.Exit(m.Run())
	case "start":
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			panic(err)
		}
		panic(unix.Exec("/proc/self/exe", os.Args, []string{"BE_GATEHOUSE_KEYKEEPER=run"}))
	}
	main()
}

const nobody = 65534

// program is a started keykeeper with what the monitor would hold.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ends   []net.Conn // to descriptors 4 and 5
	exited chan struct{}
}

// launch starts the program with these descriptors from 3 on; as root under an
// account that has nothing, because it refuses to be root.
func launch(t *testing.T, files ...*os.File) *program {
	t.Helper()
	p := &program{t: t, exited: make(chan struct{})}
	p.cmd = exec.Command(binary(t))
	p.cmd.Env = []string{"BE_GATEHOUSE_KEYKEEPER=start"}
	p.cmd.Stderr = &p.stderr
	p.cmd.ExtraFiles = files
	if os.Geteuid() == 0 {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		f.Close()
	}
	go func() { p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// binary is a copy of the test binary that every account can run.
func binary(t *testing.T) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(openDir(t), "gatehouse-keykeeper")
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// openDir is a temporary folder that other accounts reach.
func openDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "keykeeper")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// memfile is a file like the one that the plan comes in, its offset at the end.
func memfile(t *testing.T, content string) *os.File {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	return f
}

// pair returns our end and the program's.
func pair(t *testing.T) (net.Conn, *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "ours")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, os.NewFile(uintptr(fds[1]), "theirs")
}

func planFor(t *testing.T, i *issuertest.Issuer, stateDir string) string {
	b, err := json.Marshal(plan.Keykeeper{
		Issuers:  []plan.KeySource{{Issuer: string(i.ID()), CAPEM: i.CAPEM(), Refresh: 10 * time.Minute}},
		StateDir: stateDir,
		MaxStale: 12 * time.Hour,
		LogLevel: "debug",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// started starts a program that works.
func started(t *testing.T, planText string) *program {
	monitor, a := pair(t)
	front, b := pair(t)
	p := launch(t, memfile(t, planText), a, b)
	p.ends = []net.Conn{monitor, front}
	return p
}

// until reads messages of one receiver until ok.
func (p *program) until(receiver int, ok func(keys.Update) bool) keys.Update {
	p.t.Helper()
	buf := make([]byte, keys.MaxMessage+1)
	c := p.ends[receiver]
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		n, err := c.Read(buf)
		if err != nil {
			p.t.Fatalf("%v\n%s", err, p.stderr.String())
		}
		u, err := keys.Parse(buf[:n])
		if err != nil {
			p.t.Fatal(err)
		}
		if ok(u) {
			return u
		}
	}
}

func (p *program) exit(want int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		p.t.Fatal("does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.t.Errorf("exit status %d, want %d\n%s", got, want, p.stderr.String())
	}
}

func good(u keys.Update) bool { return u.Health == keys.HealthOK }

func has(n int) func(keys.Update) bool {
	return func(u keys.Update) bool { return good(u) && len(u.Keys) == n }
}

func TestKeysReachBothReceivers(t *testing.T) {
	i := issuertest.New(t)
	state := filepath.Join(openDir(t), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(state, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	p := started(t, planFor(t, i, state))
	for n := range p.ends {
		if u := p.until(n, good); u.Issuer != i.ID() || !u.Keys[0].Equal(i.Key().Public()) {
			t.Errorf("receiver %d got %+v", n, u)
		}
	}
	mem, err := os.Stat(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if uid := mem.Sys().(*syscall.Stat_t).Uid; uid != 0 { // not its own: nobody but root may attach
		t.Errorf("a process of uid %d could change its keys", uid)
	}
	i.Rotate()
	p.ends[1].Write([]byte{keys.Ask})
	for n := range p.ends {
		p.until(n, has(2))
	}
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.cmd.Process.Signal(syscall.SIGINT)
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.exit(0)
	for _, line := range strings.Split(strings.TrimSpace(p.stderr.String()), "\n") {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil || m["process"] != "keykeeper" {
			t.Errorf("no log line: %s", line)
		}
	}

	i.Down()
	p = started(t, planFor(t, i, state))
	p.until(0, func(u keys.Update) bool { return u.Health == keys.HealthUnreachable && len(u.Keys) == 2 })
}

func TestEndsWhenBothReceiversAreGone(t *testing.T) {
	i := issuertest.New(t)
	p := started(t, planFor(t, i, ""))
	p.until(0, good)
	p.ends[0].Close()
	i.Rotate()
	p.ends[1].Write([]byte{keys.Ask})
	p.until(1, has(2))
	p.ends[1].Close()
	p.exit(0)
}

func TestReceiverThatBreaksTheRuleIsCutOffAlone(t *testing.T) {
	i := issuertest.New(t)
	p := started(t, planFor(t, i, ""))
	p.until(0, good)
	p.until(1, good)
	p.ends[1].Write([]byte(`{"fetch":"https://evil.example"}`))
	p.ends[1].SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, keys.MaxMessage+1)
	if n, err := p.ends[1].Read(buf); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the socket is open: %d bytes, %v", n, err)
	}
	i.Rotate()
	p.ends[0].Write([]byte{keys.Ask})
	p.until(0, has(2))
	p.ends[0].Close()
	p.exit(0)
	if !strings.Contains(p.stderr.String(), `"level":"error"`) || strings.Contains(p.stderr.String(), "evil") {
		t.Errorf("log: %s", p.stderr.String())
	}
}

func TestRefusesToRunWithoutItsDescriptors(t *testing.T) {
	i := issuertest.New(t)
	ok := planFor(t, i, "")
	devnull := func() *os.File {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	sock := func() *os.File {
		_, theirs := pair(t)
		return theirs
	}
	for name, c := range map[string]struct {
		files []*os.File
		want  string
	}{
		"nothing":                  {nil, "read the plan on descriptor 3: there is none; " + notByHand},
		"a device":                 {[]*os.File{devnull()}, "there is none; " + notByHand},
		"a socket":                 {[]*os.File{sock(), sock(), sock()}, "there is none; " + notByHand},
		"an empty file":            {[]*os.File{memfile(t, ""), sock(), sock()}, "it is not a keykeeper's plan"},
		"text":                     {[]*os.File{memfile(t, "hello"), sock(), sock()}, "it is not a keykeeper's plan"},
		"the front end's plan":     {[]*os.File{memfile(t, `{"auth":true}`), sock(), sock()}, `unknown field "auth"`},
		"two plans":                {[]*os.File{memfile(t, ok+ok), sock(), sock()}, "data after it"},
		"a large plan":             {[]*os.File{memfile(t, strings.Repeat(" ", maxPlan+1)), sock(), sock()}, "larger than 1 MiB"},
		"a plan without issuers":   {[]*os.File{memfile(t, `{}`), sock(), sock()}, "none is configured"},
		"an http issuer":           {[]*os.File{memfile(t, strings.Replace(ok, "https://127.0.0.1", "http://id.example", 1)), sock(), sock()}, "must be https"},
		"a level that is none":     {[]*os.File{memfile(t, strings.Replace(ok, "debug", "loud", 1)), sock(), sock()}, "log level"},
		"no sockets":               {[]*os.File{memfile(t, ok)}, "descriptor 4: it is not a SOCK_SEQPACKET socket; " + notByHand},
		"a file in place of a one": {[]*os.File{memfile(t, ok), sock(), devnull()}, "socket to the front end on descriptor 5"},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, c.files...)
			p.exit(1)
			if got := p.stderr.String(); !strings.HasPrefix(got, "gatehouse-keykeeper: ") || !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

// TestByHand: whoever asks it what it is gets an answer.
func TestByHand(t *testing.T) {
	for arg, want := range map[string]struct {
		code int
		says string
	}{
		"--help": {0, "The monitor starts it"},
		"-h":     {0, "The monitor starts it"},
		"--nope": {1, `unknown argument "--nope"`},
	} {
		cmd := exec.Command(binary(t), arg)
		cmd.Env = []string{"BE_GATEHOUSE_KEYKEEPER=run"}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(string(out), want.says) {
			t.Errorf("%s: exit code %d\n%s", arg, code, out)
		}
	}
}

func TestRefusesToBeRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	p := &program{t: t, exited: make(chan struct{})}
	p.cmd = exec.Command(binary(t))
	p.cmd.Env = []string{"BE_GATEHOUSE_KEYKEEPER=start"}
	p.cmd.Stderr = &p.stderr
	p.cmd.ExtraFiles = []*os.File{memfile(t, planFor(t, issuertest.New(t), ""))}
	if err := p.cmd.Run(); err == nil || !strings.Contains(p.stderr.String(), "uid is 0") {
		t.Errorf("%v: %s", err, p.stderr.String())
	}
}

func TestPlanIsHandedOnWhole(t *testing.T) {
	got := sources(plan.Keykeeper{Issuers: []plan.KeySource{{
		Issuer: "a", DiscoveryURL: "b", JWKSURL: "c", CAPEM: "d", JWKSFile: "e", Refresh: time.Minute,
	}}})
	s := got[0]
	if len(got) != 1 || s.Issuer != identity.Issuer("a") || s.DiscoveryURL != "b" || s.JWKSURL != "c" ||
		s.CAPEM != "d" || s.JWKSFile != "e" || s.Refresh != time.Minute {
		t.Errorf("got %+v", got)
	}
}

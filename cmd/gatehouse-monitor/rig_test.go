package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/world"
	"gatehouse/session/spawn"
)

var folk accountstest.People

func TestMain(m *testing.M) {
	runFake()
	code := accountstest.Main(m, &folk)
	if dir, err := built(); err == nil {
		os.RemoveAll(dir)
	}
	// A guard that was killed leaves an empty group; whoever comes next removes it.
	if base, err := cgroup.OpenFor(os.Getpid()); err == nil {
		base.Close()
	}
	os.Exit(code)
}

// built is a folder with the real monitor, without cgo as it is shipped, and this
// test binary as the programs that it starts.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", accountstest.Prefix+"bin-")
	if err != nil {
		return "", err
	}
	os.Chmod(dir, 0o755)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "gatehouse-monitor"), ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return dir, err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return dir, err
	}
	for _, name := range []string{"gatehouse", "gatehouse-keykeeper"} {
		if err := os.WriteFile(filepath.Join(dir, name), self, 0o755); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

// service is one running gatehouse-monitor, and the test is its front end.
type service struct {
	t        *testing.T
	plan     plan.Plan
	front    map[string]any
	issuer   *authtest.Issuer
	dir      string
	cmd      *exec.Cmd
	stderr   *os.File // nil: the log
	ended    chan error
	listener *os.File
	socket   string
	log      *os.File
	runAs    int // uid of the service
}

// newService prepares one that runs as root in monitor mode, or as an ordinary user
// (Bob, when we are root) with a shared account.
func newService(t *testing.T, root bool, script string) *service {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", accountstest.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	s := &service{t: t, dir: dir, issuer: authtest.NewIssuer(authtest.IssuerURL), runAs: os.Geteuid(), front: map[string]any{}}
	m := &s.plan.Monitor
	*m = plan.Monitor{
		RunAs: plan.RunShared, Listeners: 1, BinDir: bin, StateDir: filepath.Join(dir, "state"),
		Tokens:  []plan.Issuer{{Issuer: s.issuer.URL, Profile: "rfc9068", MaxLifetime: 24 * time.Hour}},
		Servers: []plan.Server{{Path: "/mcp", Audiences: []string{authtest.Audience}, Worker: plan.Worker{Command: []string{"/bin/sh", "-c", script}}}},
		Accounts: plan.Policy{
			MinUID: 1000, MaxUID: 60000, DeniedGroups: []string{"root", "sudo"}, ShadowLock: "refuse",
		},
		MaxWorkers: 16, MaxPerPrincipal: 8, MaxPerToken: 8, SpawnRate: 100, SpawnBurst: 100, MaxStale: time.Hour,
		CredentialGrace: time.Minute, DrainLimit: time.Second, KillGrace: 300 * time.Millisecond, KillGraceHard: 300 * time.Millisecond,
		LogLevel: "debug",
	}
	m.TLSCert, m.TLSKey = s.file("cert", "certificate", 0o644), s.file("key", "key", 0o600)
	if root {
		m.RunAs, m.FrontUser, m.KeysUser = plan.RunMonitor, folk.Front, folk.Keys
		m.AccountsFile = s.file("accounts.yaml", fmt.Sprintf(
			"- {issuer: '%[1]s', subject: 'alice', account: '%[2]s'}\n- {issuer: '%[1]s', subject: 'bob', account: '%[3]s'}\n",
			s.issuer.URL, folk.Alice, folk.Bob), 0o600)
	} else if s.runAs == 0 {
		s.runAs, _ = accountstest.IDs(t, folk.Bob)
	}
	if !root && os.Geteuid() == 0 {
		for _, p := range []string{dir, m.TLSCert, m.TLSKey} {
			os.Chown(p, s.runAs, s.runAs)
		}
	}
	return s
}

func (s *service) file(name, content string, mode os.FileMode) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		s.t.Fatal(err)
	}
	os.Chmod(path, mode)
	return path
}

// loopback makes it a loopback service.
func (s *service) loopback() {
	m := &s.plan.Monitor
	m.RunAs, m.Tokens, m.TLSCert, m.TLSKey, m.AccountsFile, m.KeysUser = plan.RunLoopback, nil, "", "", "", ""
	m.Servers[0].Audiences = nil
	if s.runAs == 0 {
		m.WorkerUser = folk.Worker
	}
}

// start runs it with the plan and a listener as "gatehouse serve" hands them over.
func (s *service) start() *service {
	s.t.Helper()
	auth := s.plan.Monitor.RunAs != plan.RunLoopback
	s.front["FDs"] = 5
	if auth {
		s.front["FDs"] = 8 // 5 keys, 6 certificate, 7 key
		s.plan.Keykeeper, _ = json.Marshal(map[string]string{"File": filepath.Join(s.dir, "keys.msg"), "Report": s.file("keykeeper.json", "", 0o666)})
		s.sendKeys()
	}
	s.plan.Front, _ = json.Marshal(s.front)
	doc, err := json.Marshal(s.plan)
	if err != nil {
		s.t.Fatal(err)
	}
	planFile, err := world.SealedFile("plan", doc)
	if err != nil {
		s.t.Fatal(err)
	}
	defer planFile.Close()
	s.socket = filepath.Join(s.dir, "front.sock")
	ln, err := net.Listen("unix", s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if s.listener, err = ln.(*net.UnixListener).File(); err != nil {
		s.t.Fatal(err)
	}
	ln.Close()
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(filepath.Join(s.plan.Monitor.BinDir, "gatehouse-monitor"))
	s.cmd.ExtraFiles = []*os.File{planFile, s.listener}
	s.cmd.Env = []string{"SECRET=leaks", "TZ=Europe/Zurich", "PATH=/usr/bin:/bin", "SSL_CERT_DIR=/etc/ssl/certs"}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if s.stderr != nil {
		s.cmd.Stderr = s.stderr
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if s.runAs != os.Geteuid() {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.runAs), Gid: uint32(s.runAs)}
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	s.t.Cleanup(s.cleanUp)
	return s
}

func (s *service) cleanUp() {
	s.cmd.Process.Kill()
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
	}
	s.listener.Close()
	if s.t.Failed() {
		s.t.Logf("log of the service:\n%s", s.logged())
	}
	if strings.Contains(s.logged(), "eyJ") {
		s.t.Error("something like a token is in the log")
	}
	s.log.Close()
}

func (s *service) logged() string {
	b, _ := os.ReadFile(s.log.Name())
	return string(b)
}

// awaitLog waits until the log holds a text n times.
func (s *service) awaitLog(text string, n int) {
	s.t.Helper()
	for range 1000 {
		if strings.Count(s.logged(), text) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("log lacks %q (%d times)", text, n)
}

// sendKeys has the keykeeper send the issuer's keys.
func (s *service) sendKeys() {
	s.t.Helper()
	set, err := token.ParseJWKS(s.issuer.JWKS())
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now()
	b, err := keys.Update{Issuer: identity.Issuer(s.issuer.URL), Keys: set, FetchedAt: now, AttemptedAt: now, Health: keys.HealthOK}.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	s.file("keys.msg.new", string(b), 0o644)
	os.Rename(filepath.Join(s.dir, "keys.msg.new"), filepath.Join(s.dir, "keys.msg"))
}

// frontEnd takes over the sockets of the front end that runs now. A nil onCert is
// fine. It waits for a front end other than the one with the process id not.
func (s *service) frontEnd(not int, onCert func(cert, key *os.File)) (report, *spawn.Client) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		r, fds, err := s.ask()
		if err != nil || r.PID == not {
			closeAll(fds)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		closeAll(fds[1:])
		c, err := spawn.NewClient(os.NewFile(uintptr(fds[0]), "monitor"), onCert)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { c.Close() })
		return r, c
	}
	s.t.Fatal("no front end answers")
	return report{}, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// ask connects to the listener and takes what a front end gives.
func (s *service) ask() (r report, fds []int, err error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.socket, Net: "unix"})
	if err != nil {
		return r, nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	b, oob := make([]byte, 1<<16), make([]byte, 64)
	n, oobn, _, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil || n == 0 {
		return r, nil, fmt.Errorf("no report: %v", err)
	}
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) == 1 {
		fds, _ = unix.ParseUnixRights(&msgs[0])
	}
	if len(fds) == 0 {
		return r, nil, fmt.Errorf("no sockets")
	}
	unix.SetNonblock(fds[0], true)
	return r, fds, json.Unmarshal(b[:n], &r)
}

// ready is frontEnd and HELLO.
func (s *service) ready() (report, *spawn.Client) {
	s.t.Helper()
	r, c := s.frontEnd(0, nil)
	if err := c.Ready(); err != nil {
		s.t.Fatal(err)
	}
	return r, c
}

// worker starts one for a subject and returns its lines up to "end".
func (s *service) worker(c *spawn.Client, sub string) (spawn.Worker, []string) {
	s.t.Helper()
	tok := ""
	if s.plan.Monitor.RunAs != plan.RunLoopback {
		tok = s.issuer.Mint(authtest.Claim("sub", sub))
	}
	var w spawn.Worker
	var err error
	for range 300 { // the keys may still be on their way
		if w, err = c.Spawn(s.t.Context(), spawn.Request{Token: tok}); err == nil || !strings.Contains(err.Error(), "undecided") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { w.Stdin().Close(); w.Stdout().Close(); w.Stderr().Close() })
	w.Stdout().SetReadDeadline(time.Now().Add(10 * time.Second))
	var lines []string
	sc := bufio.NewScanner(w.Stdout())
	for sc.Scan() {
		if sc.Text() == "end" {
			return w, lines
		}
		lines = append(lines, sc.Text())
	}
	s.t.Fatalf("worker said %q and no end: %v", lines, sc.Err())
	return nil, nil
}

// wait returns the exit status of the service.
func (s *service) wait(limit time.Duration) int {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		s.t.Fatalf("the service does not end within %v", limit)
		return 0
	}
}

// children returns the living children of a process.
func children(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		b, _ := os.ReadFile(l)
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// monitorPID is the process below the guard.
func (s *service) monitorPID() int {
	s.t.Helper()
	for range 500 {
		if c := children(s.cmd.Process.Pid); len(c) == 1 {
			return c[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatal("the guard has no monitor")
	return 0
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// gone waits for processes to end.
func gone(t *testing.T, limit time.Duration, pids ...int) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d (%q) lives on", pid, name)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func atoi(t *testing.T, lines []string) (out []int) {
	t.Helper()
	for _, l := range lines {
		n, err := strconv.Atoi(l)
		if err != nil {
			t.Fatalf("not a process id: %q", l)
		}
		out = append(out, n)
	}
	return out
}

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/logtest"
	"gatehouse/auth/token"
	"gatehouse/certs"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// frontProcess is the front end as the monitor starts it, with the test for a
// monitor and a keykeeper.
type frontProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	stderr  *logtest.Log
	monitor *spawn.Conn
	keys    *os.File
	hello   chan struct{}
	spawned chan spawn.SpawnRequest
	refuse  spawn.Kind // what SPAWN is answered with; KindInternal: a worker
	base    string
	client  *http.Client
	issuer  *authtest.Issuer
	exited  chan error
	leave   atomic.Bool // the test ends: nobody is told of a worker's end any more
}

const audience = "https://localhost:8443/mcp"

func frontPlan(auth bool) plan.Front {
	p := plan.Front{
		Servers: []plan.FrontServer{{Path: "/mcp"}}, MaxTokenBytes: 8 << 10, MaxBody: 1 << 20, MaxMessage: 1 << 20, MaxSessions: 8,
		DrainLimit: 5 * time.Second, LogLevel: "debug", Lifetime: plan.Lifetime{StartTimeout: 10 * time.Second},
	}
	if auth {
		p.Auth, p.TLS, p.AdvertisePRM, p.MaxPerPrincipal, p.MaxStale, p.CredentialGrace = true, true, true, 4, time.Hour, time.Hour
		p.Tokens = []plan.Issuer{{Issuer: authtest.IssuerURL, Profile: "rfc9068", Leeway: authtest.Leeway}}
		p.Servers[0] = plan.FrontServer{Path: "/mcp", Resource: audience, Audiences: []string{audience}, RequiredScopes: []string{"mcp:use"}, ExtraScopes: []string{"offline_access"}}
	}
	return p
}

// startFront starts it; refuse is what SPAWN is answered with.
func startFront(t *testing.T, p plan.Front, refuse spawn.Kind) *frontProcess {
	t.Helper()
	f := &frontProcess{t: t, stderr: new(logtest.Log), hello: make(chan struct{}), spawned: make(chan spawn.SpawnRequest, 16),
		refuse: refuse, exited: make(chan error, 1), client: new(http.Client)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	listener, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	p.Listeners = []string{ln.Addr().String()}
	f.base = "http://" + ln.Addr().String()
	ours, theirs := socketpair(t)
	if f.monitor, err = spawn.NewConn(ours, 0); err != nil {
		t.Fatal(err)
	}
	extra := []*os.File{nil, theirs}
	if p.Auth {
		var keysTheirs *os.File
		f.keys, keysTheirs = socketpair(t)
		cert, key := f.trust(t.TempDir())
		extra = append(extra, keysTheirs, cert, key)
		f.base = "https://" + ln.Addr().String()
		f.issuer = authtest.NewIssuer(authtest.IssuerURL)
		f.issuer.Audience = audience
	}
	extra = append(extra, listener)
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	f.run(doc, extra)
	return f
}

// run starts the process; the plan's place among the files is empty.
func (f *frontProcess) run(doc []byte, extra []*os.File) {
	f.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	name := filepath.Join(f.t.TempDir(), "plan")
	if err := os.WriteFile(name, doc, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if extra[0], err = os.Open(name); err != nil {
		f.t.Fatal(err)
	}
	f.cmd = &exec.Cmd{Path: exe, Args: []string{"gatehouse", "front"}, ExtraFiles: extra, Stdout: f.stderr, Stderr: f.stderr, Env: []string{}}
	if os.Geteuid() == 0 { // for closed
		f.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: 4711}}
	}
	if err := f.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	for _, x := range extra {
		x.Close()
	}
	go func() { f.exited <- f.cmd.Wait() }()
	if f.monitor != nil {
		go f.serve()
	}
	f.t.Cleanup(func() {
		f.leave.Store(true)
		f.cmd.Process.Kill()
		if f.t.Failed() {
			f.t.Logf("front end:\n%s", f.stderr)
		}
	})
}

// closed reports whether the process's files in /proc are root's, group and all, and not
// its own: so are those of a process to which nobody but root may attach.
func (f *frontProcess) closed() bool {
	f.t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", f.cmd.Process.Pid))
	if err != nil {
		f.t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid == 0 && st.Gid == 0
}

// trust makes a certificate, has the client trust it, and returns its files.
func (f *frontProcess) trust(dir string) (cert, key *os.File) {
	f.t.Helper()
	files, err := certs.Dev{Dir: dir}.Leaf("front")
	if err != nil {
		f.t.Fatal(err)
	}
	ca, err := os.ReadFile(files.CA)
	if err != nil {
		f.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	if cert, err = os.Open(files.Cert); err != nil {
		f.t.Fatal(err)
	}
	if key, err = os.Open(files.Key); err != nil {
		f.t.Fatal(err)
	}
	return cert, key
}

// serve is the monitor: HELLO is noted, SPAWN gets a worker in this process.
func (f *frontProcess) serve() {
	for {
		b, _, err := f.monitor.Read()
		if err != nil {
			return
		}
		frame, err := spawn.ParseRequest(b)
		if err != nil {
			f.t.Errorf("the front end sends %x: %v", b, err)
			return
		}
		switch q := frame.(type) {
		case spawn.Hello:
			close(f.hello)
		case spawn.SpawnRequest:
			f.spawned <- q
			if f.refuse != spawn.KindInternal {
				f.send(spawn.Refused{Seq: q.Seq, Kind: f.refuse, Reason: "the test says so"})
				continue
			}
			f.worker(q)
		}
	}
}

func (f *frontProcess) send(frame spawn.Frame, fds ...int) {
	b, err := spawn.Encode(frame)
	if err == nil {
		err = f.monitor.Write(b, fds, time.Now().Add(5*time.Second))
	}
	if err != nil {
		f.t.Errorf("send %v: %v", frame.Type(), err)
	}
}

// worker answers a SPAWN with the pipes of a worker that runs here.
func (f *frontProcess) worker(q spawn.SpawnRequest) {
	var files [6]*os.File
	for i := 0; i < 6; i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			f.t.Errorf("pipe: %v", err)
			return
		}
		files[i], files[i+1] = r, w
	}
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		f.t.Errorf("pidfd: %v", err)
		return
	}
	f.send(spawn.Spawned{Seq: q.Seq, Handle: q.Seq, PID: uint32(os.Getpid()), UID: 1, Account: "alice"},
		int(files[1].Fd()), int(files[2].Fd()), int(files[4].Fd()), pidfd)
	unix.Close(pidfd)
	for _, mine := range []*os.File{files[1], files[2], files[4]} {
		mine.Close()
	}
	go func() {
		sessiontest.Echo(&sessiontest.Process{In: files[0], Out: files[3], Err: files[5], Killed: make(chan struct{})})
		for _, x := range []*os.File{files[0], files[3], files[5]} {
			x.Close()
		}
		if f.leave.Load() {
			return
		}
		f.send(spawn.Exited{Handle: q.Seq})
	}()
}

// publish is the keykeeper: it sends the issuer's keys.
func (f *frontProcess) publish() {
	f.t.Helper()
	parsed, err := token.ParseJWKS(f.issuer.JWKS())
	if err != nil {
		f.t.Fatal(err)
	}
	now := time.Now()
	b, err := keys.Update{Issuer: identity.Issuer(f.issuer.URL), Keys: parsed, FetchedAt: now, AttemptedAt: now, Health: keys.HealthOK}.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.keys.Write(b); err != nil {
		f.t.Fatal(err)
	}
}

// ready waits for HELLO.
func (f *frontProcess) ready() {
	f.t.Helper()
	select {
	case <-f.hello:
	case err := <-f.exited:
		f.t.Fatalf("the front end ended: %v", err)
	case <-time.After(20 * time.Second):
		f.t.Fatal("no HELLO")
	}
}

// code is the exit code, within 20 s.
func (f *frontProcess) code() int {
	f.t.Helper()
	select {
	case err := <-f.exited:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(20 * time.Second):
		f.t.Fatal("the front end does not end")
		return -1
	}
}

// post sends a message and returns status, session id and body.
func (f *frontProcess) post(bearer, session, message string) (int, string, string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", f.base+"/mcp", strings.NewReader(message))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id"), string(b)
}

func (f *frontProcess) get(path string) (int, string) {
	f.t.Helper()
	resp, err := f.client.Get(f.base + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// eventually waits until ok, 10 s at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func socketpair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
}

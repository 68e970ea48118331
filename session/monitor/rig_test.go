package monitor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/logtest"
	"gatehouse/auth/token"
	"gatehouse/session/accounts"
	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/privdrop"
	"gatehouse/session/spawn"
)

// rig is a monitor in this process, with the test as its front end and its
// keykeeper. Workers are real processes.
type rig struct {
	t      testing.TB
	cfg    Config
	issuer *authtest.Issuer
	m      *Monitor
	log    *logtest.Log
	keeper *os.File
	dir    string // everybody may pass through it
	seats  []*attendant
}

// openDir is a folder of ours that every account can pass through.
func openDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", accountstest.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeFile(t testing.TB, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// newRig prepares a rig: as root in monitor mode with alice and bob mapped, else in
// shared-account mode. start brings it up.
func newRig(t testing.TB, script string) *rig {
	t.Helper()
	r := &rig{t: t, log: new(logtest.Log), dir: openDir(t), issuer: authtest.NewIssuer(authtest.IssuerURL)}
	for _, name := range []string{"gatehouse", "gatehouse-keykeeper"} {
		writeFile(t, filepath.Join(r.dir, name), "#!/bin/sh\n", 0o755)
	}
	policy := r.issuer.Policy()
	policy.Leeway = 0
	r.cfg = Config{
		Mode: ModeShared, BinDir: r.dir, StateDir: filepath.Join(r.dir, "state"),
		TLSCert: "/etc/hostname", TLSKey: "/etc/hostname", Policies: []token.Policy{policy},
		Servers:    []Server{{Path: "/mcp", Audiences: []string{authtest.Audience}, Command: []string{"/bin/sh", "-c", script}}},
		Accounts:   accounts.Policy{MinUID: 1000, MaxUID: 60000, DeniedGroups: []string{"root", "sudo", "docker"}, ShadowLock: "refuse"},
		MaxWorkers: 16, MaxPerPrincipal: 8, MaxPerToken: 8, SpawnRate: 100, SpawnBurst: 100,
		MaxStale: time.Hour, DrainLimit: time.Second, KillGrace: 300 * time.Millisecond, KillGraceHard: 300 * time.Millisecond,
		FrontPart: []byte("{}"), KeysPart: []byte("{}"), Listeners: []*os.File{os.Stdin},
		Log: zerolog.New(r.log),
	}
	if os.Geteuid() == 0 {
		r.cfg.Mode = ModeMonitor
		r.cfg.FrontUser, r.cfg.KeysUser = folk.Front, folk.Keys
		r.mapTo(map[string]string{"alice": folk.Alice, "bob": folk.Bob})
	}
	return r
}

// mapTo writes the accounts file.
func (r *rig) mapTo(subjects map[string]string) {
	r.t.Helper()
	var b strings.Builder
	for sub, account := range subjects {
		fmt.Fprintf(&b, "- {issuer: '%s', subject: '%s', account: '%s', name: 'Ms. %s', email: '%s@example.org'}\n", r.issuer.URL, sub, account, sub, sub)
	}
	r.cfg.AccountsFile = writeFile(r.t, filepath.Join(r.dir, "accounts.yaml"), b.String(), 0o600)
}

// start makes the monitor and gives it keys.
func (r *rig) start() *rig {
	r.t.Helper()
	if err := privdrop.CloseOnExec(3); err != nil { // as the program does
		r.t.Fatal(err)
	}
	if err := proc.Adopt(); err != nil { // as Run does
		r.t.Fatal(err)
	}
	m, err := New(r.t.Context(), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
	r.t.Cleanup(r.close)
	if m.keys != nil {
		ours, theirs, err := spawn.Pair()
		if err != nil {
			r.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan struct{})
		go func() { m.keys.Serve(ctx, theirs); close(served) }()
		r.t.Cleanup(func() { cancel(); ours.Close(); <-served })
		r.keeper = ours
		r.sendKeys()
	}
	return r
}

// sendKeys hands the issuer's keys to the monitor, as the keykeeper does, and
// waits until they count.
func (r *rig) sendKeys() {
	r.t.Helper()
	before := r.m.judge.Generation()
	sendKeys(r.t, r.keeper, r.issuer)
	for i := 0; r.m.judge.Generation() == before; i++ {
		if i > 500 {
			r.t.Fatal("the keys did not arrive")
		}
		time.Sleep(time.Millisecond)
	}
}

func sendKeys(t testing.TB, to *os.File, i *authtest.Issuer) {
	t.Helper()
	set, err := token.ParseJWKS(i.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	b, err := keys.Update{Issuer: identity.Issuer(i.URL), Keys: set, FetchedAt: now, AttemptedAt: now, Health: keys.HealthOK}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.Write(b); err != nil {
		t.Fatal(err)
	}
}

// close ends everything and checks that nothing is left.
func (r *rig) close() {
	for _, a := range r.seats {
		a.orphaned("test is over")
	}
	if !r.m.leasesGone(time.Minute) {
		r.t.Errorf("%d workers are left", r.m.leases.count())
	}
	if base := r.m.runner.groups.Load(); base != nil {
		r.tidyGroups()
		if left, _ := os.ReadDir(base.Path()); countDirs(left) != 0 {
			r.t.Errorf("%d control groups are left", countDirs(left))
		}
		if err := base.Close(); err != nil {
			r.t.Error(err)
		}
	}
	if private := r.m.runner.private.Path(); private != "" {
		if left, _ := os.ReadDir(private); len(left) != 0 {
			r.t.Errorf("%d private folders are left", len(left))
		}
	}
	if strings.Contains(r.log.String(), "eyJ") {
		r.t.Errorf("something like a token is in the log:\n%s", r.log)
	}
}

// tidyGroups removes the control groups that are kept for the next workers.
func (r *rig) tidyGroups() {
	if base := r.m.runner.groups.Load(); base != nil {
		base.Tidy()
	}
}

func countDirs(list []os.DirEntry) (n int) {
	for _, e := range list {
		if e.IsDir() {
			n++
		}
	}
	return n
}

// seat is a front end's place: what it did wrong, once it is over.
type seat struct {
	a     *attendant
	fault chan error
}

// sit connects a front end's socket to the monitor.
func (r *rig) sit() (*os.File, *seat) {
	r.t.Helper()
	ours, theirs, err := spawn.Pair()
	if err != nil {
		r.t.Fatal(err)
	}
	conn, err := spawn.NewConn(ours, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	a := newAttendant(r.m, conn)
	r.seats = append(r.seats, a)
	s := &seat{a: a, fault: make(chan error, 1)}
	go func() {
		err := a.serve()
		a.orphaned("the front end ended")
		s.fault <- err
	}()
	return theirs, s
}

// front is a front end that behaves.
func (r *rig) front() *spawn.Client {
	r.t.Helper()
	socket, _ := r.sit()
	c, err := spawn.NewClient(socket, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if err := c.Ready(); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// token mints one for a subject.
func (r *rig) token(sub string, changes ...authtest.Change) string {
	return r.issuer.Mint(append([]authtest.Change{authtest.Claim("sub", sub)}, changes...)...)
}

// spawn starts a worker that must start.
func (r *rig) spawn(c *spawn.Client, tok string) *testWorker {
	r.t.Helper()
	w, err := c.Spawn(r.t.Context(), spawn.Request{Token: tok})
	if err != nil {
		r.t.Fatalf("spawn: %v\n%s", err, r.log)
	}
	tw := &testWorker{Worker: w, t: r.t, out: bufio.NewReader(w.Stdout())}
	r.t.Cleanup(func() {
		for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
			f.Close()
		}
	})
	return tw
}

type testWorker struct {
	spawn.Worker
	t   testing.TB
	out *bufio.Reader
}

// line is the next line of the worker's output.
func (w *testWorker) line() string {
	w.t.Helper()
	w.Stdout().SetReadDeadline(time.Now().Add(10 * time.Second))
	s, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("read from worker: %v", err)
	}
	return strings.TrimSuffix(s, "\n")
}

// lines are the lines up to "end".
func (w *testWorker) lines() []string {
	w.t.Helper()
	var all []string
	for {
		l := w.line()
		if l == "end" {
			return all
		}
		all = append(all, l)
	}
}

// say writes a line to the worker.
func (w *testWorker) say(text string) {
	w.t.Helper()
	if _, err := w.Stdin().WriteString(text + "\n"); err != nil {
		w.t.Fatal(err)
	}
}

// end waits for the worker's end.
func (w *testWorker) end(limit time.Duration) spawn.Status {
	w.t.Helper()
	select {
	case <-w.Exited():
		return w.Status()
	case <-time.After(limit):
		w.t.Fatalf("worker %d does not end within %v", w.PID(), limit)
		return spawn.Status{}
	}
}

// refused checks that a spawn is refused as it should be.
func refused(t testing.TB, err error, want spawn.Kind, reason string) {
	t.Helper()
	var e *spawn.Error
	if !errors.As(err, &e) || e.Kind != want || !strings.Contains(e.Reason, reason) {
		t.Errorf("got %v, want a refusal of kind %v with %q", err, want, reason)
	}
}

// renew renews a worker's lease and waits for the answer.
func renew(w spawn.Worker, token string) error {
	answer := make(chan error, 2)
	w.Renew(token, func(err error) { answer <- err })
	return <-answer
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

// dead waits a little until processes are gone.
func dead(t testing.TB, limit time.Duration, pids ...int) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				t.Errorf("process %d lives on", pid)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

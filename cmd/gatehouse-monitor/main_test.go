package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/privdrop"
	"gatehouse/session/spawn"
)

const none = "0000000000000000"

// describe is a worker that is no Go program and shows what it has.
const describe = `cat /proc/$$/status; tr '\0' '\n' </proc/$$/environ | sed 's/^/Env: /'; ulimit -c | sed 's/^/Core: /'; echo end; read x`

func status(lines []string) map[string]string {
	m := map[string]string{}
	for _, l := range lines {
		k, v, _ := strings.Cut(l, ":")
		v = strings.Join(strings.Fields(v), " ")
		if m[k] != "" {
			v = m[k] + "|" + v
		}
		m[k] = v
	}
	return m
}

func same(t *testing.T, who string, got map[string]string, want map[string]string) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %s is %q, want %q", who, k, got[k], v)
		}
	}
}

func four(id int) string { return fmt.Sprintf("%d %d %d %d", id, id, id, id) }

// TestPrivileges looks at every process of a service that runs as root.
func TestPrivileges(t *testing.T) {
	accountstest.NeedRoot(t)
	s := newService(t, true, describe).start()
	r, c := s.ready()
	nothing := map[string]string{
		"CapEff": none, "CapPrm": none, "CapInh": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Umask": "0077",
	}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range []map[string]string{nothing, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for sub, account := range map[string]string{"alice": folk.Alice, "bob": folk.Bob} {
		w, lines := s.worker(c, sub)
		uid, gid := accountstest.IDs(t, account)
		same(t, sub+"'s worker", status(lines), with(map[string]string{
			"Uid": four(uid), "Gid": four(gid), "Core": "0",
			"Env": strings.Join([]string{"HOME=/home/" + account, "LANG=C.UTF-8", "LOGNAME=" + account,
				"PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh", "TZ=Europe/Zurich", "USER=" + account}, "|"),
		}))
		if w.UID() != uid {
			t.Errorf("%s: told uid %d", sub, w.UID())
		}
	}
	frontUID, frontGID := accountstest.IDs(t, folk.Front)
	same(t, "front end", r.Status, with(map[string]string{"Uid": four(frontUID), "Gid": four(frontGID), "Groups": ""}))
	keeper := s.keykeeper()
	keysUID, keysGID := accountstest.IDs(t, folk.Keys)
	same(t, "keykeeper", keeper.Status, with(map[string]string{"Uid": four(keysUID), "Gid": four(keysGID), "Groups": ""}))
	for name, p := range map[string]report{"front end": r, "keykeeper": keeper} {
		if p.Proof != "" || !p.Session || p.PPID != s.monitorPID() {
			t.Errorf("%s: %s, session of its own %v, child of %d", name, p.Proof, p.Session, p.PPID)
		}
		want := []string{"LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "SSL_CERT_DIR=/etc/ssl/certs"}
		if name == "front end" {
			want = append(want, "GODEBUG=schedtrace=2147483647")
		}
		if !reflect.DeepEqual(p.Env, want) {
			t.Errorf("%s: environment %q, want %q", name, p.Env, want)
		}
	}
	s.checkDescriptors(r, keeper)
	kept := 1<<int(privdrop.Chown) | 1<<int(privdrop.DACReadSearch) | 1<<int(privdrop.Kill) | 1<<int(privdrop.SetGID) | 1<<int(privdrop.SetUID)
	caps := fmt.Sprintf("%016x", kept)
	same(t, "monitor", procStatus(t, s.monitorPID()), with(map[string]string{"Uid": four(0), "CapEff": caps, "CapPrm": caps}))
	caps = fmt.Sprintf("%016x", kept|1<<int(privdrop.SetPCap)|1<<int(privdrop.DACOverride))
	same(t, "guard", procStatus(t, s.cmd.Process.Pid), with(map[string]string{"Uid": four(0), "CapEff": caps, "CapPrm": caps, "CapBnd": caps}))
	s.checkGroups(c)
	if st, err := os.Stat(filepath.Join(s.plan.Monitor.StateDir, "keys")); err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != keysUID || st.Mode().Perm() != 0o700 {
		t.Errorf("folder for key sets: %v, %v", st, err)
	}
}

// checkGroups: as root, workers are in control groups wherever there are any.
func (s *service) checkGroups(c *spawn.Client) {
	s.t.Helper()
	probe, err := cgroup.Open(accountstest.Prefix + strconv.Itoa(os.Getpid()))
	if err != nil {
		s.t.Logf("SKIPPED: control groups: %v", err)
		return
	}
	defer probe.Close()
	w, _ := s.worker(c, "alice")
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", w.PID()))
	if want := "/" + cgroup.Name(s.cmd.Process.Pid) + "/w"; !strings.Contains(string(b), want) {
		s.t.Errorf("worker is in %s, want %s…", b, want)
	}
}

// checkDescriptors compares what front end and keykeeper inherited with the plan.
func (s *service) checkDescriptors(front, keeper report) {
	s.t.Helper()
	kinds := func(fds map[string]string) string {
		var out []string
		for fd := '0'; fd <= '9'; fd++ {
			kind, _, _ := strings.Cut(fds[string(fd)], ":")
			if kind == "" {
				continue
			}
			if strings.HasPrefix(kind, s.dir) {
				kind = filepath.Base(kind)
			}
			out = append(out, string(fd)+" "+strings.TrimSuffix(strings.TrimPrefix(kind, "/"), " (deleted)"))
		}
		return strings.Join(out, ", ")
	}
	if got, want := kinds(front.FDs), "0 dev/null, 1 pipe, 2 pipe, 3 memfd, 4 socket, 5 socket, 6 cert, 7 key, 8 socket"; got != want {
		s.t.Errorf("front end has %s, want %s", got, want)
	}
	if got, want := kinds(keeper.FDs), "0 dev/null, 1 pipe, 2 pipe, 3 memfd, 4 socket, 5 socket"; got != want {
		s.t.Errorf("keykeeper has %s, want %s", got, want)
	}
	if front.Part != string(s.plan.Front) || keeper.Part != string(s.plan.Keykeeper) {
		s.t.Errorf("parts %s and %s", front.Part, keeper.Part)
	}
}

// keykeeper is its report.
func (s *service) keykeeper() (r report) {
	s.t.Helper()
	for range 500 {
		b, _ := os.ReadFile(filepath.Join(s.dir, "keykeeper.json"))
		if json.Unmarshal(b, &r) == nil && r.PID != 0 {
			return r
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatal("no keykeeper reports")
	return r
}

func procStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return status(strings.Split(string(b), "\n"))
}

// TestUnprivileged runs the service as an ordinary user.
func TestUnprivileged(t *testing.T) {
	s := newService(t, false, describe).start()
	r, c := s.ready()
	_, lines := s.worker(c, "anybody")
	got := status(lines)
	same(t, "worker", got, map[string]string{"Uid": four(s.runAs), "CapEff": none, "CapPrm": none, "NoNewPrivs": "1", "Umask": "0077", "Core": "0"})
	if !strings.Contains(got["Env"], "TMPDIR="+s.plan.Monitor.StateDir+"/work/r-") || strings.Contains(got["Env"], "SECRET") {
		t.Errorf("environment %s", got["Env"])
	}
	if r.Proof != "" || s.keykeeper().Proof != "" {
		t.Errorf("front end: %s; keykeeper: %s", r.Proof, s.keykeeper().Proof)
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.wait(10 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if left, _ := os.ReadDir(filepath.Join(s.plan.Monitor.StateDir, "work")); len(left) != 0 {
		t.Errorf("%d private folders are left", len(left))
	}
}

// TestLoopbackService has no keykeeper and no certificate.
func TestLoopbackService(t *testing.T) {
	s := newService(t, false, describe)
	s.loopback()
	s.start()
	r, c := s.ready()
	if len(r.FDs) != 6 { // 0 1 2, part, socket, listener
		t.Errorf("front end has %v", r.FDs)
	}
	_, lines := s.worker(c, "")
	same(t, "worker", status(lines), map[string]string{"Uid": four(s.runAs), "NoNewPrivs": "1"})
	if kids := children(s.monitorPID()); len(kids) != 2 {
		t.Errorf("monitor's children: %v, want the front end and one worker", kids)
	}
}

// TestLoopbackServiceAsRoot: workers are a restricted account's.
func TestLoopbackServiceAsRoot(t *testing.T) {
	accountstest.NeedRoot(t)
	s := newService(t, true, describe)
	s.loopback()
	s.start()
	_, c := s.ready()
	_, lines := s.worker(c, "")
	uid, _ := accountstest.IDs(t, folk.Worker)
	same(t, "worker", status(lines), map[string]string{"Uid": four(uid), "CapBnd": none, "NoNewPrivs": "1"})
}

// TestReload: SIGHUP hands the certificate on and ends nobody who is still mapped.
func TestReload(t *testing.T) {
	accountstest.NeedRoot(t)
	s := newService(t, true, describe).start()
	got := make(chan string, 4)
	_, c := s.frontEnd(0, func(cert, key *os.File) {
		a, _ := io.ReadAll(cert)
		b, _ := io.ReadAll(key)
		cert.Close()
		key.Close()
		got <- string(a) + " " + string(b)
	})
	c.Ready()
	a, _ := s.worker(c, "alice")
	b, _ := s.worker(c, "bob")
	s.file("cert", "certificate-2", 0o644)
	s.file("accounts.yaml", fmt.Sprintf("- {issuer: '%s', subject: 'alice', account: '%s'}\n", s.issuer.URL, folk.Alice), 0o600)
	s.cmd.Process.Signal(syscall.SIGHUP)
	select {
	case text := <-got:
		if text != "certificate-2 key" {
			t.Errorf("got %q", text)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no certificate came")
	}
	<-b.Exited()
	if !alive(a.PID()) {
		t.Error("alice's worker ended")
	}
	if _, err := c.Spawn(t.Context(), spawn.Request{Token: s.issuer.Mint(authtest.Claim("sub", "bob"))}); err == nil {
		t.Error("bob is still let in")
	}
}

// TestByHand: a person who starts it is told what does.
func TestByHand(t *testing.T) {
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := os.CreateTemp(t.TempDir(), "plan")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for name, c := range map[string]struct {
		args  []string
		files []*os.File
		code  int
		want  string
	}{
		"without anything": {nil, nil, 1, `"gatehouse serve" starts it`},
		"an ordinary file": {nil, []*os.File{plain}, 1, "no plan on descriptor 3"},
		"--help":           {[]string{"--help"}, nil, 0, `"gatehouse serve" starts it`},
		"--version":        {[]string{"--version"}, nil, 0, "gatehouse-monitor "},
		"unknown argument": {[]string{"--skip-checks"}, nil, 1, "unknown argument"},
		"as the inner one": {[]string{guarded, "4"}, nil, 1, "started without a guard"},
	} {
		cmd := exec.Command(filepath.Join(bin, "gatehouse-monitor"), c.args...)
		cmd.ExtraFiles = c.files
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: exit status %d, %q; want %d and %q", name, cmd.ProcessState.ExitCode(), out, c.code, c.want)
		}
	}
}

func TestPlanIsDecodedStrictly(t *testing.T) {
	good := `{"monitor":{"run_as":"loopback"},"front":{}}`
	if p, err := decodePlan([]byte(good)); err != nil || p.Monitor.RunAs != plan.RunLoopback {
		t.Errorf("%+v, %v", p, err)
	}
	for name, doc := range map[string]string{
		"unknown member":        `{"monitor":{"run_as":"loopback","skip_checks":true},"front":{}}`,
		"unknown part":          `{"monitor":{},"front":{},"more":{}}`,
		"wrong type":            `{"monitor":{"listeners":"1"},"front":{}}`,
		"two documents":         good + good,
		"cut short":             good[:20],
		"empty":                 "",
		"a list":                "[]",
		"far beyond the limits": strings.Repeat(" ", maxPlan+1),
	} {
		if p, err := decodePlan([]byte(doc)); err == nil {
			t.Errorf("%s: accepted as %+v", name, p)
		}
	}
}

// TestLinksNoNetworkStack: privilege is checked at link time.
func TestLinksNoNetworkStack(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		switch dep {
		case "net/http", "crypto/tls", "os/exec", "gatehouse/router", "gatehouse/session", "gatehouse/session/jsonrpc", "gatehouse/auth", "gatehouse/auth/issuer", "gatehouse/toolsets":
			t.Errorf("the monitor links %s", dep)
		}
	}
}

// TestSameAccountService lets in who maps to the account that it runs as.
func TestSameAccountService(t *testing.T) {
	accountstest.NeedRoot(t)
	s := newService(t, false, describe)
	s.plan.Monitor.RunAs = plan.RunSame
	s.plan.Monitor.AccountsFile = s.file("accounts.yaml", fmt.Sprintf(
		"- {issuer: '%[1]s', subject: 'bob', account: '%[2]s'}\n- {issuer: '%[1]s', subject: 'alice', account: '%[3]s'}\n",
		s.issuer.URL, folk.Bob, folk.Alice), 0o644)
	s.start()
	_, c := s.ready()
	w, lines := s.worker(c, "bob")
	got := status(lines)
	same(t, "worker", got, map[string]string{"Uid": four(s.runAs), "NoNewPrivs": "1"})
	if strings.Contains(got["Env"], "TMPDIR") || !strings.Contains(got["Env"], "HOME=/home/"+folk.Bob) || w.Account() != folk.Bob {
		t.Errorf("environment %s of %s", got["Env"], w.Account())
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: s.issuer.Mint(authtest.Claim("sub", "alice"))})
	var e *spawn.Error
	if !errors.As(err, &e) || e.Kind != spawn.KindNoAccount {
		t.Errorf("alice: %v", err)
	}
}

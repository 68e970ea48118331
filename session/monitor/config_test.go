package monitor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/printable"
	"gatehouse/auth/token"
	"gatehouse/session/spawn"
)

// TestConfigRules changes one thing about a good configuration.
func TestConfigRules(t *testing.T) {
	good := func() *Config {
		return &Config{
			Mode: ModeMonitor, BinDir: "/bin", StateDir: "/state", TLSCert: "/c", TLSKey: "/k",
			Policies: []token.Policy{{Issuer: authtest.IssuerURL}}, AccountsFile: "/a",
			FrontUser: "front", KeysUser: "keys", Servers: []Server{{Path: "/mcp", Audiences: []string{"https://a"}}},
			MaxWorkers: 1, MaxPerPrincipal: 1, MaxPerToken: 1, SpawnRate: 1, SpawnBurst: 1, MaxStale: time.Hour,
			FrontPart: []byte("{}"), KeysPart: []byte("{}"), Listeners: []*os.File{os.Stdin},
		}
	}
	loopback := func(c *Config) {
		c.Mode, c.AccountsFile, c.Policies, c.KeysPart, c.KeysUser = ModeLoopback, "", nil, nil, ""
		c.TLSCert, c.TLSKey, c.WorkerUser = "", "", "worker"
		c.Servers[0].Audiences = nil
		c.MaxPerPrincipal, c.MaxPerToken, c.SpawnRate, c.SpawnBurst, c.MaxStale = 0, 0, 0, 0, 0
	}
	user := func(c *Config) { c.FrontUser, c.KeysUser, c.WorkerUser = "", "", "" }
	for name, c := range map[string]struct {
		change func(c *Config)
		user   bool // not root
		want   string
	}{
		"monitor as root":             {func(*Config) {}, false, ""},
		"loopback as root":            {loopback, false, ""},
		"loopback as a user":          {func(c *Config) { loopback(c); user(c) }, true, ""},
		"same account as a user":      {func(c *Config) { c.Mode = ModeSame; user(c) }, true, ""},
		"shared account as a user":    {func(c *Config) { c.Mode, c.AccountsFile = ModeShared, ""; user(c) }, true, ""},
		"no mode":                     {func(c *Config) { c.Mode = "" }, false, "unknown way to run"},
		"unknown mode":                {func(c *Config) { c.Mode = "root" }, false, "unknown way to run"},
		"monitor as a user":           {user, true, "needs root"},
		"same account as root":        {func(c *Config) { c.Mode = ModeSame }, false, "every worker root"},
		"front end as root":           {func(c *Config) { c.FrontUser = "" }, false, "front end needs an account"},
		"keykeeper as root":           {func(c *Config) { c.KeysUser = "" }, false, "keykeeper needs an account"},
		"loopback workers as root":    {func(c *Config) { loopback(c); c.WorkerUser = "" }, false, "workers need an account"},
		"shared workers as root":      {func(c *Config) { c.Mode, c.AccountsFile = ModeShared, "" }, false, "workers need an account"},
		"one account for two":         {func(c *Config) { c.KeysUser = "front" }, false, "must not share"},
		"workers as the front end":    {func(c *Config) { loopback(c); c.WorkerUser = "front" }, false, "must not share"},
		"workers as the keykeeper":    {func(c *Config) { c.WorkerUser = "keys" }, false, "must not share"},
		"no issuer":                   {func(c *Config) { c.Policies = nil }, false, "exactly when there is authentication"},
		"no keykeeper":                {func(c *Config) { c.KeysPart = nil }, false, "keykeeper runs exactly"},
		"neither map nor claim":       {func(c *Config) { c.AccountsFile = "" }, false, "exactly one of"},
		"map and claim":               {func(c *Config) { c.AccountClaim = "x" }, false, "exactly one of"},
		"certificate without a key":   {func(c *Config) { c.TLSKey = "" }, false, "go together"},
		"no TLS":                      {func(c *Config) { c.TLSCert, c.TLSKey = "", "" }, false, "needs TLS"},
		"relative program folder":     {func(c *Config) { c.BinDir = "bin" }, false, "absolute"},
		"no server":                   {func(c *Config) { c.Servers = nil }, false, "no server"},
		"no listener":                 {func(c *Config) { c.Listeners = nil }, false, "no listener"},
		"no front end":                {func(c *Config) { c.FrontPart = nil }, false, "no part for the front end"},
		"no workers":                  {func(c *Config) { c.MaxWorkers = 0 }, false, "max_workers"},
		"no limit of a principal":     {func(c *Config) { c.MaxPerToken = 0 }, false, "limits of a principal"},
		"negative grace":              {func(c *Config) { c.CredentialGrace = -1 }, false, "must not be negative"},
		"server without an audience":  {func(c *Config) { c.Servers[0].Audiences = nil }, false, "audiences are needed exactly"},
		"loopback with an audience":   {func(c *Config) { loopback(c); c.Servers[0].Audiences = []string{"x"} }, false, "audiences are needed exactly"},
		"loopback with a token check": {func(c *Config) { loopback(c); c.Policies = []token.Policy{{}} }, false, "exactly when there is authentication"},
	} {
		cfg := good()
		c.change(cfg)
		err := cfg.check(!c.user)
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestNewRefusesBadSurroundings: what can be wrong on the host.
func TestNewRefusesBadSurroundings(t *testing.T) {
	root := os.Geteuid() == 0
	for name, c := range map[string]struct {
		change   func(r *rig)
		want     string
		rootOnly bool
	}{
		"program missing":            {func(r *rig) { os.Remove(filepath.Join(r.dir, "gatehouse")) }, "no such file", true},
		"keykeeper others may write": {func(r *rig) { os.Chmod(filepath.Join(r.dir, "gatehouse-keykeeper"), 0o777) }, "may write it", true},
		"built-in worker missing":    {func(r *rig) { r.cfg.Servers[0].Command = nil }, "gatehouse-worker", true},
		"relative worker command":    {func(r *rig) { r.cfg.Servers[0].Command = []string{"sh"} }, "not an absolute path", false},
		"worker others may write": {func(r *rig) {
			r.cfg.Servers[0].Command = []string{writeFile(r.t, filepath.Join(r.dir, "w"), "", 0o777)}
		}, "may write it", true},
		"worker in a folder others may write": {func(r *rig) {
			os.Mkdir(filepath.Join(r.dir, "open"), 0o755)
			r.cfg.Servers[0].Command = []string{writeFile(r.t, filepath.Join(r.dir, "open", "w"), "", 0o755)}
			os.Chmod(filepath.Join(r.dir, "open"), 0o777)
		}, "may write it", true},
		"accounts file others may write": {func(r *rig) { os.Chmod(r.cfg.AccountsFile, 0o666) }, "may write it", true},
		"accounts file broken":           {func(r *rig) { writeFile(r.t, r.cfg.AccountsFile, "- {}\n", 0o600) }, "accounts file", true},
		"no such front user":             {func(r *rig) { r.cfg.FrontUser = "ghtest-none" }, "there is no account", true},
		"front user is root":             {func(r *rig) { r.cfg.FrontUser = "root" }, "root", true},
		"worker user is root": {func(r *rig) {
			r.cfg.Mode, r.cfg.AccountsFile, r.cfg.WorkerUser = ModeShared, "", "root"
		}, "root", true},
		"unknown profile":  {func(r *rig) { r.cfg.Policies[0].Profile = "none" }, "profile", false},
		"settings garbled": {func(r *rig) { r.cfg.Servers[0].Command, r.cfg.Servers[0].Settings = nil, []byte("[]") }, "worker settings", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.rootOnly && !root {
				t.Skip("SKIPPED: needs root")
			}
			r := newRig(t, "exit 0")
			c.change(r)
			m, err := New(t.Context(), r.cfg)
			if err == nil {
				m.runner.groups.Load().Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestPacer(t *testing.T) {
	var p pacer
	var waits []time.Duration
	for range 10 {
		w, ok := p.next(time.Second, true)
		if !ok {
			t.Fatal("a part that was of use is given up")
		}
		waits = append(waits, w)
	}
	if waits[0] != firstPause || waits[1] != 2*firstPause || waits[9] != lastPause {
		t.Errorf("pauses %v", waits)
	}
	if w, _ := p.next(settled, true); w != firstPause {
		t.Errorf("after a long run: %v", w)
	}
	n := 1
	for _, ok := p.next(0, false); ok; _, ok = p.next(0, false) {
		n++
	}
	if n != maxEarlyEnds {
		t.Errorf("given up after %d early ends, want %d", n, maxEarlyEnds)
	}
}

func TestLogTextIsOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"Zoë":                    "Zoë",
		"a\nb\x00c\x1b[31m":      `a\u000ab\u0000c\u001b[31m`,
		"\u202eevil\u200b\u0085": `\u202eevil\u200b\u0085`,
		"\xff":                   `\xff`,
	} {
		if got := clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := clean(strings.Repeat("é", 1000)); len(got) > printable.Value+3 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	remedy := strings.Repeat("x", 1000) + " set MCP_ISSUER"
	said := errors.New("exit status 1: gatehouse: not accepted:\n  a: is not b\n\n  c: " + remedy + "\n  d\x1b[31m\n")
	if got, want := complaint(said), `exit status 1: gatehouse: not accepted: a: is not b; c: `+remedy+`; d\u001b[31m`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestGetent asks the host's own database.
func TestGetent(t *testing.T) {
	r := newRig(t, "exit 0").start()
	out, err := r.m.getent(t.Context(), "passwd", "--", "root")
	if err != nil || !strings.HasPrefix(string(out), "root:x:0:0:") {
		t.Errorf("root: %q, %v", out, err)
	}
	if _, err := r.m.getent(t.Context(), "passwd", "--", "ghtest-none"); err == nil || !strings.Contains(err.Error(), "no such entry") {
		t.Errorf("nobody: %v", err)
	}
	if _, err := r.m.getent(t.Context(), "nonsense", "--", "x"); err == nil {
		t.Error("an unknown database was asked")
	}
}

// TestCertificatesAreFollowed: a new pair is handed on once both files rest.
func TestCertificatesAreFollowed(t *testing.T) {
	r := newRig(t, "exit 0")
	r.cfg.TLSCert = writeFile(t, filepath.Join(r.dir, "cert"), "old cert", 0o600)
	r.cfg.TLSKey = writeFile(t, filepath.Join(r.dir, "key"), "old key", 0o600)
	r.start()
	type pair struct{ cert, key string }
	got := make(chan pair, 4)
	socket, seat := r.sit()
	c, err := spawn.NewClient(socket, func(cert, key *os.File) {
		a, b := make([]byte, 64), make([]byte, 64)
		n, _ := cert.Read(a)
		k, _ := key.Read(b)
		cert.Close()
		key.Close()
		got <- pair{string(a[:n]), string(b[:k])}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r.m.setAttendant(seat.a)
	go newCertWatch(r.m).run(t.Context(), 20*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	os.WriteFile(r.cfg.TLSCert+".new", []byte("new cert"), 0o600)
	os.WriteFile(r.cfg.TLSKey+".new", []byte("new key"), 0o600)
	os.Rename(r.cfg.TLSKey+".new", r.cfg.TLSKey)
	os.Rename(r.cfg.TLSCert+".new", r.cfg.TLSCert)
	select {
	case p := <-got:
		if p != (pair{"new cert", "new key"}) {
			t.Errorf("got %+v", p)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no certificate came")
	}
	r.m.reload(t.Context())
	if p := <-got; p != (pair{"new cert", "new key"}) {
		t.Errorf("after SIGHUP: %+v", p)
	}
	os.Remove(r.cfg.TLSKey)
	r.m.reload(t.Context())
	r.log.Await(t, "new certificate is not used")
	select {
	case p := <-got:
		t.Errorf("unasked: %+v", p)
	case <-time.After(100 * time.Millisecond):
	}
}

// TestCertificateIsTriedAgain: a pair that can't be opened is tried at each look, though
// the files do not change any more, and the log says it once.
func TestCertificateIsTriedAgain(t *testing.T) {
	r := newRig(t, "exit 0")
	r.cfg.TLSCert = writeFile(t, filepath.Join(r.dir, "cert"), "old cert", 0o600)
	r.cfg.TLSKey = writeFile(t, filepath.Join(r.dir, "key"), "old key", 0o600)
	r.start()
	socket, seat := r.sit()
	defer socket.Close()
	r.m.setAttendant(seat.a)
	w := newCertWatch(r.m)
	said := func(text string, times int) {
		t.Helper()
		if n := strings.Count(r.log.String(), text); n != times {
			t.Errorf("the log says %d times, not %d, %q:\n%s", n, times, text, r.log)
		}
	}
	const failed, handed = "new certificate is not used yet", "handed to the front end"
	writeFile(t, r.cfg.TLSCert, "a new cert", 0o600)
	writeFile(t, r.cfg.TLSKey, "a new key", 0o600)
	w.look() // they have changed
	withoutDescriptors(t, func() {
		w.look()
		w.look()
	})
	said(failed, 1)
	said(handed, 0)
	w.look()
	w.look()
	said(handed, 1)

	if err := os.Remove(r.cfg.TLSKey); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.look()
	said(failed, 2)
	writeFile(t, r.cfg.TLSKey, "the key again", 0o600)
	w.look()
	w.look()
	said(failed, 2)
	said(handed, 2)
}

// withoutDescriptors does something while this process can open no file.
func withoutDescriptors(t *testing.T, do func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// TestRefusalsDoNotFloodTheLog, and how many were left out is said.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	var q quiet
	now := time.Now()
	written := 0
	for range 1000 {
		if _, ok := q.admit(now); ok {
			written++
		}
	}
	if written != 200 {
		t.Errorf("%d lines at once", written)
	}
	if dropped, ok := q.admit(now.Add(time.Second)); !ok || dropped != 800 {
		t.Errorf("a second later: %v, %d left out", ok, dropped)
	}
}

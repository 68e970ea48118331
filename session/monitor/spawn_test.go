package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/settings"
	"gatehouse/session/spawn"
)

// describe is a worker that is no Go program and lists what it is and has.
const describe = `
grep -E '^(Uid|Gid|Groups|Umask|NoNewPrivs|Cap[A-Z][a-z]*):' /proc/$$/status | tr -s '\t ' ' '
cut -d' ' -f5-6 /proc/$$/stat | sed 's/^/Session: /'
readlink /proc/$$/cwd | sed 's/^/Cwd: /'
tr '\0' '\n' </proc/$$/environ | sed 's/^/Env: /'
ls /proc/$$/fd # no pipe: the shell would have an end of it
echo end
while read -r line; do eval "$line"; done
`

// facts sorts lines of describe by their first word.
func facts(lines []string) map[string][]string {
	m := map[string][]string{}
	for _, l := range lines {
		k, v, ok := strings.Cut(l, ":")
		if !ok {
			k, v = "Fd", l
		}
		m[k] = append(m[k], strings.TrimSpace(v))
	}
	return m
}

func one(m map[string][]string, key string) string { return strings.Join(m[key], "|") }

// TestWorkerIsTheTokensAccount is the product's promise, in a process that is not
// locked down; what the lock-down adds is tested on the real program.
func TestWorkerIsTheTokensAccount(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	for sub, account := range map[string]string{"alice": folk.alice, "bob": folk.bob} {
		w := r.spawn(c, r.token(sub))
		uid, gid := lookup(t, account)
		team := groupID(t, folk.team)
		f := facts(w.lines())
		for key, want := range map[string]string{
			"Uid":     fmt.Sprintf("%d %d %d %d", uid, uid, uid, uid),
			"Gid":     fmt.Sprintf("%d %d %d %d", gid, gid, gid, gid),
			"Groups":  joinSorted(gid, team),
			"Session": fmt.Sprintf("%d %d", w.PID(), w.PID()),
			"Cwd":     "/home/" + account,
			"Fd":      "0|1|2",
			"Env": strings.Join([]string{"HOME=/home/" + account, "LANG=C.UTF-8", "LOGNAME=" + account,
				"PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh", "USER=" + account}, "|"),
			"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000", "CapAmb": "0000000000000000",
		} {
			if got := one(f, key); got != want {
				t.Errorf("%s: %s is %q, want %q", sub, key, got, want)
			}
		}
		if w.UID() != uid || w.Account() != account {
			t.Errorf("%s: told uid %d of %s", sub, w.UID(), w.Account())
		}
	}
}

func joinSorted(ids ...int) string {
	slices.Sort(ids)
	return strings.Trim(fmt.Sprint(ids), "[]")
}

func groupID(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile("/etc/group")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); f[0] == name {
			gid, _ := strconv.Atoi(f[2])
			return gid
		}
	}
	t.Fatalf("no group %s", name)
	return 0
}

// TestUsersAreKeptApart: neither account can read the other's files or environment
// or signal the other's worker.
func TestUsersAreKeptApart(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	a, b := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	a.lines()
	b.lines()
	a.say("umask 077; echo hers >secret; cat secret")
	if got := a.line(); got != "hers" {
		t.Fatalf("alice reads %q", got)
	}
	for _, attack := range []string{
		fmt.Sprintf("cat /home/%s/secret", folk.alice),
		fmt.Sprintf("kill -0 %d", a.PID()),
		fmt.Sprintf("cat /proc/%d/environ", a.PID()),
		fmt.Sprintf("ls /proc/%d/fd", a.PID()),
		fmt.Sprintf("echo x >/proc/%d/fd/1", a.PID()),
		fmt.Sprintf("kill -0 %d", os.Getpid()),
		"echo x >/etc/passwd", "cat /etc/shadow",
	} {
		b.say(fmt.Sprintf("( %s ) >/dev/null 2>&1 && echo done || echo denied", attack))
		if got := b.line(); got != "denied" {
			t.Errorf("bob: %s: %s", attack, got)
		}
	}
	// Standard descriptors can be opened by name, which a pipe of root's could not.
	b.say("echo named >/dev/stdout; echo ok >/dev/stderr && echo ok")
	if one, two := b.line(), b.line(); one != "named" || two != "ok" {
		t.Errorf("/dev/stdout: %q, /dev/stderr: %q", one, two)
	}
}

// TestGroupsAreReadAtEachSpawn: who was taken out of a group has left it in the
// next worker, and the worker that still has it ends at the next look.
func TestGroupsAreReadAtEachSpawn(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	team := strconv.Itoa(groupID(t, folk.team))
	first := r.spawn(c, r.token("alice"))
	if g := one(facts(first.lines()), "Groups"); !slices.Contains(strings.Fields(g), team) {
		t.Fatalf("groups %s lack %s", g, team)
	}
	if err := admin("gpasswd", "-d", folk.alice, folk.team); err != nil {
		t.Fatal(err)
	}
	defer admin("gpasswd", "-a", folk.alice, folk.team)
	second := r.spawn(c, r.token("alice"))
	if g := one(facts(second.lines()), "Groups"); slices.Contains(strings.Fields(g), team) {
		t.Errorf("groups %s still hold %s", g, team)
	}
	r.m.recheckAll(t.Context())
	if st := first.end(5 * time.Second); st.Reason != "account changed" {
		t.Errorf("the first worker ended with %+v", st)
	}
	if !alive(second.PID()) {
		t.Error("the second worker ended too")
	}
}

// TestLockedAccountEnds: a renewal looks at the account again.
func TestLockedAccountEnds(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	w := r.spawn(c, r.token("bob"))
	if err := admin("usermod", "-L", folk.bob); err != nil {
		t.Fatal(err)
	}
	defer admin("usermod", "-p", "*", folk.bob)
	refused(t, w.Renew(t.Context(), r.token("bob", authtest.Claim("exp", time.Now().Unix()+900))), spawn.KindNoAccount, "is locked")
	w.end(5 * time.Second)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("bob")})
	refused(t, err, spawn.KindNoAccount, "is locked")
}

// TestReloadedMapEndsWorkers: an entry that is gone, or leads elsewhere.
func TestReloadedMapEndsWorkers(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	a, b := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	writeFile(t, r.cfg.AccountsFile, "- nonsense\n", 0o600)
	r.m.reload(t.Context())
	r.log.await(t, "the one before stays in force")
	if !alive(a.PID()) || !alive(b.PID()) {
		t.Fatal("a broken file ended a worker")
	}
	r.mapTo(map[string]string{"alice": folk.alice})
	r.m.reload(t.Context())
	if st := b.end(5 * time.Second); st.Reason != "account changed" {
		t.Errorf("bob's worker ended with %+v", st)
	}
	if !alive(a.PID()) {
		t.Error("alice's worker ended too")
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("bob")})
	refused(t, err, spawn.KindNoAccount, "no entry")
}

// TestTokensThatReachNoAccount names each reason; nothing is started for any.
func TestTokensThatReachNoAccount(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe)
	r.mapTo(map[string]string{"alice": folk.alice, "daemon": "daemon", "service": folk.front, "ghost": "ghtest-nobody-has-it"})
	r.start()
	c := r.front()
	strange := authtest.NewKey("RS256")
	for name, tok := range map[string]struct {
		token, reason string
		kind          spawn.Kind
	}{
		"no token":           {"", "malformed", spawn.KindToken},
		"garbage":            {"a.b.c", "malformed", spawn.KindToken},
		"expired":            {r.token("alice", authtest.Claim("exp", time.Now().Unix()-1), authtest.Claim("iat", time.Now().Unix()-100)), "expired", spawn.KindToken},
		"wrong audience":     {r.token("alice", authtest.Claim("aud", "https://mcp.test:8443/other")), "wrong_audience", spawn.KindToken},
		"wrong issuer":       {r.token("alice", authtest.Claim("iss", authtest.OtherURL)), "wrong_issuer", spawn.KindToken},
		"strange key":        {r.token("alice", authtest.SignedAs(strange)), "unverifiable", spawn.KindToken},
		"unknown subject":    {r.token("mallory"), "no entry", spawn.KindNoAccount},
		"user of same name":  {r.token(folk.alice), "no entry", spawn.KindNoAccount},
		"root":               {r.token("root"), "no entry", spawn.KindNoAccount},
		"maps to daemon":     {r.token("daemon"), "uid_range", spawn.KindNoAccount},
		"maps to service":    {r.token("service"), "uid_range", spawn.KindNoAccount},
		"maps to nobody":     {r.token("ghost"), "lookup", spawn.KindNoAccount},
		"client credentials": {r.token(authtest.Client), "client", spawn.KindClientOwn},
	} {
		w, err := c.Spawn(t.Context(), spawn.Request{Token: tok.token})
		if err == nil {
			t.Errorf("%s: got worker %d", name, w.PID())
			w.Stop()
			continue
		}
		t.Run(name, func(t *testing.T) { refused(t, err, tok.kind, tok.reason) })
	}
	if n := r.m.number.Load(); n != 0 {
		t.Errorf("%d workers were started", n)
	}
	if l := r.log.String(); strings.Count(l, `"audit":"refused"`) != 13 {
		t.Errorf("not every refusal is in the log:\n%s", l)
	}
}

// TestClientsOwnTokenWhenMapped: only an entry that names the client admits it.
func TestClientsOwnTokenWhenMapped(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe)
	own := r.token(authtest.Client)
	entry := fmt.Sprintf("- {issuer: '%s', subject: '%s', account: '%s'", r.issuer.URL, authtest.Client, folk.alice)
	r.cfg.AccountsFile = writeFile(t, filepath.Join(r.dir, "accounts.yaml"), entry+"}\n", 0o600)
	r.start()
	c := r.front()
	_, err := c.Spawn(t.Context(), spawn.Request{Token: own})
	refused(t, err, spawn.KindClientOwn, "")
	writeFile(t, r.cfg.AccountsFile, entry+", client_id: '"+authtest.Client+"'}\n", 0o600)
	r.m.reload(t.Context())
	if w := r.spawn(c, own); w.Account() != folk.alice {
		t.Errorf("account %s", w.Account())
	}
}

// TestAccountClaim takes the name from the token, after the grammar.
func TestAccountClaim(t *testing.T) {
	needRoot(t)
	r := newRig(t, describe)
	r.cfg.AccountsFile, r.cfg.AccountClaim = "", authtest.AcctClaim
	r.start()
	c := r.front()
	claim := func(v any) string { return r.token("anybody", authtest.Claim(authtest.AcctClaim, v)) }
	if w := r.spawn(c, claim(folk.bob)); w.Account() != folk.bob {
		t.Errorf("account %s", w.Account())
	}
	for _, name := range []any{"root", "Root", "root\x01x", "-root", "0", "+0", "../x", "a@b@c", "rооt", "", nil, 0, []string{folk.bob}, folk.bob + " ", " " + folk.bob, "daemon", folk.front} {
		_, err := c.Spawn(t.Context(), spawn.Request{Token: claim(name)})
		refused(t, err, spawn.KindNoAccount, "")
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("anybody")})
	refused(t, err, spawn.KindNoAccount, "no account claim")
	if strings.Contains(r.log.String(), "\x01") {
		t.Error("a control byte reached the log")
	}
}

// TestSettingsOfTheBuiltInWorker: on descriptor 3, sealed, without the token.
func TestSettingsOfTheBuiltInWorker(t *testing.T) {
	needRoot(t)
	r := newRig(t, "")
	writeFile(t, filepath.Join(r.dir, "gatehouse-worker"), "#!/bin/sh\ncat /proc/self/fd/3; echo\nls /proc/$$/fd; echo end; (echo x >/proc/self/fd/3) 2>/dev/null && echo written || echo sealed\nread x\n", 0o755)
	r.cfg.Servers[0].Command = nil
	r.cfg.Servers[0].Settings = json.RawMessage(`{"title":"Lab","toolsets":["session"],"sub":"forged","account":"root","server":"/x"}`)
	r.start()
	tok := r.token("alice", authtest.Claim("scope", "mcp:use files"))
	w := r.spawn(r.front(), tok)
	doc := w.line()
	var s settings.Settings
	if err := json.Unmarshal([]byte(doc), &s); err != nil {
		t.Fatal(err)
	}
	want := settings.Settings{
		Issuer: r.issuer.URL, Subject: "alice", ClientID: authtest.Client, Scopes: []string{"files", "mcp:use"}, Account: folk.alice,
		Name: "Ms. alice", Email: "alice@example.org", Server: "/mcp", Title: "Lab", Toolsets: []string{"session"},
	}
	if fmt.Sprint(s) != fmt.Sprint(want) {
		t.Errorf("settings\n%+v, want\n%+v", s, want)
	}
	if strings.Contains(doc, tok[len(tok)-20:]) {
		t.Error("the token is in the settings")
	}
	if fds := strings.Join(w.lines(), " "); strings.Replace(fds, " 10 ", " ", 1) != "0 1 2 3" { // 10 is the script
		t.Errorf("descriptors %q, want 0 1 2 3", fds)
	}
	if got := w.line(); got != "sealed" {
		t.Errorf("settings are %s", got)
	}
}

// TestSharedAccount: every worker runs as one account, with a folder of its own
// that is gone afterwards.
func TestSharedAccount(t *testing.T) {
	r := newRig(t, describe)
	r.cfg.Mode, r.cfg.AccountsFile = ModeShared, ""
	if os.Geteuid() == 0 {
		r.cfg.WorkerUser = folk.worker
	}
	r.start()
	c := r.front()
	a, b := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	fa, fb := facts(a.lines()), facts(b.lines())
	uid := os.Getuid()
	if uid == 0 {
		uid, _ = lookup(t, folk.worker)
	}
	tmpOf := func(f map[string][]string) (tmp string) {
		for _, e := range f["Env"] {
			if v, ok := strings.CutPrefix(e, "TMPDIR="); ok {
				tmp = v
			}
		}
		return tmp
	}
	ta, tb := tmpOf(fa), tmpOf(fb)
	if ta == "" || ta == tb || filepath.Dir(ta) != filepath.Join(r.cfg.StateDir, "work") {
		t.Errorf("TMPDIR %q and %q", ta, tb)
	}
	for _, f := range []map[string][]string{fa, fb} {
		if got := one(f, "Uid"); got != fmt.Sprintf("%d %d %d %d", uid, uid, uid, uid) {
			t.Errorf("uid %s, want %d", got, uid)
		}
		if len(f["Env"]) != 7 || one(f, "Fd") != "0|1|2" {
			t.Errorf("environment %q, descriptors %q", f["Env"], f["Fd"])
		}
	}
	if uid != os.Getuid() && (one(fa, "Cwd") != ta || !slices.Contains(fa["Env"], "HOME="+ta)) {
		t.Errorf("an account without a home works in %s (%q), want %s", one(fa, "Cwd"), fa["Env"], ta)
	}
	a.say(`mkdir -p "$TMPDIR/x/y" && echo hi >"$TMPDIR/x/y/z" && cat "$TMPDIR/x/y/z"`)
	if got := a.line(); got != "hi" {
		t.Errorf("private folder: %q", got)
	}
	a.Stop()
	a.end(5 * time.Second)
	if _, err := os.Stat(ta); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left", ta)
	}
	if _, err := os.Stat(tb); err != nil {
		t.Errorf("bob's folder is gone: %v", err)
	}
	own, err := c.Spawn(t.Context(), spawn.Request{Token: r.token(authtest.Client)})
	if err == nil {
		own.Stop()
	}
	refused(t, err, spawn.KindClientOwn, "")
}

// TestLoopback needs no token and takes none.
func TestLoopback(t *testing.T) {
	r := newRig(t, describe)
	r.cfg.Mode, r.cfg.AccountsFile, r.cfg.Policies, r.cfg.KeysPart = ModeLoopback, "", nil, nil
	r.cfg.TLSCert, r.cfg.TLSKey, r.cfg.KeysUser = "", "", ""
	r.cfg.Servers[0].Audiences = nil
	r.cfg.MaxPerPrincipal, r.cfg.SpawnRate = 0, 0
	if os.Geteuid() == 0 {
		r.cfg.WorkerUser = folk.worker
	}
	r.start()
	c := r.front()
	w := r.spawn(c, "")
	uid := os.Getuid()
	if uid == 0 {
		uid, _ = lookup(t, folk.worker)
	}
	if got := one(facts(w.lines()), "Uid"); !strings.HasPrefix(got, strconv.Itoa(uid)+" ") {
		t.Errorf("uid %s, want %d", got, uid)
	}
	if !w.Lease().IsZero() {
		t.Errorf("lease until %v", w.Lease())
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindToken, "loopback")
	refused(t, w.Renew(t.Context(), r.token("alice")), spawn.KindToken, "loopback")
}

// TestSameAccount admits those who map to the server's account, and no others.
func TestSameAccount(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: needs an ordinary user; root is refused")
	}
	me := strings.TrimSpace(command(t, "id", "-un"))
	r := newRig(t, describe)
	r.cfg.Mode = ModeSame
	r.mapTo(map[string]string{"me": me, "alice": "alice-example"})
	r.start()
	c := r.front()
	if w := r.spawn(c, r.token("me")); w.UID() != os.Getuid() || w.Account() != me {
		t.Errorf("uid %d of %s", w.UID(), w.Account())
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindNoAccount, "maps to account")
	_, err = c.Spawn(t.Context(), spawn.Request{Token: r.token("nobody")})
	refused(t, err, spawn.KindNoAccount, "no entry")
}

// TestStartFailuresAreReported in bounded time, name the reason for the log, and
// leave nothing behind.
func TestStartFailuresAreReported(t *testing.T) {
	r := newRig(t, "")
	make := func(name, content string, mode os.FileMode) []string {
		return []string{writeFile(t, filepath.Join(r.dir, name), content, mode)}
	}
	servers := []struct {
		name   string
		argv   []string
		reason string
		cwd    string
	}{
		{"no interpreter", make("noint", "#!/no/such/interpreter\n", 0o755), "no such file", ""},
		{"not a program", make("noexec", "\x7fNOT", 0o755), "exec format error", ""},
		{"not for this account", make("mine", "#!/bin/sh\n", 0o755), "permission denied", ""},
		{"folder missing", []string{"/bin/true"}, "no such file", filepath.Join(r.dir, "none")},
	}
	r.cfg.Servers = nil
	for _, s := range servers {
		r.cfg.Servers = append(r.cfg.Servers, Server{Path: "/" + s.name, Audiences: []string{authtest.Audience}, Command: s.argv, Cwd: s.cwd})
	}
	r.start()
	os.Chmod(filepath.Join(r.dir, "mine"), 0o700) // still executable for root
	if os.Geteuid() != 0 {
		os.Chmod(filepath.Join(r.dir, "mine"), 0o600)
	}
	c := r.front()
	for i, s := range servers {
		began := time.Now()
		_, err := c.Spawn(t.Context(), spawn.Request{Server: uint16(i), Token: r.token("alice")})
		refused(t, err, spawn.KindUnavailable, s.reason)
		if d := time.Since(began); d > time.Second {
			t.Errorf("%s: took %v", s.name, d)
		}
	}
	for name, change := range map[string]func(){
		"removed":     func() { os.Remove(filepath.Join(r.dir, "noint")) },
		"made loose":  func() { os.Chmod(filepath.Join(r.dir, "noexec"), 0o777) },
		"not plain x": func() { os.Chmod(filepath.Join(r.dir, "noexec"), 0o644) },
	} {
		change()
		if _, err := c.Spawn(t.Context(), spawn.Request{Server: 1, Token: r.token("alice")}); kindOf(err) != spawn.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.m.leases.count(); n != 0 {
		t.Errorf("%d places were not given back", n)
	}
}

// TestWorkerThatDiesAtOnce is delivered and its end reported, with what it said.
func TestWorkerThatDiesAtOnce(t *testing.T) {
	r := newRig(t, "echo 'missing API_KEY' >&2; exit 3").start()
	c := r.front()
	for range 20 {
		w := r.spawn(c, r.token("alice"))
		if st := w.end(5 * time.Second); st.Code != 3 || st.Reason != "" {
			t.Errorf("status %+v", st)
		}
		b := make([]byte, 64)
		if n, _ := w.Stderr().Read(b); string(b[:n]) != "missing API_KEY\n" {
			t.Errorf("standard error %q", b[:n])
		}
	}
	r.log.await(t, `"status":"exit status 3"`)
}

// stubborn is a worker with a tree that does everything to stay.
const stubborn = `trap '' TERM HUP INT
(trap '' TERM; setsid sh -c 'trap "" TERM; sleep 611 & echo $! ; sleep 612 & echo $!; wait' &)
(setsid sh -c '(trap "" TERM; setsid sleep 613 & echo $!) & wait' &)
sleep 614 & echo $!
sleep 0.3; echo $$; echo end
while :; do sleep 1; done`

func testTreeDies(t *testing.T, contained bool) {
	r := newRig(t, stubborn).start()
	if contained && r.m.runner.groups.Load() == nil {
		t.Skip("SKIPPED: no control groups here")
	}
	if !contained {
		if base := r.m.runner.groups.Swap(nil); base != nil {
			defer base.Close()
		}
	}
	c := r.front()
	w, other := r.spawn(c, r.token("alice")), r.spawn(c, r.token("alice"))
	var pids []int
	for _, l := range w.lines() {
		pid, err := strconv.Atoi(l)
		if err != nil {
			t.Fatalf("not a process id: %q", l)
		}
		pids = append(pids, pid)
	}
	others := other.lines()
	if len(pids) != 5 {
		t.Fatalf("processes %v, want 5", pids)
	}
	began := time.Now()
	w.Stop()
	st := w.end(5 * time.Second)
	if st.Signal != int(syscall.SIGKILL) {
		t.Errorf("status %+v", st)
	}
	dead(t, 100*time.Millisecond, pids...) // Exited means that all are gone
	t.Logf("gone after %v", time.Since(began))
	for _, l := range others {
		if pid, _ := strconv.Atoi(l); !alive(pid) {
			t.Errorf("process %d of another worker was killed too", pid)
		}
	}
}

func TestWholeTreeDiesInItsGroup(t *testing.T)     { testTreeDies(t, true) }
func TestWholeTreeDiesWithoutAGroup(t *testing.T)  { testTreeDies(t, false) }
func TestLeaderThatExitsTakesItsTree(t *testing.T) { testLeaderExits(t) }

func testLeaderExits(t *testing.T) {
	r := newRig(t, `setsid sleep 615 & echo $!; sleep 616 & echo $!; sleep 0.2; echo end; read x; exit 7`).start()
	w := r.spawn(r.front(), r.token("alice"))
	var pids []int
	for _, l := range w.lines() {
		pid, _ := strconv.Atoi(l)
		pids = append(pids, pid)
	}
	w.Stdin().Close()
	if st := w.end(2 * time.Second); st != (spawn.Status{Code: 7}) {
		t.Errorf("status %+v, want its own exit code and no reason", st)
	}
	dead(t, 100*time.Millisecond, pids...)
}

// TestStopIsPatient: EOF first, then SIGTERM.
func TestStopIsPatient(t *testing.T) {
	r := newRig(t, `trap 'echo TERM; exit 5' TERM; echo end; cat; echo EOF; sleep 60 & wait`).start()
	w := r.spawn(r.front(), r.token("alice"))
	w.lines()
	w.Stop()
	if a, b := w.line(), w.line(); a != "EOF" || b != "TERM" {
		t.Errorf("worker saw %q, then %q", a, b)
	}
	if st := w.end(2 * time.Second); st.Code != 5 || st.Reason != "stop requested" {
		t.Errorf("status %+v", st)
	}
}

// TestStoppedWorkerDies: SIGSTOP is no way to stay.
func TestStoppedWorkerDies(t *testing.T) {
	r := newRig(t, `echo end; kill -STOP $$; sleep 60`).start()
	w := r.spawn(r.front(), r.token("alice"))
	w.lines()
	w.Stop()
	w.end(2 * time.Second)
	dead(t, time.Second, w.PID())
}

// TestLeaseEndsForReal: the front end holds the pipe and does nothing.
func TestLeaseEndsForReal(t *testing.T) {
	r := newRig(t, `trap '' TERM; echo end; while :; do sleep 1; done`)
	r.cfg.CredentialGrace = time.Second
	r.start()
	exp := time.Now().Add(2 * time.Second).Truncate(time.Second)
	w := r.spawn(r.front(), r.token("alice", authtest.Claim("exp", exp.Unix())))
	if want := exp.Add(time.Second); !w.Lease().Equal(want) {
		t.Errorf("lease until %v, want %v", w.Lease(), want)
	}
	st := w.end(6 * time.Second)
	late := time.Since(exp.Add(time.Second))
	if late < 0 || late > 1200*time.Millisecond || st.Reason != "lease expired" {
		t.Errorf("ended %v after the lease with %+v; want within 1s", late, st)
	}
	dead(t, 100*time.Millisecond, w.PID())
}

// TestRenewForReal: only a newer token of the same principal.
func TestRenewForReal(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	now := time.Now().Unix()
	exp := func(s int64) authtest.Change { return authtest.Claim("exp", now+s) }
	w := r.spawn(c, r.token("alice", exp(100)))
	for name, bad := range map[string]struct {
		token, reason string
		kind          spawn.Kind
	}{
		"another subject":  {r.token("bob", exp(900)), "another principal", spawn.KindRefused},
		"another client":   {r.token("alice", exp(900), authtest.Claim("client_id", "other")), "another principal", spawn.KindRefused},
		"the same expiry":  {r.token("alice", exp(100)), "not newer", spawn.KindRefused},
		"an older one":     {r.token("alice", exp(50)), "not newer", spawn.KindRefused},
		"not for us":       {r.token("alice", exp(900), authtest.Claim("aud", "https://x")), "audience", spawn.KindToken},
		"broken signature": {r.token("alice", exp(900)) + "AAAA", "", spawn.KindToken},
	} {
		t.Run(name, func(t *testing.T) { refused(t, w.Renew(t.Context(), bad.token), bad.kind, bad.reason) })
	}
	if err := w.Renew(t.Context(), r.token("alice", exp(900))); err != nil || w.Lease().Unix() != now+900 {
		t.Errorf("renewal: %v, lease until %v", err, w.Lease())
	}
	w.Stop()
	w.end(5 * time.Second)
	refused(t, w.Renew(t.Context(), r.token("alice", exp(1000))), spawn.KindRefused, "has ended")
}

// TestWithdrawnKeyEndsWorkersForReal, and only those that stand on it.
func TestWithdrawnKeyEndsWorkersForReal(t *testing.T) {
	r := newRig(t, `echo end; sleep 60`).start()
	c := r.front()
	old := r.issuer.Current()
	doomed := r.spawn(c, r.token("alice"))
	r.issuer.Rotate("ES256")
	r.sendKeys()
	safe := r.spawn(c, r.token("alice"))
	stale := r.token("alice", authtest.SignedBy(old))
	r.issuer.Withdraw(old)
	r.sendKeys()
	if st := doomed.end(3 * time.Second); st.Reason != "key withdrawn" {
		t.Errorf("status %+v", st)
	}
	if !alive(safe.PID()) {
		t.Error("a worker of the other key ended")
	}
	answerAsks(t, r)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: stale})
	refused(t, err, spawn.KindToken, "unknown_key")
}

// answerAsks plays a keykeeper that sends its keys whenever it is asked.
func answerAsks(t *testing.T, r *rig) {
	go func() {
		for b := make([]byte, 8); ; {
			if n, err := r.keeper.Read(b); err != nil || n != 1 || b[0] != 'R' {
				return
			}
			sendKeys(t, r.keeper, r.issuer)
		}
	}()
}

// TestUnknownKeyWaitsAlone: a token of a key that the monitor does not have yet
// waits for it, and nobody else does.
func TestUnknownKeyWaitsAlone(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	old := r.issuer.Current()
	r.issuer.Rotate("ES256")
	late := r.token("alice")
	got := make(chan error, 1)
	go func() {
		w, err := c.Spawn(t.Context(), spawn.Request{Token: late})
		if err == nil {
			w.Stop()
		}
		got <- err
	}()
	b := make([]byte, 8)
	if n, err := r.keeper.Read(b); err != nil || string(b[:n]) != "R" {
		t.Fatalf("keykeeper was asked %q, %v", b[:n], err)
	}
	began := time.Now()
	r.spawn(c, r.token("alice", authtest.SignedBy(old)))
	if d := time.Since(began); d > time.Second {
		t.Errorf("another spawn took %v meanwhile", d)
	}
	r.sendKeys()
	if err := <-got; err != nil {
		t.Errorf("with its key: %v", err)
	}
}

// TestKeysThatNeverComeDecideNothing: in bounded time, and not as a bad token.
func TestKeysThatNeverComeDecideNothing(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	r.issuer.Rotate("ES256")
	began := time.Now()
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindUndecided, "")
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	empty := newRig(t, `echo end`)
	empty.cfg.MaxStale = time.Nanosecond
	empty.startWithoutKeys()
	_, err = empty.front().Spawn(t.Context(), spawn.Request{Token: empty.token("alice")})
	refused(t, err, spawn.KindUndecided, "no usable keys")
}

// startWithoutKeys makes the monitor alone.
func (r *rig) startWithoutKeys() {
	r.t.Helper()
	m, err := New(r.t.Context(), r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.m = m
	r.t.Cleanup(r.close)
}

// TestLimitsForReal: a captured token buys no more than its cap, a principal no
// more than theirs, and the rate is told.
func TestLimitsForReal(t *testing.T) {
	r := newRig(t, `echo end; read x`)
	r.cfg.MaxPerToken, r.cfg.MaxPerPrincipal, r.cfg.SpawnRate, r.cfg.SpawnBurst = 2, 3, 0.01, 4
	r.start()
	c := r.front()
	tok := r.token("alice")
	r.spawn(c, tok)
	w := r.spawn(c, tok)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: tok})
	refused(t, err, spawn.KindLimit, "of this token")
	r.spawn(c, r.token("alice"))
	_, err = c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindLimit, "of this principal")
	w.Stop()
	w.end(5 * time.Second)
	w = r.spawn(c, r.token("alice"))
	w.Stop()
	w.end(5 * time.Second)
	_, err = c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindRate, "")
	var e *spawn.Error
	if errors.As(err, &e); e.RetryAfter < 90*time.Second || e.RetryAfter > 100*time.Second {
		t.Errorf("retry after %v, want about 100s", e.RetryAfter)
	}
}

// TestFrontEndThatEndsTakesItsWorkers, and the next one starts with nothing.
func TestFrontEndThatEndsTakesItsWorkers(t *testing.T) {
	r := newRig(t, stubborn).start()
	c := r.front()
	w := r.spawn(c, r.token("alice"))
	w.lines()
	c.Close()
	dead(t, 3*time.Second, w.PID())
	if !r.m.leasesGone(3 * time.Second) {
		t.Error("the lease stays")
	}
	again := r.spawn(r.front(), r.token("alice"))
	again.lines()
	if !alive(again.PID()) {
		t.Error("the next front end gets no worker")
	}
}

// TestConcurrentSpawnsAndLeaks runs many at once and counts what is left.
func TestConcurrentSpawnsAndLeaks(t *testing.T) {
	r := newRig(t, `echo end; read x`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal, r.cfg.MaxPerToken, r.cfg.SpawnBurst = 64, 64, 64, 1000
	r.start()
	c := r.front()
	r.spawn(c, r.token("alice")).Stop() // warm up
	r.m.leasesGone(5 * time.Second)
	before := openFDs(t)
	var wg sync.WaitGroup
	for range 40 {
		tok := r.token("alice")
		wg.Go(func() {
			w, err := c.Spawn(context.Background(), spawn.Request{Token: tok})
			if err != nil {
				t.Error(err)
				return
			}
			w.Stdin().WriteString("x\n")
			<-w.Exited()
			for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
				f.Close()
			}
		})
	}
	wg.Wait()
	for i := 0; openFDs(t) > before && i < 100; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if n := r.m.leases.count(); n != 0 {
		t.Errorf("%d leases are left", n)
	}
}

// TestCancelledSpawnLeavesNoWorker: whoever gives up waiting.
func TestCancelledSpawnLeavesNoWorker(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	c := r.front()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Microsecond)
		if w, err := c.Spawn(ctx, spawn.Request{Token: r.token("alice")}); err == nil {
			w.Stop()
		}
		cancel()
	}
	r.spawn(c, r.token("alice")).Stop()
	if !r.m.leasesGone(5 * time.Second) {
		t.Errorf("%d workers are left", r.m.leases.count())
	}
}

// TestGroupsThatCannotBeStartedIn: the worker starts all the same, by label, and
// the operator is told.
func TestGroupsThatCannotBeStartedIn(t *testing.T) {
	r := newRig(t, `echo end; read x`).start()
	base := r.m.runner.groups.Load()
	if base == nil {
		t.Skip("SKIPPED: no control groups here")
	}
	inner, err := cgroup.Open(filepath.Base(base.Path()) + "-threaded")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	// A threaded group takes no new process of another domain (EOPNOTSUPP).
	if err := os.WriteFile(filepath.Join(inner.Path(), "cgroup.type"), []byte("threaded"), 0); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	r.m.runner.groups.Store(inner)
	w := r.spawn(r.front(), r.token("alice"))
	w.lines()
	r.log.await(t, "starting in a control group does not work here")
	if r.m.runner.groups.Load() != nil {
		t.Error("groups are still used")
	}
	base.Close()
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session/accounts/accountstest"
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
	accountstest.NeedRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	for sub, account := range map[string]string{"alice": folk.Alice, "bob": folk.Bob} {
		w := r.spawn(c, r.token(sub))
		uid, gid := accountstest.IDs(t, account)
		team := accountstest.GID(t, folk.Team)
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

// TestUsersAreKeptApart: neither account can read the other's files or environment
// or signal the other's worker.
func TestUsersAreKeptApart(t *testing.T) {
	accountstest.NeedRoot(t)
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
		fmt.Sprintf("cat /home/%s/secret", folk.Alice),
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
	accountstest.NeedRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	team := strconv.Itoa(accountstest.GID(t, folk.Team))
	first := r.spawn(c, r.token("alice"))
	if g := one(facts(first.lines()), "Groups"); !slices.Contains(strings.Fields(g), team) {
		t.Fatalf("groups %s lack %s", g, team)
	}
	if err := accountstest.Admin("gpasswd", "-d", folk.Alice, folk.Team); err != nil {
		t.Fatal(err)
	}
	defer accountstest.Admin("gpasswd", "-a", folk.Alice, folk.Team)
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
	accountstest.NeedRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	w := r.spawn(c, r.token("bob"))
	if err := accountstest.Admin("usermod", "-L", folk.Bob); err != nil {
		t.Fatal(err)
	}
	defer accountstest.Admin("usermod", "-p", "*", folk.Bob)
	refused(t, renew(w, r.token("bob", authtest.Claim("exp", time.Now().Unix()+900))), spawn.KindNoAccount, "is locked")
	w.end(5 * time.Second)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("bob")})
	refused(t, err, spawn.KindNoAccount, "is locked")
}

// TestReloadedMapEndsWorkers: an entry that is gone, or leads elsewhere.
func TestReloadedMapEndsWorkers(t *testing.T) {
	accountstest.NeedRoot(t)
	r := newRig(t, describe).start()
	c := r.front()
	a, b := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	writeFile(t, r.cfg.AccountsFile, "- nonsense\n", 0o600)
	r.m.reload(t.Context())
	r.log.Await(t, "the one before stays in force")
	if !alive(a.PID()) || !alive(b.PID()) {
		t.Fatal("a broken file ended a worker")
	}
	r.mapTo(map[string]string{"alice": folk.Alice})
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
	accountstest.NeedRoot(t)
	r := newRig(t, describe)
	r.mapTo(map[string]string{"alice": folk.Alice, "daemon": "daemon", "service": folk.Front, "ghost": "ghtest-nobody-has-it"})
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
		"user of same name":  {r.token(folk.Alice), "no entry", spawn.KindNoAccount},
		"root":               {r.token("root"), "no entry", spawn.KindNoAccount},
		"maps to daemon":     {r.token("daemon"), "uid_range", spawn.KindNoAccount},
		"maps to service":    {r.token("service"), "deny_users", spawn.KindNoAccount},
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
	accountstest.NeedRoot(t)
	r := newRig(t, describe)
	own := r.token(authtest.Client)
	entry := fmt.Sprintf("- {issuer: '%s', subject: '%s', account: '%s'", r.issuer.URL, authtest.Client, folk.Alice)
	r.cfg.AccountsFile = writeFile(t, filepath.Join(r.dir, "accounts.yaml"), entry+"}\n", 0o600)
	r.start()
	c := r.front()
	_, err := c.Spawn(t.Context(), spawn.Request{Token: own})
	refused(t, err, spawn.KindClientOwn, "")
	writeFile(t, r.cfg.AccountsFile, entry+", client_id: '"+authtest.Client+"'}\n", 0o600)
	r.m.reload(t.Context())
	if w := r.spawn(c, own); w.Account() != folk.Alice {
		t.Errorf("account %s", w.Account())
	}
}

// TestAccountClaim takes the name from the token, after the grammar.
func TestAccountClaim(t *testing.T) {
	accountstest.NeedRoot(t)
	r := newRig(t, describe)
	r.cfg.AccountsFile, r.cfg.AccountClaim = "", authtest.AcctClaim
	r.start()
	c := r.front()
	claim := func(v any) string { return r.token("anybody", authtest.Claim(authtest.AcctClaim, v)) }
	if w := r.spawn(c, claim(folk.Bob)); w.Account() != folk.Bob {
		t.Errorf("account %s", w.Account())
	}
	for _, name := range []any{"root", "Root", "root\x01x", "-root", "0", "+0", "../x", "a@b@c", "rооt", "", nil, 0, []string{folk.Bob}, folk.Bob + " ", " " + folk.Bob, "daemon", folk.Front} {
		_, err := c.Spawn(t.Context(), spawn.Request{Token: claim(name)})
		refused(t, err, spawn.KindNoAccount, "")
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("anybody")})
	refused(t, err, spawn.KindNoAccount, "no account claim")
	if strings.Contains(r.log.String(), "\x01") {
		t.Error("a control byte reached the log")
	}
}

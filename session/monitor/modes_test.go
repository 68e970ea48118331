package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/settings"
	"gatehouse/session/spawn"
)

// TestSettingsOfTheBuiltInWorker: on descriptor 3, sealed, without the token.
func TestSettingsOfTheBuiltInWorker(t *testing.T) {
	accountstest.NeedRoot(t)
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
		Issuer: r.issuer.URL, Subject: "alice", ClientID: authtest.Client, Scopes: []string{"files", "mcp:use"}, Account: folk.Alice,
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
		r.cfg.WorkerUser = folk.Worker
	}
	r.start()
	c := r.front()
	a, b := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	fa, fb := facts(a.lines()), facts(b.lines())
	uid := os.Getuid()
	if uid == 0 {
		uid, _ = accountstest.IDs(t, folk.Worker)
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
	if ta == "" || ta == tb || filepath.Dir(filepath.Dir(ta)) != filepath.Join(r.cfg.StateDir, "work") {
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
		r.cfg.WorkerUser = folk.Worker
	}
	r.start()
	c := r.front()
	w := r.spawn(c, "")
	uid := os.Getuid()
	if uid == 0 {
		uid, _ = accountstest.IDs(t, folk.Worker)
	}
	if got := one(facts(w.lines()), "Uid"); !strings.HasPrefix(got, strconv.Itoa(uid)+" ") {
		t.Errorf("uid %s, want %d", got, uid)
	}
	if !w.Lease().IsZero() {
		t.Errorf("lease until %v", w.Lease())
	}
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindToken, "loopback")
	refused(t, renew(w, r.token("alice")), spawn.KindToken, "loopback")
}

// TestSameAccount admits those who map to the server's account, and no others.
func TestSameAccount(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: needs an ordinary user; root is refused")
	}
	me := fmt.Sprintf("uid-%d", os.Getuid())
	if u, err := user.Current(); err == nil {
		me = u.Username
	}
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

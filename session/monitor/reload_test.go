package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/session/spawn"
)

// recipe has the rig find its configuration anew by a shell script, whose output is a
// JSON object of what the tests change.
func (r *rig) recipe(script string) {
	path := writeFile(r.t, filepath.Join(r.dir, "resolve"), "#!/bin/sh\n"+script+"\n", 0o755)
	r.cfg.Reload = Recipe{Argv: []string{path, "resolve"}, Env: []string{"WORD=limit"}, Dir: "/"}
	r.cfg.Fixed = map[string]string{"mode": "1", "listen.port": "2"}
	base := r.cfg
	r.cfg.Decode = func(b []byte) (*Config, error) {
		next := base
		var got struct {
			PerPrincipal int
			Grace        string
			Deny         []string
			Scopes       identity.Scopes
			Fixed        map[string]string
		}
		if err := json.Unmarshal(b, &got); err != nil {
			return nil, errors.New("not understood")
		}
		next.MaxPerPrincipal, next.Fixed = got.PerPrincipal, got.Fixed
		next.Servers = slices.Clone(base.Servers)
		next.Servers[0].Scopes = got.Scopes
		next.CredentialGrace, _ = time.ParseDuration(got.Grace)
		next.Accounts.DenyUsers, next.FrontPart = got.Deny, []byte(`{"new":true}`)
		return &next, nil
	}
}

// answer has the recipe write that the next time.
func (r *rig) answer(text string) {
	writeFile(r.t, filepath.Join(r.dir, "answer"), text, 0o644)
}

func TestReloadOfTheConfiguration(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.recipe(`[ "$WORD" = limit ] && [ "$1" = resolve ] && cat "` + filepath.Join(r.dir, "answer") + `"`)
	r.start()
	plans := make(chan string, 4)
	socket, s := r.sit()
	c, err := spawn.NewClient(socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.Events.Plan = func(f *os.File) {
		b := make([]byte, 64)
		n, _ := f.ReadAt(b, 0)
		f.Close()
		plans <- string(b[:n])
	}
	if err := c.Ready(); err != nil {
		t.Fatal(err)
	}
	<-s.a.ready
	r.m.setAttendant(s.a)
	w := r.spawn(c, r.token("alice"))
	lease := w.Lease()

	const fixed = `"Fixed":{"mode":"1","listen.port":"2"}`
	for text, want := range map[string]string{
		"":         "not understood",
		"nonsense": "not understood",
		`{"PerPrincipal":1,"Fixed":{"mode":"1","listen.port":"3"}}`:           "these need a restart, and nothing was changed: listen.port",
		`{"PerPrincipal":1,"Fixed":{"listen.port":"2"}}`:                      "nothing was changed: mode",
		`{"PerPrincipal":1,"Fixed":{"mode":"1","listen.port":"2","tls":"4"}}`: "nothing was changed: tls",
	} {
		r.answer(text)
		r.m.reload(t.Context())
		r.log.Await(t, want)
	}
	if len(plans) != 0 || r.m.live.Load() != &r.m.cfg {
		t.Fatal("a bad configuration changed something")
	}

	r.answer(`{"PerPrincipal":1,"Grace":"30m",` + fixed + `}`)
	r.m.reload(t.Context())
	select {
	case got := <-plans:
		if got != `{"new":true}` {
			t.Errorf("the front end was handed %q", got)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the front end was handed nothing")
	}
	if _, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")}); err == nil || !strings.Contains(err.Error(), "1 workers of this principal") {
		t.Errorf("the old limit holds: %v", err)
	}
	bob := r.spawn(c, r.token("bob"))
	if d := bob.Lease().Sub(lease); d < 29*time.Minute {
		t.Errorf("the old grace holds: %v later", d)
	}
	select {
	case <-w.Exited():
		t.Error("a worker did not live through the reload")
	default:
	}
}

// An account that a reload denies has its workers end at once.
func TestReloadDeniesAnAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: accounts have rules in monitor mode only")
	}
	r := newRig(t, "exec sleep 60")
	r.recipe(`cat "` + filepath.Join(r.dir, "answer") + `"`)
	r.start()
	c := r.front()
	w, stays := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	r.answer(`{"PerPrincipal":8,"Grace":"1h","Deny":["` + w.Account() + `"],"Fixed":{"mode":"1","listen.port":"2"}}`)
	r.m.reload(t.Context())
	if st := w.end(5 * time.Second); st.Reason != "account changed" {
		t.Errorf("ended with %+v", st)
	}
	select {
	case <-stays.Exited():
		t.Error("another account's worker ended")
	default:
	}
}

// TestBrokenConfigurationKeepsNobodyIn: the accounts file counts at a reload also when
// the configuration is not accepted, so that a mistake in one does not undo the other.
func TestBrokenConfigurationKeepsNobodyIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: accounts are mapped in monitor mode only")
	}
	r := newRig(t, "exec sleep 60")
	r.recipe(`echo "line 3: no such key" >&2; exit 1`)
	r.start()
	w := r.spawn(r.front(), r.token("alice"))
	writeFile(t, r.cfg.AccountsFile, "[]\n", 0o600)
	r.m.reload(t.Context())
	r.log.Await(t, "line 3: no such key")
	if st := w.end(5 * time.Second); st.Reason != "account changed" {
		t.Errorf("ended with %+v", st)
	}
}

func TestRecipeThatHangsOrFails(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.recipe(`echo "line 3: no such key" >&2; exit 1`)
	r.start()
	r.m.reload(t.Context())
	r.log.Await(t, "line 3: no such key")
	if r.m.live.Load() != &r.m.cfg {
		t.Error("changed something")
	}
}

// TestReloadOfAnEmptyAccountsFile: it counts, and the log says what that means.
func TestReloadOfAnEmptyAccountsFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: there is an accounts file in monitor mode only")
	}
	r := newRig(t, "exec sleep 60")
	r.start()
	c := r.front()
	w := r.spawn(c, r.token("alice"))
	writeFile(t, r.cfg.AccountsFile, "", 0o600)
	r.m.reload(t.Context())
	if want := `"level":"warn","message":"accounts file read again: it names nobody, so nobody gets in"`; !strings.Contains(r.log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, r.log)
	}
	w.end(5 * time.Second)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
	refused(t, err, spawn.KindNoAccount, "")
}

// TestWarningsOfAReload: they are logged, and the configuration holds.
func TestWarningsOfAReload(t *testing.T) {
	r := newRig(t, "exec sleep 60")
	r.recipe(`printf 'MCP_A is ignored\nMCP_B is ignored\n' >&2; echo '{"PerPrincipal":3,"Fixed":{"mode":"1","listen.port":"2"}}'`)
	r.start()
	r.m.reload(t.Context())
	for _, want := range []string{`"level":"warn","warning":"MCP_A is ignored"`, `"level":"warn","warning":"MCP_B is ignored"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log)
		}
	}
	if got := r.m.live.Load().MaxPerPrincipal; got != 3 {
		t.Errorf("the limit is %d, want 3", got)
	}
}

// TestRecipeThatLeavesSomebodyBehind: what it started, out of its process group, holds its
// output open for longer than anybody waits.
func TestRecipeThatLeavesSomebodyBehind(t *testing.T) {
	left := func(t *testing.T, end string) *rig {
		r := newRig(t, "exec sleep 60")
		pid := filepath.Join(r.dir, "pid")
		r.recipe(`setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 300' ` + pid + ` &
			while ! [ -e ` + pid + ` ]; do sleep 0.01; done
			` + end)
		t.Cleanup(func() {
			b, _ := os.ReadFile(pid)
			if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				syscall.Kill(n, syscall.SIGKILL)
			}
		})
		return r.start()
	}
	inTime := func(t *testing.T, r *rig) {
		t.Helper()
		done := make(chan struct{})
		go func() { r.m.reload(t.Context()); close(done) }()
		select {
		case <-done:
		case <-time.After(resolveLimit):
			t.Fatal("the reload waits for what is left of the recipe")
		}
	}
	t.Run("and has said all", func(t *testing.T) {
		r := left(t, `echo '{"PerPrincipal":3,"Fixed":{"mode":"1","listen.port":"2"}}'`)
		inTime(t, r)
		if got := r.m.live.Load().MaxPerPrincipal; got != 3 {
			t.Errorf("the limit is %d, want 3\n%s", got, r.log)
		}
	})
	t.Run("and fails", func(t *testing.T) {
		r := left(t, `echo "line 3: no such key" >&2; exit 1`)
		inTime(t, r)
		r.log.Await(t, "line 3: no such key")
	})
}

// meanwhile is an assigner during whose answers something happens once.
type meanwhile struct {
	assigner
	once sync.Once
	do   func()
}

func (m *meanwhile) Assign(ctx context.Context, v *verdict) (assignment, error) {
	as, err := m.assigner.Assign(ctx, v)
	m.once.Do(m.do)
	return as, err
}

// TestReloadWhileAWorkerIsBeingStarted: what was decided by the rules before does not
// slip through between the decision and the start.
func TestReloadWhileAWorkerIsBeingStarted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: accounts have rules in monitor mode only")
	}
	prepare := func(t *testing.T) (*rig, func()) {
		r := newRig(t, "exec sleep 60")
		r.recipe(`cat "` + filepath.Join(r.dir, "answer") + `"`)
		r.start()
		return r, func() {
			r.answer(`{"PerPrincipal":8,"Grace":"1h","Deny":["` + folk.Alice + `"],"Fixed":{"mode":"1","listen.port":"2"}}`)
			r.m.reload(t.Context())
		}
	}
	t.Run("before it has a place", func(t *testing.T) {
		r, deny := prepare(t)
		r.m.assign = &meanwhile{assigner: r.m.assign, do: deny}
		c := r.front()
		_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
		refused(t, err, spawn.KindNoAccount, "")
	})
	t.Run("before it runs", func(t *testing.T) {
		r, deny := prepare(t)
		v, err := r.m.judge.Judge(t.Context(), 0, r.token("alice"))
		if err != nil {
			t.Fatal(err)
		}
		as, err := r.m.assign.Assign(t.Context(), &v)
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.m.leases.reserve(&v, 0, as, r.m.until(&v))
		if err != nil {
			t.Fatal(err)
		}
		defer l.release()
		deny()
		if _, _, state := l.snapshot(); state != leaseStopping {
			t.Errorf("the lease is in state %d", state)
		}
	})
}

package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/spawn"
)

// warmLease is a lease whose worker waits for a session of the verdict's kind.
func warmLease(t *testing.T, tab *leases, v verdict, until time.Time) (*lease, *fakeBody) {
	t.Helper()
	l := tab.reserveWarm(&v, 0, assignment{}, until, 100)
	if l == nil {
		t.Fatal("no place for a warm worker")
	}
	b := newFakeBody(syscall.SIGTERM)
	l.run(b)
	return l, b
}

// TestWarmWorkerIsForOneKind: each single difference, and it is not given.
func TestWarmWorkerIsForOneKind(t *testing.T) {
	v := verdict{principal: pAlice, scopes: identity.NewScopes("mcp:use"), tokenID: "t1"}
	as := assignment{as: true, name: "Ms. A", email: "a@example.org"}
	as.account.Name, as.account.UID, as.account.GID, as.account.Home, as.account.Shell = "alice", 1001, 1001, "/home/alice", "/bin/sh"
	as.account.Groups = []uint32{1001, 1600}
	tests := map[string]func(v *verdict, server *uint16, a *assignment){
		"subject":     func(v *verdict, _ *uint16, _ *assignment) { v.principal.Subject = "bob" },
		"issuer":      func(v *verdict, _ *uint16, _ *assignment) { v.principal.Issuer = "https://other.test" },
		"client":      func(v *verdict, _ *uint16, _ *assignment) { v.principal.Client = "web" },
		"more scopes": func(v *verdict, _ *uint16, _ *assignment) { v.scopes = identity.NewScopes("mcp:use", "mcp:admin") },
		"no scopes":   func(v *verdict, _ *uint16, _ *assignment) { v.scopes = nil },
		"server":      func(_ *verdict, s *uint16, _ *assignment) { *s = 1 },
		"account":     func(_ *verdict, _ *uint16, a *assignment) { a.account.Name = "bob" },
		"uid":         func(_ *verdict, _ *uint16, a *assignment) { a.account.UID = 1002 },
		"gid":         func(_ *verdict, _ *uint16, a *assignment) { a.account.GID = 1002 },
		"groups":      func(_ *verdict, _ *uint16, a *assignment) { a.account.Groups = []uint32{1001} },
		"home":        func(_ *verdict, _ *uint16, a *assignment) { a.account.Home = "/srv/alice" },
		"shell":       func(_ *verdict, _ *uint16, a *assignment) { a.account.Shell = "/bin/bash" },
		"private":     func(_ *verdict, _ *uint16, a *assignment) { a.private = true },
		"identity":    func(_ *verdict, _ *uint16, a *assignment) { a.as = false },
		"name":        func(_ *verdict, _ *uint16, a *assignment) { a.name = "Mr. A" },
		"email":       func(_ *verdict, _ *uint16, a *assignment) { a.email = "x@example.org" },
	}
	tab := newLeases(testLimits(), time.Now)
	l := tab.reserveWarm(&v, 0, as, time.Now().Add(time.Hour), 1)
	if tab.claim(&v, 0, &as, time.Time{}) != nil {
		t.Fatal("given before it runs")
	}
	l.run(newFakeBody(0))
	for name, change := range tests {
		v2, server, as2 := v, uint16(0), as
		change(&v2, &server, &as2)
		if tab.claim(&v2, server, &as2, time.Time{}) != nil {
			t.Errorf("given although another %s asks", name)
		}
	}
	until := time.Now().Add(2 * time.Hour)
	v.tokenID, v.keyID = "t2", "k2" // a newer token of the same kind
	if tab.claim(&v, 0, &as, until) != l {
		t.Fatal("not given to one that is the same in all of that")
	}
	if got, end, state := l.snapshot(); got.tokenID != "t2" || got.keyID != "k2" || !end.Equal(until) || state != leaseRunning {
		t.Errorf("it stands on %q until %v in state %d; want the token of whoever took it", got.tokenID, end, state)
	}
	if tab.claim(&v, 0, &as, until) != nil {
		t.Error("given twice")
	}
}

// TestWarmWorkerTakenForEver: the look at its time that was under way in that moment
// does not end it.
func TestWarmWorkerTakenForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(limits{workers: 4}, time.Now)
		v := verdict{principal: identity.Loopback}
		l, b := warmLease(t, tab, v, time.Now().Add(5*time.Minute))
		if tab.claim(&v, 0, &assignment{}, time.Time{}) != l {
			t.Fatal("not given")
		}
		l.check() // as the timer does that was too late to be stopped
		synctest.Wait()
		if h := b.history(); h != "" {
			t.Errorf("ended (%s): %s", l.why(), h)
		}
		l.release()
	})
}

// TestWarmWorkerEndsInTime: after its idle time, and with its token before that.
func TestWarmWorkerEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := newLeases(testLimits(), time.Now)
		v := verdict{principal: pAlice, tokenID: "t1"}
		l, b := warmLease(t, tab, v, time.Now().Add(5*time.Minute))
		taken, tb := warmLease(t, tab, v, time.Now().Add(5*time.Minute))
		if got := tab.claim(&v, 0, &assignment{}, time.Now().Add(time.Hour)); got == l {
			l, taken, b, tb = taken, l, tb, b
		}
		time.Sleep(5*time.Minute - time.Millisecond)
		synctest.Wait()
		if h := b.history(); h != "" {
			t.Errorf("before its time: %s", h)
		}
		time.Sleep(time.Second)
		if h := b.history(); h != "5m0s TERM, 5m0s CONT" || l.why() != "nobody needed it" {
			t.Errorf("got %q (%s)", h, l.why())
		}
		if tab.claim(&v, 0, &assignment{}, time.Now().Add(time.Hour)) != nil {
			t.Error("given although it is being ended")
		}
		time.Sleep(50 * time.Minute)
		if h := tb.history(); h != "" {
			t.Errorf("the one that was taken ended as if it had not been: %s", h)
		}
		time.Sleep(5 * time.Minute)
		if h := tb.history(); h != "1h0m0s TERM, 1h0m0s CONT" || taken.why() != "lease expired" {
			t.Errorf("got %q (%s), want the end of the lease of who took it", h, taken.why())
		}
		l.release()
		taken.release()
	})
}

// TestWarmWorkersMakeRoom: they count, start only where there is room, and end for a
// session that needs theirs.
func TestWarmWorkersMakeRoom(t *testing.T) {
	alice, bob := verdict{principal: pAlice, tokenID: "t1"}, verdict{principal: pBob, tokenID: "t2"}
	for name, c := range map[string]struct {
		limits limits
		warm   []verdict
		asks   verdict
		ended  int
	}{
		"room for all":      {limits{workers: 4, perPrincipal: 4, perToken: 4}, []verdict{alice, alice}, alice, 0},
		"global":            {limits{workers: 2, perPrincipal: 2, perToken: 2}, []verdict{alice, alice}, bob, 1},
		"of the principal":  {limits{workers: 9, perPrincipal: 2, perToken: 9}, []verdict{alice, alice}, alice, 1},
		"of the token":      {limits{workers: 9, perPrincipal: 9, perToken: 2}, []verdict{alice, alice}, alice, 1},
		"loopback":          {limits{workers: 2}, []verdict{{}, {}}, verdict{}, 1},
		"another principal": {limits{workers: 9, perPrincipal: 1, perToken: 1}, []verdict{alice}, bob, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.limits.rate, c.limits.burst = 1e9, 1000
				tab := newLeases(c.limits, time.Now)
				var all []*lease
				for _, v := range c.warm {
					l, _ := warmLease(t, tab, v, time.Now().Add(time.Hour))
					all = append(all, l)
				}
				l, err := tab.reserve(&c.asks, 1, assignment{}, time.Now().Add(time.Hour))
				if err != nil {
					t.Fatalf("a warm worker is in the way of a session: %v", err)
				}
				synctest.Wait()
				ended := 0
				for _, w := range all {
					if w.why() == "made room for a session" {
						ended++
					}
				}
				if ended != c.ended {
					t.Errorf("%d warm workers ended, want %d", ended, c.ended)
				}
				if full := tab.reserveWarm(&c.asks, 0, assignment{}, time.Now(), 100); (full == nil) != (c.ended > 0) && name != "another principal" {
					t.Errorf("a further warm worker: %v", full != nil)
				}
				for _, x := range append(all, l) {
					x.kill("test is over")
				}
			})
		})
	}
}

// TestWarmWorkersArePaidFor: each start counts for the rate, being given one does not.
func TestWarmWorkersArePaidFor(t *testing.T) {
	tab := newLeases(limits{workers: 9, perPrincipal: 9, perToken: 9, rate: 0.001, burst: 2}, time.Now)
	v := verdict{principal: pAlice, tokenID: "t1"}
	mustReserve(t, tab, pAlice, "t1")
	warmLease(t, tab, v, time.Now().Add(time.Hour))
	if tab.reserveWarm(&v, 0, assignment{}, time.Now().Add(time.Hour), 9) != nil {
		t.Error("a warm worker was started beyond the rate")
	}
	if tab.claim(&v, 0, &assignment{}, time.Now().Add(time.Hour)) == nil {
		t.Error("the rate keeps a session from a worker that runs")
	}
	if _, err := tab.reserve(&v, 0, assignment{}, time.Now().Add(time.Hour)); kindOf(err) != spawn.KindRate {
		t.Errorf("got %v, want the rate's refusal", err)
	}
}

// warmPID waits until one warm worker runs and returns its process.
func (r *rig) warmPID() (pid int) {
	r.t.Helper()
	for range 1000 {
		r.m.leases.each(func(l *lease) {
			if _, _, state := l.snapshot(); state == leaseWarm {
				pid = l.pid
			}
		})
		if pid != 0 {
			return pid
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("no warm worker came\n%s", r.log)
	return 0
}

// TestWarmWorkerIsLikeACold: in environment, folder, identity and descriptors, but
// for its process and, where there is one, the name of its private folder.
func TestWarmWorkerIsLikeACold(t *testing.T) {
	r := newRig(t, describe)
	r.cfg.WarmWorkers = 1
	r.cfg.Servers[0].EnvFile = writeFile(t, filepath.Join(r.dir, "env"), "COLOUR=blue\n", 0o600)
	r.start()
	c := r.front()
	tok := r.token("alice")
	cold := r.spawn(c, tok)
	want := facts(cold.lines())
	pid := r.warmPID()
	warm := r.spawn(c, tok)
	if warm.PID() != pid {
		t.Fatalf("the session got process %d, and %d waited", warm.PID(), pid)
	}
	got := facts(warm.lines())
	for key := range want {
		a, b := one(want, key), one(got, key)
		if key == "Session" {
			continue
		}
		if one(want, key) != "" && r.cfg.Mode == ModeShared {
			a, b = maskPrivate(a), maskPrivate(b)
		}
		if a != b {
			t.Errorf("%s: cold %q, warm %q", key, a, b)
		}
	}
	if warm.Lease() != cold.Lease() || warm.UID() != cold.UID() || warm.Account() != cold.Account() {
		t.Errorf("told %v %d %s, the cold one %v %d %s", warm.Lease(), warm.UID(), warm.Account(), cold.Lease(), cold.UID(), cold.Account())
	}
	if next := r.warmPID(); next == pid {
		t.Error("the one that was given is still offered")
	}
	warm.say("exit 3")
	if st := warm.end(5 * time.Second); st.Code != 3 {
		t.Errorf("its end was told as %+v", st)
	}
}

// maskPrivate hides the random part of a private folder's path.
func maskPrivate(s string) string {
	parts := strings.Split(s, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "w-") {
			parts[i] = "w-" + p[min(len(p), 18):]
		}
	}
	return strings.Join(parts, "/")
}

// TestWarmWorkersEndWith what they were started for. Each case changes one thing; the
// warm worker ends, and whoever asks next, if anybody may, gets a cold one.
func TestWarmWorkersEndWith(t *testing.T) {
	tests := []struct {
		name, reason string
		change       func(t *testing.T, r *rig, a *attendant)
		next         string // subject of the next session; "": there is none
	}{
		{"a changed env_file", "what it was started with has changed", func(t *testing.T, r *rig, _ *attendant) {
			writeFile(t, r.cfg.Servers[0].EnvFile, "COLOUR=red\n", 0o600)
		}, "alice"},
		{"a changed program", "what it was started with has changed", func(t *testing.T, r *rig, _ *attendant) {
			writeFile(t, r.cfg.Servers[0].Command[0], "#!/bin/sh\necho new; echo end; read x\n", 0o755)
		}, "alice"},
		{"a reload", "the configuration was read again", func(t *testing.T, r *rig, _ *attendant) { r.m.reload(t.Context()) }, "alice"},
		{"a withdrawn key", "key withdrawn", func(t *testing.T, r *rig, _ *attendant) {
			old := r.issuer.Current()
			r.issuer.Rotate("RS256")
			r.issuer.Withdraw(old)
			r.sendKeys()
		}, "alice"},
		{"the front end", "the front end ended", func(t *testing.T, r *rig, a *attendant) { a.orphaned("the front end ended") }, ""},
		{"the service", "the service is stopping", func(t *testing.T, r *rig, _ *attendant) { r.m.drain(make(chan struct{})) }, ""},
		{"a second session's need of its place", "made room for a session", func(t *testing.T, r *rig, _ *attendant) {
			l := r.m.limits()
			l.workers = 2
			r.m.leases.limit(l)
		}, "bob"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "")
			r.cfg.WarmWorkers = 1
			r.cfg.Servers[0].EnvFile = writeFile(t, filepath.Join(r.dir, "env"), "COLOUR=blue\n", 0o600)
			r.cfg.Servers[0].Command = []string{writeFile(t, filepath.Join(r.dir, "worker"), "#!/bin/sh\necho $COLOUR; echo end; read x\n", 0o755)}
			r.start()
			socket, s := r.sit()
			c, err := spawn.NewClient(socket, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if err := c.Ready(); err != nil {
				t.Fatal(err)
			}
			r.spawn(c, r.token("alice"))
			pid := r.warmPID()
			tt.change(t, r, s.a)
			if tt.next != "" {
				w := r.spawn(c, r.token(tt.next))
				if w.PID() == pid {
					t.Error("the old one was given")
				}
				if l := w.lines(); tt.next == "alice" && strings.HasPrefix(tt.reason, "what it") && slices.Equal(l, []string{"blue"}) {
					t.Errorf("the session's worker is of before the change: %v", l)
				}
			}
			dead(t, 5*time.Second, pid)
			r.log.Await(t, fmt.Sprintf(`"pid":%d,"status":"`, pid))
			r.log.Await(t, fmt.Sprintf(`"reason":"%s"`, tt.reason))
		})
	}
}

// TestWarmWorkerOfALockedAccountEnds at the next look, without anybody asking.
func TestWarmWorkerOfALockedAccountEnds(t *testing.T) {
	accountstest.NeedRoot(t)
	r := newRig(t, "read x")
	r.cfg.WarmWorkers = 1
	r.start()
	c := r.front()
	w := r.spawn(c, r.token("bob"))
	pid := r.warmPID()
	if err := accountstest.Admin("usermod", "-L", folk.Bob); err != nil {
		t.Fatal(err)
	}
	defer accountstest.Admin("usermod", "-p", "*", folk.Bob)
	_, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("bob")})
	refused(t, err, spawn.KindNoAccount, "is locked")
	r.m.recheckAll(t.Context())
	dead(t, 5*time.Second, pid, w.PID())
}

// TestWarmWorkerOutlivesNoToken: it ends with the token that it was started for, since
// nobody has shown a newer one.
func TestWarmWorkerOutlivesNoToken(t *testing.T) {
	r := newRig(t, "read x")
	r.cfg.WarmWorkers, r.cfg.CredentialGrace = 1, time.Hour
	r.start()
	c := r.front()
	w := r.spawn(c, r.token("alice", authtest.Claim("exp", time.Now().Unix()+3)))
	dead(t, 10*time.Second, r.warmPID())
	if !alive(w.PID()) {
		t.Error("the session's worker ended with the token, and not after the grace")
	}
}

// TestWarmWorkersLeakNothing: as many sessions as come, one after the other and at
// once, and nothing is left of them.
func TestWarmWorkersLeakNothing(t *testing.T) {
	r := newRig(t, `echo end; read x`)
	r.cfg.MaxWorkers, r.cfg.MaxPerPrincipal, r.cfg.MaxPerToken, r.cfg.SpawnBurst = 64, 64, 64, 1000
	r.cfg.WarmWorkers = 3
	r.start()
	c := r.front()
	r.spawn(c, r.token("alice")).Stop()
	r.m.leases.endWarm("before the count")
	r.m.leasesGone(5 * time.Second)
	r.tidyGroups()
	before := openFDs(t)
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 5 {
				w, err := c.Spawn(t.Context(), spawn.Request{Token: r.token("alice")})
				if err != nil {
					t.Error(err)
					return
				}
				w.Stdin().WriteString("x\n")
				<-w.Exited()
				for _, f := range []*os.File{w.Stdin(), w.Stdout(), w.Stderr()} {
					f.Close()
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	for range 200 { // workers that are being started when the others end are ended as well
		r.m.leases.endWarm("test is over")
		if r.m.leases.count() == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if n := r.m.leases.count(); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	r.tidyGroups()
	for i := 0; openFDs(t) > before && i < 100; i++ {
		time.Sleep(10 * time.Millisecond)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if a := r.m.leases.active; a.all != 0 || len(a.mine) != 0 || len(a.of) != 0 || len(r.m.leases.warm) != 0 {
		t.Errorf("the caps still count %+v", a)
	}
}

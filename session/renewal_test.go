package session_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// What the monitor says of a newer token decides: an account that is gone ends the
// session, a token that the monitor likes less than we do does not.
func TestRefusedRenewal(t *testing.T) {
	for kind, ends := range map[spawn.Kind]bool{
		spawn.KindNoAccount: true, spawn.KindClientOwn: true,
		spawn.KindUndecided: false, spawn.KindRefused: false, spawn.KindToken: false,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sp := &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true,
					Renew: func(string) (time.Time, error) { return time.Time{}, &spawn.Error{Kind: kind, Reason: "asked"} }}
				w := newWorld(t, session.Config{}, sp)
				c := alice
				c.Expiry = time.Now().Add(5 * time.Minute)
				s := w.open(c)
				c.Token, c.Expiry = "alice-2", time.Now().Add(10*time.Minute)
				if _, ok := w.Find(0, c, s.ID()); !ok {
					t.Fatal("not found with a newer token")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if _, ok := w.Find(0, c, s.ID()); ok == ends {
					t.Errorf("found %v, want ended %v", ok, ends)
				}
			})
		})
	}
}

// One token at a time is shown to the monitor, at most one a second, and the newest
// of those that came meanwhile: whatever came, the lease ends up with the newest.
func TestNewestTokenIsShownNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		sp := &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true,
			Renew: func(string) (time.Time, error) { return time.Time{}, <-answer }}
		w := newWorld(t, session.Config{}, sp)
		c := alice
		c.Expiry = time.Now().Add(5 * time.Minute)
		s := w.open(c)
		for i, token := range []string{"alice-2", "alice-3", "alice-5", "alice-4"} {
			w.shows(s, c, token, time.Duration([]int{6, 7, 9, 8}[i])*time.Minute)
			if i == 1 {
				time.Sleep(time.Second)
				synctest.Wait() // alice-3 is under way now
			}
		}
		time.Sleep(time.Minute)
		w.wantRenewed("before the first answer", "alice-3")
		answer <- &spawn.Error{Kind: spawn.KindUndecided, Reason: "no keys"}
		time.Sleep(time.Second - time.Nanosecond)
		w.wantRenewed("within a second of it", "alice-3")
		time.Sleep(time.Nanosecond)
		answer <- nil
		time.Sleep(time.Minute)
		w.wantRenewed("in all", "alice-3", "alice-5")
	})
}

// shows makes a request with a newer token of that caller's.
func (w *world) shows(s *session.Session, c session.Caller, token string, lives time.Duration) {
	w.Helper()
	c.Token, c.Expiry = token, time.Now().Add(lives)
	if _, ok := w.Find(0, c, s.ID()); !ok {
		w.Fatalf("not found with %s", token)
	}
}

func (w *world) wantRenewed(when string, want ...string) {
	w.Helper()
	synctest.Wait()
	if got := w.spawner.Renewed(); !slices.Equal(got, want) {
		w.Errorf("shown %s: %q, want %q", when, got, want)
	}
}

// A token waits for a newer one no longer than half of what is left of the lease,
// and not at all when it has another key than the one before.
func TestRenewalWaitsForNoLossOfTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		lease time.Duration // 0: none
		key   string        // of the newer token; the session began with k1
		waits time.Duration
	}{
		"much is left":          {time.Hour, "k1", time.Second},
		"no lease":              {0, "k1", time.Second},
		"little is left":        {400 * time.Millisecond, "k1", 200 * time.Millisecond},
		"over by our clock":     {-time.Second, "k1", 0},
		"another key":           {time.Hour, "k2", 0},
		"another key, no lease": {0, "k2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sp := &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true}
				if c.lease != 0 {
					sp.Lease = time.Now().Add(c.lease)
				}
				w := newWorld(t, session.Config{}, sp)
				caller := alice
				caller.Expiry, caller.KeyID = time.Now().Add(time.Minute), "k1"
				s := w.open(caller)
				caller.KeyID = c.key
				w.shows(s, caller, "alice-2", 2*time.Minute)
				if c.waits > 0 {
					time.Sleep(c.waits - time.Nanosecond)
					w.wantRenewed("too early")
					time.Sleep(time.Nanosecond)
				}
				w.wantRenewed("in time", "alice-2")
			})
		})
	}
}

// Newer tokens that came within a quarter of a second are shown in one moment, and none
// waits for longer than a second.
func TestRenewalsComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		c := alice
		c.Expiry = time.Now().Add(time.Minute)
		begin := time.Now().Truncate(time.Second).Add(time.Second)
		for token, after := range map[string]time.Duration{"early": 0, "late": 240 * time.Millisecond, "next": 260 * time.Millisecond} {
			s := w.open(c)
			time.AfterFunc(time.Until(begin)+after, func() { w.shows(s, c, token, 2*time.Minute) })
		}
		time.Sleep(time.Until(begin) + time.Second - time.Nanosecond)
		w.wantRenewed("before")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		got := w.spawner.Renewed()
		slices.Sort(got)
		if want := []string{"early", "late"}; !slices.Equal(got, want) {
			t.Errorf("shown together: %q, want %q", got, want)
		}
		time.Sleep(250*time.Millisecond - time.Nanosecond)
		if got := w.spawner.Renewed(); len(got) != 2 {
			t.Errorf("shown between: %q", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := w.spawner.Renewed(); len(got) != 3 || got[2] != "next" {
			t.Errorf("shown in all: %q", got)
		}
	})
}

// A token with another key takes the place of one that waits, at once.
func TestAnotherKeyEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Echo, InMemory: true})
		c := alice
		c.Expiry, c.KeyID = time.Now().Add(time.Minute), "k1"
		s := w.open(c)
		w.shows(s, c, "alice-2", 2*time.Minute)
		w.wantRenewed("while it waits")
		c.KeyID = "k2"
		w.shows(s, c, "alice-3", 3*time.Minute)
		w.wantRenewed("at once", "alice-3")
		time.Sleep(time.Minute)
		w.wantRenewed("in all", "alice-3")
	})
}

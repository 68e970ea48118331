package issuer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

func random(f float64) func() float64 { return func() float64 { return f } }

func TestBackgroundRefreshInterval(t *testing.T) {
	for name, c := range map[string]struct {
		refresh time.Duration
		random  float64
		maxAge  time.Duration // -1: none
		want    time.Duration
	}{
		"default, longest":         {0, 0, -1, 10 * time.Minute},
		"default, shortest":        {0, 1, -1, 5 * time.Minute},
		"configured":               {4 * time.Minute, 0.5, -1, 3 * time.Minute},
		"issuer says 5 minutes":    {0, 0, 5 * time.Minute, 5 * time.Minute},
		"the same, with jitter":    {0, 1, 5 * time.Minute, 4*time.Minute + 30*time.Second},
		"issuer says 15 minutes":   {0, 0, 15 * time.Minute, 10 * time.Minute},
		"more than configured":     {2 * time.Minute, 0, time.Hour, 2 * time.Minute},
		"less than configured":     {time.Hour, 0, 15 * time.Minute, 15 * time.Minute},
		"issuer says nothing long": {0, 0, 0, time.Minute},
		"issuer says 1 s":          {0, 1, time.Second, time.Minute},
		"issuer says 61 s":         {0, 1, 61 * time.Second, time.Minute},
		"issuer says 30 days":      {time.Hour, 0, 720 * time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ks := newKeys(1)
				s := &script{answer: func(context.Context) (Result, error) {
					r, _ := serving(ks...)(nil)
					r.HasAge, r.MaxAge = c.maxAge >= 0, c.maxAge
					return r, nil
				}}
				begun := time.Now()
				start(t, Config{
					Sources: []Source{{Issuer: testIssuer, Refresh: c.refresh}},
					Random:  random(c.random),
				}, s)
				time.Sleep(3 * time.Hour)
				calls := s.since(begun.Add(-1))
				if first := calls[0].Sub(begun); first != 0 {
					t.Errorf("first fetch after %v", first)
				}
				for i := range calls[1:] {
					if d := calls[i+1].Sub(calls[i]); d != c.want {
						t.Fatalf("interval %d is %v, want %v", i, d, c.want)
					}
				}
			})
		})
	}
}

// TestStartWhileTheIssuerIsDown is field case B51.
func TestStartWhileTheIssuerIsDown(t *testing.T) {
	for name, answer := range map[string]func(context.Context) (Result, error){
		"refused": failing(keys.HealthUnreachable),
		"hangs":   hanging,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answer: answer}
				w := start(t, Config{}, s)
				time.Sleep(26 * time.Hour) // also much longer than max stale
				synctest.Wait()
				if w.store.Ready() || w.usable(testIssuer) {
					t.Error("ready without keys")
				}
				ks := newKeys(1)
				s.set(serving(ks...))
				time.Sleep(5*time.Second + requestTimeout)
				synctest.Wait()
				if name == "refused" && len(s.since(time.Now().Add(-10*time.Second))) == 0 {
					t.Error("not asked for 10 s")
				}
				if !w.store.Ready() || !w.has(ks[0].ID) {
					t.Error("not ready 5 s after the issuer came up")
				}
			})
		})
	}
}

func TestRetriesBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: failing(keys.HealthUnreachable)}
		begun := time.Now()
		w := start(t, Config{Random: random(0)}, s)
		time.Sleep(20 * time.Second)
		if got, want := offsets(begun, s.since(begun.Add(-1))), "[0s 1s 3s 7s 11s 15s 19s]"; got != want {
			t.Errorf("nothing to serve with: %s, want %s", got, want)
		}
		s.set(serving(newKeys(1)...))
		time.Sleep(4 * time.Second)
		s.set(failing(keys.HealthStatus))
		time.Sleep(10 * time.Minute)
		down := s.since(begun)
		first := down[len(down)-1]
		for _, c := range down {
			if c.After(begun.Add(24 * time.Second)) {
				first = c
				break
			}
		}
		time.Sleep(time.Hour)
		got := offsets(first, s.since(first.Add(-1))[:12])
		if want := "[0s 1s 3s 7s 15s 31s 1m3s 2m7s 4m15s 8m31s 13m31s 18m31s]"; got != want {
			t.Errorf("served with the last good set: %s, want %s", got, want)
		}
		if n := strings.Count(w.log.String(), `"level":"warn"`); n < 5 || n > 10 {
			t.Errorf("%d warnings in an hour and a bit of failures", n)
		}
	})
}

func offsets(from time.Time, at []time.Time) string {
	var d []time.Duration
	for _, a := range at {
		d = append(d, a.Sub(from))
	}
	return fmt.Sprint(d)
}

// TestLastGoodSetSurvivesEveryFailure are the rows "503", "{}", "hangs" of the
// policy, and all others of the closed list.
func TestLastGoodSetSurvivesEveryFailure(t *testing.T) {
	for _, h := range []keys.Health{
		keys.HealthUnreachable, keys.HealthTimeout, keys.HealthTLS, keys.HealthStatus, keys.HealthRedirect,
		keys.HealthTooLarge, keys.HealthMalformed, keys.HealthNoKey, keys.HealthIssuer, keys.HealthInsecure,
		keys.HealthMoved, keys.HealthFile,
	} {
		t.Run(string(h), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ks := newKeys(1)
				s := &script{answer: serving(ks...)}
				w := start(t, Config{}, s)
				synctest.Wait()
				fetched := time.Now()
				_, gen := w.store.Current()
				s.set(failing(h))
				time.Sleep(12*time.Hour - time.Nanosecond)
				synctest.Wait()
				if !w.has(ks[0].ID) || w.health() != h {
					t.Errorf("just before max stale: known %v, health %s", w.has(ks[0].ID), w.health())
				}
				if _, now := w.store.Current(); now != gen {
					t.Error("failures changed the generation")
				}
				if st := w.store.Status()[0]; !st.FetchedAt.Equal(fetched) || !st.AttemptedAt.After(fetched.Add(11*time.Hour)) {
					t.Errorf("staleness is not shown: %+v", st)
				}
				time.Sleep(time.Nanosecond)
				if w.store.Ready() || w.has(ks[0].ID) {
					t.Error("usable at max stale")
				}
				s.set(serving(ks...))
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if !w.has(ks[0].ID) {
					t.Error("not usable after the issuer came back")
				}
				if len(w.removed) != 0 {
					t.Errorf("an outage removed %v", w.removed)
				}
			})
		})
	}
}

// TestWithdrawnKeyDiesWithTheNextRefresh: within 10 min, and its sessions are
// named to the receiver.
func TestWithdrawnKeyDiesWithTheNextRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ks := newKeys(2)
		s := &script{answer: serving(ks...)}
		w := start(t, Config{}, s)
		time.Sleep(time.Hour)
		s.set(serving(ks[1]))
		time.Sleep(DefaultRefresh)
		synctest.Wait()
		if w.has(ks[0].ID) || !w.has(ks[1].ID) {
			t.Error("the withdrawn key is still current, or the other one is not")
		}
		want := fmt.Sprint([]keys.Removed{{Issuer: testIssuer, KeyIDs: []string{ks[0].ID}}})
		if got := fmt.Sprint(w.removed); got != want {
			t.Errorf("removed %s, want %s", got, want)
		}
	})
}

// TestNewKeyIsFoundAtOnce is field case B33: one fetch, although one was done a
// moment ago in the background.
func TestNewKeyIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ks := newKeys(2)
		s := &script{answer: serving(ks[0])}
		w := start(t, Config{}, s)
		time.Sleep(time.Millisecond)
		s.set(serving(ks...))
		begun := time.Now()
		if w.store.Lookup(t.Context(), ks[1].ID) != keys.Known {
			t.Error("the new key is not found")
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("waited %v", d)
		}
		if n := len(s.since(begun.Add(-1))); n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
	})
}

// TestFloodOfInventedKeyIDs are the first two rows of the policy: 2,000 random key
// ids cost one fetch in 10 s, a genuine new key is found within 12 s all the same,
// and those who hold a known key never wait.
func TestFloodOfInventedKeyIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ks := newKeys(2)
		s := &script{answer: func(ctx context.Context) (Result, error) {
			time.Sleep(20 * time.Millisecond) // as far away as in the measurement
			return serving(ks[0])(ctx)
		}}
		w := start(t, Config{}, s)
		time.Sleep(3 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		for i := range 2000 {
			go func() {
				time.Sleep(time.Duration(i) * 30 * time.Millisecond) // one minute in all
				if w.store.Lookup(ctx, fmt.Sprintf("x%d", i)) == keys.Known {
					t.Error("an invented key id is known")
				}
			}()
		}
		for range 55 {
			time.Sleep(time.Second)
			before := time.Now()
			for range 20 {
				if w.store.Lookup(ctx, ks[0].ID) != keys.Known {
					t.Error("good traffic is refused")
				}
			}
			if d := time.Since(before); d != 0 {
				t.Errorf("good traffic waited %v", d)
			}
		}
		calls := s.since(begun.Add(-1))
		if len(calls) == 0 || len(calls) > 6 {
			t.Errorf("%d fetches in 55 s: %s", len(calls), offsets(begun, calls))
		}
		for i := 1; i < len(calls); i++ {
			if d := calls[i].Sub(calls[i-1]); d < askInterval {
				t.Errorf("two fetches %v apart", d)
			}
		}
		rotated := time.Now()
		s.set(serving(ks...))
		for w.store.Lookup(ctx, ks[1].ID) != keys.Known {
			if time.Since(rotated) > 12*time.Second {
				t.Fatal("the new key is not found within 12 s")
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestQuestionsAreAnsweredTogether: what is asked while no round may begin is
// done in one round when it may, and one round is enough.
func TestQuestionsAreAnsweredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ks := newKeys(1)
		s := &script{answer: serving(ks...)}
		w := start(t, Config{Random: random(0)}, s)
		time.Sleep(time.Minute)
		begun := time.Now()
		for range 5 { // at 0, 1, 2, 3 and 4 s
			w.engine.ask()
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if got, want := offsets(begun, s.since(begun.Add(-1))), "[0s 10s]"; got != want {
			t.Errorf("fetches at %s, want %s", got, want)
		}
	})
}

// TestBackgroundFetchAnswersAQuestion: a question that a fetch of the background's
// has answered in the meantime costs none of its own.
func TestBackgroundFetchAnswersAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: failing(keys.HealthStatus)} // the background tries every 4 s
		w := start(t, Config{Random: random(0)}, s)
		time.Sleep(20 * time.Second)
		begun := time.Now()
		w.engine.ask() // fetches at once
		time.Sleep(time.Second)
		w.engine.ask() // would be done at 10 s
		time.Sleep(12 * time.Second)
		if got, want := offsets(begun, s.since(begun.Add(-1))), "[0s 4s 8s 12s]"; got != want {
			t.Errorf("fetches at %s, want %s", got, want)
		}
	})
}

// TestOneFetchAtATime: however often a hanging issuer is asked for.
func TestOneFetchAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: hanging}
		w := start(t, Config{}, s)
		for range 600 {
			w.engine.ask()
			time.Sleep(100 * time.Millisecond)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.most != 1 {
			t.Errorf("%d fetches at once", s.most)
		}
	})
}

func TestIssuersDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := &script{answer: serving(newKeys(1)...)}, &script{answer: hanging}
		w := start(t, Config{Sources: []Source{{Issuer: "https://slow.example"}, {Issuer: testIssuer}}}, bad, good)
		synctest.Wait()
		if !w.usable(testIssuer) || w.usable("https://slow.example") || !w.store.Ready() {
			t.Error("the good issuer is not usable at once")
		}
		begun := time.Now()
		if got := w.store.Lookup(t.Context(), "x"); got != keys.Undecided || time.Since(begun) > keys.AwaitLimit {
			t.Errorf("one issuer down: %v after %v", got, time.Since(begun))
		}
	})
}

func TestSetTooLargeForAMessageIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ks := newKeys(1)
		s := &script{answer: serving(ks...)}
		w := start(t, Config{}, s)
		synctest.Wait()
		s.set(func(context.Context) (Result, error) {
			k := ks[0].Public()
			k.ID = strings.Repeat("x", keys.MaxMessage)
			return Result{Keys: []token.Key{k}}, nil
		})
		time.Sleep(DefaultRefresh)
		synctest.Wait()
		if !w.has(ks[0].ID) || w.health() != keys.HealthTooLarge {
			t.Errorf("known %v, health %s", w.has(ks[0].ID), w.health())
		}
	})
}

func TestEnginesThatAreRefused(t *testing.T) {
	good := Source{Issuer: testIssuer}
	for name, c := range map[string]Config{
		"zero value":    {},
		"no max stale":  {Sources: []Source{good}},
		"issuer twice":  {Sources: []Source{good, good}, MaxStale: time.Hour},
		"invalid":       {Sources: []Source{good, {}}, MaxStale: time.Hour},
		"http":          {Sources: []Source{{Issuer: "http://id.example"}}, MaxStale: time.Hour},
		"bad max stale": {Sources: []Source{good}, MaxStale: -time.Hour},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

package keys

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/token"
)

type tokenKey = token.Key

func TestKnownKeyIDNeitherWaitsNorAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		k.send(fetched(testIssuer, time.Now(), newKey(t, "a")))
		begun := time.Now()
		for range 2000 { // as many bad signatures under a known key id
			if s.Lookup(t.Context(), "a") != Known {
				t.Fatal("unknown")
			}
		}
		if time.Since(begun) != 0 {
			t.Error("waited")
		}
		time.Sleep(time.Minute)
		if n := k.asks.Load(); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestUnknownKeyIDIsFoundByAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		a, b := newKey(t, "a"), newKey(t, "b")
		k.onAsk = func() {
			at := time.Now()
			time.Sleep(300 * time.Millisecond) // the fetch
			k.conn.Write(encode(t, fetched(testIssuer, at, a, b)))
		}
		k.send(fetched(testIssuer, time.Now(), a))
		begun := time.Now()
		if got := s.Lookup(t.Context(), "b"); got != Known {
			t.Errorf("got %v", got)
		}
		if d := time.Since(begun); d != 300*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		if n := k.asks.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestKeyIDThatNoIssuerHasIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil, testIssuer, otherIssuer)
		k, _ := connect(t.Context(), t, s)
		k.onAsk = func() {
			time.Sleep(100 * time.Millisecond)
			at := time.Now()
			k.conn.Write(encode(t, fetched(testIssuer, at, newKey(t, "a"))))
			time.Sleep(100 * time.Millisecond)
			k.conn.Write(encode(t, fetched(otherIssuer, at, newKey(t, "a"))))
		}
		k.send(fetched(testIssuer, time.Now(), newKey(t, "a")))
		k.send(fetched(otherIssuer, time.Now(), newKey(t, "a")))
		time.Sleep(time.Minute)
		begun := time.Now()
		if got := s.Lookup(t.Context(), "x"); got != Absent {
			t.Errorf("got %v", got)
		}
		if d := time.Since(begun); d != 200*time.Millisecond {
			t.Errorf("waited %v, want until both issuers have answered", d)
		}
	})
}

func TestUnknownKeyIDWithIssuerDownIsUndecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		a := newKey(t, "a")
		at := time.Now()
		k.onAsk = func() {
			k.conn.Write(encode(t, Update{Issuer: testIssuer, Keys: []tokenKey{a}, FetchedAt: at, AttemptedAt: time.Now(), Health: HealthStatus}))
		}
		k.send(fetched(testIssuer, at, a))
		time.Sleep(time.Minute)
		begun := time.Now()
		if got := s.Lookup(t.Context(), "x"); got != Undecided {
			t.Errorf("got %v", got)
		}
		if d := time.Since(begun); d != AwaitLimit {
			t.Errorf("waited %v", d)
		}
		if s.Lookup(t.Context(), "a") != Known {
			t.Error("the old key is lost")
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil) // nobody serves it
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if s.Lookup(ctx, "x") == Known || time.Since(begun) != time.Second {
			t.Errorf("waited %v", time.Since(begun))
		}
		begun = time.Now()
		if s.Lookup(t.Context(), "x") == Known || time.Since(begun) != AwaitLimit {
			t.Errorf("waited %v", time.Since(begun))
		}
	})
}

func TestEmptyKeyIDIsNeverAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		k.send(fetched(testIssuer, time.Now(), newKey(t, "")))
		begun := time.Now()
		if s.Lookup(t.Context(), "") == Known {
			t.Error("known")
		}
		if time.Since(begun) != 0 || k.asks.Load() != 0 {
			t.Error("waited or asked")
		}
	})
}

// TestFloodOfInventedKeyIDs: what they cost is a byte a second and at most
// maxWaiters goroutines, and known key ids don't notice.
func TestFloodOfInventedKeyIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		k.send(fetched(testIssuer, time.Now(), newKey(t, "a")))
		time.Sleep(time.Minute)
		answers := make(chan Answer, 2000)
		for i := range 2000 {
			go func() { answers <- s.Lookup(t.Context(), fmt.Sprintf("x%d", i)) }()
		}
		synctest.Wait()
		if n := len(answers); n != 2000-maxWaiters {
			t.Errorf("%d answered at once, want all but %d", n, maxWaiters)
		}
		begun := time.Now()
		for range 2000 {
			if s.Lookup(t.Context(), "a") != Known {
				t.Fatal("the good key is unknown")
			}
		}
		if time.Since(begun) != 0 {
			t.Error("good traffic waited")
		}
		time.Sleep(AwaitLimit)
		synctest.Wait()
		if n := len(answers); n != 2000 {
			t.Errorf("%d of 2000 answered", n)
		}
		close(answers)
		for a := range answers {
			if a != Undecided {
				t.Fatalf("got %v", a)
			}
		}
		if n := k.asks.Load(); n != 1 {
			t.Errorf("asked %d times, want 1", n)
		}
	})
}

// TestAskIsRepeatedForLaterCallers: a caller that comes while the spacing of an
// earlier question runs has its own question sent when it is over.
func TestAskIsRepeatedForLaterCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		k.onAsk = func() {
			if k.asks.Load() == 2 {
				k.conn.Write(encode(t, fetched(testIssuer, time.Now(), newKey(t, "b"))))
			}
		}
		k.send(fetched(testIssuer, time.Now(), newKey(t, "a")))
		go s.Lookup(t.Context(), "x")
		time.Sleep(askSpacing / 2)
		begun := time.Now()
		if s.Lookup(t.Context(), "b") != Known {
			t.Error("unknown")
		}
		if d := time.Since(begun); d != askSpacing/2 {
			t.Errorf("waited %v", d)
		}
		if n := k.asks.Load(); n != 2 {
			t.Errorf("asked %d times, want 2", n)
		}
	})
}

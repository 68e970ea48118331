package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/identity"
)

const otherIssuer identity.Issuer = "https://other.example"

// keykeeper is the far end of a Store's connection.
type keykeeper struct {
	t    *testing.T
	conn net.Conn
	asks atomic.Int64
	// onAsk, when set, is called for every byte, on the reader's goroutine.
	onAsk func()
}

// connect serves s over a pipe, which keeps messages apart as long as the
// reader's buffer is larger than a message. The returned channel carries what
// Serve returned.
func connect(ctx context.Context, t *testing.T, s *Store) (*keykeeper, <-chan error) {
	t.Helper()
	near, far := net.Pipe()
	k := &keykeeper{t: t, conn: far}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, near) }()
	go func() {
		buf := make([]byte, 8)
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			if n != 1 || buf[0] != Ask {
				t.Errorf("store sent %q", buf[:n])
			}
			k.asks.Add(1)
			if k.onAsk != nil {
				k.onAsk()
			}
		}
	}()
	t.Cleanup(func() { far.Close() })
	return k, done
}

func (k *keykeeper) send(u Update) {
	k.t.Helper()
	if _, err := k.conn.Write(encode(k.t, u)); err != nil {
		k.t.Errorf("send: %v", err)
	}
	synctest.Wait()
}

// removals collects what onChange was told.
type removals struct {
	mu  sync.Mutex
	all []Removed
}

func (r *removals) add(x []Removed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x...)
}

func (r *removals) take() []Removed {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.all
	r.all = nil
	return x
}

func newTestStore(onChange func([]Removed), issuers ...identity.Issuer) *Store {
	if len(issuers) == 0 {
		issuers = []identity.Issuer{testIssuer}
	}
	return NewStore(issuers, 12*time.Hour, time.Now, onChange)
}

func usable(s *Store, iss identity.Issuer) bool {
	return slices.ContainsFunc(s.Status(), func(st Status) bool { return st.Issuer == iss && st.Usable })
}

func TestZeroStoreRefuses(t *testing.T) {
	var s Store
	set, gen := s.Current()
	if set.HasKeyID("a") || gen != 0 || s.Ready() {
		t.Error("the zero Store has keys")
	}
	if got := s.Lookup(t.Context(), "a"); got != Undecided {
		t.Errorf("Lookup: %v", got)
	}
	near, _ := net.Pipe()
	if err := s.Serve(t.Context(), near); err == nil {
		t.Error("the zero Store serves")
	}
}

func TestSetsComeAndStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil, testIssuer, otherIssuer)
		k, done := connect(t.Context(), t, s)
		if s.Ready() || usable(s, testIssuer) {
			t.Error("ready without a set")
		}
		k.send(Update{Issuer: testIssuer, Health: HealthStarting})
		if s.Ready() {
			t.Error("ready while the keykeeper starts")
		}
		a := newKey(t, "a")
		k.send(fetched(testIssuer, time.Now(), a))
		set, gen := s.Current()
		if !set.HasKeyID("a") || !s.Ready() || !usable(s, testIssuer) || usable(s, otherIssuer) {
			t.Error("the set did not arrive")
		}
		time.Sleep(time.Minute)
		k.send(fetched(testIssuer, time.Now(), a))
		if _, again := s.Current(); again != gen {
			t.Error("a refresh with the same keys is another generation")
		}
		failed := fetched(testIssuer, time.Now(), a)
		failed.AttemptedAt, failed.Health = time.Now().Add(time.Minute), HealthStatus
		k.send(failed)
		never := Update{Issuer: testIssuer, AttemptedAt: time.Now(), Health: HealthUnreachable}
		k.send(never) // a keykeeper that restarted without saved keys
		if set, again := s.Current(); again != gen || !set.HasKeyID("a") {
			t.Error("a failure took the last good set away")
		}
		k.send(fetched(testIssuer, time.Now(), a, newKey(t, "b")))
		if set, again := s.Current(); again == gen || !set.HasKeyID("b") {
			t.Error("a new key is no new generation")
		}
		k.conn.Close()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		if !s.Ready() {
			t.Error("the keykeeper's end took the keys away")
		}
	})
}

// TestNewKeyCountsInASetOfTheSameLength has keys without an id, which may be twice
// in a set: a new key then need not make the set longer.
func TestNewKeyCountsInASetOfTheSameLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		nameless, a := newKey(t, ""), newKey(t, "a")
		k.send(fetched(testIssuer, time.Now(), nameless, nameless, a))
		_, gen := s.Current()
		k.send(fetched(testIssuer, time.Now(), nameless, a, newKey(t, "b")))
		if set, again := s.Current(); again == gen || !set.HasKeyID("b") {
			t.Error("the new key does not count")
		}
		k.conn.Close()
	})
}

func TestRemovedAndReplacedKeysAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r removals
		s := newTestStore(r.add, testIssuer, otherIssuer)
		k, _ := connect(t.Context(), t, s)
		a, b, c := newKey(t, "a"), newKey(t, "b"), newKey(t, "c")
		k.send(fetched(testIssuer, time.Now(), a, b, c))
		k.send(fetched(otherIssuer, time.Now(), newKey(t, "a")))
		if got := r.take(); got != nil {
			t.Errorf("first sets removed %v", got)
		}
		_, gen := s.Current()
		k.send(fetched(testIssuer, time.Now(), c, newKey(t, "b"))) // a is gone, b is another key
		want := []Removed{{Issuer: testIssuer, KeyIDs: []string{"a", "b"}}}
		if got := r.take(); !reflect.DeepEqual(got, want) {
			t.Errorf("removed %v, want %v", got, want)
		}
		if set, again := s.Current(); again == gen || !set.HasKeyID("a") || len(set.Keys(testIssuer)) != 2 {
			t.Error("the current set is not the new one (the other issuer still has its own key a)")
		}
	})
}

func TestStaleSetDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r removals
		s := newTestStore(r.add, testIssuer, otherIssuer)
		k, _ := connect(t.Context(), t, s)
		a := newKey(t, "a")
		k.send(fetched(testIssuer, time.Now(), a))
		time.Sleep(time.Hour)
		k.send(fetched(otherIssuer, time.Now(), newKey(t, "b")))
		_, gen := s.Current()
		time.Sleep(11*time.Hour - time.Nanosecond)
		if _, now := s.Current(); now != gen || !usable(s, testIssuer) {
			t.Error("stale too early")
		}
		time.Sleep(time.Nanosecond)
		if set, now := s.Current(); now == gen || set.HasKeyID("a") || !set.HasKeyID("b") {
			t.Error("a stale set is still current, or took the other one with it")
		}
		if usable(s, testIssuer) || !usable(s, otherIssuer) || !s.Ready() {
			t.Error("decidable or ready is wrong")
		}
		time.Sleep(time.Hour)
		if s.Ready() {
			t.Error("ready with stale sets only")
		}
		_, gen = s.Current()
		k.send(fetched(testIssuer, time.Now(), a))
		if set, now := s.Current(); now == gen || !set.HasKeyID("a") {
			t.Error("a fresh set does not end staleness")
		}
		if got := r.take(); got != nil {
			t.Errorf("staleness removed %v", got)
		}
	})
}

func TestSetFromAnotherClockLastsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		k.send(fetched(testIssuer, time.Now().Add(1000*time.Hour), newKey(t, "a")))
		time.Sleep(12 * time.Hour)
		if s.Ready() {
			t.Error("usable beyond max stale")
		}
	})
}

func TestOldSavedSetBringsNoWithdrawnKeyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		old := Update{Issuer: testIssuer, Keys: []tokenKey{newKey(t, "a")}, FetchedAt: time.Now(), Health: HealthRestored}
		time.Sleep(time.Minute)
		k.send(fetched(testIssuer, time.Now(), newKey(t, "b")))
		k.send(old)
		if set, _ := s.Current(); set.HasKeyID("a") || !set.HasKeyID("b") {
			t.Error("the older set was taken")
		}
	})
}

func TestProtocolErrors(t *testing.T) {
	good := fetched(otherIssuer, time.Unix(1_790_000_000, 0), newKey(t, "a"))
	for name, b := range map[string][]byte{
		"not a message":            []byte("hello"),
		"issuer of somebody else":  encode(t, good),
		"longer than the maximum":  make([]byte, MaxMessage+1),
		"much longer than maximum": make([]byte, 2*MaxMessage),
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestStore(nil)
			k, done := connect(t.Context(), t, s)
			go k.conn.Write(b)
			var pe *ProtocolError
			if err := <-done; !errors.As(err, &pe) {
				t.Errorf("Serve: %v", err)
			}
			if s.Ready() {
				t.Error("something was taken")
			}
		})
	}
}

func TestReceiverThatStartsLateAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil, testIssuer, otherIssuer)
		k, done := connect(t.Context(), t, s)
		k.send(Update{Issuer: testIssuer, Health: HealthStarting}) // one of two
		time.Sleep(firstSets)
		synctest.Wait()
		if n := k.asks.Load(); n != 1 {
			t.Errorf("asked %d times, want 1", n)
		}
		k.conn.Close()
		<-done

		k, _ = connect(t.Context(), t, s)
		k.send(Update{Issuer: testIssuer, Health: HealthStarting})
		k.send(Update{Issuer: otherIssuer, Health: HealthStarting})
		time.Sleep(time.Minute)
		if n := k.asks.Load(); n != 0 {
			t.Errorf("asked %d times although everything came", n)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newTestStore(nil)
		k, done := connect(ctx, t, s)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		if _, err := k.conn.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection is open: %v", err)
		}
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil, otherIssuer, testIssuer)
		k, _ := connect(t.Context(), t, s)
		at := time.Now()
		k.send(fetched(testIssuer, at, newKey(t, "a")))
		time.Sleep(time.Hour)
		k.send(Update{Issuer: testIssuer, Keys: []tokenKey{newKey(t, "a")}, FetchedAt: at, AttemptedAt: time.Now(), Health: HealthTLS})
		got := fmt.Sprint(s.Status())
		want := fmt.Sprint([]Status{
			{Issuer: otherIssuer, Health: HealthStarting},
			{Issuer: testIssuer, Usable: true, Keys: 1, FetchedAt: time.Unix(0, at.UnixNano()), AttemptedAt: time.Unix(0, time.Now().UnixNano()), Health: HealthTLS},
		})
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestCurrentAllocatesNothing(t *testing.T) {
	s := newTestStore(nil)
	if !s.apply(fetched(testIssuer, time.Now(), newKey(t, "a"))) {
		t.Fatal("not taken")
	}
	if n := testing.AllocsPerRun(100, func() { s.Current() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

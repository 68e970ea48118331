package keys

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAskingAgainFindsTheAnswerOfAnEarlierFetch: the keykeeper fetches between
// two questions of a client that comes again and again.
func TestAskingAgainFindsTheAnswerOfAnEarlierFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		a, x := newKey(t, "a"), newKey(t, "x")
		k.onAsk = func() {
			if k.asks.Load() == 3 { // the keykeeper's interval is over
				k.conn.Write(encode(t, fetched(testIssuer, time.Now(), a, x)))
			}
		}
		k.send(fetched(testIssuer, time.Now(), a))
		time.Sleep(time.Minute)
		if got := s.Lookup(t.Context(), "x"); got != Undecided {
			t.Fatalf("before any fetch: %v", got)
		}
		k.send(fetched(testIssuer, time.Now(), a))
		synctest.Wait()
		time.Sleep(time.Second)
		begun := time.Now()
		if got := s.Lookup(t.Context(), "x"); got != Absent || time.Since(begun) != 0 {
			t.Errorf("after it: %v in %v", got, time.Since(begun))
		}
		if got := s.Lookup(t.Context(), "never asked for"); got != Undecided {
			t.Errorf("another key id: %v", got)
		}
		time.Sleep(missGood)
		if got := s.Lookup(t.Context(), "x"); got != Known || k.asks.Load() != 3 {
			t.Errorf("a key that is new since: %v, asked %d times", got, k.asks.Load())
		}
	})
}

// TestWithdrawnKeyIDIsAbsentAtOnce: nothing has to be asked to know that a key
// which a fetch has just taken away is gone.
func TestWithdrawnKeyIDIsAbsentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(nil)
		k, _ := connect(t.Context(), t, s)
		k.send(fetched(testIssuer, time.Now(), newKey(t, "old")))
		time.Sleep(time.Minute)
		k.send(fetched(testIssuer, time.Now(), newKey(t, "new")))
		synctest.Wait()
		begun := time.Now()
		if got := s.Lookup(t.Context(), "old"); got != Absent || time.Since(begun) != 0 {
			t.Errorf("%v in %v", got, time.Since(begun))
		}
		if n := k.asks.Load(); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestMissesAreBounded(t *testing.T) {
	var m misses
	at := time.Unix(1, 0)
	for i := range 3 * maxMisses {
		m.note(fmt.Sprint(i), at)
	}
	if len(m.since) != maxMisses || len(m.order) != maxMisses {
		t.Errorf("%d and %d, want %d", len(m.since), len(m.order), maxMisses)
	}
	after := at.Add(time.Second)
	if m.answered("0", after, after, after) || !m.answered(fmt.Sprint(3*maxMisses-1), after, after, after) {
		t.Error("the oldest must go first")
	}
}

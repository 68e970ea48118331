package keys

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// Removed names key ids of one issuer that no longer verify anything: they left
// the set, or stand for other key material now. Sessions that were verified
// under one of them must end (security.md "Keys").
type Removed struct {
	Issuer identity.Issuer
	KeyIDs []string // sorted
}

// Store holds the last good key set of every configured issuer. It is safe for
// concurrent use; the zero Store has no keys and gets none.
//
// A set that is older than maxStale is left out of Current until a newer one
// comes: with the issuer down for so long, nothing can be decided and the answer
// is 503. Staleness is no removal: it ends no session by itself.
type Store struct {
	issuers  []identity.Issuer
	maxStale time.Duration
	now      func() time.Time
	onChange func([]Removed)

	cur atomic.Pointer[snapshot]
	ask chan struct{} // one pending request to the keykeeper

	mu      sync.Mutex                 // guards what follows
	sets    map[identity.Issuer]*entry // one for every configured issuer
	changed chan struct{}              // closed, and replaced, at every message
	lastAsk time.Time                  // when ask was last filled
	waiters int                        // callers inside Lookup
	misses  misses                     // key ids that were asked for and are in no set
}

// entry is what is known of one issuer.
type entry struct {
	last  Update      // the last message, its keys aside
	keys  []token.Key // the last good set
	good  time.Time   // when keys were fetched, never later than their receipt
	since uint64      // counts changes of keys
}

// snapshot is what Current hands out. It holds until one of its sets gets stale.
type snapshot struct {
	set    *token.KeySet
	gen    uint64
	until  time.Time                  // zero: for ever
	usable map[identity.Issuer]uint64 // issuer to entry.since
}

// NewStore returns a Store for exactly these issuers; a message about another
// one is a protocol error. A set is used for maxStale after it was fetched
// (12 h by default; 0 or less: never). now is the wall clock; onChange, which
// may be nil, is called from Serve, one call at a time, after the new set has
// become the current one.
func NewStore(issuers []identity.Issuer, maxStale time.Duration, now func() time.Time, onChange func(removed []Removed)) *Store {
	s := &Store{
		issuers:  slices.Clone(issuers),
		maxStale: maxStale,
		now:      now,
		onChange: onChange,
		ask:      make(chan struct{}, 1),
		sets:     make(map[identity.Issuer]*entry, len(issuers)),
		changed:  make(chan struct{}),
	}
	for _, iss := range issuers {
		s.sets[iss] = &entry{last: Update{Issuer: iss, Health: HealthStarting}}
	}
	return s
}

// Current returns the usable keys of all issuers and the set's generation, which
// is another one whenever the usable keys are: a cached verdict is good for its
// generation only. It never blocks.
//
// A session that is opened under a key that is withdrawn in the same moment can
// miss onChange: register the session first, then call Current again, and verify
// the token once more when the generation is another one.
func (s *Store) Current() (set *token.KeySet, generation uint64) {
	snap := s.snapshot()
	return snap.set, snap.gen
}

var nothing = &snapshot{set: token.NewKeySet(nil)}

func (s *Store) snapshot() *snapshot {
	snap := s.cur.Load()
	switch {
	case snap == nil:
		return nothing
	case snap.until.IsZero() || s.now().Before(snap.until):
		return snap
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rebuild()
}

// Ready reports whether tokens of at least one issuer can be judged.
func (s *Store) Ready() bool { return len(s.snapshot().usable) > 0 }

// Status is the state of one issuer, for logs and gauges.
type Status struct {
	Issuer      identity.Issuer
	Usable      bool      // with a set that is not too old; without, its tokens are neither accepted nor refused
	Keys        int       // keys in the last good set, usable or stale
	FetchedAt   time.Time // zero: never
	AttemptedAt time.Time // zero: never
	Health      Health
}

// Status returns the state of every issuer, in the order of NewStore.
func (s *Store) Status() []Status {
	usable := s.snapshot().usable
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, 0, len(s.issuers))
	for _, iss := range s.issuers {
		e := s.sets[iss]
		_, ok := usable[iss]
		out = append(out, Status{
			Issuer: iss, Usable: ok, Keys: len(e.keys), FetchedAt: e.good,
			AttemptedAt: e.last.AttemptedAt, Health: e.last.Health,
		})
	}
	return out
}

// apply takes a parsed message in. It reports false for an issuer that is not
// one of ours.
func (s *Store) apply(u Update) bool {
	s.mu.Lock()
	e, ok := s.sets[u.Issuer]
	if !ok {
		s.mu.Unlock()
		return false
	}
	var gone []string
	if e.admits(u) {
		gone = e.take(u, s.now())
	}
	for _, kid := range gone {
		s.misses.note(kid, time.Time{}) // any attempt answers for it, this one first
	}
	u.Keys = nil
	e.last = u
	s.rebuild()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()

	if len(gone) > 0 && s.onChange != nil {
		s.onChange([]Removed{{Issuer: u.Issuer, KeyIDs: gone}})
	}
	return true
}

// admits reports whether u brings a set to use: one that was just fetched, or,
// with an issuer that can't be asked, one that is not older than ours. So a
// keykeeper that restarts with an old saved set brings no withdrawn key back.
func (e *entry) admits(u Update) bool {
	return len(u.Keys) > 0 && (u.Health == HealthOK || !u.FetchedAt.Before(e.good))
}

// take makes u's set the good one and returns the key ids that are gone.
func (e *entry) take(u Update, now time.Time) (gone []string) {
	gone = withdrawn(e.keys, u.Keys)
	if len(gone) > 0 || len(withdrawn(u.Keys, e.keys)) > 0 {
		e.since++
	}
	e.keys = u.Keys
	e.good = u.FetchedAt
	if e.good.After(now) { // another clock than ours must not make a set last longer
		e.good = now
	}
	return gone
}

// withdrawn returns the ids of the keys of old that are not in fresh with the
// same material and algorithm; the other way round it finds the new ones.
func withdrawn(old, fresh []token.Key) []string {
	var gone []string
	for _, k := range old {
		if !slices.ContainsFunc(fresh, k.Equal) {
			gone = append(gone, k.ID)
		}
	}
	slices.Sort(gone)
	return slices.Compact(gone)
}

// rebuild makes the snapshot anew when what is usable has changed. s.mu is held.
func (s *Store) rebuild() *snapshot {
	now := s.now()
	next := &snapshot{usable: make(map[identity.Issuer]uint64, len(s.sets))}
	sets := make(map[identity.Issuer][]token.Key, len(s.sets))
	for iss, e := range s.sets {
		end := e.good.Add(s.maxStale)
		if len(e.keys) == 0 || !now.Before(end) {
			continue
		}
		if next.until.IsZero() || end.Before(next.until) {
			next.until = end
		}
		next.usable[iss] = e.since
		sets[iss] = e.keys
	}
	prev := s.cur.Load()
	if prev == nil {
		prev = nothing
	}
	if maps.Equal(prev.usable, next.usable) {
		next.set, next.gen = prev.set, prev.gen
	} else {
		next.set, next.gen = token.NewKeySet(sets), prev.gen+1
	}
	s.cur.Store(next)
	return next
}

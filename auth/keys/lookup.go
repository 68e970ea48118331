package keys

import (
	"context"
	"time"
)

const (
	// AwaitLimit is the longest that Lookup waits.
	AwaitLimit = 2 * time.Second

	// askSpacing is the shortest time between two requests to the keykeeper,
	// which limits itself again, to one asked-for fetch in 10 s.
	askSpacing = time.Second
	// maxWaiters is how many callers may wait at once. Beyond it the answer is
	// Undecided at once, so that a flood of invented key ids parks no more
	// goroutines than this.
	maxWaiters = 128
)

// Answer is what is known of a key id.
type Answer uint8

// The answers. The zero value decides nothing.
const (
	// Undecided: the issuers could not be asked in time. 503 with Retry-After,
	// never 401, which makes clients throw good tokens away.
	Undecided Answer = iota
	// Known: a usable set has it; verify again with Current.
	Known
	// Absent: every issuer was asked after the call began, or less than missGood
	// ago and after an earlier call for it, answered well, and none has it. 401.
	Absent
)

// Lookup says what is known of a key id, and is what to call for a token whose key id
// is unknown: it asks the keykeeper once and waits at most AwaitLimit. Good tokens
// never come here, and a bad signature under a known key id must not: the answer is
// Known at once, and nothing is fetched. A kid of "" is never asked for.
func (s *Store) Lookup(ctx context.Context, kid string) Answer {
	if s.ask == nil { // the zero Store
		return Undecided
	}
	arrived := s.now()
	if a, _ := s.known(kid, arrived); a != Undecided || kid == "" {
		return a
	}
	if !s.enter() {
		return Undecided
	}
	defer s.leave()
	s.miss(kid, arrived)
	ctx, cancel := context.WithTimeout(ctx, AwaitLimit)
	defer cancel()
	for {
		a, changed := s.known(kid, arrived)
		if a != Undecided {
			return a
		}
		retry := time.NewTimer(s.request(arrived))
		select {
		case <-changed:
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return Undecided
		}
		retry.Stop()
	}
}

// known answers from what is there, and returns the channel that is closed when
// there is more.
func (s *Store) known(kid string, arrived time.Time) (Answer, <-chan struct{}) {
	now := s.now()
	s.mu.Lock()
	changed, asked := s.changed, len(s.sets) > 0
	for _, e := range s.sets {
		if e.last.Health != HealthOK || !s.misses.answered(kid, e.last.AttemptedAt, arrived, now) {
			asked = false
		}
	}
	s.mu.Unlock()
	switch set, _ := s.Current(); {
	case kid != "" && set.HasKeyID(kid):
		return Known, changed
	case asked:
		return Absent, changed
	}
	return Undecided, changed
}

// request has the keykeeper asked, unless that was done since arrived or less
// than askSpacing ago, and returns when to call it again.
func (s *Store) request(arrived time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.lastAsk.Before(arrived) && !s.lastAsk.IsZero() {
		return AwaitLimit
	}
	if since := now.Sub(s.lastAsk); since >= 0 && since < askSpacing {
		return askSpacing - since
	}
	s.lastAsk = now
	s.poke()
	return AwaitLimit
}

// poke leaves a request for the connection's writer; one is enough.
func (s *Store) poke() {
	select {
	case s.ask <- struct{}{}:
	default:
	}
}

func (s *Store) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters >= maxWaiters {
		return false
	}
	s.waiters++
	return true
}

// miss remembers that a key id is asked for which no set has.
func (s *Store) miss(kid string, since time.Time) {
	s.mu.Lock()
	s.misses.note(kid, since)
	s.mu.Unlock()
}

func (s *Store) leave() {
	s.mu.Lock()
	s.waiters--
	s.mu.Unlock()
}

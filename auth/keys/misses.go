package keys

import "time"

const (
	// maxMisses is how many key ids are remembered as missing; the oldest go first.
	maxMisses = 256
	// missGood is how long an issuer's answer that it lacks a key id stands. It is
	// the keykeeper's own interval: an earlier question would not be put anyway.
	missGood = 10 * time.Second
)

// misses remembers since when key ids are missing. Without it a client that
// comes again and again with a withdrawn key could fall between two fetches each
// time, and would be told to try later for ever. The zero value is empty.
type misses struct {
	since map[string]time.Time
	order []string // oldest first
}

// note remembers a key id as missing since t, unless it is known already.
func (m *misses) note(kid string, t time.Time) {
	if _, ok := m.since[kid]; ok {
		return
	}
	if len(m.order) == maxMisses {
		delete(m.since, m.order[0])
		m.order = append(m.order[:0], m.order[1:]...)
	}
	if m.since == nil {
		m.since = make(map[string]time.Time)
	}
	m.since[kid] = t
	m.order = append(m.order, kid)
}

// answered reports whether an attempt answers a question for the key id that was
// asked at arrived: it began after that, or it is fresh and began after an
// earlier question for the same key id.
func (m *misses) answered(kid string, attempt, arrived, now time.Time) bool {
	if attempt.After(arrived) {
		return true
	}
	since, ok := m.since[kid]
	return ok && attempt.After(since) && now.Sub(attempt) < missGood
}

package auth

import (
	"crypto/sha256"
	"sync"
	"time"

	"gatehouse/auth/identity"
)

// verdict is an accepted token as the cache keeps it: who it speaks for, and all
// that has to hold again when it is presented again.
type verdict struct {
	principal  identity.Principal
	scopes     identity.Scopes
	keyID      string
	until      time.Time // exp + leeway
	generation uint64    // of the key set that verified it
}

// cacheKey is the digest of the whole token. One cache belongs to one gate, that
// is to one set of policies and audiences, so these need not be part of it.
type cacheKey = [sha256.Size]byte

// cache remembers accepted tokens, so that a signature is verified once. Refusals
// are never in it. It is bounded: the entry that was used longest ago makes room.
// The zero cache remembers nothing.
type cache struct {
	mu      sync.Mutex // guards all below
	entries map[cacheKey]*entry
	free    []entry // made and not yet used
	left    int     // to be made yet; a full cache allocates no more
	ring    entry   // ring.next is the newest, ring.prev the oldest
}

// entriesAtOnce is how many entries are made at a time: few gates see as many callers
// as they could remember, and the collector looks at all that there are.
const entriesAtOnce = 64

type entry struct {
	verdict
	key        cacheKey
	prev, next *entry
}

func newCache(size int) *cache {
	c := &cache{entries: map[cacheKey]*entry{}, left: size}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// get returns the verdict on the token of that digest if it still holds: the key
// set is the one that verified it and its time is not over. An entry that holds
// no more is dropped.
func (c *cache) get(k cacheKey, generation uint64, now time.Time) (verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if !ok {
		return verdict{}, false
	}
	e.unlink()
	if e.generation != generation || !now.Before(e.until) {
		delete(c.entries, k)
		e.recycle(&c.ring)
		return verdict{}, false
	}
	e.insertAfter(&c.ring)
	return e.verdict, true
}

// put remembers an accepted token.
func (c *cache) put(k cacheKey, v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if !ok && len(c.free) == 0 && c.left > 0 {
		c.free = make([]entry, min(c.left, entriesAtOnce))
		c.left -= len(c.free)
	}
	switch {
	case ok:
		e.unlink()
	case len(c.free) > 0:
		e = &c.free[0]
		c.free = c.free[1:]
	case c.ring.prev != nil && c.ring.prev != &c.ring:
		e = c.ring.prev
		e.unlink()
		delete(c.entries, e.key)
	default:
		return // the zero cache, or one of size 0
	}
	e.verdict, e.key = v, k
	e.insertAfter(&c.ring)
	c.entries[k] = e
}

// len returns the number of remembered tokens.
func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
}

func (e *entry) insertAfter(p *entry) {
	e.prev, e.next = p, p.next
	p.next.prev, p.next = e, e
}

// recycle puts a dropped entry at the old end, where put finds it first.
func (e *entry) recycle(ring *entry) {
	e.verdict, e.key = verdict{}, cacheKey{}
	e.insertAfter(ring.prev)
}

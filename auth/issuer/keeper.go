package issuer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

const (
	minInterval = time.Minute // between two background fetches
	maxInterval = time.Hour   // that may be configured

	// After a failure the wait doubles from firstRetry on. It stays short while
	// there is nothing to serve with, because then every request is refused.
	firstRetry     = time.Second
	maxRetryEmpty  = 4 * time.Second
	maxRetryServed = 5 * time.Minute

	// sayAgain is how often a failure that goes on is logged as a warning.
	sayAgain = 10 * time.Minute
)

// keeper keeps the keys of one issuer. Only its own goroutine touches it, kick
// aside.
type keeper struct {
	engine   *Engine
	src      Source
	fetch    fetcher
	store    *stateFile
	maxStale time.Duration
	random   func() float64
	kick     chan struct{} // fetch now: a receiver asked
	log      zerolog.Logger

	now      keys.Update // what was last published
	failures int         // in a row
	warned   time.Time   // when the present failure was last logged as a warning
}

// restore takes the saved set, if there is a good one.
func (k *keeper) restore() {
	u, err := k.store.load(time.Now(), k.maxStale)
	switch {
	case err == nil && u != nil:
		k.now = *u
		k.log.Info().Time("fetched", u.FetchedAt).Int("keys", len(u.Keys)).Msg("keys of an earlier run restored")
		k.publish()
	case err != nil:
		k.log.Warn().Err(err).Msg("saved keys not used")
	}
}

// run fetches until ctx ends.
func (k *keeper) run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-k.kick:
			if !k.engine.unanswered(k.now.AttemptedAt) {
				continue // a fetch of the background's came after the question
			}
		}
		wait := k.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		next.Reset(wait)
	}
}

// refresh makes the keeper fetch as soon as it is not fetching.
func (k *keeper) refresh() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// attempt fetches once, publishes what came of it and returns how long to wait
// for the next one.
func (k *keeper) attempt(ctx context.Context) time.Duration {
	begun := time.Now().Round(0) // the wall clock, which goes on while a host sleeps
	r, err := k.fetch.Fetch(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err == nil {
		u := keys.Update{
			Issuer: k.src.Issuer, Keys: r.Keys, Health: keys.HealthOK,
			FetchedAt: begun, AttemptedAt: begun,
		}
		if _, tooLarge := u.Encode(); tooLarge == nil {
			return k.succeed(u, r)
		}
		err = &Error{Doing: doingSet, Health: keys.HealthTooLarge}
	}
	return k.fail(err, begun)
}

func (k *keeper) succeed(u keys.Update, r Result) time.Duration {
	wait := k.interval(r)
	level := zerolog.DebugLevel
	if k.now.Health != keys.HealthOK || !slices.EqualFunc(k.now.Keys, u.Keys, token.Key.Equal) {
		level = zerolog.InfoLevel
	}
	k.now, k.failures = u, 0
	k.publish()
	k.log.WithLevel(level).Int("keys", len(u.Keys)).Str("url", r.JWKSURL).
		Strs("left_out", r.LeftOut).Stringer("next", wait.Round(time.Second)).Msg("keys are current")
	if k.src.JWKSFile == "" {
		if err := k.store.save(u); err != nil {
			k.log.Warn().Err(err).Msg("keys not saved; a restart while the issuer is down will have none")
		}
	}
	return wait
}

// fail keeps the last good set and says why there is no newer one.
func (k *keeper) fail(err error, begun time.Time) time.Duration {
	k.failures++
	wait := k.backoff()
	why := &Error{Health: keys.HealthUnreachable}
	errors.As(err, &why)
	changed := k.now.Health != why.Health
	k.now.Health, k.now.AttemptedAt = why.Health, begun
	k.publish()
	level := zerolog.DebugLevel
	if changed || begun.Sub(k.warned) >= sayAgain {
		level, k.warned = zerolog.WarnLevel, begun
	}
	ev := k.log.WithLevel(level).Str("reason", why.Error()).Str("health", string(why.Health)).
		Int("failures", k.failures).Stringer("next", wait.Round(time.Second))
	if why.Found != "" {
		ev = ev.Str("found_issuer", why.Found)
	}
	if len(why.LeftOut) > 0 {
		ev = ev.Strs("left_out", why.LeftOut)
	}
	if !k.now.FetchedAt.IsZero() {
		ev = ev.Dur("age", begun.Sub(k.now.FetchedAt)).Bool("usable", k.usable(begun))
	}
	ev.Msg("keys not refreshed")
	return wait
}

func (k *keeper) publish() {
	if err := k.engine.publish(k.now); err != nil {
		k.log.Error().Err(err).Msg("keys not sent")
	}
}

// usable reports whether receivers still serve with the last good set.
func (k *keeper) usable(now time.Time) bool {
	return len(k.now.Keys) > 0 && now.Sub(k.now.FetchedAt) < k.maxStale
}

// interval is the time to the next fetch after a good one: what the issuer says,
// at least 60 s and at most the configured refresh, and up to a tenth less; else
// between half of the configured refresh and the whole of it. A set never gets half
// stale, and a key that was withdrawn is never used for longer than the refresh.
func (k *keeper) interval(r Result) time.Duration {
	d := k.src.Refresh
	if d == 0 {
		d = DefaultRefresh
	}
	if r.HasAge {
		d = min(max(r.MaxAge, minInterval), d)
		return min(max(d-k.part(d/10), minInterval), k.maxStale/2)
	}
	return min(d-k.part(d/2), k.maxStale/2)
}

// backoff is the time to the next fetch after failures: doubling up to a limit,
// and up to half less, but not beyond the moment at which the last good set gets
// stale and the limit a shorter one.
func (k *keeper) backoff() time.Duration {
	limit, fresh := maxRetryEmpty, maxRetryServed
	if now := time.Now(); k.usable(now) {
		limit, fresh = maxRetryServed, k.maxStale-now.Sub(k.now.FetchedAt)
	}
	d := limit
	if n := k.failures - 1; n < 16 {
		d = min(firstRetry<<n, limit)
	}
	return min(d-k.part(d/2), fresh)
}

// part is a random share of d.
func (k *keeper) part(d time.Duration) time.Duration {
	return time.Duration(k.random() * float64(d))
}

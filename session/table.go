package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/session/seal"
	"gatehouse/session/spawn"

	"github.com/rs/zerolog"
)

// key is how a session is found. The principal is part of it, so that there is no
// way to ask for another's.
type key struct {
	principal identity.Principal
	server    uint16
	id        string
	scopes    string // of a shared worker, which has no id; else empty
}

// idBytes and idChars are the length of a session id, raw and as clients see it.
const (
	idBytes = 16
	idChars = 22
)

// Waiting for a place whose worker is about to be gone, and for all of them.
const (
	placeLimit = 8 * time.Second
	closeLimit = 12 * time.Second
)

// Table holds all sessions. The zero Table admits none.
type Table struct {
	cfg      Config                 // as at the start
	live     atomic.Pointer[Config] // as it is now
	spawner  spawn.Spawner
	log      zerolog.Logger
	ctx      context.Context // ends with the table
	cancel   context.CancelFunc
	draining atomic.Bool
	reaped   chan struct{} // closed when the reaper ended
	eras     eras
	deaths   deaths
	answers  answers
	sealer   *seal.Sealer
	lastHeld atomic.Uint64 // number of the last call that waited for its client

	mu       sync.RWMutex // guards what follows
	closed   bool
	sessions map[key]*Session
	starting map[key]*pending
	places   int // of sessions that start, live or end
	ending   int // of those, the ones that end
	held     map[identity.Principal]*share
	freed    chan struct{} // closed and replaced when a place is given back
}

// share is what a principal has of the table.
type share struct {
	places int           // of its sessions that start, live or end
	ending int           // of those, the ones that end
	turn   chan struct{} // one token: the worker that floods and is waited with
}

// floodPause is how long a principal's workers wait after each of a flood's turns,
// which bounds what a principal can have us work on: 64 messages in that time, and no
// bound on long ones.
const floodPause = 2 * time.Millisecond

// New returns an empty table whose workers come from sp. Close must be called.
func New(cfg Config, sp spawn.Spawner, log zerolog.Logger) *Table {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Table{
		cfg: cfg, spawner: sp, log: log, ctx: ctx, cancel: cancel,
		reaped:   make(chan struct{}),
		sessions: map[key]*Session{},
		starting: map[key]*pending{},
		sealer:   seal.New(cfg.Now, cfg.Rand),
		held:     map[identity.Principal]*share{},
		freed:    make(chan struct{}),
	}
	t.eras.fixed = map[uint16]eraKind{}
	for server, name := range cfg.Eras {
		t.eras.fixed[server] = map[string]eraKind{"legacy": eraLegacy, "modern": eraModern}[name]
	}
	t.Reconfigure(cfg)
	go t.reap()
	return t
}

// Reconfigure has new bounds hold from now on: caps, lifetimes and bounds of calls for
// all sessions, those of messages and replay for new ones. Interrupt, Eras, Now and Rand
// stay what they were.
func (t *Table) Reconfigure(cfg Config) {
	if cfg.Lifetime.StartTimeout <= 0 {
		cfg.Lifetime.StartTimeout = 30 * time.Second
	}
	if cfg.Lifetime.ReaperInterval <= 0 {
		cfg.Lifetime.ReaperInterval = time.Minute
	}
	t.live.Store(&cfg)
	for _, s := range t.all() {
		s.limit()
	}
}

// conf is what holds now.
func (t *Table) conf() *Config { return t.live.Load() }

func (t *Table) now() time.Time { return t.cfg.Now() }

// Find returns the caller's session of that id at that server. Unknown, ended and
// foreign ids look alike. A token that is newer than the session's moves its
// expiry and renews the worker's lease in the background.
func (t *Table) Find(server uint16, c Caller, id string) (*Session, bool) {
	if len(id) != idChars {
		return nil, false
	}
	t.mu.RLock()
	s := t.sessions[key{c.Principal, server, id, ""}]
	t.mu.RUnlock()
	if s == nil {
		return nil, false
	}
	s.seen(c)
	return s, true
}

// reserve takes a place for a session of p, and makes room within the principal's
// own places when it has to. It waits for places whose worker is about to be gone.
func (t *Table) reserve(ctx context.Context, p identity.Principal) error {
	limit := time.NewTimer(placeLimit)
	defer limit.Stop()
	for {
		freed, victim, err := t.tryReserve(p)
		if err != nil || freed == nil {
			return err
		}
		if victim != nil {
			victim.End("made room for a newer session of the same principal")
		}
		select {
		case <-freed:
		case <-limit.C:
			return &Error{Kind: KindSessionLimit, Reason: "ended workers are not gone yet"}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryReserve takes a place; or returns freed, to wait on, and the session to end
// for it, if one has to.
func (t *Table) tryReserve(p identity.Principal) (freed <-chan struct{}, victim *Session, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.held[p]
	if mine == nil {
		mine = &share{turn: make(chan struct{}, 1)}
	}
	switch {
	case t.sessions == nil:
		return nil, nil, &Error{Kind: KindSessionLimit, Reason: "no table"}
	case t.closed || t.draining.Load():
		return nil, nil, &Error{Kind: KindDraining, Reason: "the server is stopping"}
	case t.conf().MaxPerPrincipal > 0 && mine.places >= t.conf().MaxPerPrincipal:
		if mine.ending > 0 {
			return t.freed, nil, nil
		}
		if victim = t.quietest(p); victim == nil {
			return nil, nil, &Error{Kind: KindSessionLimit, Reason: "all sessions of the principal are in use"}
		}
		t.unlist(victim)
		return t.freed, victim, nil
	case t.places >= t.conf().MaxSessions:
		if t.ending > 0 {
			return t.freed, nil, nil
		}
		return nil, nil, &Error{Kind: KindSessionLimit, Reason: "all places are taken"}
	}
	t.places++
	mine.places++
	t.held[p] = mine
	return nil, nil, nil
}

// quietest is p's session without stream and call whose client was silent for
// longest, t.mu held.
func (t *Table) quietest(p identity.Principal) (found *Session) {
	for k, s := range t.sessions {
		if k.principal != p || found != nil && s.lastSign.Load() >= found.lastSign.Load() {
			continue
		}
		open, _ := s.outbox.state()
		if calls, _ := s.running(); !open && calls == 0 && !s.hub.open() {
			found = s
		}
	}
	return found
}

// pace returns what the workers of p wait in while they flood: one at a time has its
// turn, so that a principal's many are not many times as busy for us as its one. Where
// all callers are one principal there is nobody to be fair to.
func (t *Table) pace(p identity.Principal) func() {
	if t.cfg.MaxPerPrincipal == 0 {
		return nil
	}
	t.mu.RLock()
	turn := t.held[p].turn
	t.mu.RUnlock()
	return func() {
		turn <- struct{}{}
		time.Sleep(floodPause)
		<-turn
	}
}

// list enters a session, unless the table was closed meanwhile.
func (t *Table) list(s *Session) error {
	t.mu.Lock()
	if t.closed || t.draining.Load() {
		t.mu.Unlock()
		return &Error{Kind: KindDraining, Reason: "the server is stopping"}
	}
	t.sessions[s.key] = s
	t.mu.Unlock()
	s.limit() // the bounds may have changed while it was opened
	return nil
}

// limit has the bounds of calls be those that hold now.
func (s *Session) limit() { s.b.Limit(s.t.conf().MaxCalls, s.t.conf().Lifetime.RequestTimeout) }

// unlist takes a session out, t.mu held. Its place stays taken until its worker is
// gone.
func (t *Table) unlist(s *Session) {
	if t.sessions[s.key] == s {
		delete(t.sessions, s.key)
	}
	if !s.leaving {
		s.leaving = true
		t.ending++
		t.held[s.key.principal].ending++
	}
}

func (t *Table) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlist(s)
}

// release gives a place back; ended says that it was counted as ending.
func (t *Table) release(p identity.Principal, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places--
	mine := t.held[p]
	if mine.places--; mine.places == 0 {
		delete(t.held, p)
	}
	if ended {
		t.ending--
		mine.ending--
	}
	close(t.freed)
	t.freed = make(chan struct{})
}

// all returns the live sessions, oldest first.
func (t *Table) all() []*Session {
	t.mu.RLock()
	out := make([]*Session, 0, len(t.sessions))
	for _, s := range t.sessions {
		out = append(out, s)
	}
	t.mu.RUnlock()
	slices.SortFunc(out, func(a, b *Session) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.id, b.key.id)) })
	return out
}

// List describes all live sessions, oldest first.
func (t *Table) List() []Info {
	all := t.all()
	out := make([]Info, len(all))
	for i, s := range all {
		out[i] = s.Info()
	}
	return out
}

// EndIf ends the sessions that match, says why in the log, and returns how many.
func (t *Table) EndIf(match func(Info) bool, reason string) (n int) {
	for _, s := range t.all() {
		if match(s.Info()) {
			s.End(reason)
			n++
		}
	}
	return n
}

// Drain refuses new sessions and calls (KindDraining), ends GET streams at once,
// waits until running calls have finished or ctx ends, then closes the table.
func (t *Table) Drain(ctx context.Context) {
	t.draining.Store(true)
	for _, s := range t.all() {
		s.outbox.end(&Error{Kind: KindDraining, Reason: "the server is stopping"})
		s.hub.end(true, &Error{Kind: KindDraining, Reason: "the server is stopping"})
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for t.attended() && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	t.Close()
}

// attended reports whether any client waits for an answer.
func (t *Table) attended() bool {
	return slices.ContainsFunc(t.all(), func(s *Session) bool {
		_, n := s.running()
		return n > 0
	})
}

// Close ends all sessions and waits, 12 s at most, until their workers are gone. It
// may be repeated.
func (t *Table) Close() {
	t.draining.Store(true)
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	if t.cancel == nil {
		return
	}
	t.cancel()
	for _, s := range t.all() {
		s.End("the server is stopping")
	}
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	for {
		t.mu.RLock()
		places, freed := t.places, t.freed
		t.mu.RUnlock()
		if places == 0 {
			break
		}
		select {
		case <-freed:
			continue
		case <-limit.C:
			t.log.Error().Int("workers", places).Msg("workers are not gone after the limit")
		}
		break
	}
	<-t.reaped
}

// newID draws a session id.
func (t *Table) newID() (string, error) {
	var raw [idBytes]byte
	if _, err := io.ReadFull(t.cfg.Rand, raw[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]), nil
}

// refusal turns the spawner's error into ours.
func refusal(err error) error {
	var e *spawn.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		return &Error{Kind: KindWorkerUnavailable, Reason: "spawn: " + err.Error()}
	}
	kinds := map[spawn.Kind]Kind{
		spawn.KindToken: KindToken, spawn.KindUndecided: KindUndecided, spawn.KindNoAccount: KindNoAccount,
		spawn.KindClientOwn: KindClientOwn, spawn.KindLimit: KindSessionLimit, spawn.KindRate: KindRate,
		spawn.KindUnavailable: KindWorkerUnavailable, spawn.KindDraining: KindDraining,
	}
	return &Error{Kind: kinds[e.Kind], Reason: "spawn: " + e.Kind.String() + ": " + e.Reason, RetryAfter: e.RetryAfter}
}

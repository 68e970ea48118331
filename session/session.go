// Package session holds the way from a principal to the worker that serves it:
// the table of sessions, their lifetime, and the messages that pass. It knows no
// HTTP; the router turns requests into the calls of this package and its answers
// into responses.
package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/spawn"

	"github.com/rs/zerolog"
)

// Caller is who presents a request, as the gate found it to be.
type Caller struct {
	Principal identity.Principal
	Scopes    identity.Scopes
	// Expiry is the last moment the token is served: exp plus leeway. The zero
	// time means never (loopback mode).
	Expiry time.Time
	// Token is the bearer token itself, for the monitor alone.
	Token string
	// KeyID is the kid of the key that verified the token.
	KeyID string
}

// Session is one legacy-era session and its worker, or the worker that the modern
// requests of one principal share, which has no id. All methods may be called
// concurrently.
type Session struct {
	t         *Table
	key       key // key.id is set once the handshake is done
	version   string
	can       bridge.Capability
	worker    spawn.Worker
	b         *bridge.Bridge
	created   time.Time
	outbox    outbox
	replay    replay
	lastSign  atomic.Int64 // of the client, Unix nanoseconds
	expiry    atomic.Int64 // of the newest token, Unix nanoseconds; 0: never
	renewLock sync.Mutex   // guards what follows
	keyID     string       // of the newest token
	shownKey  string       // of the newest that the monitor was shown
	token     string       // to renew the lease with; empty: nothing to do
	renewal   *time.Timer  // shows token to the monitor; until the monitor's answer

	// Of eras: see modern.go, rounds.go, backward.go.
	modern    atomic.Bool // the worker's era
	server    era.Server  // what the worker says about itself, for clients of the other era
	hub       hub
	interests interests
	held      held
	tools     toolParams
	acked     atomic.Pointer[era.Filter] // what a modern worker agreed to tell
	ackSignal chan struct{}
	logLock   sync.Mutex // guards logLevel
	logLevel  uint8      // what the worker was told
	backLock  sync.Mutex // guards legacy
	legacy    legacyClient

	clocks  clocks // of the reaper alone
	leaving bool   // counted as ending; guarded by t.mu
}

// ID is the Mcp-Session-Id: 128 random bits in base64url, 22 characters; "" of a
// shared worker.
func (s *Session) ID() string { return s.key.id }

// Label is a short part of the id that may stand in logs, "shared" without an id.
func (s *Session) Label() string { return label(s.key.id) }

func label(id string) string {
	if id == "" {
		return "shared"
	}
	return id[:min(len(id), 6)]
}

// log is the logger for what concerns this session. It is made anew each time: most
// sessions say two lines in their life.
func (s *Session) log() *zerolog.Logger {
	l := s.t.log.With().Str("session", s.Label()).Uint16("server", s.key.server).Str("account", s.worker.Account()).Int("worker", s.worker.PID()).Logger()
	return &l
}

// Info describes a session for operators.
type Info struct {
	Label     string // a short part of the id, for logs; never the whole
	Server    uint16
	Principal identity.Principal
	KeyID     string // of the newest token
	Account   string
	UID, PID  int
	Created   time.Time
	Active    time.Time // the last sign of the client
	Expiry    time.Time // of the newest token; zero: never
	Calls     int       // running in the worker
	Stream    bool      // a GET stream is open
}

// Info describes the session.
func (s *Session) Info() Info {
	calls, _ := s.running()
	open, _ := s.outbox.state()
	open = open || s.hub.open()
	s.renewLock.Lock()
	keyID := s.keyID
	s.renewLock.Unlock()
	return Info{
		Label: s.Label(), Server: s.key.server, Principal: s.key.principal, KeyID: keyID,
		Account: s.worker.Account(), UID: s.worker.UID(), PID: s.worker.PID(),
		Created: s.created, Active: time.Unix(0, s.lastSign.Load()), Expiry: s.expiresAt(),
		Calls: calls, Stream: open,
	}
}

// touch notes a sign of the client.
func (s *Session) touch() { s.lastSign.Store(s.t.now().UnixNano()) }

// Notify takes a client's notification. notifications/cancelled is obeyed at once
// and never waits for the worker. Others are written before it returns.
//
// Errors: ErrGone, ctx.Err().
func (s *Session) Notify(ctx context.Context, m jsonrpc.Message) error {
	s.touch()
	if s.modern.Load() {
		return s.gone(s.notifyModern(ctx, &m))
	}
	return s.gone(s.b.Notify(ctx, &m))
}

// Answer takes a client's response to a request of the worker, or to a ping of ours.
// One that answers nothing outstanding is dropped without an error.
//
// Errors: ErrGone, ctx.Err().
func (s *Session) Answer(ctx context.Context, m jsonrpc.Message) error {
	if s.outbox.answered(&m) {
		return nil
	}
	s.touch()
	if s.modern.Load() {
		s.answerModern(&m)
		return nil
	}
	return s.gone(s.b.Answer(ctx, &m))
}

// End ends the session and stops its worker; reason is for the log. It returns
// at once and may be repeated.
func (s *Session) End(reason string) {
	s.t.remove(s)
	s.hub.end(true, &Error{Kind: KindSessionGone, Reason: reason})
	s.b.Stop(reason)
}

// gone turns the bridge's errors into this package's.
func (s *Session) gone(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bridge.ErrGone):
		return &Error{Kind: KindSessionGone, Reason: s.b.Reason()}
	case errors.Is(err, bridge.ErrBusy):
		return &Error{Kind: KindBusy, Reason: "too many running calls"}
	case errors.Is(err, bridge.ErrTimeout):
		return &Error{Kind: KindTimeout, Reason: "request timeout"}
	}
	return err
}

// upstream is the session as its bridge sees it.
type upstream struct{ s *Session }

var _ bridge.Upstream = upstream{}

func (u upstream) Notification(method []byte, b *bridge.Buffer) {
	log := string(method) == "notifications/message"
	if u.s.shared() || u.s.modern.Load() && !log {
		u.s.heard(b)
		return
	}
	u.s.outbox.notification(log || string(method) == "notifications/progress", b)
}

func (u upstream) Can() bridge.Capability {
	if u.s.modern.Load() {
		return 0 // a modern worker asks by its results
	}
	return u.s.can
}

func (u upstream) Ask(id uint64, b *bridge.Buffer) bool {
	return !u.s.modern.Load() && !u.s.shared() && u.s.outbox.ask(id, b)
}

func (u upstream) Withdraw(id uint64) bool { return u.s.outbox.withdraw(id) }

func (u upstream) Ended(reason string) {
	s := u.s
	s.t.remove(s)
	missed := s.outbox.end(&Error{Kind: KindSessionGone, Reason: reason})
	s.hub.end(false, &Error{Kind: KindSessionGone, Reason: reason})
	s.held.end()
	if s.shared() {
		s.t.deaths.note(s.key, s.t.now().Sub(s.created), s.t.now())
	}
	s.log().Info().Str("reason", reason).Int("undelivered", missed).Msg("session ended")
}

func (u upstream) Finished() { u.s.t.release(u.s.key.principal, true) }

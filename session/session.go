// Package session holds the way from a principal to the worker that serves it:
// the table of sessions, their lifetime, and the messages that pass. It knows no
// HTTP; the router turns requests into the calls of this package and its answers
// into responses.
package session

import (
	"context"
	"time"

	"gatehouse/auth/identity"
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

// Table holds all sessions.
type Table struct{}

// New returns an empty table whose workers come from sp. Close must be called.
func New(cfg Config, sp spawn.Spawner, log zerolog.Logger) *Table { return &Table{} }

// Open starts a worker for c and does the handshake with the client's own
// initialize request. It returns the session and the response for the client,
// which has the client's id. When the worker answers initialize with an error,
// that answer is returned, the session is nil and the worker is stopped.
//
// Errors: a *jsonrpc.Error when the request is not sane, ctx.Err(), else *Error.
func (t *Table) Open(ctx context.Context, server uint16, c Caller, init jsonrpc.Message) (*Session, []byte, error) {
	return nil, nil, &Error{Kind: KindInternal, Reason: "not built yet"}
}

// Find returns the caller's session of that id at that server. Unknown, ended and
// foreign ids look alike. A token that is newer than the session's moves its
// expiry and renews the worker's lease in the background.
func (t *Table) Find(server uint16, c Caller, id string) (*Session, bool) { return nil, false }

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

// List describes all live sessions, oldest first.
func (t *Table) List() []Info { return nil }

// EndIf ends the sessions that match, says why in the log, and returns how many.
func (t *Table) EndIf(match func(Info) bool, reason string) int { return 0 }

// Drain refuses new sessions and calls (KindDraining), ends GET streams at once,
// waits until running calls have finished or ctx ends, then closes the table.
func (t *Table) Drain(ctx context.Context) {}

// Close ends all sessions and waits, at most 10 s, until their workers are gone.
// It may be repeated.
func (t *Table) Close() {}

// Session is one legacy-era session and its worker. All methods may be called
// concurrently.
type Session struct{}

// ID is the Mcp-Session-Id: 128 random bits in base64url, 22 characters.
func (s *Session) ID() string { return "" }

// Label is a short part of the id that may stand in logs.
func (s *Session) Label() string { return "" }

// ProtocolVersion is the version agreed with the client.
func (s *Session) ProtocolVersion() string { return "" }

// Info describes the session.
func (s *Session) Info() Info { return Info{} }

// Mode says what the client of a call can take.
type Mode uint8

// The two modes of a call.
const (
	// ModeStream: any number of messages before the response (SSE).
	ModeStream Mode = iota
	// ModeSingle: the response alone (a client that accepts JSON only). Progress is
	// dropped, and nothing the worker asks goes to this call.
	ModeSingle
)

// Begin hands a request to the worker. m may be reused once it returns. It may
// wait for the worker to read its input, 10 s at most.
//
// Errors: *Error of KindBusy, KindSessionGone or KindDraining; ErrCancelled when
// the client cancelled it before it was written.
func (s *Session) Begin(ctx context.Context, m jsonrpc.Message, mode Mode) (*Exchange, error) {
	return nil, &Error{Kind: KindInternal, Reason: "not built yet"}
}

// Notify takes a client's notification. notifications/cancelled is obeyed at once
// and never waits for the worker. Others are written before it returns.
func (s *Session) Notify(ctx context.Context, m jsonrpc.Message) error { return nil }

// Answer takes a client's response to a request of the worker. One that answers
// nothing outstanding is dropped without an error.
func (s *Session) Answer(ctx context.Context, m jsonrpc.Message) error { return nil }

// Stream opens the GET stream. The newest wins: an older one gets ErrReplaced.
// lastEventID is what the client sent as Last-Event-ID, empty if nothing.
func (s *Session) Stream(ctx context.Context, lastEventID string) (*Stream, error) {
	return nil, &Error{Kind: KindInternal, Reason: "not built yet"}
}

// End ends the session and stops its worker; reason is for the log. It returns
// at once and may be repeated.
func (s *Session) End(reason string) {}

// Item is one message for the client. Bytes is valid until the next call of Next
// or Close, has the client's own id and progress token, and holds neither CR nor
// LF, so that it is one SSE data line.
type Item struct {
	Bytes []byte
	// Final marks the response of the call; nothing follows it.
	Final bool
}

// Exchange is one running call. One goroutine uses it.
type Exchange struct{}

// Next returns the next message for the client. It waits at most wait (0: without
// limit) and then returns ErrWait. After the final item, and after any error but
// ErrWait and ctx.Err(), the exchange is over.
//
// Errors: ErrWait, ErrCancelled, ErrGone, ErrTimeout, ctx.Err().
func (x *Exchange) Next(ctx context.Context, wait time.Duration) (Item, error) {
	return Item{}, ErrGone
}

// Close gives the exchange up. A call that still runs goes on in the worker and
// its answer is discarded: in this era a closed connection is no cancel. It must
// be called once for each Exchange.
func (x *Exchange) Close() {}

// Stream is one open GET stream. One goroutine uses it.
type Stream struct{}

// Next is like Exchange.Next; no item is final.
//
// Errors: ErrWait, ErrReplaced, ErrExpired, ErrGone, *Error of KindDraining,
// ctx.Err().
func (x *Stream) Next(ctx context.Context, wait time.Duration) (Item, error) {
	return Item{}, ErrGone
}

// Close says that the client's stream is closed. It must be called once.
func (x *Stream) Close() {}

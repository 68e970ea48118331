package session

import (
	"errors"
	"time"

	"gatehouse/session/bridge"
)

// Kind classifies a refusal of this package. It is a closed list; the zero value
// is an internal fault. String is what data.kind shows to clients.
type Kind uint8

// The kinds. The router says which status each becomes.
const (
	KindInternal          Kind = iota
	KindSessionLimit           // a cap on sessions, or one of the monitor's
	KindBusy                   // too many calls of this session are running
	KindTimeout                // the request timeout passed; the session lives on
	KindSessionGone            // the worker ended, or the session was ended
	KindWorkerUnavailable      // the worker could not be started or did not do its handshake
	KindRate                   // spawn rate exceeded; RetryAfter is set
	KindNoAccount              // valid token, no account by policy
	KindClientOwn              // a client's own token
	KindToken                  // the monitor does not accept the token
	KindUndecided              // the monitor has no usable keys
	KindDraining               // the server is stopping
	KindState                  // a requestState that does not fit
	KindUnsent                 // the shared worker had ended before it got the request
	KindWorkerGone             // the shared worker ended during the request
)

var kindNames = [...]string{
	"internal", "sessionLimit", "busy", "timeout", "sessionGone", "workerUnavailable",
	"rate", "noAccount", "clientOwn", "token", "undecided", "draining", "state", "unsent", "workerGone",
}

// String is the kind's public name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[KindInternal]
}

// Error is a refusal. Reason is for the log alone.
type Error struct {
	Kind       Kind
	Reason     string
	RetryAfter time.Duration // zero: unknown
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return "session: " + e.Kind.String()
	}
	return "session: " + e.Kind.String() + ": " + e.Reason
}

// Is makes errors.Is(err, ErrGone) and the like compare kinds alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

// What Next returns beside items. Compare with errors.Is.
var (
	// ErrWait: nothing came within the wait; call Next again.
	ErrWait = bridge.ErrWait
	// ErrCancelled: the client cancelled the call; there will be no response.
	ErrCancelled = bridge.ErrCancelled
	// ErrDone: the stream of a call has brought all that it ever will.
	ErrDone = errors.New("session: the call was answered")
	// ErrReplaced: a newer GET stream took over.
	ErrReplaced = errors.New("session: replaced by a newer stream")
	// ErrExpired: the newest token of the session is past its expiry.
	ErrExpired = errors.New("session: credential expired")
	// ErrGone: the session or its worker ended.
	ErrGone error = &Error{Kind: KindSessionGone}
	// ErrUnsent: the shared worker had ended before it got the request, which another
	// one may serve.
	ErrUnsent error = &Error{Kind: KindUnsent}
	// ErrTimeout: the request timeout passed.
	ErrTimeout error = &Error{Kind: KindTimeout}
)

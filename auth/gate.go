// Package auth answers one question for the router: who is calling? A Gate reads
// the request's credentials and returns a Caller or a Refusal of a closed kind;
// it writes nothing to the client. The package also knows how a protected
// resource describes itself: the challenge of RFC 6750 and the metadata document
// of RFC 9728.
package auth

import (
	"context"
	"net/http"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// Caller is who a request speaks for. It is passed as an argument, never in a
// context, so that no handler can forget to ask.
type Caller struct {
	Principal identity.Principal
	Scopes    identity.Scopes
	// Expiry is when the caller's credential is served no more: exp plus the
	// leeway of its issuer. The zero time means never (loopback mode).
	Expiry time.Time
	// Token is the bearer token itself, for the monitor alone, which verifies it
	// again. It is never logged and never reaches a worker. Empty in loopback mode.
	Token string
	// KeyID is the key that verified Token.
	KeyID string
}

// Gate decides whether a request's credentials are good enough for one server.
// Implementations: *Bearer and Loopback. The zero Bearer refuses everything.
type Gate interface {
	// Admit reads the credentials in h. Exactly one of the results is set: a nil
	// Refusal means that Caller is who is calling. It may wait up to 2 s for a
	// key that was published a moment ago; ctx ends the wait.
	Admit(ctx context.Context, h http.Header) (Caller, *Refusal)
}

// Kind is the closed list of grounds on which a gate refuses. What the client
// reads for each is worded by the router.
type Kind uint8

// The grounds. The zero value is an internal fault and refuses like any other.
const (
	KindInternal      Kind = iota
	KindNoCredentials      // none, or another scheme than Bearer
	KindTwoFields          // more than one Authorization field
	KindSyntax             // an empty token, several tokens, control bytes
	KindBareToken          // a token without a scheme before it
	KindDoubledScheme      // "Bearer Bearer x"
	KindQuoted             // quotation marks around the token
	KindUnexpanded         // a variable that nobody expanded: ${TOKEN}
	KindToken              // the token was judged and refused: Refusal.Token says why
	KindScope              // the token lacks a required scope
	KindUndecided          // cannot be judged at present: no usable keys
)

// String names the kind for logs.
func (k Kind) String() string {
	names := [...]string{"internal", "no_credentials", "two_fields", "syntax", "bare_token",
		"doubled_scheme", "quoted", "unexpanded", "token", "scope", "undecided"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Refusal is why a gate refused. Reason is for the log alone; it may name
// values of the token, never the token.
type Refusal struct {
	Kind   Kind
	Token  token.Kind // set with KindToken
	Reason string
	// Principal is whose token it was, where the token was good and something
	// else was missing (KindScope).
	Principal identity.Principal
}

// Loopback is the gate of the unauthenticated mode: everybody who gets through
// the router's Host, Origin and peer checks is the one local user.
type Loopback struct{}

// Admit ignores the credentials and returns the loopback principal.
func (Loopback) Admit(context.Context, http.Header) (Caller, *Refusal) {
	return Caller{Principal: identity.Loopback}, nil
}

var (
	_ Gate = (*Bearer)(nil)
	_ Gate = Loopback{}
)

// Package token judges bearer tokens. It is pure: it opens nothing, fetches
// nothing and reads no clock, so that the front end and the monitor can link the
// same code and come to the same verdict. golang-jwt verifies the signature and
// nothing else; every other rule is a named check of this package (see the
// checks slice and docs/tokens.md).
package token

import (
	"time"

	"gatehouse/auth/identity"
)

// MaxBytes is the longest token that is looked at. The front end may set a
// lower limit, never a higher one.
const MaxBytes = 16 << 10

// MaxLeeway is the largest clock skew that a policy may allow.
const MaxLeeway = 60 * time.Second

// DefaultMaxLifetime is the longest exp - iat when a policy names none.
const DefaultMaxLifetime = 24 * time.Hour

// Profile says how the access tokens of an issuer look. It is configured, never
// guessed from a token.
type Profile string

// The profiles.
const (
	ProfileRFC9068  Profile = "rfc9068"  // RFC 9068: header typ at+jwt, client_id
	ProfileKeycloak Profile = "keycloak" // Keycloak 26: payload typ Bearer, azp
)

// Policy is what one issuer's tokens must look like.
type Policy struct {
	Issuer  identity.Issuer
	Profile Profile
	// Algorithms that this issuer's keys may have; empty means
	// [DefaultAlgorithms]. "none" and HMAC algorithms are refused by [New].
	Algorithms []string
	// Leeway is the clock skew allowed for exp, nbf and iat: 0 to [MaxLeeway].
	Leeway time.Duration
	// MaxLifetime is the largest exp - iat; 0 means [DefaultMaxLifetime].
	MaxLifetime time.Duration
	// AllowMissingKeyID lets a token without kid be verified with the issuer's
	// key when the issuer has exactly one.
	AllowMissingKeyID bool
	// AccountClaim names a top-level claim whose string value is returned in
	// [Token.AccountClaim]; empty: none.
	AccountClaim string
}

// DefaultAlgorithms are the algorithms of a policy that names none (RFC 7518
// section 3.1, RFC 8037). "Ed25519" of RFC 9864 is taken as another name of EdDSA.
func DefaultAlgorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// Verifier judges tokens of a fixed set of issuers. It is immutable and safe for
// concurrent use. The zero value refuses every token.
type Verifier struct {
	policies map[identity.Issuer]*Policy
}

// New returns a verifier for the given policies, one an issuer. It fails on an
// unknown profile or algorithm, on limits out of range and on an issuer named twice.
func New(policies ...Policy) (*Verifier, error) {
	return &Verifier{}, nil
}

// Verify judges a token: raw is the bare token without its scheme, audiences are
// the accepted values of aud (at least one; the token must name one of them
// exactly), keys are the issuers' current keys, now is the time of judgement.
// The error is always a [*Refusal].
//
// An accepted token is not yet an authorized one: its scopes, and whether a
// token with [Token.ClientOwn] may be used at all, are the caller's to decide.
func (v *Verifier) Verify(raw string, audiences []string, keys *KeySet, now time.Time) (*Token, error) {
	return nil, &Refusal{Kind: KindUnverifiable, Reason: "no issuer is configured"}
}

// Token is an accepted token.
type Token struct {
	Principal identity.Principal
	Scopes    identity.Scopes
	// Expiry is exp; the token is served until just before Expiry + leeway.
	Expiry    time.Time
	IssuedAt  time.Time
	NotBefore time.Time // zero when the token has no nbf
	ID        string    // jti; replay caches key on issuer and ID, never on the raw token
	KeyID     string    // kid of the key that verified it
	SessionID string    // sid, "" when absent
	// AccountClaim is the raw value of the claim [Policy.AccountClaim], "" when
	// it is absent or no string. No grammar was applied to it.
	AccountClaim string
	// ClientOwn says that no user stands behind the token (client credentials).
	// Such a token is refused with 403 unless an operator mapped it by name.
	ClientOwn       bool
	ClientOwnReason string

	leeway time.Duration
}

// Until returns the first moment at which the token is served no more: exp plus
// the leeway of its issuer's policy.
func (t *Token) Until() time.Time { return t.Expiry.Add(t.leeway) }

// Package token judges bearer tokens. It is pure: it opens nothing, fetches
// nothing and reads no clock, so that the front end and the monitor can link the
// same code and come to the same verdict. golang-jwt verifies the signature and
// nothing else; every other rule is a named check of this package (see the
// checks slice and docs/tokens.md).
package token

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	v := &Verifier{policies: make(map[identity.Issuer]*Policy, len(policies))}
	for _, p := range policies {
		if _, ok := v.policies[p.Issuer]; ok {
			return nil, fmt.Errorf("token policy: issuer %q is named twice", p.Issuer)
		}
		if err := p.complete(); err != nil {
			return nil, fmt.Errorf("token policy of issuer %q: %w", p.Issuer, err)
		}
		v.policies[p.Issuer] = &p
	}
	return v, nil
}

// complete checks a policy, fills in the defaults and takes copies.
func (p *Policy) complete() error {
	if p.Issuer == "" {
		return errors.New("the issuer is empty")
	}
	if len(p.Issuer) > maxIssuer || strings.ContainsFunc(string(p.Issuer), unicode.IsControl) || !utf8.ValidString(string(p.Issuer)) {
		return errors.New("the issuer is no plain text")
	}
	if profiles[p.Profile] == nil {
		return fmt.Errorf("profile %q is unknown; there are %q and %q", p.Profile, ProfileRFC9068, ProfileKeycloak)
	}
	if p.Leeway < 0 || p.Leeway > MaxLeeway {
		return fmt.Errorf("leeway %v is not within 0 and %v", p.Leeway, MaxLeeway)
	}
	if p.MaxLifetime < 0 {
		return fmt.Errorf("longest lifetime %v is negative", p.MaxLifetime)
	}
	if p.MaxLifetime == 0 {
		p.MaxLifetime = DefaultMaxLifetime
	}
	if len(p.Algorithms) == 0 {
		p.Algorithms = DefaultAlgorithms()
		return nil
	}
	names := make([]string, 0, len(p.Algorithms))
	for _, alg := range p.Algorithms {
		name := canonicalAlgorithm(alg)
		if signingMethods[name] == nil {
			return fmt.Errorf("algorithm %q is not supported; there are %v", alg, DefaultAlgorithms())
		}
		names = append(names, name)
	}
	p.Algorithms = names
	return nil
}

// Verify judges a token: raw is the bare token without its scheme, audiences are
// the accepted values of aud (at least one; the token must name one of them
// exactly), keys are the issuers' current keys, now is the time of judgement.
// The error is always a [*Refusal]. All checks are those of the checks slice.
//
// An accepted token is not yet an authorized one: its scopes, and whether a
// token with [Token.ClientOwn] may be used at all, are the caller's to decide.
func (v *Verifier) Verify(raw string, audiences []string, keys *KeySet, now time.Time) (*Token, error) {
	j := newJudgement(v, raw, audiences, keys, now)
	for i := range checks {
		if r := checks[i].verdict(j); r != nil {
			return nil, r
		}
	}
	t := j.token // a copy, so that the rest of the judgement is free
	return &t, nil
}

// Token is an accepted token.
type Token struct {
	Principal identity.Principal
	Scopes    identity.Scopes
	Audience  []string // all members of aud, ours among them
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
	// AccountClaimReason says why AccountClaim is empty, for the log.
	AccountClaimReason string
	// ClientOwn says that no user stands behind the token (client credentials).
	// Such a token is refused with 403 unless an operator mapped it by name.
	ClientOwn       bool
	ClientOwnReason string

	leeway time.Duration
}

// Until returns the first moment at which the token is served no more: exp plus
// the leeway of its issuer's policy.
func (t *Token) Until() time.Time { return t.Expiry.Add(t.leeway) }

// Foreign reports that a token claims to come from an issuer that is not
// configured, and which. The claim is unverified: it serves to spare the issuers
// a question for a key that none of them can have, and never to accept anything.
// A token whose claims can't be read is not foreign.
func (v *Verifier) Foreign(raw string) (iss string, foreign bool) {
	iss, ok := claimedIssuer(raw)
	if v == nil || !ok || v.policies[identity.Issuer(iss)] != nil {
		return "", false
	}
	return iss, true
}

// Undecidable reports that a token that [Verifier.Verify] could not verify claims to
// come from a configured issuer of which keys has none: they are stale, say, and
// another issuer's key of the same id does not fit. Such a token can be neither
// accepted nor refused. The claim is unverified, and nothing is accepted for it.
func (v *Verifier) Undecidable(raw string, keys *KeySet) bool {
	iss, ok := claimedIssuer(raw)
	return v != nil && ok && v.policies[identity.Issuer(iss)] != nil && len(keys.Keys(identity.Issuer(iss))) == 0
}

// claimedIssuer returns the iss of a token of which nothing is verified.
func claimedIssuer(raw string) (iss string, ok bool) {
	_, rest, _ := strings.Cut(raw, ".")
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || len(raw) > MaxBytes || strings.Contains(signature, ".") {
		return "", false
	}
	b, err := base64url.DecodeString(payload)
	if err != nil {
		return "", false
	}
	return onlyIssuer(b)
}

// Package identity holds the named types that say who is calling. It has no
// behaviour beyond comparison and parsing, imports nothing of this module, and
// exists so that mixing up an issuer, a subject and an account does not compile.
package identity

import (
	"slices"
	"strings"
)

type (
	// Issuer is the exact issuer identifier of an authorization server: the
	// `iss` claim, compared byte for byte (RFC 9068 section 4).
	Issuer string
	// Subject is the `sub` claim: unique within its issuer only.
	Subject string
	// ClientID is the OAuth client a token was issued to: `client_id`
	// (RFC 9068 section 2.2) or, in the keycloak profile, `azp`.
	ClientID string
	// Account is the name of an operating-system account.
	Account string
	// Scope is one scope-token of RFC 6749 section 3.3.
	Scope string
)

// Principal is who a validated token speaks for. Principals are compared as a
// whole: the same subject through another client is another principal.
type Principal struct {
	Issuer  Issuer   `json:"iss"`
	Subject Subject  `json:"sub"`
	Client  ClientID `json:"client_id"`
}

// Loopback is the one principal of the unauthenticated mode.
var Loopback = Principal{Issuer: "loopback", Subject: "local-user"}

// Scopes is a set of scopes, sorted and without duplicates.
type Scopes []Scope

// NewScopes returns the set of the given scopes.
func NewScopes(s ...Scope) Scopes {
	out := slices.Clone(s)
	slices.Sort(out)
	return slices.Compact(out)
}

// ScopesOf returns the set of the scopes with those names.
func ScopesOf(names []string) Scopes {
	out := make([]Scope, len(names))
	for i, n := range names {
		out[i] = Scope(n)
	}
	return NewScopes(out...)
}

// Has reports whether the set holds every scope of want.
func (s Scopes) Has(want ...Scope) bool {
	for _, w := range want {
		if _, ok := slices.BinarySearch(s, w); !ok {
			return false
		}
	}
	return true
}

// String joins the scopes with single spaces, as the `scope` parameter does.
func (s Scopes) String() string {
	var b strings.Builder
	for i, x := range s {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(x))
	}
	return b.String()
}

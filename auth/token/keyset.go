package token

import (
	"crypto"
	"errors"

	"gatehouse/auth/identity"
)

// MaxJWKSBytes and MaxKeys bound a key set document.
const (
	MaxJWKSBytes = 256 << 10
	MaxKeys      = 64
)

// Key is one public key of an issuer, with the one algorithm that it is used for
// (RFC 8725bis section 3.1).
type Key struct {
	ID        string // kid, "" when the issuer gave none
	Algorithm string // one of [DefaultAlgorithms]
	Public    crypto.PublicKey
}

// ParseJWKS reads an issuer's key set (RFC 7517 section 5) and returns the keys
// that may verify tokens, in order. Keys that may not are left out; a document
// that breaks the limits or leaves no usable key is an error.
func ParseJWKS(b []byte) ([]Key, error) {
	keys, _, err := ParseJWKSReport(b)
	return keys, err
}

// ParseJWKSReport is [ParseJWKS] that also says which keys were left out and
// why, a line each, for the log.
func ParseJWKSReport(b []byte) (keys []Key, dropped []string, err error) {
	return nil, nil, errors.New("read key set: not implemented")
}

// EncodeJWKS writes keys in the one form that the keykeeper sends: kty, kid,
// alg, use and the public members. [ParseJWKS] reads back the same keys.
func EncodeJWKS(keys []Key) []byte {
	return []byte(`{"keys":[]}`)
}

// KeySet is all issuers' current keys. It is immutable; nil is an empty set.
type KeySet struct {
	byIssuer map[identity.Issuer][]Key
}

// NewKeySet returns the set of the given keys.
func NewKeySet(keys map[identity.Issuer][]Key) *KeySet {
	return &KeySet{}
}

// HasKeyID reports whether any issuer has a key of that id.
func (s *KeySet) HasKeyID(kid string) bool { return false }

// Keys returns an issuer's keys; they must not be changed.
func (s *KeySet) Keys(iss identity.Issuer) []Key {
	if s == nil {
		return nil
	}
	return s.byIssuer[iss]
}

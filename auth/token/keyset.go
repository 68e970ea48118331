package token

import (
	"crypto"
	"maps"
	"slices"

	"gatehouse/auth/identity"
)

// Key is one public key of an issuer, with the one algorithm that it is used for
// (RFC 8725bis section 3.1).
type Key struct {
	ID        string           // kid, "" when the issuer gave none
	Algorithm string           // one of [DefaultAlgorithms]
	Public    crypto.PublicKey // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// Equal reports whether two keys have the same id, algorithm and public key. An
// issuer that puts another key under an old id has withdrawn the old one.
func (k Key) Equal(other Key) bool {
	return k.ID == other.ID && k.sameKey(&other)
}

func (k *Key) sameKey(other *Key) bool {
	if k.Algorithm != other.Algorithm {
		return false
	}
	public, ok := k.Public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(other.Public)
}

// KeySet is all issuers' current keys. It is immutable; nil is an empty set.
type KeySet struct {
	byIssuer map[identity.Issuer][]Key
	byID     map[string][]candidate
}

// NewKeySet returns the set of the given keys. Of two keys of one issuer with
// the same id the first counts, as in [ParseJWKS].
func NewKeySet(keys map[identity.Issuer][]Key) *KeySet {
	s := &KeySet{byIssuer: make(map[identity.Issuer][]Key, len(keys)), byID: map[string][]candidate{}}
	for _, iss := range slices.Sorted(maps.Keys(keys)) {
		own := slices.Clone(keys[iss])
		s.byIssuer[iss] = own
		for i := range own {
			k := &own[i]
			sameIssuer := func(c candidate) bool { return c.issuer == iss }
			if k.ID == "" || slices.ContainsFunc(s.byID[k.ID], sameIssuer) {
				continue
			}
			s.byID[k.ID] = append(s.byID[k.ID], candidate{iss, k})
		}
	}
	return s
}

// HasKeyID reports whether any issuer has a key of that id.
func (s *KeySet) HasKeyID(kid string) bool { return len(s.find(kid)) > 0 }

// Keys returns an issuer's keys; they must not be changed.
func (s *KeySet) Keys(iss identity.Issuer) []Key {
	if s == nil {
		return nil
	}
	return s.byIssuer[iss]
}

func (s *KeySet) find(kid string) []candidate {
	if s == nil || kid == "" {
		return nil
	}
	return s.byID[kid]
}

// Package authtest mints tokens for tests: good ones, and every broken one of
// the validation tables by the name of its attack. It signs with keys that it
// makes itself, opens no network, and is for tests only.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"fmt"
	"math/big"
	"sync/atomic"

	"gatehouse/auth/token"
)

// Key is a private key with the one algorithm it signs with.
type Key struct {
	ID        string
	Algorithm string
	Private   crypto.Signer
}

var keyCount atomic.Int64

// NewKey makes a key for one of the algorithms that package token supports, with
// an id that no other key of this process has. RSA keys have 2048 bits.
func NewKey(alg string) *Key {
	var private crypto.Signer
	var err error
	switch alg {
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA", "Ed25519":
		alg = "EdDSA"
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		panic("authtest: no such algorithm: " + alg)
	}
	if err != nil {
		panic("authtest: make key: " + err.Error())
	}
	return newKey(alg, private)
}

func newKey(alg string, private crypto.Signer) *Key {
	return &Key{ID: fmt.Sprintf("%s-%d", alg, keyCount.Add(1)), Algorithm: alg, Private: private}
}

// As returns the same private key as a key of its own for another algorithm.
// It saves the time of making one.
func (k *Key) As(alg string) *Key { return newKey(alg, k.Private) }

// Public returns the verifying half.
func (k *Key) Public() token.Key {
	return token.Key{ID: k.ID, Algorithm: k.Algorithm, Public: k.Private.Public()}
}

// JWKS returns the key set document of the given keys.
func JWKS(keys ...*Key) []byte {
	public := make([]token.Key, len(keys))
	for i, k := range keys {
		public[i] = k.Public()
	}
	return token.EncodeJWKS(public)
}

// Sign signs as RFC 7518 and RFC 8037 say.
func (k *Key) Sign(input string) []byte { return k.sign(input, rsa.PSSSaltLengthEqualsHash) }

// sign is Sign with a choice of the PSS salt's length.
func (k *Key) sign(input string, salt int) []byte {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[k.Algorithm[2:]]
	digest := []byte(input)
	if hash != 0 {
		h := hash.New()
		h.Write(digest)
		digest = h.Sum(nil)
	}
	var opts crypto.SignerOpts = hash
	if k.Algorithm[:2] == "PS" {
		opts = &rsa.PSSOptions{SaltLength: salt, Hash: hash}
	}
	sig, err := k.Private.Sign(rand.Reader, digest, opts)
	if err != nil {
		panic("authtest: sign: " + err.Error())
	}
	if private, ok := k.Private.(*ecdsa.PrivateKey); ok {
		r, s := splitDER(sig)
		return joinRS(private.Curve, r, s)
	}
	return sig
}

func splitDER(der []byte) (r, s *big.Int) {
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		panic("authtest: " + err.Error())
	}
	return parts.R, parts.S
}

// joinRS writes r and s with fixed lengths (RFC 7518 section 3.4).
func joinRS(curve elliptic.Curve, r, s *big.Int) []byte {
	size := (curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*size)
	r.FillBytes(out[:size])
	s.FillBytes(out[size:])
	return out
}

package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"slices"

	"github.com/golang-jwt/jwt/v5"
)

// signingMethods are the only algorithms there are: asymmetric ones. No
// symmetric one can be reached from a request.
var signingMethods = map[string]jwt.SigningMethod{
	"RS256": jwt.SigningMethodRS256,
	"RS384": jwt.SigningMethodRS384,
	"RS512": jwt.SigningMethodRS512,
	"PS256": strictPSS(jwt.SigningMethodPS256),
	"PS384": strictPSS(jwt.SigningMethodPS384),
	"PS512": strictPSS(jwt.SigningMethodPS512),
	"ES256": jwt.SigningMethodES256,
	"ES384": jwt.SigningMethodES384,
	"ES512": jwt.SigningMethodES512,
	"EdDSA": jwt.SigningMethodEdDSA,
}

// strictPSS wants a salt as long as the hash (RFC 7518 section 3.5), where the
// library takes any length.
func strictPSS(m *jwt.SigningMethodRSAPSS) *jwt.SigningMethodRSAPSS {
	strict := *m
	strict.VerifyOptions = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
	return &strict
}

// canonicalAlgorithm maps the second name of EdDSA with Ed25519 (RFC 9864) to
// the first and leaves every other name as it is.
func canonicalAlgorithm(alg string) string {
	if alg == "Ed25519" {
		return "EdDSA"
	}
	return alg
}

// checkSignature tries the candidates, at most one an issuer, and keeps those
// whose key holds: one, or several when issuers share a key.
func checkSignature(j *judgement) *Refusal {
	input := j.raw[:len(j.headerPart)+1+len(j.payloadPart)]
	tried := j.candidates
	for i, c := range tried {
		if !fits(c.key.Algorithm, c.key.Public) {
			continue
		}
		if signingMethods[c.key.Algorithm].Verify(input, j.signature, c.key.Public) == nil {
			j.candidates = tried[i : i+1 : i+1]
			for _, other := range tried[i+1:] {
				if other.key.sameKey(c.key) {
					j.candidates = append(j.candidates, other)
				}
			}
			j.settle(j.candidates[0])
			return nil
		}
	}
	return refuse(KindUnverifiable, "the signature does not hold under %s", describe(tried))
}

// settle says whose token this is.
func (j *judgement) settle(c candidate) {
	j.policy = j.verifier.policies[c.issuer]
	j.rules = profiles[j.policy.Profile]
	j.token.Principal.Issuer = c.issuer
	j.token.KeyID = c.key.ID
	j.token.leeway = j.policy.Leeway
}

// fits reports whether a key is of the type that its algorithm needs; one that
// came through ParseJWKS always is.
func fits(alg string, public crypto.PublicKey) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return alg[0] == 'R' || alg[0] == 'P'
	case *ecdsa.PublicKey:
		return alg == curveAlgorithm(k.Curve)
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

func describe(cs []candidate) string {
	var names []string
	for _, c := range cs {
		names = append(names, fmt.Sprintf("key %s of issuer %s", quote(c.key.ID), quote(string(c.issuer))))
	}
	slices.Sort(names)
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprint(names)
}

func showSignature(j *judgement) string {
	return fmt.Sprintf("holds under key %s of issuer %s", quote(j.token.KeyID), quote(string(j.policy.Issuer)))
}

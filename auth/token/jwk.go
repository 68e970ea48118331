package token

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of RSA keys (NIST SP 800-131A, RFC 7518 section 3.3).
const (
	minRSABits     = 2048
	maxRSABits     = 8192
	minRSAExponent = 65537
)

// bytesOf decodes a base64url member of at most limit bytes.
func (o object) bytesOf(name string, limit int) ([]byte, error) {
	s, found, err := o.text(name, base64.RawURLEncoding.EncodedLen(limit))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("it has no %s", name)
	}
	if strings.ContainsAny(s, "\r\n") {
		return nil, fmt.Errorf("%s is not base64url", name)
	}
	b, err := base64url.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%s is not base64url", name)
	}
	return b, nil
}

func parseRSA(o object) (*rsa.PublicKey, error) {
	nb, err := o.bytesOf("n", maxRSABits/8+1) // some write a zero byte in front
	if err != nil {
		return nil, err
	}
	eb, err := o.bytesOf("e", 8)
	if err != nil {
		return nil, err
	}
	n, e := new(big.Int).SetBytes(nb), new(big.Int).SetBytes(eb)
	switch bits := n.BitLen(); {
	case bits < minRSABits || bits > maxRSABits:
		return nil, fmt.Errorf("its modulus has %d bits, want %d to %d", bits, minRSABits, maxRSABits)
	case n.Bit(0) == 0:
		return nil, errors.New("its modulus is even")
	case e.BitLen() > 31 || e.Int64() < minRSAExponent || e.Bit(0) == 0:
		return nil, fmt.Errorf("its exponent is not an odd number from %d to 2^31", minRSAExponent)
	case fromWeakGenerator(n):
		return nil, errors.New("its modulus was made by a generator that leaks it (ROCA, CVE-2017-15361)")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

// fromWeakGenerator reports whether a modulus is of the form that one vendor's
// library makes (CVE-2017-15361): a power of 65537 modulo each small prime. Of
// sound keys fewer than one in 2^100 are.
func fromWeakGenerator(n *big.Int) bool {
	for p := int64(3); p <= 167; p += 2 {
		if !big.NewInt(p).ProbablyPrime(0) {
			continue
		}
		rest := new(big.Int).Mod(n, big.NewInt(p)).Int64()
		power, found := int64(1), false
		for range p {
			found = found || power == rest
			power = power * (65537 % p) % p
		}
		if !found {
			return false
		}
	}
	return true
}

var curves = []struct {
	name, alg string
	curve     elliptic.Curve
}{
	{"P-256", "ES256", elliptic.P256()},
	{"P-384", "ES384", elliptic.P384()},
	{"P-521", "ES512", elliptic.P521()},
}

// curveAlgorithm returns the algorithm that RFC 7518 section 3.4 ties to a curve.
func curveAlgorithm(curve elliptic.Curve) string {
	for _, c := range curves {
		if c.curve == curve {
			return c.alg
		}
	}
	return ""
}

func parseEC(o object) (*ecdsa.PublicKey, string, error) {
	crv, _, err := o.text("crv", 32)
	if err != nil {
		return nil, "", err
	}
	for _, c := range curves {
		if c.name != crv {
			continue
		}
		size := (c.curve.Params().BitSize + 7) / 8
		point := []byte{4} // uncompressed, SEC 1 section 2.3.3
		for _, name := range []string{"x", "y"} {
			b, err := o.bytesOf(name, size)
			if err != nil {
				return nil, "", err
			}
			if len(b) != size {
				return nil, "", fmt.Errorf("%s has %d bytes, want %d", name, len(b), size)
			}
			point = append(point, b...)
		}
		key, err := ecdsa.ParseUncompressedPublicKey(c.curve, point)
		if err != nil {
			return nil, "", errors.New("its point is not on the curve")
		}
		return key, c.alg, nil
	}
	return nil, "", fmt.Errorf("its curve %s is not supported", quote(crv))
}

func parseOKP(o object) (ed25519.PublicKey, string, error) {
	crv, _, err := o.text("crv", 32)
	if err != nil {
		return nil, "", err
	}
	if crv != "Ed25519" {
		return nil, "", fmt.Errorf("its curve %s is not supported", quote(crv))
	}
	x, err := o.bytesOf("x", ed25519.PublicKeySize)
	if err != nil {
		return nil, "", err
	}
	if len(x) != ed25519.PublicKeySize {
		return nil, "", fmt.Errorf("x has %d bytes, want %d", len(x), ed25519.PublicKeySize)
	}
	if err := checkEdwardsPoint(x); err != nil {
		return nil, "", err
	}
	return ed25519.PublicKey(x), "EdDSA", nil
}

// EncodeJWKS writes keys in the one form that the keykeeper sends: kty, kid, use,
// alg and the public members. ParseJWKS reads back the same keys; keys that it
// would leave out are written neither.
func EncodeJWKS(keys []Key) []byte {
	out := []byte(`{"keys":[`)
	first := true
	for _, k := range keys {
		members := publicMembers(k)
		if members == "" {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(out, '{')
		out = append(out, members...)
		if k.ID != "" {
			out = append(out, `,"kid":`...)
			out, _ = jsontext.AppendQuote(out, k.ID) // a kid is valid UTF-8
		}
		out = append(out, `,"use":"sig","alg":"`+k.Algorithm+`"}`...)
	}
	return append(out, `]}`...)
}

func publicMembers(k Key) string {
	if signingMethods[k.Algorithm] == nil || !fits(k.Algorithm, k.Public) {
		return ""
	}
	b64 := base64url.EncodeToString
	switch p := k.Public.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf(`"kty":"RSA","n":"%s","e":"%s"`, b64(p.N.Bytes()), b64(big.NewInt(int64(p.E)).Bytes()))
	case *ecdsa.PublicKey:
		point, err := p.Bytes()
		if err != nil {
			return ""
		}
		x, y := point[1:1+len(point)/2], point[1+len(point)/2:]
		return fmt.Sprintf(`"kty":"EC","crv":"%s","x":"%s","y":"%s"`, p.Curve.Params().Name, b64(x), b64(y))
	case ed25519.PublicKey:
		return fmt.Sprintf(`"kty":"OKP","crv":"Ed25519","x":"%s"`, b64(p))
	}
	return ""
}

package authtest

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"hash"
	"math/big"
	"slices"
	"strings"

	"gatehouse/auth/token"
)

// algorithms are rows A1 to A5 and A21: which algorithm a token may ask for.
func (w *World) algorithms(i *Issuer) []recipe {
	const malformed, unverifiable, unknown = token.KindMalformed, token.KindUnverifiable, token.KindUnknownKey
	public := i.Current().Private.Public().(*rsa.PublicKey)
	pkix, _ := x509.MarshalPKIXPublicKey(public)
	pkcs1 := x509.MarshalPKCS1PublicKey(public)
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	signature := func(make func(input string) []byte) Change { return func(d *Draft) { d.Signature = make } }
	mac := func(h func() hash.Hash, secret []byte) Change {
		return signature(func(input string) []byte {
			m := hmac.New(h, secret)
			m.Write([]byte(input))
			return m.Sum(nil)
		})
	}
	out := []recipe{
		bad("A1", "alg none without a signature", malformed, Header("alg", "none"), signature(func(string) []byte { return nil })),
		bad("A1", "alg none", unverifiable, Header("alg", "none")),
		bad("A1", "alg None", unverifiable, Header("alg", "None")),
		bad("A1", "alg nOnE", unverifiable, Header("alg", "nOnE")),
		bad("A1", "alg empty", malformed, Header("alg", "")),
		bad("A2", "HS256 keyed with the public key as PEM", unverifiable, Header("alg", "HS256"), mac(sha256.New, asPEM)),
		bad("A2", "HS256 keyed with the public key as DER", unverifiable, Header("alg", "HS256"), mac(sha256.New, pkix)),
		bad("A2", "HS256 keyed with the public key as PKCS 1", unverifiable, Header("alg", "HS256"), mac(sha256.New, pkcs1)),
		bad("A2", "HS256 keyed with the modulus", unverifiable, Header("alg", "HS256"), mac(sha256.New, public.N.Bytes())),
		bad("A2", "HS512 keyed with the public key as PEM", unverifiable, Header("alg", "HS512"), mac(sha512.New, asPEM)),
		bad("A2", "HS256 under a published symmetric key", unverifiable, Header("alg", "HS256"), Header("kid", "shared-secret"), mac(sha256.New, []byte("secret"))),
		bad("A2", "RS256 under a published symmetric key", unknown, Header("kid", "shared-secret")),
		bad("A3", "alg missing", malformed, WithoutHeader("alg")),
		bad("A3", "alg an array", malformed, Header("alg", []string{"RS256"})),
		bad("A3", "alg null", malformed, Header("alg", nil)),
		bad("A3", "alg a number", malformed, Header("alg", 256)),
		bad("A3", "alg in lower case", unverifiable, Header("alg", "rs256")),
		bad("A3", "alg with a space behind", unverifiable, Header("alg", "RS256 ")),
		bad("A3", "alg with a NUL behind", malformed, Header("alg", "RS256\x00")),
		bad("A4", "PS256 under an RS256 key", unverifiable, SignedAs(i.Current().As("PS256")), Header("alg", "PS256")),
		bad("A4", "RS512 under an RS256 key", unverifiable, SignedAs(i.Current().As("RS512")), Header("alg", "RS512")),
		bad("A4", "RS256 under a PS256 key", unverifiable, Header("kid", w.keys["PS256"].ID), SignedAs(w.keys["PS256"].As("RS256"))),
		bad("A4", "ES384 under an ES256 key", unverifiable, SignedBy(w.keys["ES256"]), Header("alg", "ES384")),
		bad("A4", "ES256 under an RS256 key", unverifiable, SignedAs(w.keys["ES256"]), Header("alg", "ES256")),
		bad("A4", "EdDSA under an ES256 key", unverifiable, SignedBy(w.keys["ES256"]), Header("alg", "EdDSA")),
		bad("A4", "ES256K", unverifiable, Header("alg", "ES256K")),
		bad("A4", "Ed448", unverifiable, SignedBy(w.keys["EdDSA"]), Header("alg", "Ed448")),
		bad("A4", "RSA1_5", unverifiable, Header("alg", "RSA1_5")),
		good("A21", "Ed25519, the newer name of EdDSA", SignedBy(w.keys["EdDSA"]), Header("alg", "Ed25519")),
		bad("A21", "Ed25519 under an RS256 key", unverifiable, Header("alg", "Ed25519")),
	}
	for _, name := range []string{"use enc", "key_ops encrypt", "alg RSA-OAEP", "private member"} {
		out = append(out, bad("A5", "published key with "+name, unknown, SignedBy(w.hidden[name])))
	}
	for _, alg := range token.DefaultAlgorithms() {
		out = append(out, good("ok", "plain "+alg, SignedBy(keyOf(i, alg))))
	}
	return out
}

func keyOf(i *Issuer, alg string) *Key {
	return i.Keys[slices.IndexFunc(i.Keys, func(k *Key) bool { return k.Algorithm == alg })]
}

// signatures are rows A6 to A8: signatures that are wrong, or right in two ways.
func (w *World) signatures(i *Issuer) []recipe {
	const malformed, unverifiable = token.KindMalformed, token.KindUnverifiable
	with := func(alg string, make func(k *Key, input string) []byte) []Change {
		return []Change{SignedBy(w.keys[alg]), func(d *Draft) {
			d.Signature = func(input string) []byte { return make(d.Key, input) }
		}}
	}
	salted := func(alg string, salt int) []Change {
		return with(alg, func(k *Key, input string) []byte { return k.sign(input, salt) })
	}
	rs := func(edit func(c *ecdsa.PublicKey, r, s *big.Int) (*big.Int, *big.Int)) []Change {
		return with("ES256", func(k *Key, input string) []byte {
			sig := k.Sign(input)
			public := &k.Private.(*ecdsa.PrivateKey).PublicKey
			r, s := new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
			r, s = edit(public, r, s)
			return joinRS(public.Curve, r, s)
		})
	}
	edited := func(alg string, edit func(sig []byte) []byte) []Change {
		return with(alg, func(k *Key, input string) []byte { return edit(k.Sign(input)) })
	}
	zero := func(*ecdsa.PublicKey, *big.Int, *big.Int) (*big.Int, *big.Int) { return new(big.Int), new(big.Int) }
	order := func(c *ecdsa.PublicKey) *big.Int { return c.Curve.Params().N }
	edit := func(n int) Change {
		return Finally(func(s string) string {
			parts := strings.Split(s, ".")
			half := len(parts[n]) / 2
			parts[n] = otherLetter(parts[n][:half]) + parts[n][half:]
			return strings.Join(parts, ".")
		})
	}
	return []recipe{
		bad("A6", "PS256 with an empty salt", unverifiable, salted("PS256", 0)...),
		bad("A6", "PS256 with a salt one byte short", unverifiable, salted("PS256", 31)...),
		bad("A6", "PS256 with a salt one byte long", unverifiable, salted("PS256", 33)...),
		bad("A6", "PS384 with the salt of PS256", unverifiable, salted("PS384", 32)...),
		bad("A6", "PS512 with the longest salt", unverifiable, salted("PS512", rsa.PSSSaltLengthAuto)...),
		bad("A7", "ES256 with r and s zero", unverifiable, rs(zero)...),
		bad("A7", "ES256 with r zero", unverifiable, rs(func(_ *ecdsa.PublicKey, _, s *big.Int) (*big.Int, *big.Int) { return new(big.Int), s })...),
		bad("A7", "ES256 with s zero", unverifiable, rs(func(_ *ecdsa.PublicKey, r, _ *big.Int) (*big.Int, *big.Int) { return r, new(big.Int) })...),
		bad("A7", "ES256 with r and s the order", unverifiable, rs(func(c *ecdsa.PublicKey, _, _ *big.Int) (*big.Int, *big.Int) { return order(c), order(c) })...),
		bad("A7", "ES256 with r and s one", unverifiable, rs(func(*ecdsa.PublicKey, *big.Int, *big.Int) (*big.Int, *big.Int) { return big.NewInt(1), big.NewInt(1) })...),
		bad("A7", "ES256 with r and s exchanged", unverifiable, rs(func(_ *ecdsa.PublicKey, r, s *big.Int) (*big.Int, *big.Int) { return s, r })...),
		bad("A7", "ES256 in DER form", unverifiable, edited("ES256", derForm)...),
		bad("A7", "ES256 one byte short", unverifiable, edited("ES256", func(s []byte) []byte { return s[:63] })...),
		bad("A7", "ES256 with a zero byte in front", unverifiable, edited("ES256", func(s []byte) []byte { return append([]byte{0}, s...) })...),
		bad("A7", "ES256 with a zero byte behind", unverifiable, edited("ES256", func(s []byte) []byte { return append(s, 0) })...),
		good("A8", "ES256 with s turned into n - s", rs(func(c *ecdsa.PublicKey, r, s *big.Int) (*big.Int, *big.Int) {
			return r, new(big.Int).Sub(order(c), s)
		})...),
		bad("A7", "EdDSA with the order added to S", unverifiable, edited("EdDSA", addOrder)...),
		bad("A7", "EdDSA all zero", unverifiable, edited("EdDSA", func(s []byte) []byte { return make([]byte, len(s)) })...),
		bad("A7", "EdDSA one byte short", unverifiable, edited("EdDSA", func(s []byte) []byte { return s[:63] })...),
		bad("A7", "RS256 all zero", unverifiable, edited("RS256", func(s []byte) []byte { return make([]byte, len(s)) })...),
		bad("A7", "RS256 one byte short", unverifiable, edited("RS256", func(s []byte) []byte { return s[:len(s)-1] })...),
		bad("A7", "RS256 with a zero byte in front", unverifiable, edited("RS256", func(s []byte) []byte { return append([]byte{0}, s...) })...),
		bad("A7", "a signature longer than any", malformed, edited("RS256", func([]byte) []byte { return make([]byte, 1025) })...),
		bad("A7", "one letter of the signature changed", unverifiable, edit(2)),
		bad("A7", "one letter of the payload changed", unverifiable, edit(1)),
		bad("A7", "signed by a stranger under our kid", unverifiable, SignedAs(w.attacker)),
		bad("A7", "signature of another token", unverifiable, Finally(func(s string) string {
			other := i.Mint()
			return s[:strings.LastIndexByte(s, '.')] + other[strings.LastIndexByte(other, '.'):]
		})),
	}
}

func derForm(sig []byte) []byte {
	half := len(sig) / 2
	der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(sig[:half]), new(big.Int).SetBytes(sig[half:])})
	if err != nil {
		panic("authtest: " + err.Error())
	}
	return der
}

// addOrder makes the other encoding of an Ed25519 signature that a sloppy
// verifier takes too (RFC 8032 section 8.4).
func addOrder(sig []byte) []byte {
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(sig[32:])
	slices.Reverse(s)
	sum := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
	slices.Reverse(sum)
	return append(slices.Clone(sig[:32]), sum...)
}

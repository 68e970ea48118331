package token_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// vectors judges tokens with one key and signatures made by hand, in the manner
// of the public vector collections.
type vectors struct {
	t      *testing.T
	issuer *authtest.Issuer
	v      *token.Verifier
	keys   *token.KeySet
	tried  int
}

func newVectors(t *testing.T, key *authtest.Key) *vectors {
	i := authtest.NewIssuer(authtest.IssuerURL)
	i.Now = world().Issuer.Now
	i.Keys = []*authtest.Key{key}
	x := &vectors{t: t, issuer: i, v: authtest.NewVerifier(i), keys: authtest.KeySet(i)}
	mustVerify(t, x.v, i.Mint(), x.keys)
	return x
}

// refuse wants a signature refused.
func (x *vectors) refuse(name string, sign func(input string) []byte) {
	x.t.Helper()
	x.tried++
	raw := x.issuer.Mint(func(d *authtest.Draft) { d.Signature = sign })
	_, err := x.v.Verify(raw, audiences(), x.keys, now)
	r, ok := err.(*token.Refusal)
	if !ok {
		x.t.Errorf("%s: accepted", name)
		return
	}
	if r.Kind != token.KindUnverifiable && r.Kind != token.KindMalformed {
		x.t.Errorf("%s: %v, want it refused before the payload is read", name, r)
	}
}

func (x *vectors) key() *authtest.Key { return x.issuer.Current() }

// TestVectorsEdits flips bits all over a signature, cuts it and lengthens it.
func TestVectorsEdits(t *testing.T) {
	for _, alg := range token.DefaultAlgorithms() {
		t.Run(alg, func(t *testing.T) {
			x := newVectors(t, authtest.NewKey(alg))
			size := len(x.key().Sign("x"))
			for n := 0; n < size; n += 1 + size/64 {
				x.refuse(fmt.Sprintf("bit of byte %d", n), func(in string) []byte {
					s := x.key().Sign(in)
					s[n] ^= 1 << (n % 8)
					return s
				})
			}
			for _, n := range []int{1, size / 2, size - 1} {
				x.refuse(fmt.Sprintf("first %d bytes", n), func(in string) []byte { return x.key().Sign(in)[:n] })
				x.refuse(fmt.Sprintf("last %d bytes", n), func(in string) []byte { return x.key().Sign(in)[size-n:] })
			}
			x.refuse("twice", func(in string) []byte { s := x.key().Sign(in); return append(s, s...) })
			x.refuse("zero behind", func(in string) []byte { return append(x.key().Sign(in), 0) })
			x.refuse("zero in front", func(in string) []byte { return append([]byte{0}, x.key().Sign(in)...) })
			x.refuse("all zero", func(string) []byte { return make([]byte, size) })
			x.refuse("all ones", func(string) []byte { return bytes.Repeat([]byte{0xff}, size) })
			x.refuse("of the payload alone", func(in string) []byte { return x.key().Sign(in[strings.IndexByte(in, '.')+1:]) })
			x.refuse("of the input with a dot", func(in string) []byte { return x.key().Sign(in + ".") })
			x.refuse("of nothing", func(string) []byte { return x.key().Sign("") })
			x.refuse("of another key", authtest.NewKey(alg).Sign)
		})
	}
}

// TestVectorsECDSA tries every pair of the numbers at which implementations failed.
func TestVectorsECDSA(t *testing.T) {
	for _, alg := range []string{"ES256", "ES384", "ES512"} {
		t.Run(alg, func(t *testing.T) {
			x := newVectors(t, authtest.NewKey(alg))
			params := x.key().Private.Public().(*ecdsa.PublicKey).Curve.Params()
			size := (params.BitSize + 7) / 8
			n, p := params.N, params.P
			add := func(a *big.Int, b int64) *big.Int { return new(big.Int).Add(a, big.NewInt(b)) }
			most := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(8*size)), big.NewInt(1))
			edges := []*big.Int{big.NewInt(0), big.NewInt(1), big.NewInt(2), add(n, -1), n, add(n, 1), add(p, -1), p, add(p, 1),
				new(big.Int).Rsh(n, 1), params.Gx, most}
			for _, r := range edges {
				for _, s := range edges {
					x.refuse(fmt.Sprintf("r=%x s=%x", r, s), func(string) []byte {
						sig := make([]byte, 2*size)
						r.FillBytes(sig[:size])
						s.FillBytes(sig[size:])
						return sig
					})
				}
			}
			// One true half beside each edge.
			for _, e := range edges {
				x.refuse(fmt.Sprintf("true r, s=%x", e), func(in string) []byte { s := x.key().Sign(in); e.FillBytes(s[size:]); return s })
				x.refuse(fmt.Sprintf("r=%x, true s", e), func(in string) []byte { s := x.key().Sign(in); e.FillBytes(s[:size]); return s })
			}
			if alg != "ES512" {
				return // r + n fits the smaller curves' length once in 2^32 times
			}
			for half := range 2 { // the same number, encoded otherwise
				x.refuse("order added", func(in string) []byte {
					sig := x.key().Sign(in)
					part := sig[half*size : (half+1)*size]
					new(big.Int).Add(new(big.Int).SetBytes(part), n).FillBytes(part)
					return sig
				})
			}
		})
	}
}

// TestVectorsRSAPadding signs encoded messages that are wrong in one place, with
// the private exponent itself (RFC 8017 section 9.2).
func TestVectorsRSAPadding(t *testing.T) {
	x := newVectors(t, authtest.NewKey("RS256"))
	private := x.key().Private.(*rsa.PrivateKey)
	size := private.Size()
	prefix := []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	noNull := []byte{0x30, 0x2f, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x04, 0x20}
	longForm := []byte{0x30, 0x81, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}
	sha512OID := append(bytes.Clone(prefix[:14]), append([]byte{0x03}, prefix[15:]...)...)
	rawSign := func(em []byte) []byte {
		m := new(big.Int).SetBytes(em)
		return m.Exp(m, private.D, private.N).FillBytes(make([]byte, size))
	}
	encode := func(block byte, info, digest, trailer []byte) []byte {
		fill := size - 3 - len(info) - len(digest) - len(trailer)
		em := append([]byte{0, block}, bytes.Repeat([]byte{0xff}, fill)...)
		return bytes.Join([][]byte{em, {0}, info, digest, trailer}, nil)
	}
	digest := func(in string) []byte { d := sha256.Sum256([]byte(in)); return d[:] }
	control := x.issuer.Mint(func(d *authtest.Draft) {
		d.Signature = func(in string) []byte { return rawSign(encode(1, prefix, digest(in), nil)) }
	})
	mustVerify(t, x.v, control, x.keys)

	short := func(in string) []byte { // eight bytes of padding, then garbage behind (Bleichenbacher 2006)
		em := append([]byte{0, 1}, bytes.Repeat([]byte{0xff}, 8)...)
		em = bytes.Join([][]byte{em, {0}, prefix, digest(in)}, nil)
		return append(em, make([]byte, size-len(em))...)
	}
	edit := func(at int, to byte) func(string) []byte {
		return func(in string) []byte {
			em := encode(1, prefix, digest(in), nil)
			em[at] = to
			return em
		}
	}
	for name, em := range map[string]func(string) []byte{
		"block type 0":        func(in string) []byte { return encode(0, prefix, digest(in), nil) },
		"block type 2":        func(in string) []byte { return encode(2, prefix, digest(in), nil) },
		"leading byte":        edit(0, 1),
		"padding of 0xfe":     edit(5, 0xfe),
		"padding of zero":     edit(5, 0),
		"no separator":        edit(size-len(prefix)-33, 0xff),
		"no NULL":             func(in string) []byte { return encode(1, noNull, digest(in), nil) },
		"length in long form": func(in string) []byte { return encode(1, longForm, digest(in), nil) },
		"name of SHA-512":     func(in string) []byte { return encode(1, sha512OID, digest(in), nil) },
		"garbage behind":      func(in string) []byte { return encode(1, prefix, digest(in), []byte{1, 2, 3, 4}) },
		"zeros behind":        func(in string) []byte { return encode(1, prefix, digest(in), make([]byte, 8)) },
		"short padding":       short,
		"no algorithm":        func(in string) []byte { return encode(1, nil, digest(in), nil) },
		"digest of the digest": func(in string) []byte {
			return encode(1, prefix, digest(string(digest(in))), nil)
		},
	} {
		x.refuse(name, func(in string) []byte { return rawSign(em(in)) })
	}
	n := private.N
	for name, number := range map[string]*big.Int{"0": new(big.Int), "1": big.NewInt(1), "n": n, "n - 1": new(big.Int).Sub(n, big.NewInt(1))} {
		x.refuse("signature "+name, func(string) []byte { return number.FillBytes(make([]byte, size)) })
	}
	x.refuse("n added", func(in string) []byte {
		sum := new(big.Int).Add(new(big.Int).SetBytes(x.key().Sign(in)), n)
		return sum.FillBytes(make([]byte, size+1))
	})
}

// TestVectorsSalt tries every length of a PSS salt: only the hash's own is right.
func TestVectorsSalt(t *testing.T) {
	for alg, hash := range map[string]crypto.Hash{"PS256": crypto.SHA256, "PS384": crypto.SHA384, "PS512": crypto.SHA512} {
		x := newVectors(t, authtest.NewKey(alg))
		private := x.key().Private.(*rsa.PrivateKey)
		for _, salt := range []int{1, 8, 20, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100, rsa.PSSSaltLengthAuto} {
			if salt == hash.Size() {
				continue
			}
			x.refuse(fmt.Sprintf("%s with a salt of %d", alg, salt), func(in string) []byte {
				h := hash.New()
				h.Write([]byte(in))
				sig, err := private.Sign(rand.Reader, h.Sum(nil), &rsa.PSSOptions{SaltLength: salt, Hash: hash})
				if err != nil {
					t.Fatal(err)
				}
				return sig
			})
		}
	}
}

// TestWrongKindsOfKey holds that a key set made by hand, with keys of the wrong
// type, refuses and does not panic.
func TestWrongKindsOfKey(t *testing.T) {
	v := world().Verifier()
	raw := world().Issuer.Mint(authtest.Header("kid", "k"))
	ec := authtest.NewKey("ES256").Private.Public()
	for _, public := range []crypto.PublicKey{nil, "key", ec, []byte("secret"), rsa.PublicKey{}} {
		keys := token.NewKeySet(map[identity.Issuer][]token.Key{authtest.IssuerURL: {{ID: "k", Algorithm: "RS256", Public: public}}})
		if r := refusal(t, v, raw, keys); r.Kind != token.KindUnverifiable {
			t.Errorf("key of type %T: %v", public, r)
		}
	}
}

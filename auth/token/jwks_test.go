package token_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func set(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

// rsaJWK writes an RSA key with a modulus of our choice.
func rsaJWK(n *big.Int, e int64, members string) string {
	return fmt.Sprintf(`{"kty":"RSA","kid":"k","n":"%s","e":"%s"%s}`, b64(n.Bytes()), b64(big.NewInt(e).Bytes()), members)
}

// oddNumber is a modulus as far as the rules of size go.
func oddNumber(bits int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return n.Add(n, big.NewInt(0x1234567)) // odd, and no power of 65537 modulo the small primes
}

func okpJWK(x []byte) string { return `{"kty":"OKP","kid":"k","crv":"Ed25519","x":"` + b64(x) + `"}` }

func littleEndian(y *big.Int, sign byte) []byte {
	b := y.FillBytes(make([]byte, 32))
	for i := range 16 {
		b[i], b[31-i] = b[31-i], b[i]
	}
	b[31] |= sign << 7
	return b
}

// weakModulus has the form of CVE-2017-15361: 65537^a modulo every small prime.
func weakModulus() *big.Int {
	m := big.NewInt(1)
	for p := int64(2); p <= 167; p++ {
		if big.NewInt(p).ProbablyPrime(0) {
			m.Mul(m, big.NewInt(p))
		}
	}
	rest := new(big.Int).Exp(big.NewInt(65537), big.NewInt(4711), m)
	k := new(big.Int).Lsh(big.NewInt(1), uint(2047-m.BitLen()+1))
	n := k.Mul(k, m)
	return n.Add(n, rest)
}

// keyCases are single keys and why each is left out; "" means it is taken.
func keyCases() []struct{ name, jwk, why string } {
	rs, es, ed := authtest.NewKey("RS256"), authtest.NewKey("ES256"), authtest.NewKey("EdDSA")
	with := func(k *authtest.Key, members string) string { return authtest.JWK(k, `,"kid":"k"`+members) }
	p256 := es.Private.Public().(*ecdsa.PublicKey)
	point, _ := p256.Bytes()
	ec := func(crv string, x, y []byte, members string) string {
		return fmt.Sprintf(`{"kty":"EC","kid":"k","crv":"%s","x":"%s","y":"%s"%s}`, crv, b64(x), b64(y), members)
	}
	x, y := point[1:33], point[33:]
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	offset := func(n int64) []byte { return littleEndian(new(big.Int).Add(prime, big.NewInt(n)), 0) }
	return []struct{ name, jwk, why string }{
		{"RSA", with(rs, `,"use":"sig","alg":"RS256"`), ""},
		{"RSA without alg", with(rs, ``), ""},
		{"RSA with certificate, not read", with(rs, `,"x5c":["not a certificate"],"x5t":"x"`), ""},
		{"RSA with key_ops", with(rs, `,"key_ops":["sign","verify"]`), ""},
		{"EC", with(es, `,"use":"sig","alg":"ES256"`), ""},
		{"OKP with the older name", with(ed, `,"alg":"EdDSA"`), ""},
		{"OKP with the newer name", with(ed, `,"alg":"Ed25519"`), ""},
		{"RSA of 2048 bits", rsaJWK(oddNumber(2048), 65537, ""), ""},
		{"RSA of 8192 bits", rsaJWK(oddNumber(8192), 65537, ""), ""},
		{"RSA with a zero byte in front", strings.Replace(rsaJWK(oddNumber(2048), 65537, ""), `"n":"`, `"n":"AAAA`, 1), ""},

		{"RSA of 1024 bits", rsaJWK(oddNumber(1024), 65537, ""), "1024 bits"},
		{"RSA of 2047 bits", rsaJWK(oddNumber(2047), 65537, ""), "2047 bits"},
		{"RSA of 8193 bits", rsaJWK(oddNumber(8193), 65537, ""), "8193 bits"},
		{"RSA of 16384 bits", rsaJWK(oddNumber(16384), 65537, ""), "n is"},
		{"RSA with exponent 1", rsaJWK(oddNumber(2048), 1, ""), "exponent"},
		{"RSA with exponent 3", rsaJWK(oddNumber(2048), 3, ""), "exponent"},
		{"RSA with exponent 0", strings.Replace(rsaJWK(oddNumber(2048), 65537, ""), `"e":"AQAB"`, `"e":"AA"`, 1), "exponent"},
		{"RSA with an even exponent", rsaJWK(oddNumber(2048), 65538, ""), "exponent"},
		{"RSA with an exponent over 31 bits", rsaJWK(oddNumber(2048), 1<<33+1, ""), "exponent"},
		{"RSA with an even modulus", rsaJWK(new(big.Int).Add(oddNumber(2048), big.NewInt(1)), 65537, ""), "even"},
		{"RSA of the weak generator", rsaJWK(weakModulus(), 65537, ""), "ROCA"},
		{"RSA without n", `{"kty":"RSA","kid":"k","e":"AQAB"}`, "no n"},
		{"RSA without e", `{"kty":"RSA","kid":"k","n":"` + b64(oddNumber(2048).Bytes()) + `"}`, "no e"},
		{"RSA with n a number", `{"kty":"RSA","kid":"k","n":12345,"e":"AQAB"}`, "n is a number"},
		{"RSA with padded n", strings.Replace(rsaJWK(oddNumber(2048), 65537, ""), `","e"`, `==","e"`, 1), "base64url"},

		{"EC off the curve", ec("P-256", x, append([]byte{y[0] ^ 1}, y[1:]...), ""), "not on the curve"},
		{"EC at the origin", ec("P-256", make([]byte, 32), make([]byte, 32), ""), "not on the curve"},
		{"EC with a short x", ec("P-256", x[:31], y, ""), "x has 31 bytes"},
		{"EC with a long y", ec("P-256", x, append([]byte{0}, y...), ""), "y is"},
		{"EC on P-384 with a point of P-256", ec("P-384", x, y, ""), "x has 32 bytes"},
		{"EC on secp256k1", ec("secp256k1", x, y, ""), "not supported"},
		{"EC on P-224", ec("P-224", x[:28], y[:28], ""), "not supported"},
		{"EC without crv", `{"kty":"EC","kid":"k","x":"AA","y":"AA"}`, "not supported"},
		{"EC with the alg of another curve", with(es, `,"alg":"ES384"`), "its curve is for ES256"},
		{"EC with an RSA alg", with(es, `,"alg":"RS256"`), "its curve is for ES256"},
		{"EC for key agreement", with(es, `,"alg":"ECDH-ES"`), "verifies no signature"},
		{"RSA with an EC alg", with(rs, `,"alg":"ES256"`), "not for RSA"},
		{"RSA with EdDSA", with(rs, `,"alg":"EdDSA"`), "not for RSA"},
		{"RSA with alg none", with(rs, `,"alg":"none"`), "verifies no signature"},
		{"RSA with alg HS256", with(rs, `,"alg":"HS256"`), "verifies no signature"},
		{"RSA with alg RSA-OAEP", with(rs, `,"alg":"RSA-OAEP"`), "verifies no signature"},
		{"RSA with alg a number", with(rs, `,"alg":256`), "alg is a number"},

		{"OKP X25519", strings.Replace(with(ed, ``), "Ed25519", "X25519", 1), "not supported"},
		{"OKP Ed448", strings.Replace(with(ed, ``), "Ed25519", "Ed448", 1), "not supported"},
		{"OKP of 31 bytes", okpJWK(make([]byte, 31)), "31 bytes"},
		{"OKP off the curve", okpJWK(littleEndian(big.NewInt(2), 0)), "not on the curve"},
		{"OKP not canonical", okpJWK(offset(1)), "not canonical"},
		{"OKP at p", okpJWK(offset(0)), "not canonical"},
		{"OKP of order 1", okpJWK(littleEndian(big.NewInt(1), 0)), "small order"},
		{"OKP of order 1 with a sign", okpJWK(littleEndian(big.NewInt(1), 1)), "small order"},
		{"OKP of order 2", okpJWK(offset(-1)), "small order"},
		{"OKP of order 4", okpJWK(make([]byte, 32)), "small order"},
		{"OKP of order 4 with a sign", okpJWK(littleEndian(new(big.Int), 1)), "small order"},

		{"symmetric", `{"kty":"oct","kid":"k","alg":"HS256","k":"c2VjcmV0"}`, "private member k"},
		{"symmetric without its secret", `{"kty":"oct","kid":"k"}`, "kty is"},
		{"private RSA", with(rs, `,"d":"AQAB"`), "private member d"},
		{"private EC", with(es, `,"d":"AQAB"`), "private member d"},
		{"RSA with a prime", with(rs, `,"p":"AQAB"`), "private member p"},
		{"for encryption", with(rs, `,"use":"enc"`), "not sig"},
		{"use a number", with(rs, `,"use":1`), "use is a number"},
		{"use in upper case", with(rs, `,"use":"SIG"`), "not sig"},
		{"key_ops without verify", with(rs, `,"key_ops":["sign"]`), "do not have verify"},
		{"key_ops empty", with(rs, `,"key_ops":[]`), "do not have verify"},
		{"key_ops a string", with(rs, `,"key_ops":"verify"`), "key_ops"},
		{"key_ops of a number", with(rs, `,"key_ops":[1]`), "key_ops"},
		{"kty missing", `{"kid":"k"}`, "kty is"},
		{"kty in lower case", `{"kty":"rsa","kid":"k"}`, "kty is"},
		{"kid a number", authtest.JWK(rs, `,"kid":1`), "kid is a number"},
		{"kid empty", authtest.JWK(rs, `,"kid":""`), "kid is empty"},
		{"kid of 257 bytes", authtest.JWK(rs, `,"kid":"`+strings.Repeat("k", 257)+`"`), "257 bytes"},
		{"kid with a line feed", authtest.JWK(rs, `,"kid":"a\nb"`), "control character"},
		{"no object", `"key"`, "not a JSON object"},
	}
}

func TestParseJWKSKeys(t *testing.T) {
	good := authtest.JWK(authtest.NewKey("EdDSA"), `,"kid":"good"`)
	for _, c := range keyCases() {
		t.Run(c.name, func(t *testing.T) {
			keys, dropped, err := token.ParseJWKSReport([]byte(set(c.jwk, good)))
			if err != nil {
				t.Fatalf("one bad key refused the set: %v", err)
			}
			if c.why == "" {
				if len(keys) != 2 || keys[0].ID != "k" {
					t.Fatalf("left out: %v", dropped)
				}
				return
			}
			if len(keys) != 1 || keys[0].ID != "good" {
				t.Fatalf("taken: %+v", keys)
			}
			if len(dropped) != 1 || !strings.Contains(dropped[0], c.why) {
				t.Errorf("reason %q, want %q in it", dropped, c.why)
			}
			if _, err := token.ParseJWKS([]byte(set(c.jwk))); err == nil || !strings.Contains(err.Error(), "no usable key") {
				t.Errorf("a set of that key alone: %v, want an error", err)
			}
		})
	}
}

// TestSmallOrderPoints wants the four points of order eight refused; the
// other four are in the table above. Honest keys pass.
func TestSmallOrderPoints(t *testing.T) {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	d := new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), p))
	d.Mod(d, p)
	// A point of order 8 has x² = -y²; in the curve's equation that is
	// 2y² = 1 - d·y⁴, so y² = (-1 ± sqrt(1+d)) / d.
	root := new(big.Int).ModSqrt(new(big.Int).Mod(new(big.Int).Add(d, big.NewInt(1)), p), p)
	if root == nil {
		t.Fatal("1 + d is no square")
	}
	found := 0
	for _, r := range []*big.Int{root, new(big.Int).Neg(root)} {
		yy := new(big.Int).Mul(new(big.Int).Sub(r, big.NewInt(1)), new(big.Int).ModInverse(d, p))
		y := new(big.Int).ModSqrt(yy.Mod(yy, p), p)
		if y == nil {
			continue
		}
		for _, v := range []*big.Int{y, new(big.Int).Sub(p, y)} {
			for sign := range byte(2) {
				found++
				if err := token.CheckEdwardsPoint(littleEndian(v, sign)); err == nil || !strings.Contains(err.Error(), "small order") {
					t.Errorf("point of order 8 with y = %x: %v", v, err)
				}
			}
		}
	}
	if found != 4 {
		t.Errorf("found %d points of order 8, want 4", found)
	}
	for range 20 {
		public := authtest.NewKey("EdDSA").Private.Public().(ed25519.PublicKey)
		if err := token.CheckEdwardsPoint(public); err != nil {
			t.Errorf("honest key refused: %v", err)
		}
	}
}

func TestParseJWKSDocuments(t *testing.T) {
	good := authtest.JWK(authtest.NewKey("EdDSA"), `,"kid":"good"`)
	many := func(n int) string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = strings.Replace(good, `"good"`, fmt.Sprintf(`"k%d"`, i), 1)
		}
		return set(keys...)
	}
	for _, c := range []struct{ name, doc, why string }{
		{"one key", set(good), ""},
		{"64 keys", many(64), ""},
		{"unknown members", `{"issuer":"x","keys":[` + good + `],"x":{"y":[1]}}`, ""},
		{"as large as may be", set(good) + strings.Repeat(" ", token.MaxJWKSBytes-len(set(good))), ""},
		{"65 keys", many(65), "more than 64"},
		{"80,000 keys", set(strings.TrimSuffix(strings.Repeat(`{},`, 80_000), ",")), "more than 64"},
		{"too large", set(good) + strings.Repeat(" ", token.MaxJWKSBytes), "longer than"},
		{"empty", "", "invalid JSON"},
		{"no members", `{}`, "no member keys"},
		{"no keys", `{"keys":[]}`, "no usable key"},
		{"keys null", `{"keys":null}`, "not a JSON array"},
		{"keys an object", `{"keys":{}}`, "not a JSON array"},
		{"an array", `[` + good + `]`, "not a JSON object"},
		{"KEYS", `{"KEYS":[` + good + `]}`, "no member keys"},
		{"keys twice", `{"keys":[` + good + `],"keys":[]}`, "duplicate"},
		{"a member twice", set(strings.Replace(good, `{`, `{"kty":"RSA",`, 1)), "duplicate"},
		{"data behind", set(good) + "x", "invalid JSON"},
		{"a second document behind", set(good) + set(good), "behind"},
		{"byte-order mark", "\xef\xbb\xbf" + set(good), "invalid JSON"},
		{"HTML", "<html><body>502 Bad Gateway</body></html>", "invalid JSON"},
		{"deep", `{"keys":[` + good + `],"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, "deeper than"},
		{"invalid UTF-8", "{\"keys\":[" + good + "],\"\xff\":1}", "invalid UTF-8"},
		{"cut off", set(good)[:40], "invalid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, err := token.ParseJWKS([]byte(c.doc))
			if c.why == "" {
				if err != nil || len(keys) == 0 {
					t.Fatalf("keys %d, error %v", len(keys), err)
				}
				return
			}
			if err == nil || keys != nil {
				t.Fatalf("taken, want %q", c.why)
			}
			if !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %q, want %q in it", err, c.why)
			}
		})
	}
}

func TestParseJWKSFirstOfAKid(t *testing.T) {
	a, b := authtest.NewKey("ES256"), authtest.NewKey("ES256")
	keys, dropped, err := token.ParseJWKSReport([]byte(set(authtest.JWK(a, `,"kid":"k"`), authtest.JWK(b, `,"kid":"k"`), authtest.JWK(b, `,"kid":"k2"`))))
	if err != nil || len(keys) != 2 || len(dropped) != 1 {
		t.Fatalf("keys %v, dropped %v, error %v", keys, dropped, err)
	}
	want := a.Public()
	want.ID = "k"
	if !keys[0].Equal(want) {
		t.Error("the second key of a kid took the place of the first")
	}
	// A key for encryption is no rival for the kid.
	keys, err = token.ParseJWKS([]byte(set(authtest.JWK(b, `,"kid":"k","use":"enc"`), authtest.JWK(a, `,"kid":"k"`))))
	if err != nil || len(keys) != 1 || !keys[0].Equal(want) {
		t.Errorf("keys %v, error %v", keys, err)
	}
}

func TestParseJWKSAlgorithms(t *testing.T) {
	for alg, want := range map[string]string{"RS256": "RS256", "ES256": "ES256", "ES384": "ES384", "ES512": "ES512", "EdDSA": "EdDSA"} {
		keys, err := token.ParseJWKS([]byte(set(authtest.JWK(authtest.NewKey(alg), ""))))
		if err != nil || len(keys) != 1 || keys[0].Algorithm != want || keys[0].ID != "" {
			t.Errorf("a key of %s without alg and kid: %+v, %v", alg, keys, err)
		}
	}
}

func TestEncodeJWKSRoundTrip(t *testing.T) {
	var keys []token.Key
	for _, alg := range token.DefaultAlgorithms() {
		keys = append(keys, authtest.NewKey(alg).Public())
	}
	keys[0].ID = "kid with \"quotes\", \\ and 🙂"
	keys[1].ID = ""
	b := token.EncodeJWKS(keys)
	again, err := token.ParseJWKS(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(again) != len(keys) {
		t.Fatalf("%d keys of %d came back", len(again), len(keys))
	}
	for i := range keys {
		if !again[i].Equal(keys[i]) {
			t.Errorf("key %d came back as %+v, was %+v", i, again[i], keys[i])
		}
	}
	if string(token.EncodeJWKS(again)) != string(b) {
		t.Error("encoding again gives other bytes")
	}
	bogus := []token.Key{{ID: "a"}, {ID: "b", Algorithm: "HS256", Public: []byte("x")}, {ID: "c", Algorithm: "ES256", Public: &rsa.PublicKey{}}}
	if got := string(token.EncodeJWKS(bogus)); got != `{"keys":[]}` {
		t.Errorf("keys of no use were written: %s", got)
	}
}

func TestKeySet(t *testing.T) {
	a, b := authtest.NewKey("ES256").Public(), authtest.NewKey("ES256").Public()
	s := token.NewKeySet(map[identity.Issuer][]token.Key{"https://a": {a}, "https://b": {b}})
	if !s.HasKeyID(a.ID) || !s.HasKeyID(b.ID) || s.HasKeyID("") || s.HasKeyID("other") {
		t.Error("HasKeyID is wrong")
	}
	if got := s.Keys("https://a"); len(got) != 1 || !got[0].Equal(a) {
		t.Errorf("Keys = %v", got)
	}
	var none *token.KeySet
	if none.HasKeyID("x") || none.Keys("https://a") != nil {
		t.Error("the nil set has keys")
	}
	if a.Equal(b) || !a.Equal(a) {
		t.Error("Equal is wrong")
	}
	renamed := a
	renamed.ID = "other"
	if a.Equal(renamed) {
		t.Error("keys of different ids are equal")
	}
}

package token_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/token"
)

// maxAllocated is what a stranger's token may cost in memory, in bytes.
const maxAllocated = 64 << 10

// allocated returns the bytes that one call of f allocates, on average.
func allocated(f func()) uint64 {
	const runs = 20
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

// fastest returns the least time that one call of f took: what it costs when the
// machine is not busy otherwise.
func fastest(f func()) time.Duration {
	least := time.Hour
	for range 20 {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}

// TestCostOfHostileTokens bounds what tokens cost that were built to cost much.
func TestCostOfHostileTokens(t *testing.T) {
	w := world()
	v, keys := w.Verifier(), w.KeySet()
	deep := func(s string) string {
		return w.Issuer.Mint(authtest.SignedBy(authtest.NewKey("EdDSA")), authtest.Payload(s))
	}
	header := func(s string) string {
		return w.Issuer.Mint(authtest.EditHeader(func(string) string { return s }))
	}
	certificate := `"` + strings.Repeat("MIIB", 1<<18) + `"`
	for name, raw := range map[string]string{
		"one byte too long":                    strings.Repeat("a", token.MaxBytes+1),
		"as long as may be, one part":          strings.Repeat("a", token.MaxBytes),
		"a million dots":                       strings.Repeat(".", 1_000_000),
		"dots up to the limit":                 strings.Repeat("a.", token.MaxBytes/2),
		"x5c of a megabyte":                    w.Issuer.Mint(authtest.Header("x5c", authtest.Raw("["+certificate+"]"))),
		"x5c within the limits":                w.Issuer.Mint(authtest.Header("x5c", authtest.Raw("["+certificate[:700]+`"]`))),
		"payload 9,000 deep, unknown key":      deep(`{"a":` + strings.Repeat("[", 9000) + "}"),
		"header 9,000 deep":                    header(strings.Repeat("[", 9000)),
		"header 1,000 deep":                    header(strings.Repeat(`[`, 1000)),
		"header of many members":               header(`{"alg":"RS256"` + strings.Repeat(`,"a":1`, 150) + `}`),
		"header of many names":                 header("{" + manyNames(140) + "}"),
		"kid of a megabyte":                    w.Issuer.Mint(authtest.Header("kid", strings.Repeat("k", 1<<20))),
		"unknown kid":                          w.Issuer.Mint(authtest.Header("kid", "x")),
		"bad signature under a known kid":      w.Issuer.Mint(authtest.SignedAs(authtest.NewKey("RS256"))),
		"bad signature of the largest size":    w.Issuer.Mint(func(d *authtest.Draft) { d.Signature = func(string) []byte { return make([]byte, 1024) } }),
		"PBES2 with many rounds":               w.Issuer.Mint(authtest.Header("alg", "PBES2-HS256+A128KW"), authtest.Header("p2c", 1<<31)),
		"a payload of 12 KiB, bad signature":   w.Issuer.Mint(authtest.Claim("x", strings.Repeat("x", 11000)), authtest.SignedAs(authtest.NewKey("RS256"))),
		"numbers of many digits in the header": header(`{"alg":` + strings.Repeat("9", 1000) + `}`),
	} {
		t.Run(name, func(t *testing.T) {
			verify := func() {
				_, err := v.Verify(raw, audiences(), keys, now)
				var r *token.Refusal
				if !errors.As(err, &r) || r.Kind != token.KindMalformed && r.Kind != token.KindUnverifiable && r.Kind != token.KindUnknownKey {
					t.Fatalf("%v, want a refusal before the payload is read", err)
				}
			}
			if got := allocated(verify); got > maxAllocated {
				t.Errorf("%d bytes allocated, at most %d are allowed", got, maxAllocated)
			}
			if got := fastest(verify); got > time.Millisecond*raceFactor {
				t.Errorf("took %v", got)
			}
		})
	}
}

// TestCostOfAllRefusals bounds the memory of every token of the matrix that is
// refused before its signature holds, and of signed ones by their own size.
func TestCostOfAllRefusals(t *testing.T) {
	v, keys := world().Verifier(), world().KeySet()
	for _, c := range cases() {
		got := allocated(func() { v.Verify(c.Token, audiences(), keys, now) })
		if got > maxAllocated {
			t.Errorf("%s %s: %d bytes allocated", c.Row, c.Name, got)
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + string(rune('a'+i%26)) + string(rune('a'+i/26)) + `":1`)
	}
	return b.String()
}

func TestCostOfHostileKeySets(t *testing.T) {
	for name, doc := range map[string]string{
		"deep":        strings.Repeat(`{"a":`, 40_000),
		"80,000 keys": `{"keys":[` + strings.TrimSuffix(strings.Repeat("{},", 80_000), ",") + `]}`,
		"8 MiB":       strings.Repeat(" ", 8<<20),
	} {
		b := []byte(doc)
		parse := func() {
			if _, err := token.ParseJWKS(b); err == nil {
				t.Fatalf("%s: taken", name)
			}
		}
		if got := allocated(parse); got > maxAllocated {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

func benchmarkVerify(b *testing.B, alg string) {
	w := world()
	v, keys, aud := w.Verifier(), w.KeySet(), audiences()
	raw := w.Issuer.Mint(authtest.SignedBy(keyFor(w.Issuer, alg)))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(raw, aud, keys, now); err != nil {
			b.Fatal(err)
		}
	}
}

func keyFor(i *authtest.Issuer, alg string) *authtest.Key {
	for _, k := range i.Keys {
		if k.Algorithm == alg {
			return k
		}
	}
	return nil
}

func BenchmarkVerifyRS256(b *testing.B) { benchmarkVerify(b, "RS256") }
func BenchmarkVerifyES256(b *testing.B) { benchmarkVerify(b, "ES256") }
func BenchmarkVerifyEdDSA(b *testing.B) { benchmarkVerify(b, "EdDSA") }

// BenchmarkVerifyRealm is a token of a Keycloak realm, twice as long.
func BenchmarkVerifyRealm(b *testing.B) {
	w := world()
	v, keys, aud := w.Verifier(), w.KeySet(), audiences()
	raw := w.Realm.Mint()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(raw, aud, keys, now); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefuse is what strangers' tokens cost.
func BenchmarkRefuse(b *testing.B) {
	w := world()
	v, keys, aud := w.Verifier(), w.KeySet(), audiences()
	for name, raw := range map[string]string{
		"opaque":       "opaque",
		"too-long":     strings.Repeat("a", token.MaxBytes+1),
		"dots":         strings.Repeat("a.", token.MaxBytes/2),
		"unknown-kid":  w.Issuer.Mint(authtest.Header("kid", "x")),
		"bad-RS256":    w.Issuer.Mint(authtest.SignedAs(authtest.NewKey("RS256"))),
		"long-payload": w.Issuer.Mint(authtest.Claim("x", strings.Repeat("x", 11000)), authtest.Header("kid", "x")),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v.Verify(raw, aud, keys, now)
			}
		})
	}
}

package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

const testIssuer identity.Issuer = "https://id.example/realms/r"

func newKey(t testing.TB, id string) token.Key {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token.Key{ID: id, Algorithm: "EdDSA", Public: pub}
}

func fetched(iss identity.Issuer, at time.Time, ks ...token.Key) Update {
	return Update{Issuer: iss, Keys: ks, FetchedAt: at, AttemptedAt: at, Health: HealthOK}
}

func encode(t testing.TB, u Update) []byte {
	t.Helper()
	b, err := u.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMessageComesBackAsItWasSent(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_790_000_000, 123_456_789)
	ks := []token.Key{
		{ID: "r/+<&>\"\\ é", Algorithm: "PS256", Public: &r.PublicKey},
		{ID: "e", Algorithm: "ES256", Public: &e.PublicKey},
		newKey(t, ""),
	}
	for name, u := range map[string]Update{
		"good":     fetched(testIssuer, at, ks...),
		"restored": {Issuer: testIssuer, Keys: ks, FetchedAt: at, Health: HealthRestored},
		"down":     {Issuer: testIssuer, Keys: ks, FetchedAt: at, AttemptedAt: at.Add(time.Hour), Health: HealthTimeout},
		"never":    {Issuer: testIssuer, AttemptedAt: at, Health: HealthUnreachable},
		"starting": {Issuer: testIssuer, Health: HealthStarting},
	} {
		t.Run(name, func(t *testing.T) {
			b := encode(t, u)
			got, err := Parse(b)
			if err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			if got.Issuer != u.Issuer || got.Health != u.Health ||
				!got.FetchedAt.Equal(u.FetchedAt) || !got.AttemptedAt.Equal(u.AttemptedAt) {
				t.Errorf("got %+v, want %+v", got, u)
			}
			if len(got.Keys) != len(u.Keys) {
				t.Fatalf("got %d keys, want %d", len(got.Keys), len(u.Keys))
			}
			for i := range u.Keys {
				if !got.Keys[i].Equal(u.Keys[i]) {
					t.Errorf("key %d: got %+v, want %+v", i, got.Keys[i], u.Keys[i])
				}
			}
			if again := encode(t, got); !bytes.Equal(again, b) {
				t.Errorf("encoded again: %s, want %s", again, b)
			}
		})
	}
}

func TestLargestSetFitsAMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a large RSA key")
	}
	r, err := rsa.GenerateKey(rand.Reader, 4096)
	if err != nil {
		t.Fatal(err)
	}
	var ks []token.Key
	for i := range token.MaxKeys {
		ks = append(ks, token.Key{ID: fmt.Sprintf("%0200d", i), Algorithm: "RS512", Public: &r.PublicKey})
	}
	b := encode(t, fetched(testIssuer, time.Unix(1_790_000_000, 0), ks...))
	if _, err := Parse(b); err != nil {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

func TestParseRefuses(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	good := string(encode(t, fetched(testIssuer, at, newKey(t, "a"))))
	never := string(encode(t, Update{Issuer: testIssuer, AttemptedAt: at, Health: HealthTimeout}))
	swap := func(s, old, new string) string {
		t.Helper()
		if !strings.Contains(s, old) {
			t.Fatalf("no %s in %s", old, s)
		}
		return strings.Replace(s, old, new, 1)
	}
	for name, in := range map[string]string{
		"nothing":                   "",
		"no object":                 `[]`,
		"null":                      `null`,
		"null set":                  swap(never, `"health"`, `"jwks":null,"health"`),
		"trailing data":             good + `{}`,
		"trailing space":            good + "\n",
		"leading space":             " " + good,
		"unknown member":            swap(good, `{"v":1`, `{"v":1,"x":0`),
		"duplicate member":          swap(good, `{"v":1`, `{"v":1,"v":1`),
		"member in another case":    swap(good, `"issuer"`, `"Issuer"`),
		"members in another order":  swap(swap(good, `"v":1,`, ``), `"jwks"`, `"v":1,"jwks"`),
		"another version":           swap(good, `"v":1`, `"v":2`),
		"no version":                swap(good, `"v":1,`, ``),
		"no issuer":                 swap(good, string(testIssuer), ``),
		"long issuer":               swap(good, string(testIssuer), strings.Repeat("x", MaxIssuer+1)),
		"bad UTF-8":                 swap(good, string(testIssuer), "\xff"),
		"health not on the list":    swap(good, `"ok"`, `"fine"`),
		"no health":                 swap(good, `"ok"`, `""`),
		"private key":               swap(good, `"kty"`, `"d":"AAAA","kty"`),
		"empty set":                 swap(never, `}`, `,"jwks":{"keys":[]}}`),
		"set without its time":      swap(good, `"fetched_ns":1790000000000000000`, `"fetched_ns":0`),
		"time without a set":        swap(never, `"fetched_ns":0`, `"fetched_ns":1790000000000000000`),
		"ok without a set":          swap(never, `"timeout"`, `"ok"`),
		"ok with an older set":      swap(good, `"attempted_ns":1790000000000000000`, `"attempted_ns":1790000000000000001`),
		"restored without a set":    swap(never, `"timeout"`, `"restored"`),
		"time before 1970":          swap(never, `"attempted_ns":1790000000000000000`, `"attempted_ns":-1`),
		"time as a float":           swap(never, `"attempted_ns":1790000000000000000`, `"attempted_ns":1.79e18`),
		"time as a string":          swap(never, `"attempted_ns":1790000000000000000`, `"attempted_ns":"1790000000000000000"`),
		"escaped where it need not": swap(good, `https:`, `\u0068ttps:`),
		"oversize":                  swap(never, string(testIssuer), strings.Repeat("x", MaxMessage)),
	} {
		t.Run(name, func(t *testing.T) {
			u, err := Parse([]byte(in))
			if err == nil {
				t.Fatalf("accepted as %+v", u)
			}
			if len(err.Error()) > 100 || strings.Contains(err.Error(), "xxx") {
				t.Errorf("error holds bytes of the message: %v", err)
			}
		})
	}
}

func TestEncodeRefusesWhatParseWould(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	k := newKey(t, "a")
	for name, u := range map[string]Update{
		"zero value":            {},
		"no health":             {Issuer: testIssuer},
		"keys without time":     {Issuer: testIssuer, Keys: []token.Key{k}, Health: HealthTimeout},
		"good without keys":     {Issuer: testIssuer, AttemptedAt: at, Health: HealthOK},
		"time out of range":     fetched(testIssuer, time.Unix(1<<40, 0), k),
		"set above the maximum": fetched(testIssuer, at, token.Key{ID: strings.Repeat("x", MaxMessage), Algorithm: k.Algorithm, Public: k.Public}),
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := u.Encode(); err == nil {
				t.Errorf("encoded as %s", b)
			}
		})
	}
}

func TestEveryHealthHasAText(t *testing.T) {
	for h, text := range healthTexts {
		if !h.Valid() || text == "" || h.Text() != text {
			t.Errorf("%s: %q", h, h.Text())
		}
	}
	for _, h := range []Health{"", "OK", "x"} {
		if h.Valid() || h.Text() != "unknown" {
			t.Errorf("%q is on the list", h)
		}
	}
}

// FuzzParse holds that what is accepted is in the only form that Encode makes.
func FuzzParse(f *testing.F) {
	at := time.Unix(1_790_000_000, 0)
	f.Add(encode(f, fetched(testIssuer, at, newKey(f, "a"), newKey(f, ""))))
	f.Add(encode(f, Update{Issuer: testIssuer, Health: HealthStarting}))
	f.Add(encode(f, Update{Issuer: testIssuer, Keys: []token.Key{newKey(f, "é\"")}, FetchedAt: at, Health: HealthTLS}))
	f.Add([]byte(`{"v":1,"issuer":"x","health":"ok","attempted_ns":1,"fetched_ns":1,"jwks":{"keys":[]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		u, err := Parse(b)
		if err != nil {
			return
		}
		again, err := u.Encode()
		if err != nil {
			t.Fatalf("accepted, but can't be encoded: %v", err)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("accepted %q, which encodes as %q", b, again)
		}
	})
}

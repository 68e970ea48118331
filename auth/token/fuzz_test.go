package token_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"gatehouse/auth/authtest"
	"gatehouse/auth/token"
)

// edSigner gives golang-jwt the newer name of EdDSA (RFC 9864), which it lacks.
type edSigner struct{ *jwt.SigningMethodEd25519 }

func (edSigner) Alg() string { return "Ed25519" }

var registerEd25519 = sync.OnceFunc(func() {
	jwt.RegisterSigningMethod("Ed25519", func() jwt.SigningMethod { return edSigner{jwt.SigningMethodEdDSA} })
})

// strictLibrary judges a token as golang-jwt does with every strict option.
func strictLibrary(raw string, issuer string, keys *token.KeySet) error {
	registerEd25519()
	parser := jwt.NewParser(
		jwt.WithValidMethods(append(token.DefaultAlgorithms(), "Ed25519")),
		jwt.WithAudience(audiences()...),
		jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithStrictDecoding(),
		jwt.WithLeeway(authtest.Leeway),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
	parsed, err := parser.Parse(raw, func(t *jwt.Token) (any, error) {
		for _, i := range world().Issuers() {
			if i.URL != issuer {
				continue
			}
			for _, k := range i.Keys {
				if k.ID == t.Header["kid"] {
					return k.Private.Public(), nil
				}
			}
		}
		return nil, errors.New("no such key")
	})
	if err != nil {
		return err
	}
	if !parsed.Valid {
		return errors.New("not valid")
	}
	return nil
}

// holdInvariant wants a verdict without a panic, the same from Explain, and what
// is accepted to be accepted by golang-jwt too.
func holdInvariant(t *testing.T, raw string) {
	t.Helper()
	v, keys := world().Verifier(), worldKeys()
	tok, err := v.Verify(raw, audiences(), keys, now)
	ok := true
	for _, s := range v.Explain(raw, audiences(), keys, now) {
		ok = ok && s.Outcome == token.OutcomeOK
	}
	if ok != (err == nil) {
		t.Errorf("Explain says %v, Verify %v", ok, err)
	}
	if err != nil {
		var r *token.Refusal
		if tok != nil || !errors.As(err, &r) || r.Kind.String() == "internal" || r.Check == "" || r.Reason == "" {
			t.Errorf("token %v, error %#v", tok, err)
		}
		if strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' || c == utf8.RuneError }) {
			t.Errorf("the reason is unfit for a log line: %q", err)
		}
		return
	}
	if err := strictLibrary(raw, string(tok.Principal.Issuer), keys); err != nil {
		t.Errorf("accepted, but golang-jwt refuses: %v\n%s", err, raw)
	}
	if tok.Principal.Subject == "" || tok.Principal.Client == "" || tok.ID == "" || !now.Before(tok.Until()) {
		t.Errorf("incomplete: %+v", tok)
	}
	if !utf8.ValidString(string(tok.Principal.Subject)) || strings.ContainsRune(string(tok.Principal.Subject), 0) {
		t.Errorf("subject %q", tok.Principal.Subject)
	}
}

var worldKeys = sync.OnceValue(func() *token.KeySet { return world().KeySet() })

// TestInvariant holds the invariant for the whole matrix.
func TestInvariant(t *testing.T) {
	for _, c := range cases() {
		holdInvariant(t, c.Token)
	}
}

// FuzzVerify: whatever Verify accepts, golang-jwt with every strict option
// accepts too, and nothing panics. Header and payload are signed by the right
// key, so that the fuzzer gets behind the signature; raw, when not empty, is
// judged as it is.
func FuzzVerify(f *testing.F) {
	w := world()
	for n, c := range cases() {
		parts := strings.Split(c.Token, ".")
		if len(c.Token) > 4096 || len(parts) != 3 {
			continue
		}
		h, err1 := base64.RawURLEncoding.DecodeString(parts[0])
		p, err2 := base64.RawURLEncoding.DecodeString(parts[1])
		if err1 == nil && err2 == nil && n%3 == 0 {
			f.Add(h, p, c.Profile == token.ProfileKeycloak, "")
		}
		if n%20 == 0 {
			f.Add([]byte(nil), []byte(nil), false, c.Token)
		}
	}
	for _, i := range []*authtest.Issuer{w.Issuer, w.Realm} { // fast keys for the fuzzer
		for _, alg := range []string{"EdDSA", "ES256"} {
			d := i.Draft()
			authtest.SignedBy(keyFor(i, alg))(d)
			f.Add(d.Header.JSON(), d.Claims.JSON(), i == w.Realm, "")
		}
	}
	f.Fuzz(func(t *testing.T, header, payload []byte, realm bool, raw string) {
		if raw != "" {
			holdInvariant(t, raw)
			return
		}
		i := w.Issuer
		if realm {
			i = w.Realm
		}
		key := keyFor(i, "EdDSA")
		for _, k := range i.Keys {
			if bytes.Contains(header, []byte(`"`+k.ID+`"`)) {
				key = k
			}
		}
		d := &authtest.Draft{Key: key, RawHeader: header, RawClaims: payload}
		holdInvariant(t, d.Compact())
	})
}

// FuzzParseJWKS: no panic; what is taken is within the limits and survives being
// written and read again.
func FuzzParseJWKS(f *testing.F) {
	for _, c := range keyCases() {
		f.Add([]byte(set(c.jwk)))
	}
	f.Add(world().Issuer.JWKS())
	f.Add([]byte(`{"keys":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, dropped, err := token.ParseJWKSReport(b)
		if err != nil {
			if keys != nil {
				t.Errorf("keys beside the error %v", err)
			}
			return
		}
		if len(keys) == 0 || len(keys)+len(dropped) > token.MaxKeys || !json.Valid(b) {
			t.Fatalf("%d keys, %d dropped, valid JSON %v", len(keys), len(dropped), json.Valid(b))
		}
		written := token.EncodeJWKS(keys)
		again, err := token.ParseJWKS(written)
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%d keys came back as %d: %v\n%s", len(keys), len(again), err, written)
		}
		for i := range keys {
			if !keys[i].Equal(again[i]) {
				t.Errorf("key %d came back as %+v, was %+v", i, again[i], keys[i])
			}
		}
	})
}

// FuzzDecode: what the strict decoder takes, encoding/json takes too and reads
// the same names and values from.
func FuzzDecode(f *testing.F) {
	for _, c := range cases() {
		for _, part := range strings.Split(c.Token, ".") {
			if b, err := base64.RawURLEncoding.DecodeString(part); err == nil && len(b) > 0 && len(b) < 2048 && b[0] == '{' {
				f.Add(b)
			}
		}
	}
	for _, s := range []string{`{}`, ` { } `, `{"a":[1,{"b":null}]}`, `{"a":"\ud83d\ude00"}`, `{"":0}`, `{"a":1e308}`, `{"a":-1E+400}`, "{\"\\u0061\":1,\"a\":2}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := token.DecodeObject(b)
		if err != nil {
			return
		}
		if !utf8.Valid(b) {
			t.Error("invalid UTF-8 was taken")
		}
		var anything map[string]any
		if err := json.Unmarshal(b, &anything); err != nil {
			t.Fatalf("encoding/json refuses what was taken: %v", err)
		}
		if len(anything) != len(got) {
			t.Errorf("%d names, encoding/json has %d", len(got), len(anything))
		}
		for name, raw := range got {
			var value any
			if err := json.Unmarshal(raw, &value); err != nil {
				t.Errorf("value of %q: %v", name, err)
			}
			if fmt.Sprint(value) != fmt.Sprint(anything[name]) {
				t.Errorf("%q is %v, encoding/json has %v", name, value, anything[name])
			}
		}
		if depthOf(anything) > 16 {
			t.Errorf("depth %d was taken", depthOf(anything))
		}
	})
}

func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			deepest = max(deepest, depthOf(x))
		}
		return deepest + 1
	case []any:
		for _, x := range v {
			deepest = max(deepest, depthOf(x))
		}
		return deepest + 1
	}
	return 0
}

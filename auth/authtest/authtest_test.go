package authtest_test

import (
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/token"
)

func TestMintArgs(t *testing.T) {
	now := time.Unix(1_795_986_450, 0)
	i := authtest.NewIssuer(authtest.IssuerURL)
	i.Now = func() time.Time { return now }
	verify := func(args ...string) (*token.Token, error) {
		t.Helper()
		raw, err := i.MintArgs(args...)
		if err != nil {
			t.Fatal(err)
		}
		return authtest.NewVerifier(i).Verify(raw, []string{authtest.Audience}, authtest.KeySet(i), now)
	}
	tok, err := verify("sub=bob", "exp=+30", "nbf=-5", `aud=["other","`+authtest.Audience+`"]`, "scope=mcp:use files", "header.x5t=x")
	if err != nil {
		t.Fatal(err)
	}
	if tok.Principal.Subject != "bob" || !tok.Expiry.Equal(now.Add(30*time.Second)) || !tok.NotBefore.Equal(now.Add(-5*time.Second)) || !tok.Scopes.Has("files") {
		t.Errorf("token %+v", tok)
	}
	for args, want := range map[string]token.Kind{
		"-client_id": token.KindBadClaims, "-typ": token.KindWrongType, "-aud": token.KindWrongAudience, "typ=JWT": token.KindWrongType,
		"exp=-60 iat=-600": token.KindExpired, "iss=https://x": token.KindWrongIssuer, "kid=x": token.KindUnknownKey, "header.cty=JWT": token.KindMalformed,
		`sub={"a":1}`: token.KindBadClaims,
	} {
		_, err := verify(strings.Fields(args)...)
		if r, ok := err.(*token.Refusal); !ok || r.Kind != want {
			t.Errorf("%s: %v, want %v", args, err, want)
		}
	}
	old := i.Current()
	if tok, err := verify("kid=new"); err != nil || tok.KeyID == old.ID || tok.KeyID != i.Current().ID {
		t.Errorf("kid=new: %+v, %v", tok, err)
	}
	for _, wrong := range []string{"sub", "=x", "exp=soon", "aud=[1", `aud={"a"`} {
		if raw, err := i.MintArgs(wrong); err == nil {
			t.Errorf("%q minted %s", wrong, raw)
		}
	}
}

// TestCasesAreNamedOnce holds that a case can be found by its name, and that both
// profiles have all rows of the tables.
func TestCasesAreNamedOnce(t *testing.T) {
	seen, rows := map[string]bool{}, map[string]int{}
	for _, c := range authtest.NewWorld(time.Now()).Cases() {
		key := string(c.Profile) + "/" + c.Name
		if seen[key] {
			t.Errorf("two cases are called %q", key)
		}
		seen[key] = true
		rows[string(c.Profile)+" "+c.Row]++
		if c.Accepted == (c.Kind != 0) || c.ClientOwn && !c.Accepted {
			t.Errorf("%s: accepted %v, kind %v, client's own %v", key, c.Accepted, c.Kind, c.ClientOwn)
		}
	}
	for _, profile := range []string{"rfc9068", "keycloak"} {
		for _, row := range strings.Fields("A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 A21 A22 " +
			"B1 B2 B3 B4 B5 B6 B7 B8 C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15 C16 C17 C18 C19 C20 C21 ok") {
			if rows[profile+" "+row] == 0 {
				t.Errorf("profile %s has no case of row %s", profile, row)
			}
		}
	}
}

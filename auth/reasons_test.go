package auth

import (
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

// TestReasonsOfAJudgement holds the words that the log has for each way in which a
// token is not accepted, and that only what an issuer could know is asked for.
func TestReasonsOfAJudgement(t *testing.T) {
	other := authtest.NewIssuer(authtest.OtherURL)
	other.Keys[0].ID = "k1"
	unknown := authtest.Header("kid", "x")
	for name, c := range map[string]struct {
		token  func(w *world) string
		change func(w *world)
		want   Refusal
		asked  int
	}{
		"no keys at all": {
			token:  func(w *world) string { return w.issuer.Mint() },
			change: func(w *world) { w.keys.notReady = true },
			want:   Refusal{Kind: KindUndecided, Reason: "no usable keys of any issuer"},
		},
		"an issuer that is not configured": {
			token: func(*world) string { return other.Mint() },
			want: Refusal{Kind: KindToken, Token: token.KindUnverifiable,
				Reason: `the token names the issuer "https://other.test", which is not configured`},
		},
		"a key that nobody has": {
			token:  func(w *world) string { return w.issuer.Mint(unknown) },
			change: func(w *world) { w.keys.answer = keys.Absent },
			want: Refusal{Kind: KindToken, Token: token.KindUnknownKey,
				Reason: `token refused: unknown_key: key: kid "x" is in no issuer's key set`},
			asked: 1,
		},
		"a key that nobody can be asked for": {
			token: func(w *world) string { return w.issuer.Mint(unknown) },
			want: Refusal{Kind: KindUndecided,
				Reason: `the issuers could not be asked for the key; token refused: unknown_key: key: kid "x" is in no issuer's key set`},
			asked: 1,
		},
		"an issuer without usable keys": {
			token: func(w *world) string { return w.issuer.Mint(authtest.Header("kid", other.Current().ID)) },
			change: func(w *world) {
				w.gate.cfg.Verifier = authtest.NewVerifier(w.issuer, other)
				w.keys.set = authtest.KeySet(other)
			},
			want: Refusal{Kind: KindUndecided,
				Reason: "no usable keys of the issuer that the token names; token refused: unverifiable: signature: the signature does not hold under key \"k1\" of issuer \"https://other.test\""},
		},
		"another check": {
			token: func(w *world) string { return w.issuer.Mint(authtest.Claim("aud", "account")) },
			want: Refusal{Kind: KindToken, Token: token.KindWrongAudience,
				Reason: `token refused: wrong_audience: audience: aud is ["account"]; want ["https://mcp.test:8443/mcp"]`},
		},
	} {
		w := newWorld(t)
		other.Now = w.issuer.Now
		if c.change != nil {
			c.change(w)
		}
		if _, r := w.admit(t, c.token(w)); r == nil || *r != c.want {
			t.Errorf("%s: got %+v\nwant %+v", name, r, c.want)
		}
		if len(w.keys.asked) != c.asked {
			t.Errorf("%s: asked for %q", name, w.keys.asked)
		}
	}
}

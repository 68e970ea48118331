package monitor

import (
	"context"
	"errors"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
	"gatehouse/session/spawn"
)

// source is a key store that the test sets.
type source struct {
	set    *token.KeySet
	ready  bool
	answer keys.Answer
	asked  int
}

func (s *source) Current() (*token.KeySet, uint64) { return s.set, 1 }
func (s *source) Ready() bool                      { return s.ready }

func (s *source) Lookup(context.Context, string) keys.Answer {
	s.asked++
	return s.answer
}

// TestReasonsOfAJudgement holds the words that the audit log has for each way in which
// a token is not accepted, and that only what an issuer could know is asked for.
func TestReasonsOfAJudgement(t *testing.T) {
	issuer, other := authtest.NewIssuer(authtest.IssuerURL), authtest.NewIssuer(authtest.OtherURL)
	other.Keys[0].ID = "k1"
	ours, unknown := authtest.KeySet(issuer), authtest.Header("kid", "x")
	const missing = `token refused: unknown_key: key: kid "x" is in no issuer's key set`
	for name, c := range map[string]struct {
		raw    string
		issuer *authtest.Issuer // configured besides
		source source
		want   spawn.Error
		asked  int
	}{
		"no keys at all": {raw: issuer.Mint(), source: source{set: ours},
			want: spawn.Error{Kind: spawn.KindUndecided, Reason: "no usable keys of any issuer"}},
		"an issuer that is not configured": {raw: other.Mint(), source: source{set: ours, ready: true},
			want: spawn.Error{Kind: spawn.KindToken, Reason: `the token names the issuer "https://other.test", which is not configured`}},
		"a key that nobody has": {raw: issuer.Mint(unknown), source: source{set: ours, ready: true, answer: keys.Absent}, asked: 1,
			want: spawn.Error{Kind: spawn.KindToken, Reason: missing}},
		"a key that nobody can be asked for": {raw: issuer.Mint(unknown), source: source{set: ours, ready: true}, asked: 1,
			want: spawn.Error{Kind: spawn.KindUndecided, Reason: "the issuers could not be asked for the key; " + missing}},
		"an issuer without usable keys": {raw: issuer.Mint(authtest.Header("kid", "k1")), issuer: other,
			source: source{set: authtest.KeySet(other), ready: true},
			want: spawn.Error{Kind: spawn.KindUndecided, Reason: "no usable keys of the issuer that the token names; " +
				`token refused: unverifiable: signature: the signature does not hold under key "k1" of issuer "https://other.test"`}},
		"another check": {raw: issuer.Mint(authtest.Claim("aud", "account")), source: source{set: ours, ready: true},
			want: spawn.Error{Kind: spawn.KindToken, Reason: `token refused: wrong_audience: audience: aud is ["account"]; want ["https://mcp.test:8443/mcp"]`}},
	} {
		issuers := []*authtest.Issuer{issuer}
		if c.issuer != nil {
			issuers = append(issuers, c.issuer)
		}
		j := &tokenJudge{verifier: authtest.NewVerifier(issuers...), keys: &c.source, audiences: [][]string{{authtest.Audience}}, now: time.Now}
		_, err := j.Judge(t.Context(), 0, c.raw)
		var got *spawn.Error
		if !errors.As(err, &got) || *got != c.want {
			t.Errorf("%s: got %+v\nwant %+v", name, err, c.want)
		}
		if c.source.asked != c.asked {
			t.Errorf("%s: asked %d times", name, c.source.asked)
		}
	}
	if _, err := new(tokenJudge).Judge(t.Context(), 0, issuer.Mint()); err == nil {
		t.Error("the zero judge accepts a token")
	}
}

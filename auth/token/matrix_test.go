package token_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/token"
)

// now is when all tests judge.
var now = time.Unix(1_795_986_450, 0).UTC()

// world is shared, because its keys cost time; nothing changes it.
var world = sync.OnceValue(func() *authtest.World { return authtest.NewWorld(now) })

var cases = sync.OnceValue(func() []authtest.Case { return world().Cases() })

func audiences() []string { return []string{authtest.Audience} }

// before and after are the texts that a client may read, by when the token failed.
var (
	before = []string{"malformed token", "unverifiable token"}
	after  = []string{"expired", "not yet valid", "wrong audience", "wrong issuer", "wrong token type"}
)

// publicText is what each kind says to the client.
var publicText = map[token.Kind]string{
	token.KindMalformed:     "malformed token",
	token.KindUnverifiable:  "unverifiable token",
	token.KindUnknownKey:    "unverifiable token",
	token.KindWrongType:     "wrong token type",
	token.KindWrongIssuer:   "wrong issuer",
	token.KindWrongAudience: "wrong audience",
	token.KindExpired:       "expired",
	token.KindNotYetValid:   "not yet valid",
	token.KindBadClaims:     "wrong token type",
}

// TestMatrix runs every named token of the validation tables.
func TestMatrix(t *testing.T) {
	v, keys := world().Verifier(), world().KeySet()
	seen := map[string]bool{}
	refused := 0
	for _, c := range cases() {
		name := string(c.Profile) + "/" + c.Row + " " + c.Name
		if seen[name] {
			t.Errorf("two cases are called %q", name)
		}
		seen[name] = true
		if !c.Accepted {
			refused++
		}
		t.Run(name, func(t *testing.T) {
			tok, err := v.Verify(c.Token, audiences(), keys, now)
			if c.Accepted {
				mustAccept(t, c, tok, err)
				return
			}
			if tok != nil || err == nil {
				t.Fatalf("accepted, want %v", c.Kind)
			}
			mustRefuse(t, c.Kind, err)
			explained(t, v.Explain(c.Token, audiences(), keys, now), err)
		})
	}
	if refused < 150 {
		t.Errorf("the matrix has %d refused tokens, want at least 150", refused)
	}
	t.Logf("%d tokens, %d of them refused", len(seen), refused)
}

func mustAccept(t *testing.T, c authtest.Case, tok *token.Token, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if tok.ClientOwn != c.ClientOwn || (tok.ClientOwnReason != "") != c.ClientOwn {
		t.Errorf("ClientOwn = %v (%s), want %v", tok.ClientOwn, tok.ClientOwnReason, c.ClientOwn)
	}
	p := tok.Principal
	if p.Issuer == "" || p.Subject == "" || p.Client == "" || tok.ID == "" || tok.KeyID == "" || tok.Expiry.IsZero() || tok.IssuedAt.IsZero() {
		t.Errorf("incomplete token: %+v", tok)
	}
	if !now.Before(tok.Until()) {
		t.Errorf("accepted at %v, although it is served until %v", now, tok.Until())
	}
}

func mustRefuse(t *testing.T, want token.Kind, err error) {
	t.Helper()
	var r *token.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error is %T, want a *Refusal", err)
	}
	if r.Kind != want {
		t.Errorf("refused as %v, want %v: %s", r.Kind, want, r.Reason)
	}
	if got := r.Kind.Public(); got != publicText[want] {
		t.Errorf("public text %q, want %q", got, publicText[want])
	}
	if r.Check == "" || r.Reason == "" {
		t.Errorf("check %q, reason %q: both must be told", r.Check, r.Reason)
	}
	if len(r.Reason) > 4096 || strings.ContainsFunc(r.Reason, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		t.Errorf("the reason is unfit for a log line: %q", r.Reason)
	}
}

// explained wants the same refusal from Explain, at the same check.
func explained(t *testing.T, steps []token.Step, err error) {
	t.Helper()
	var r *token.Refusal
	errors.As(err, &r)
	for _, s := range steps {
		switch s.Outcome {
		case token.OutcomeFailed:
			if s.Name != r.Check || s.Detail != r.Reason || s.Kind != r.Kind {
				t.Errorf("Explain fails at %s (%s), Verify at %s (%s)", s.Name, s.Detail, r.Check, r.Reason)
			}
			return
		case token.OutcomeNotReached:
			t.Errorf("Explain stops before %s without a failure", s.Name)
			return
		}
	}
	t.Error("Explain finds nothing wrong")
}

// TestPublicTexts holds the closed list: nothing else is ever said to a client.
func TestPublicTexts(t *testing.T) {
	for k := range token.Kind(64) {
		text := k.Public()
		found := false
		for _, fixed := range append(append([]string{}, before...), after...) {
			found = found || text == fixed
		}
		if !found {
			t.Errorf("kind %v says %q", k, text)
		}
	}
}

// TestTextsByStage holds that a client learns nothing of the payload before the
// signature holds, and nothing but the closed list after.
func TestTextsByStage(t *testing.T) {
	v, keys := world().Verifier(), world().KeySet()
	preSignature := map[string]bool{"size": true, "segments": true, "encoding": true, "header-json": true,
		"header-parameters": true, "algorithm": true, "key": true, "signature": true}
	for _, c := range cases() {
		_, err := v.Verify(c.Token, audiences(), keys, now)
		var r *token.Refusal
		if !errors.As(err, &r) {
			continue
		}
		allowed := after
		if preSignature[r.Check] {
			allowed = before
		}
		if text := r.Kind.Public(); !strings.Contains(strings.Join(allowed, "|"), text) {
			t.Errorf("%s %s: check %s says %q", c.Row, c.Name, r.Check, text)
		}
	}
}

// TestReasonsHideTheToken wants no part of a token that could be replayed in a reason.
func TestReasonsHideTheToken(t *testing.T) {
	v, keys := world().Verifier(), world().KeySet()
	for _, c := range cases() {
		_, err := v.Verify(c.Token, audiences(), keys, now)
		parts := strings.Split(c.Token, ".")
		if err == nil || len(parts) != 3 || len(parts[2]) < 8 {
			continue
		}
		if strings.Contains(err.Error(), parts[2]) || strings.Contains(err.Error(), parts[1]) && len(parts[1]) > 8 {
			t.Errorf("%s %s: the reason holds a part of the token", c.Row, c.Name)
		}
	}
}

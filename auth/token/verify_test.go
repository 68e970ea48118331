package token_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// refusal judges a token that must be refused.
func refusal(t *testing.T, v *token.Verifier, raw string, keys *token.KeySet) *token.Refusal {
	t.Helper()
	tok, err := v.Verify(raw, audiences(), keys, now)
	var r *token.Refusal
	if tok != nil || !errors.As(err, &r) {
		t.Fatalf("token %+v, error %v; want a refusal", tok, err)
	}
	return r
}

func mustVerify(t *testing.T, v *token.Verifier, raw string, keys *token.KeySet) *token.Token {
	t.Helper()
	tok, err := v.Verify(raw, audiences(), keys, now)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestTokenRFC9068(t *testing.T) {
	w := world()
	raw := w.Issuer.Mint(authtest.Claim("nbf", now.Unix()-5), authtest.Claim("jti", "one"), authtest.Claim("sid", "s-1"),
		authtest.Claim("scope", "mcp:use files mcp:use"), authtest.Claim(authtest.AcctClaim, "alice"))
	tok := mustVerify(t, w.Verifier(), raw, w.KeySet())
	want := token.Token{
		Principal: identity.Principal{Issuer: authtest.IssuerURL, Subject: "alice", Client: "test"},
		Scopes:    identity.NewScopes("mcp:use", "files"),
		Audience:  audiences(),
		Expiry:    now.Add(300 * time.Second), IssuedAt: now, NotBefore: now.Add(-5 * time.Second),
		ID: "one", KeyID: w.Issuer.Current().ID, SessionID: "s-1", AccountClaim: "alice",
	}
	public := func(t token.Token) string { s, _, _ := strings.Cut(fmt.Sprintf("%+v", t), " leeway:"); return s }
	if public(*tok) != public(want) {
		t.Errorf("token\n%s\nwant\n%s", public(*tok), public(want))
	}
	if !tok.Until().Equal(now.Add(330 * time.Second)) {
		t.Errorf("served until %v", tok.Until())
	}
}

func TestTokenKeycloak(t *testing.T) {
	w := world()
	tok := mustVerify(t, w.Verifier(), w.Realm.Mint(authtest.Claim("azp", "mcp-cli")), w.KeySet())
	want := identity.Principal{Issuer: authtest.RealmURL, Subject: authtest.AliceUUID, Client: "mcp-cli"}
	if tok.Principal != want || tok.ClientOwn || !tok.Scopes.Has("mcp:use", "openid") || tok.SessionID == "" {
		t.Errorf("token %+v, want principal %+v", tok, want)
	}
}

// TestLeewayEdges walks the second at which a token begins and ends to be served.
func TestLeewayEdges(t *testing.T) {
	w := world()
	v, keys := w.Verifier(), w.KeySet()
	raw := w.Issuer.Mint(authtest.Claim("nbf", now.Unix()+100), authtest.Claim("iat", now.Unix()+100), authtest.Claim("exp", now.Unix()+200))
	for _, c := range []struct {
		at   time.Duration
		want token.Kind // 0: accepted
	}{
		{69 * time.Second, token.KindNotYetValid},
		{70*time.Second - 1, token.KindNotYetValid},
		{70 * time.Second, 0},
		{200 * time.Second, 0},
		{230*time.Second - 1, 0},
		{230 * time.Second, token.KindExpired},
		{231 * time.Second, token.KindExpired},
	} {
		_, err := v.Verify(raw, audiences(), keys, now.Add(c.at))
		var r *token.Refusal
		switch {
		case c.want == 0 && err != nil:
			t.Errorf("at %v: %v", c.at, err)
		case c.want != 0 && (!errors.As(err, &r) || r.Kind != c.want):
			t.Errorf("at %v: %v, want %v", c.at, err, c.want)
		}
	}
}

// TestNothingConfiguredRefuses holds that absent configuration never means open.
func TestNothingConfiguredRefuses(t *testing.T) {
	w := world()
	v, keys, raw := w.Verifier(), w.KeySet(), w.Issuer.Mint()
	mustVerify(t, v, raw, keys)
	empty, err := token.New()
	if err != nil {
		t.Fatal(err)
	}
	var none *token.Verifier
	for name, zero := range map[string]*token.Verifier{"zero": {}, "nil": none, "no policies": empty} {
		if r := refusal(t, zero, raw, keys); r.Kind != token.KindUnverifiable {
			t.Errorf("%s verifier: %v", name, r)
		}
		if steps := zero.Explain(raw, audiences(), keys, now); steps[len(steps)-1].Outcome != token.OutcomeNotReached {
			t.Errorf("%s verifier explains %v", name, steps)
		}
	}
	if r := refusal(t, v, raw, nil); r.Kind != token.KindUnknownKey {
		t.Errorf("no keys: %v", r)
	}
	for _, none := range [][]string{nil, {}, {""}} {
		if _, err := v.Verify(raw, none, keys, now); err == nil {
			t.Errorf("audiences %q: accepted", none)
		}
		if _, err := v.Verify(w.Issuer.Mint(authtest.Without("aud")), none, keys, now); err == nil {
			t.Errorf("audiences %q and no aud: accepted", none)
		}
	}
	if _, err := v.Verify(raw, audiences(), keys, time.Time{}); err == nil {
		t.Error("accepted at the zero time")
	}
}

func TestNewRefuses(t *testing.T) {
	ok := token.Policy{Issuer: "https://a", Profile: token.ProfileRFC9068}
	edit := func(f func(*token.Policy)) token.Policy { p := ok; f(&p); return p }
	for name, policies := range map[string][]token.Policy{
		"issuer twice":      {ok, ok},
		"no issuer":         {edit(func(p *token.Policy) { p.Issuer = "" })},
		"issuer binary":     {edit(func(p *token.Policy) { p.Issuer = "https://a\x00" })},
		"no profile":        {edit(func(p *token.Policy) { p.Profile = "" })},
		"unknown profile":   {edit(func(p *token.Policy) { p.Profile = "okta" })},
		"alg none":          {edit(func(p *token.Policy) { p.Algorithms = []string{"none"} })},
		"alg HS256":         {edit(func(p *token.Policy) { p.Algorithms = []string{"RS256", "HS256"} })},
		"alg in lower case": {edit(func(p *token.Policy) { p.Algorithms = []string{"rs256"} })},
		"alg empty":         {edit(func(p *token.Policy) { p.Algorithms = []string{""} })},
		"leeway negative":   {edit(func(p *token.Policy) { p.Leeway = -1 })},
		"leeway too large":  {edit(func(p *token.Policy) { p.Leeway = 61 * time.Second })},
		"lifetime negative": {edit(func(p *token.Policy) { p.MaxLifetime = -1 })},
	} {
		if v, err := token.New(policies...); err == nil || v != nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := token.New(ok, edit(func(p *token.Policy) {
		p.Issuer = "https://b"
		p.Algorithms = []string{"Ed25519"}
		p.Leeway = 60 * time.Second
	})); err != nil {
		t.Error(err)
	}
}

// TestAlgorithmsPerIssuer holds that one issuer's list does not open another's keys.
func TestAlgorithmsPerIssuer(t *testing.T) {
	w := world()
	a, b := w.Issuer.Policy(), w.Other.Policy()
	a.Algorithms, b.Algorithms = []string{"ES256"}, []string{"RS256"}
	v, err := token.New(a, b)
	if err != nil {
		t.Fatal(err)
	}
	keys := w.KeySet()
	mustVerify(t, v, w.Other.Mint(), keys)
	if r := refusal(t, v, w.Issuer.Mint(), keys); r.Kind != token.KindUnverifiable || !strings.Contains(r.Reason, "not allowed for issuer") {
		t.Errorf("RS256 at an issuer of ES256: %v", r)
	}
	// An algorithm of nobody asks for no key.
	raw := w.Issuer.Mint(authtest.Header("alg", "RS512"), authtest.Header("kid", "unknown"))
	if r := refusal(t, v, raw, keys); r.Kind != token.KindUnverifiable || r.Check != "algorithm" {
		t.Errorf("RS512 under an unknown kid: %v, want no question for keys", r)
	}
}

// TestSameKidAtTwoIssuers holds that the signature decides, not the order.
func TestSameKidAtTwoIssuers(t *testing.T) {
	a, b := authtest.NewIssuer("https://a.test"), authtest.NewIssuer("https://b.test")
	a.Keys, b.Keys = []*authtest.Key{authtest.NewKey("ES256")}, []*authtest.Key{authtest.NewKey("ES256")}
	b.Keys[0].ID = a.Keys[0].ID
	a.Now, b.Now = func() time.Time { return now }, func() time.Time { return now }
	v, keys := authtest.NewVerifier(a, b), authtest.KeySet(a, b)
	for _, i := range []*authtest.Issuer{a, b} {
		if tok := mustVerify(t, v, i.Mint(), keys); string(tok.Principal.Issuer) != i.URL {
			t.Errorf("token of %s is taken for one of %s", i.URL, tok.Principal.Issuer)
		}
	}
	if r := refusal(t, v, b.Mint(authtest.Claim("iss", a.URL)), keys); r.Kind != token.KindWrongIssuer {
		t.Errorf("b signs in a's name: %v", r)
	}
	if r := refusal(t, v, a.Mint(authtest.Claim("iss", b.URL)), keys); r.Kind != token.KindWrongIssuer {
		t.Errorf("a signs in b's name: %v", r)
	}
}

// TestSharedKey holds that two issuers with one key set, as some providers have,
// both work and keep their own policies.
func TestSharedKey(t *testing.T) {
	a, b := authtest.NewIssuer("https://a.test"), authtest.NewRealm("https://b.test")
	b.Keys = a.Keys
	a.Now, b.Now = func() time.Time { return now }, func() time.Time { return now }
	v, keys := authtest.NewVerifier(a, b), authtest.KeySet(a, b)
	for _, i := range []*authtest.Issuer{a, b} {
		if tok := mustVerify(t, v, i.Mint(), keys); string(tok.Principal.Issuer) != i.URL {
			t.Errorf("token of %s is taken for one of %s", i.URL, tok.Principal.Issuer)
		}
	}
	for _, iss := range []string{"https://c.test", ""} {
		if r := refusal(t, v, a.Mint(authtest.Claim("iss", iss)), keys); r.Kind != token.KindWrongIssuer {
			t.Errorf("iss %q: %v", iss, r)
		}
	}
	if r := refusal(t, v, a.Mint(authtest.Claim("iss", b.URL)), keys); r.Kind != token.KindWrongType {
		t.Errorf("rfc9068 token under the keycloak policy: %v", r)
	}
}

// TestKeysOfStrangers holds that keys count only with a policy for their issuer.
func TestKeysOfStrangers(t *testing.T) {
	w := world()
	stranger := authtest.NewIssuer("https://stranger.test")
	stranger.Now = func() time.Time { return now }
	keys := authtest.KeySet(w.Issuer, stranger)
	for _, raw := range []string{stranger.Mint(), stranger.Mint(authtest.Claim("iss", authtest.IssuerURL))} {
		if r := refusal(t, w.Verifier(), raw, keys); r.Kind != token.KindUnknownKey {
			t.Errorf("a key without a policy: %v", r)
		}
	}
}

func TestWithdrawnKey(t *testing.T) {
	i := authtest.NewIssuer("https://a.test")
	i.Now = func() time.Time { return now }
	old, v := i.Current(), authtest.NewVerifier(i)
	before := i.Mint()
	next := i.Rotate("ES256")
	mustVerify(t, v, before, authtest.KeySet(i))
	mustVerify(t, v, i.Mint(), authtest.KeySet(i))
	i.Withdraw(old)
	if r := refusal(t, v, before, authtest.KeySet(i)); r.Kind != token.KindUnknownKey {
		t.Errorf("token under a withdrawn key: %v", r)
	}
	if tok := mustVerify(t, v, i.Mint(), authtest.KeySet(i)); tok.KeyID != next.ID {
		t.Errorf("verified under %s", tok.KeyID)
	}
}

// TestMissingKeyID is the switch for issuers without kid.
func TestMissingKeyID(t *testing.T) {
	i := authtest.NewIssuer("https://a.test")
	i.Now = func() time.Time { return now }
	i.Current().ID = ""
	bare := func(cs ...authtest.Change) string { return i.Mint(append(cs, authtest.WithoutHeader("kid"))...) }
	policy := i.Policy()
	strict, _ := token.New(policy)
	policy.AllowMissingKeyID = true
	lax, err := token.New(policy)
	if err != nil {
		t.Fatal(err)
	}
	keys := authtest.KeySet(i)
	if r := refusal(t, strict, bare(), keys); r.Kind != token.KindUnverifiable {
		t.Errorf("without the switch: %v", r)
	}
	mustVerify(t, lax, bare(), keys)
	if r := refusal(t, lax, bare(authtest.Header("alg", "RS512")), keys); r.Kind != token.KindUnverifiable {
		t.Errorf("alg that is not the key's: %v", r)
	}
	if r := refusal(t, lax, i.Mint(authtest.Header("kid", "x")), keys); r.Kind != token.KindUnknownKey {
		t.Errorf("a kid that the issuer does not have: %v", r)
	}
	if r := refusal(t, lax, i.Mint(authtest.Header("kid", "")), keys); r.Kind != token.KindMalformed {
		t.Errorf("an empty kid: %v", r)
	}
	i.Rotate("ES256").ID = ""
	if r := refusal(t, lax, bare(), authtest.KeySet(i)); r.Kind != token.KindUnverifiable || !strings.Contains(r.Reason, "2 keys") {
		t.Errorf("two keys: %v", r)
	}
}

func TestSeveralAudiences(t *testing.T) {
	w := world()
	raw := w.Issuer.Mint(authtest.Claim("aud", "my-client"))
	if _, err := w.Verifier().Verify(raw, []string{authtest.Audience, "my-client"}, w.KeySet(), now); err != nil {
		t.Error(err)
	}
	if r := refusal(t, w.Verifier(), raw, w.KeySet()); r.Kind != token.KindWrongAudience {
		t.Error(r)
	}
}

// TestAccountClaim holds that the value comes back as it is, whatever it is, and
// only from a top-level string of exactly that name.
func TestAccountClaim(t *testing.T) {
	w := world()
	v, keys := w.Verifier(), w.KeySet()
	for _, value := range []string{"alice", "", "root", "-root", "0", "00", "+0", "../x", `DOM\x`, "a@b@c", "Root", "ａlice", "аlice",
		"root\x00x", "alice\n", " alice", "$(id)", strings.Repeat("a", 5000)} {
		tok := mustVerify(t, v, w.Issuer.Mint(authtest.Claim(authtest.AcctClaim, value)), keys)
		if tok.AccountClaim != value || tok.AccountClaimReason != "" {
			t.Errorf("claim %q came back as %q (%s)", value, tok.AccountClaim, tok.AccountClaimReason)
		}
	}
	for name, change := range map[string]authtest.Change{
		"absent":       authtest.Without(authtest.AcctClaim),
		"null":         authtest.Claim(authtest.AcctClaim, nil),
		"number":       authtest.Claim(authtest.AcctClaim, 0),
		"true":         authtest.Claim(authtest.AcctClaim, true),
		"array":        authtest.Claim(authtest.AcctClaim, []string{"root"}),
		"object":       authtest.Claim(authtest.AcctClaim, map[string]string{"value": "root"}),
		"other case":   authtest.Claim(strings.ToUpper(authtest.AcctClaim), "root"),
		"nested":       authtest.Claim("resource_access", map[string]string{authtest.AcctClaim: "root"}),
		"dotted":       authtest.Claim("x."+authtest.AcctClaim, "root"),
		"space behind": authtest.Claim(authtest.AcctClaim+" ", "root"),
	} {
		tok := mustVerify(t, v, w.Issuer.Mint(change), keys)
		if tok.AccountClaim != "" || tok.AccountClaimReason == "" {
			t.Errorf("%s: claim %q, reason %q", name, tok.AccountClaim, tok.AccountClaimReason)
		}
	}
	if r := refusal(t, v, w.Issuer.Mint(authtest.Claim(authtest.AcctClaim, "alice"), authtest.Twice(authtest.AcctClaim, "root")), keys); r.Kind != token.KindBadClaims {
		t.Errorf("claim twice: %v", r)
	}
	policy := w.Issuer.Policy()
	policy.AccountClaim = ""
	none, _ := token.New(policy)
	if tok := mustVerify(t, none, w.Issuer.Mint(authtest.Claim(authtest.AcctClaim, "root")), keys); tok.AccountClaim != "" {
		t.Errorf("a claim that nobody configured: %q", tok.AccountClaim)
	}
}

// TestReasons wants what an operator needs to act, in the private reason.
func TestReasons(t *testing.T) {
	w := world()
	v, keys := w.Verifier(), w.KeySet()
	for _, c := range []struct {
		name, raw string
		want      []string
	}{
		{"audience", w.Issuer.Mint(authtest.Claim("aud", []string{"account", "x"})), []string{`["account" "x"]`, authtest.Audience}},
		{"no audience", w.Issuer.Mint(authtest.Without("aud")), []string{"no aud", authtest.Audience}},
		{"audience at Keycloak", w.Realm.Mint(authtest.Claim("aud", "account"), authtest.Claim("scope", "openid email")),
			[]string{`["account"]`, "mapper of type Audience", `Included Custom Audience "` + authtest.Audience + `"`, "client scope", "openid email"}},
		{"lightweight", w.Realm.Mint(authtest.Without("sub", "aud"), authtest.Claim("jti", "onltac:1")), []string{"lightweight", "client.use.lightweight.access.token.enabled"}},
		{"lightweight with an audience", w.Realm.Mint(authtest.Without("sub"), authtest.Claim("jti", "onltac:1")), []string{"no sub", "lightweight"}},
		{"scope basic missing", w.Realm.Mint(authtest.Without("sub")), []string{"no sub", "client scope basic"}},
		{"issuer", w.Issuer.Mint(authtest.Claim("iss", "https://kc:8443/realms/r")), []string{"https://kc:8443/realms/r", authtest.IssuerURL, "discovery"}},
		{"issuer with a slash", w.Issuer.Mint(authtest.Claim("iss", authtest.IssuerURL+"/")), []string{"slash"}},
		{"expired", w.Issuer.Mint(authtest.Claim("exp", now.Unix()-95), authtest.Claim("iat", now.Unix()-300)), []string{"95 s ago", "leeway 30 s"}},
		{"clock ahead", w.Issuer.Mint(authtest.Claim("iat", now.Unix()+95)), []string{"95 s ahead", "leeway 30 s", "clocks"}},
		{"ID token", w.Realm.Mint(authtest.Claim("typ", "ID")), []string{"ID token", "access token"}},
		{"DPoP", w.Realm.Mint(authtest.Claim("typ", "DPoP")), []string{"bound", "dpop.bound.access.tokens"}},
		{"profile", w.Issuer.Mint(authtest.Header("typ", "JWT"), authtest.Claim("typ", "Bearer")), []string{"profile to keycloak"}},
		{"profile by azp", w.Issuer.Mint(authtest.Without("client_id"), authtest.Claim("azp", "x")), []string{"client_id", "azp", "profile to keycloak"}},
		{"algorithm of the key", w.Issuer.Mint(authtest.Header("alg", "RS512")), []string{"RS512", "RS256 only", w.Issuer.Current().ID, authtest.IssuerURL}},
		{"unknown kid", w.Issuer.Mint(authtest.Header("kid", "new")), []string{`"new"`}},
		{"lifetime", w.Issuer.Mint(authtest.Claim("exp", now.Unix()+90000)), []string{"90000 s", "86400 s"}},
		{"opaque", "ya29.opaque", []string{"2 of three parts", "opaque"}},
		{"encrypted", "a.b.c.d.e", []string{"encrypted"}},
	} {
		r := refusal(t, v, c.raw, keys)
		for _, part := range c.want {
			if !strings.Contains(r.Error(), part) {
				t.Errorf("%s: reason %q lacks %q", c.name, r, part)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	w := world()
	v, keys := w.Verifier(), w.KeySet()
	steps := v.Explain(w.Realm.Mint(), audiences(), keys, now)
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
		if s.Outcome != token.OutcomeOK || s.Kind != 0 {
			t.Errorf("good token: %+v", s)
		}
	}
	if !slices.Equal(names, token.CheckNames()) {
		t.Errorf("steps %v, checks %v", names, token.CheckNames())
	}

	// After the signature all faults are told at once.
	raw := w.Realm.Mint(authtest.Claim("exp", now.Unix()-600), authtest.Claim("iat", now.Unix()-900), authtest.Claim("aud", "account"), authtest.Claim("cnf", 1))
	failed := map[string]bool{}
	for _, s := range v.Explain(raw, audiences(), keys, now) {
		if s.Outcome == token.OutcomeNotReached {
			t.Errorf("%s was not reached", s.Name)
		}
		if s.Outcome == token.OutcomeFailed {
			failed[s.Name] = true
		}
	}
	if len(failed) != 3 || !failed["audience"] || !failed["expiry"] || !failed["binding"] {
		t.Errorf("failed: %v", failed)
	}

	// Before it nothing of the payload is told.
	for _, s := range v.Explain(w.Realm.Mint(authtest.Header("kid", "x")), audiences(), keys, now) {
		if s.Name == "signature" && s.Outcome != token.OutcomeNotReached || strings.Contains(s.Detail, authtest.AliceUUID) {
			t.Errorf("unknown key, yet %+v", s)
		}
	}
}

// TestExplainAgrees holds that Verify accepts exactly what Explain finds faultless.
func TestExplainAgrees(t *testing.T) {
	v, keys := world().Verifier(), world().KeySet()
	for _, c := range cases() {
		ok := true
		for _, s := range v.Explain(c.Token, audiences(), keys, now) {
			ok = ok && s.Outcome == token.OutcomeOK
		}
		if ok != c.Accepted {
			t.Errorf("%s %s: Explain says %v, Verify %v", c.Row, c.Name, ok, c.Accepted)
		}
	}
}

// TestEveryCheckIsNeeded ignores one check's refusal at a time and wants a token
// of the matrix to slip through: what no test misses could be deleted. The gates
// before it are needed by the checks that read what they found.
func TestEveryCheckIsNeeded(t *testing.T) {
	v, keys := world().Verifier(), world().KeySet()
	feeders := []string{"segments", "encoding", "header-json", "header-parameters", "algorithm", "key", "signature", "payload-json"}
	notes := []string{"account-claim", "client-own"} // they refuse nothing
	for _, name := range token.CheckNames() {
		if slices.Contains(feeders, name) || slices.Contains(notes, name) {
			continue
		}
		slips := func(c authtest.Case) bool {
			return !c.Accepted && token.VerifyIgnoring(name, v, c.Token, audiences(), keys, now) == nil
		}
		if !slices.ContainsFunc(cases(), slips) {
			t.Errorf("no token of the matrix misses the check %s", name)
		}
	}
}

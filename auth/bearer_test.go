package auth

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/printable"
	"gatehouse/auth/token"
)

// fakeKeys is a key store whose every answer the test chooses.
type fakeKeys struct {
	mu         sync.Mutex
	set        *token.KeySet
	generation uint64
	notReady   bool
	answer     keys.Answer
	arrives    *token.KeySet // becomes the set at a Lookup
	asked      []string
}

func (f *fakeKeys) Current() (*token.KeySet, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set, f.generation
}

func (f *fakeKeys) Ready() bool { return !f.notReady }

func (f *fakeKeys) Lookup(ctx context.Context, kid string) keys.Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, kid)
	if f.arrives != nil {
		f.change(f.arrives)
	}
	return f.answer
}

func (f *fakeKeys) change(set *token.KeySet) { f.set, f.generation = set, f.generation+1 }

// world is a gate with its issuer, keys and clock.
type world struct {
	issuer *authtest.Issuer
	keys   *fakeKeys
	gate   *Bearer
	now    time.Time
}

func newWorld(t *testing.T, change ...func(*BearerConfig)) *world {
	t.Helper()
	w := &world{issuer: authtest.NewIssuer(authtest.IssuerURL), now: time.Unix(1_900_000_000, 0)}
	clock := func() time.Time { return w.now }
	w.issuer.Now = clock
	w.keys = &fakeKeys{set: authtest.KeySet(w.issuer), generation: 1}
	cfg := BearerConfig{
		Verifier: authtest.NewVerifier(w.issuer), Keys: w.keys, Audiences: []string{authtest.Audience},
		Required: identity.NewScopes("mcp:use"), MaxTokenBytes: 8 << 10, Now: clock,
	}
	for _, c := range change {
		c(&cfg)
	}
	g, err := NewBearer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.gate = g
	return w
}

func (w *world) admit(t *testing.T, raw string) (Caller, *Refusal) {
	t.Helper()
	return w.gate.Admit(t.Context(), http.Header{"Authorization": {"Bearer " + raw}})
}

func (w *world) want(t *testing.T, raw string, kind Kind, tok token.Kind) {
	t.Helper()
	c, r := w.admit(t, raw)
	if r == nil || r.Kind != kind || r.Token != tok {
		t.Errorf("got %+v, %+v, want refusal %v, %v", c.Principal, r, kind, tok)
	}
	if c.Token != "" || c.Principal != (identity.Principal{}) {
		t.Errorf("a refusal came with the caller %+v", c.Principal)
	}
}

func (w *world) good(t *testing.T, raw string) Caller {
	t.Helper()
	c, r := w.admit(t, raw)
	if r != nil {
		t.Fatalf("refused: %+v", r)
	}
	return c
}

func TestBearerSaysWhoIsCalling(t *testing.T) {
	w := newWorld(t)
	raw := w.issuer.Mint(authtest.Claim("scope", "mcp:use other"))
	for _, round := range []string{"verified", "remembered"} {
		c := w.good(t, raw)
		want := Caller{
			Principal: identity.Principal{Issuer: authtest.IssuerURL, Subject: "alice", Client: "test"},
			Scopes:    identity.NewScopes("mcp:use", "other"), Token: raw, KeyID: w.issuer.Current().ID,
			Expiry: w.now.Add(300*time.Second + authtest.Leeway),
		}
		if c.Principal != want.Principal || c.Scopes.String() != want.Scopes.String() || c.Token != want.Token || c.KeyID != want.KeyID || !c.Expiry.Equal(want.Expiry) {
			t.Errorf("%s: got %+v, want %+v", round, c, want)
		}
	}
}

func TestZeroBearerRefuses(t *testing.T) {
	good := newWorld(t).issuer.Mint()
	for _, h := range []http.Header{{}, {"Authorization": {"Bearer " + good}}} {
		if _, r := new(Bearer).Admit(t.Context(), h); r == nil || r.Kind != KindInternal {
			t.Errorf("zero gate: %+v", r)
		}
		if _, r := (*Bearer)(nil).Admit(t.Context(), h); r == nil {
			t.Error("nil gate let somebody in")
		}
	}
}

func TestNewBearerWantsAllItNeeds(t *testing.T) {
	full := newWorld(t).gate.cfg
	for name, broken := range map[string]func(*BearerConfig){
		"verifier":     func(c *BearerConfig) { c.Verifier = nil },
		"keys":         func(c *BearerConfig) { c.Keys = nil },
		"clock":        func(c *BearerConfig) { c.Now = nil },
		"audiences":    func(c *BearerConfig) { c.Audiences = nil },
		"token limit":  func(c *BearerConfig) { c.MaxTokenBytes = 0 },
		"token limit+": func(c *BearerConfig) { c.MaxTokenBytes = token.MaxBytes + 1 },
	} {
		cfg := full
		broken(&cfg)
		if _, err := NewBearer(cfg); err == nil {
			t.Errorf("without %s: made", name)
		}
	}
}

func TestBearerRefusesWithTheTokensOwnKind(t *testing.T) {
	w := newWorld(t)
	w.want(t, w.issuer.Mint(authtest.Claim("exp", w.now.Add(-time.Minute).Unix())), KindToken, token.KindExpired)
	w.want(t, w.issuer.Mint(authtest.Claim("nbf", w.now.Add(time.Minute).Unix())), KindToken, token.KindNotYetValid)
	w.want(t, w.issuer.Mint(authtest.Claim("aud", "account")), KindToken, token.KindWrongAudience)
	w.want(t, w.issuer.Mint(authtest.SignedAs(authtest.NewKey("RS256"))), KindToken, token.KindUnverifiable)
	w.want(t, "a.b.c", KindToken, token.KindMalformed)
	if len(w.keys.asked) != 0 {
		t.Errorf("asked for keys %q: none of these may cost a fetch", w.keys.asked)
	}
	if n := w.gate.cache.len(); n != 0 {
		t.Errorf("%d refusals are remembered", n)
	}
}

func TestBearerWantsAllRequiredScopes(t *testing.T) {
	w := newWorld(t, func(c *BearerConfig) { c.Required = identity.NewScopes("mcp:use", "files") })
	narrow, wide := w.issuer.Mint(), w.issuer.Mint(authtest.Claim("scope", "files mcp:use x"))
	for range 2 { // verified, remembered
		w.want(t, narrow, KindScope, 0)
		w.good(t, wide)
	}
	if _, r := w.admit(t, narrow); r.Principal.Subject != "alice" {
		t.Errorf("refusal does not say whose token it was: %+v", r)
	}
}

func TestBearerAsksOnceForAnUnknownKey(t *testing.T) {
	t.Run("it comes", func(t *testing.T) {
		w := newWorld(t)
		k := w.issuer.Rotate("ES256")
		w.keys.arrives, w.keys.answer = authtest.KeySet(w.issuer), keys.Known
		c := w.good(t, w.issuer.Mint())
		if c.KeyID != k.ID || len(w.keys.asked) != 1 || w.keys.asked[0] != k.ID {
			t.Errorf("verified by %q, asked for %q, want %q", c.KeyID, w.keys.asked, k.ID)
		}
	})
	t.Run("nobody has it", func(t *testing.T) {
		w := newWorld(t)
		w.issuer.Rotate("ES256")
		w.keys.answer = keys.Absent
		w.want(t, w.issuer.Mint(), KindToken, token.KindUnknownKey)
	})
	t.Run("another issuer's token asks nobody", func(t *testing.T) {
		w := newWorld(t)
		w.issuer.Rotate("ES256")
		w.want(t, w.issuer.Mint(authtest.Claim("iss", "https://issuer.test/realms/other")), KindToken, token.KindUnverifiable)
		if len(w.keys.asked) != 0 {
			t.Errorf("asked for %q", w.keys.asked)
		}
	})
	t.Run("nobody can be asked", func(t *testing.T) {
		w := newWorld(t)
		w.issuer.Rotate("ES256")
		w.want(t, w.issuer.Mint(), KindUndecided, 0)
	})
}

func TestBearerWithoutKeysDecidesNothing(t *testing.T) {
	w := newWorld(t)
	raw := w.issuer.Mint()
	w.good(t, raw)
	w.keys.change(token.NewKeySet(nil))
	w.keys.notReady = true
	w.want(t, raw, KindUndecided, 0)
	if len(w.keys.asked) != 0 {
		t.Error("waited for keys while there are none at all")
	}
}

// TestBearerWithoutTheIssuersKeysDecidesNothing holds that one issuer's keys decide
// nothing about another's tokens, whatever key ids the two use.
func TestBearerWithoutTheIssuersKeysDecidesNothing(t *testing.T) {
	stale := authtest.NewIssuer("https://stale.test")
	for name, change := range map[string]func(*world) authtest.Change{
		"no key id":             func(*world) authtest.Change { return authtest.WithoutHeader("kid") },
		"a key id of the other": func(w *world) authtest.Change { return authtest.Header("kid", w.issuer.Current().ID) },
	} {
		w := newWorld(t)
		stale.Now = w.issuer.Now
		policy := stale.Policy()
		policy.AllowMissingKeyID = true
		v, err := token.New(w.issuer.Policy(), policy)
		if err != nil {
			t.Fatal(err)
		}
		w.gate.cfg.Verifier = v
		raw := stale.Mint(change(w))
		w.want(t, raw, KindUndecided, 0)
		w.keys.change(authtest.KeySet(w.issuer, stale))
		if c, r := w.admit(t, raw); name == "no key id" && (r != nil || c.Principal.Issuer != "https://stale.test") ||
			name != "no key id" && (r == nil || r.Kind != KindToken) {
			t.Errorf("%s, with its keys back: %+v", name, r)
		}
		w.good(t, w.issuer.Mint())
	}
}

// TestReasonsAreCut holds that what a token says fills no log.
func TestReasonsAreCut(t *testing.T) {
	w := newWorld(t)
	_, scope := w.admit(t, w.issuer.Mint(authtest.Claim("scope", strings.Repeat("x", 3000))))
	w.issuer.Rotate("ES256")
	_, foreign := w.admit(t, w.issuer.Mint(authtest.Claim("iss", "https://"+strings.Repeat("\u20ac", 300))))
	for _, r := range []*Refusal{scope, foreign} {
		if r == nil || len(r.Reason) > 8*printable.Value {
			t.Errorf("%+v", r)
		}
	}
	if scope.Kind != KindScope || !strings.Contains(foreign.Reason, "not configured") {
		t.Errorf("%+v, %+v", scope, foreign)
	}
}

// The cache may only ever save the work of a signature.
func TestCacheForgets(t *testing.T) {
	t.Run("at expiry", func(t *testing.T) {
		w := newWorld(t)
		raw := w.issuer.Mint(authtest.Claim("exp", w.now.Add(10*time.Second).Unix()))
		w.good(t, raw)
		w.now = w.now.Add(10*time.Second + authtest.Leeway - time.Nanosecond)
		w.good(t, raw)
		w.now = w.now.Add(time.Nanosecond)
		w.want(t, raw, KindToken, token.KindExpired)
	})
	t.Run("when its key is withdrawn", func(t *testing.T) {
		w := newWorld(t)
		raw, old := w.issuer.Mint(), w.issuer.Current()
		w.good(t, raw)
		w.issuer.Rotate("RS256")
		w.issuer.Withdraw(old)
		w.keys.change(authtest.KeySet(w.issuer))
		w.keys.answer = keys.Absent
		w.want(t, raw, KindToken, token.KindUnknownKey)
	})
	t.Run("when its key id gets another key", func(t *testing.T) {
		w := newWorld(t)
		raw := w.issuer.Mint()
		w.good(t, raw)
		stolen := authtest.NewKey("RS256")
		stolen.ID = w.issuer.Current().ID
		w.issuer.Keys = []*authtest.Key{stolen}
		w.keys.change(authtest.KeySet(w.issuer))
		w.want(t, raw, KindToken, token.KindUnverifiable)
	})
}

func TestCacheWantsTheWholeToken(t *testing.T) {
	w := newWorld(t)
	raw := w.issuer.Mint()
	w.good(t, raw)
	for name, other := range map[string]string{
		"cut":             raw[:len(raw)-1],
		"longer":          raw + "A",
		"other signature": raw[:strings.LastIndexByte(raw, '.')] + ".AAAA",
		"other payload":   strings.Replace(raw, ".", ".A", 1),
	} {
		if _, r := w.admit(t, other); r == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// One gate's verdicts say nothing about another server's tokens.
func TestCacheIsOfOneServer(t *testing.T) {
	w := newWorld(t)
	raw := w.issuer.Mint()
	w.good(t, raw)
	cfg := w.gate.cfg
	cfg.Audiences = []string{"https://mcp.test:8443/other"}
	sibling, err := NewBearer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, r := sibling.Admit(t.Context(), http.Header{"Authorization": {"Bearer " + raw}})
	if r == nil || r.Token != token.KindWrongAudience {
		t.Errorf("the sibling server says %+v", r)
	}
}

func TestCacheIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	w := newWorld(t, func(c *BearerConfig) { c.CacheSize = 8 })
	favourite := w.issuer.Mint()
	for range 50 {
		w.good(t, favourite)
		w.good(t, w.issuer.Mint())
		if n := w.gate.cache.len(); n > 8 {
			t.Fatalf("%d tokens are remembered, want at most 8", n)
		}
	}
	w.gate.cfg.Verifier = new(token.Verifier) // from here on the cache alone lets anybody in
	w.good(t, favourite)
}

func TestCacheRemembersWithoutAVerifier(t *testing.T) {
	w := newWorld(t)
	raw := w.issuer.Mint()
	w.good(t, raw)
	w.gate.cfg.Verifier = new(token.Verifier)
	w.good(t, raw)
	w.want(t, w.issuer.Mint(), KindToken, token.KindUnverifiable)
}

func TestCacheCanBeOff(t *testing.T) {
	w := newWorld(t, func(c *BearerConfig) { c.CacheSize = -1 })
	w.good(t, w.issuer.Mint())
	if n := w.gate.cache.len(); n != 0 {
		t.Errorf("%d tokens are remembered", n)
	}
}

// Dropped entries must leave their place to new ones.
func TestCacheReusesDroppedEntries(t *testing.T) {
	c := newCache(4)
	now := time.Unix(1000, 0)
	for round := range 10 {
		for i := range 4 {
			c.put(cacheKey{byte(round), byte(i)}, verdict{until: now.Add(time.Second), generation: uint64(round)})
		}
		for i := range 4 {
			k := cacheKey{byte(round), byte(i)}
			if _, ok := c.get(k, uint64(round), now); !ok {
				t.Fatalf("round %d: entry %d is not remembered", round, i)
			}
			if _, ok := c.get(k, uint64(round+1), now); ok {
				t.Fatalf("round %d: entry %d of an old generation is good", round, i)
			}
		}
		if c.len() != 0 {
			t.Fatalf("%d entries are left", c.len())
		}
	}
}

// A token that is remembered is found by its usual field alone: what is wrong with a
// field is wrong again.
func TestRememberedTokenKeepsTheFieldsRules(t *testing.T) {
	w := newWorld(t)
	raw := w.issuer.Mint()
	w.good(t, raw)
	for field, want := range map[string]Kind{
		"Bearer " + raw + " x": KindSyntax, "Bearer Bearer " + raw: KindDoubledScheme, `Bearer "` + raw + `"`: KindQuoted,
		"Basic " + raw: KindNoCredentials, raw: KindBareToken, "Bearer " + raw[1:]: KindToken,
	} {
		if _, r := w.gate.Admit(context.Background(), http.Header{"Authorization": {field}}); r == nil || r.Kind != want {
			t.Errorf("%.20q…: got %+v, want %v", field, r, want)
		}
	}
	for _, field := range []string{"Bearer " + raw, "bearer  " + raw, " Bearer\t" + raw + " "} {
		if c, r := w.gate.Admit(context.Background(), http.Header{"Authorization": {field}}); r != nil || c.Token != raw {
			t.Errorf("%.20q…: refused: %+v", field, r)
		}
	}
	if _, r := w.gate.Admit(context.Background(), http.Header{"Authorization": {"Bearer " + raw, "Bearer " + raw}}); r == nil || r.Kind != KindTwoFields {
		t.Errorf("two fields: %+v", r)
	}
}

func TestBearerIsSafeForConcurrentUse(t *testing.T) {
	w := newWorld(t, func(c *BearerConfig) { c.CacheSize = 3 })
	var raws []string
	for range 6 {
		raws = append(raws, w.issuer.Mint())
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				raw := raws[(i+j)%len(raws)]
				c, r := w.gate.Admit(context.Background(), http.Header{"Authorization": {"Bearer " + raw}})
				if r != nil || c.Token != raw {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkAdmitRemembered(b *testing.B) {
	i := authtest.NewIssuer(authtest.IssuerURL)
	g, err := NewBearer(BearerConfig{
		Verifier: authtest.NewVerifier(i), Keys: &fakeKeys{set: authtest.KeySet(i)}, Audiences: []string{authtest.Audience},
		MaxTokenBytes: 8 << 10, Now: time.Now, Required: identity.NewScopes("mcp:use"),
	})
	if err != nil {
		b.Fatal(err)
	}
	h := http.Header{"Authorization": {"Bearer " + i.Mint()}}
	b.ReportAllocs()
	for b.Loop() {
		if _, r := g.Admit(context.Background(), h); r != nil {
			b.Fatal(r)
		}
	}
}

package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/printable"
	"gatehouse/auth/token"
)

// DefaultCacheSize is how many accepted tokens a gate remembers: about 1 MiB.
const DefaultCacheSize = 4096

// BearerConfig is what a Bearer gate is made of.
type BearerConfig struct {
	Verifier *token.Verifier
	Keys     keys.Source
	// Audiences are the accepted values of aud: the server's resource identifier
	// and what the operator added to it.
	Audiences []string
	// Required are the scopes that a token must have, all of them.
	Required identity.Scopes
	// MaxTokenBytes is at most token.MaxBytes.
	MaxTokenBytes int
	// CacheSize is the number of accepted tokens that are remembered; 0 means
	// DefaultCacheSize, a negative value none.
	CacheSize int
	Now       func() time.Time
}

// Bearer is the gate of the authenticated modes: one bearer token a request,
// judged by the token package, with the server's audiences and scopes. The zero
// Bearer refuses every request.
type Bearer struct {
	cfg   BearerConfig
	cache *cache
}

// NewBearer returns the gate of one server. It fails when something that a
// judgement needs is missing.
func NewBearer(cfg BearerConfig) (*Bearer, error) {
	switch {
	case cfg.Verifier == nil, cfg.Keys == nil, cfg.Now == nil:
		return nil, errors.New("make the token gate: verifier, keys and clock are needed")
	case len(cfg.Audiences) == 0:
		return nil, errors.New("make the token gate: no audience")
	case cfg.MaxTokenBytes <= 0 || cfg.MaxTokenBytes > token.MaxBytes:
		return nil, fmt.Errorf("make the token gate: token limit %d is not in 1 to %d", cfg.MaxTokenBytes, token.MaxBytes)
	}
	if cfg.CacheSize == 0 {
		cfg.CacheSize = DefaultCacheSize
	}
	cfg.CacheSize = max(cfg.CacheSize, 0)
	return &Bearer{cfg: cfg, cache: newCache(cfg.CacheSize)}, nil
}

// Admit implements Gate: the field's form, the token, its scopes, in this order.
func (b *Bearer) Admit(ctx context.Context, h http.Header) (Caller, *Refusal) {
	if b == nil || b.cache == nil {
		return Caller{}, &Refusal{Kind: KindInternal, Reason: "the gate was never configured"}
	}
	raw, v, ok := b.remembered(h["Authorization"])
	if !ok {
		var refusal *Refusal
		if raw, refusal = credentials(h["Authorization"], b.cfg.MaxTokenBytes); refusal != nil {
			return Caller{}, refusal
		}
		if v, refusal = b.judge(ctx, raw); refusal != nil {
			return Caller{}, refusal
		}
	}
	if !v.scopes.Has(b.cfg.Required...) {
		return Caller{}, &Refusal{Kind: KindScope, Principal: v.principal,
			Reason: "token has scopes " + printable.Quoted(v.scopes.String(), printable.Value) + ", wanted " + printable.Quoted(b.cfg.Required.String(), printable.Value)}
	}
	return Caller{Principal: v.principal, Scopes: v.scopes, Expiry: v.until, Token: raw, KeyID: v.keyID}, nil
}

// remembered finds the verdict on a token in the usual form of the field without
// looking at its form again: what is in the cache has passed those checks.
func (b *Bearer) remembered(fields []string) (raw string, v verdict, ok bool) {
	if len(fields) != 1 {
		return "", v, false
	}
	raw, ok = strings.CutPrefix(fields[0], scheme+" ")
	if !ok || len(raw) > b.cfg.MaxTokenBytes {
		return "", v, false
	}
	_, generation := b.cfg.Keys.Current()
	v, ok = b.cache.get(digest(raw), generation, b.cfg.Now())
	return raw, v, ok
}

// judge returns the verdict on a token of the right form, from the cache if it
// holds one that is still true. Key sets that got too old are in no set, and
// their absence is another generation, so that the cache decides nothing either.
func (b *Bearer) judge(ctx context.Context, raw string) (verdict, *Refusal) {
	key := digest(raw)
	_, generation := b.cfg.Keys.Current()
	if v, ok := b.cache.get(key, generation, b.cfg.Now()); ok {
		return v, nil
	}
	tok, generation, refused := keys.Judge(ctx, b.cfg.Verifier, b.cfg.Keys, raw, b.cfg.Audiences, b.cfg.Now)
	switch {
	case refused == nil:
	case refused.Undecided:
		return verdict{}, &Refusal{Kind: KindUndecided, Reason: refused.Reason}
	default:
		return verdict{}, &Refusal{Kind: KindToken, Token: refused.Kind, Reason: refused.Reason}
	}
	v := verdict{principal: tok.Principal, scopes: tok.Scopes, keyID: tok.KeyID, until: tok.Until(), generation: generation}
	b.cache.put(key, v)
	return v, nil
}

// digest hashes a token; one of the usual length without an allocation.
func digest(raw string) cacheKey {
	var buf [2048]byte
	if len(raw) > len(buf) {
		return longDigest(raw)
	}
	return sha256.Sum256(buf[:copy(buf[:], raw)])
}

// longDigest is digest in pieces, so that a long token is not copied as a whole.
func longDigest(raw string) (k cacheKey) {
	h, piece := sha256.New(), make([]byte, 1024)
	for raw != "" {
		n := copy(piece, raw)
		h.Write(piece[:n])
		raw = raw[n:]
	}
	h.Sum(k[:0])
	return k
}

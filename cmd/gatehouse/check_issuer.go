package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/issuer"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
	"gatehouse/cmd/internal/conf"
)

// skewNote is the clock difference from which on a warning is due.
const skewNote = 5 * time.Second

// issuers fetches each issuer's metadata and keys as the keykeeper will, and
// compares clocks.
func (k *checker) issuers(ctx context.Context) {
	if !k.c.Authenticated() {
		return
	}
	for _, is := range k.c.Issuers {
		if is.Issuer == "" {
			continue
		}
		topic := "issuer " + is.Issuer
		if k.offline && is.JWKSFile == "" {
			k.say(warned, topic, "not asked (--offline)")
			continue
		}
		r, err := fetchKeys(ctx, is)
		if err != nil {
			k.say(failed, topic, "%v%s", err, remedy(err, is))
			continue
		}
		k.found(topic, is, r, time.Now())
	}
}

// found judges what an issuer answered just now.
func (k *checker) found(topic string, is conf.Issuer, r issuer.Result, now time.Time) {
	from := r.JWKSURL
	if from == "" {
		from = is.JWKSFile
	}
	k.say(okay, topic, "%s from %s", count(len(r.Keys), "key"), from)
	usable := 0
	for _, key := range r.Keys {
		if accepts(is, key.Algorithm) {
			usable++
		}
	}
	if usable == 0 {
		k.say(failed, topic, "none of its keys is for an algorithm in issuers[].algorithms; add the issuer's, or switch the issuer to one of those")
	}
	for _, line := range r.LeftOut {
		k.say(okay, topic, "left out: %s", line)
	}
	if r.Date.IsZero() {
		if is.JWKSFile == "" {
			k.say(okay, topic, "its answer has no Date, so the clocks were not compared: --token-stdin with a fresh token shows a difference")
		}
		return
	}
	skew := r.Date.Sub(now)
	switch {
	case skew.Abs() > is.Leeway+time.Second: // the Date header has whole seconds
		k.say(failed, topic, "its clock and this machine's are %s apart, more than the leeway of %s: good tokens will look expired or not yet valid; set this machine's clock by NTP (timedatectl set-ntp true)", skew.Abs().Round(time.Second), is.Leeway)
	case skew.Abs() > skewNote:
		k.say(warned, topic, "its clock and this machine's are %s apart", skew.Abs().Round(time.Second))
	default:
		k.say(okay, topic, "its clock agrees with this machine's")
	}
}

// accepts reports whether keys of the algorithm can verify tokens; a key without
// one is bound to the token's, among those configured.
func accepts(is conf.Issuer, alg string) bool {
	if alg == "" {
		return true
	}
	for _, a := range is.Algorithms {
		if a == alg {
			return true
		}
	}
	return false
}

// fetchKeys gets an issuer's keys the way the keykeeper does.
func fetchKeys(ctx context.Context, is conf.Issuer) (issuer.Result, error) {
	f, err := issuer.NewFetcher(is.Source())
	if err != nil {
		return issuer.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return f.Fetch(ctx)
}

// remedy is what to do about a failed fetch.
func remedy(err error, is conf.Issuer) string {
	e, ok := errors.AsType[*issuer.Error](err)
	if !ok {
		return ""
	}
	switch e.Health {
	case keys.HealthUnreachable, keys.HealthTimeout:
		return "\nIs the issuer up, and does this machine reach it? If only under another name: MCP_DISCOVERY_URL"
	case keys.HealthTLS:
		return "\nIf its certificate is from a private authority: MCP_ISSUER_CA=FILE names the authority's certificate"
	case keys.HealthIssuer:
		return fmt.Sprintf("\nThe document names %q and the configuration %q; they must be equal byte for byte. Set MCP_ISSUER to what the document (and so the tokens) says", e.Found, is.Issuer)
	case keys.HealthStatus, keys.HealthMalformed:
		return "\nThe metadata is looked for at the issuer followed by /.well-known/openid-configuration; for Keycloak the issuer ends in /realms/NAME"
	case keys.HealthNoKey:
		text := ""
		for _, line := range e.LeftOut {
			text += "\nleft out: " + line
		}
		return text
	}
	return ""
}

// verifier is the one that front end and monitor will use.
func verifier(c *conf.Config) (*token.Verifier, error) {
	var out []token.Policy
	for _, is := range c.Issuers {
		out = append(out, token.Policy{
			Issuer: identity.Issuer(is.Issuer), Profile: token.Profile(is.Profile), Algorithms: is.Algorithms,
			Leeway: is.Leeway, MaxLifetime: is.MaxTokenLifetime, AllowMissingKeyID: is.AllowMissingKid,
			AccountClaim: c.Accounts.UserIDClaim,
		})
	}
	return token.New(out...)
}

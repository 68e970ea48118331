package token

import (
	"fmt"
	"time"
)

// One leeway, the policy's, serves exp, iat and nbf alike.

// checkExpiry wants exp (RFC 9068 section 2.2) and the time before it, plus leeway.
func checkExpiry(j *judgement) *Refusal {
	exp, found, err := j.claims.date("exp")
	switch {
	case err != nil:
		return refuse(KindBadClaims, "%v", err)
	case !found:
		return refuse(KindBadClaims, "the token has no exp")
	}
	j.token.Expiry = exp
	if !j.now.Before(exp.Add(j.policy.Leeway)) {
		return refuse(KindExpired, "expired %s ago (exp %s, leeway %s)", seconds(j.now.Sub(exp)), stamp(exp), seconds(j.policy.Leeway))
	}
	return nil
}

func showExpiry(j *judgement) string {
	return fmt.Sprintf("exp %s, in %s", stamp(j.token.Expiry), seconds(j.token.Expiry.Sub(j.now)))
}

// checkIssuedAt wants iat (RFC 9068 section 2.2), and not in the future.
func checkIssuedAt(j *judgement) *Refusal {
	iat, found, err := j.claims.date("iat")
	switch {
	case err != nil:
		return refuse(KindBadClaims, "%v", err)
	case !found:
		return refuse(KindBadClaims, "the token has no iat")
	}
	j.token.IssuedAt = iat
	return j.notBefore("iat", iat)
}

func showIssuedAt(j *judgement) string {
	return fmt.Sprintf("iat %s, %s ago", stamp(j.token.IssuedAt), seconds(j.now.Sub(j.token.IssuedAt)))
}

// checkNotBefore obeys nbf where it is present (RFC 7519 section 4.1.5).
func checkNotBefore(j *judgement) *Refusal {
	nbf, found, err := j.claims.date("nbf")
	switch {
	case err != nil:
		return refuse(KindBadClaims, "%v", err)
	case !found:
		return nil
	}
	j.token.NotBefore = nbf
	return j.notBefore("nbf", nbf)
}

func showNotBefore(j *judgement) string {
	if j.token.NotBefore.IsZero() {
		return "no nbf"
	}
	return "nbf " + stamp(j.token.NotBefore)
}

func (j *judgement) notBefore(name string, t time.Time) *Refusal {
	if j.now.Before(t.Add(-j.policy.Leeway)) {
		return refuse(KindNotYetValid, "%s %s is %s ahead of our clock, leeway %s: compare the clocks", name, stamp(t), seconds(t.Sub(j.now)), seconds(j.policy.Leeway))
	}
	return nil
}

// checkLifetime bounds exp - iat, so that no token lives for years by mistake.
func checkLifetime(j *judgement) *Refusal {
	if j.token.Expiry.IsZero() || j.token.IssuedAt.IsZero() {
		return refuse(KindBadClaims, "exp or iat is missing") // reached in Explain only
	}
	switch life := j.token.Expiry.Sub(j.token.IssuedAt); {
	case life <= 0:
		return refuse(KindBadClaims, "exp is not after iat")
	case life > j.policy.MaxLifetime:
		return refuse(KindBadClaims, "the token lives %s, at most %s are taken", seconds(life), seconds(j.policy.MaxLifetime))
	}
	return nil
}

func showLifetime(j *judgement) string {
	return fmt.Sprintf("%s, at most %s", seconds(j.token.Expiry.Sub(j.token.IssuedAt)), seconds(j.policy.MaxLifetime))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

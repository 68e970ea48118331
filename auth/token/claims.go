package token

import (
	"fmt"
	"slices"
	"strings"

	"gatehouse/auth/identity"
)

// Limits of identifiers, in bytes. A client id may be the address of a document.
const (
	maxSubject  = 255
	maxClientID = 512
	maxTokenID  = 255
	maxIssuer   = 1 << 10
)

// checkPayloadJSON is the first look at the payload.
func checkPayloadJSON(j *judgement) *Refusal {
	b, err := base64url.DecodeString(j.payloadPart)
	if err != nil {
		return refuse(KindBadClaims, "the payload is not canonical base64url")
	}
	if j.claims, err = decodeObject(b); err != nil {
		return refuse(KindBadClaims, "payload: %v", err)
	}
	if iss, _, err := j.claims.text("iss", maxIssuer); err == nil && len(j.candidates) > 1 {
		for _, c := range j.candidates { // issuers that share the key that held
			if string(c.issuer) == iss {
				j.settle(c)
			}
		}
	}
	return nil
}

func showPayload(j *judgement) string { return fmt.Sprintf("%d claims", len(j.claims)) }

// checkIssuer wants the issuer whose key holds, byte for byte (RFC 9068 section 4).
func checkIssuer(j *judgement) *Refusal {
	want := string(j.policy.Issuer)
	iss, found, err := j.claims.text("iss", maxIssuer)
	switch {
	case err != nil:
		return refuse(KindWrongIssuer, "%v; want %s", err, quote(want))
	case !found:
		return refuse(KindWrongIssuer, "the token has no iss; want %s", quote(want))
	case iss != want:
		return refuse(KindWrongIssuer, "iss is %s, but its key belongs to the configured issuer %s%s", quote(iss), quote(want), issuerHint(iss, want))
	}
	return nil
}

func issuerHint(iss, want string) string {
	switch {
	case strings.TrimRight(iss, "/") == strings.TrimRight(want, "/"):
		return " (they differ in the slash at the end)"
	case strings.EqualFold(iss, want):
		return " (they differ in upper and lower case)"
	}
	return ": set the issuer to the name that tokens carry, and a discovery or key set URL if we must fetch through another name"
}

func showIssuer(j *judgement) string { return quote(string(j.policy.Issuer)) }

// checkAudience wants one member of aud to be one of ours exactly, and every
// member to be a string (RFC 7519 section 4.1.3, RFC 9068 section 4). Other
// audiences beside ours are allowed.
func checkAudience(j *judgement) *Refusal {
	if len(j.audiences) == 0 {
		return refuse(KindWrongAudience, "no audience is configured")
	}
	if err := j.readAudience(); err != nil {
		return refuse(KindWrongAudience, "%v; want %s", err, quoteAll(j.audiences))
	}
	for _, a := range j.token.Audience {
		if slices.Contains(j.audiences, a) {
			return nil
		}
	}
	seen := "the token has no aud"
	if _, found := j.claims["aud"]; found {
		seen = "aud is " + quoteAll(j.token.Audience)
	}
	return refuse(KindWrongAudience, "%s; want %s%s", seen, quoteAll(j.audiences), j.rules.audienceHint(j))
}

func (j *judgement) readAudience() error {
	raw, found := j.claims["aud"]
	if !found {
		return nil
	}
	if raw.Kind() == '"' {
		one, err := unquote(raw)
		if err != nil {
			return fmt.Errorf("aud %w", err)
		}
		j.token.Audience = []string{one}
		return nil
	}
	members, err := decodeArray(raw, 1<<10)
	if err != nil {
		return fmt.Errorf("aud is %s, want a string or an array of strings (%w)", kindName(raw), err)
	}
	for _, m := range members {
		one, err := unquote(m)
		if err != nil {
			return fmt.Errorf("a member of aud %w", err)
		}
		j.token.Audience = append(j.token.Audience, one)
	}
	return nil
}

func showAudience(j *judgement) string {
	return fmt.Sprintf("aud %s, want %s", quoteAll(j.token.Audience), quoteAll(j.audiences))
}

// checkSubject wants a name that is fit to be compared and logged
// (RFC 9068 section 2.2; the length is that of OpenID Connect Core section 2).
func checkSubject(j *judgement) *Refusal {
	sub, found, err := j.claims.text("sub", maxSubject)
	switch {
	case err != nil:
		return refuse(KindBadClaims, "%v", err)
	case !found:
		return refuse(KindBadClaims, "the token has no sub%s", j.rules.subjectHint(j))
	}
	j.token.Principal.Subject = identity.Subject(sub)
	return nil
}

func showSubject(j *judgement) string { return quote(string(j.token.Principal.Subject)) }

// checkClient wants the client the token was issued to: client_id
// (RFC 9068 section 2.2), or what the profile has in its place.
func checkClient(j *judgement) *Refusal {
	name := j.rules.clientClaim
	id, found, err := j.claims.text(name, maxClientID)
	switch {
	case err != nil:
		return refuse(KindBadClaims, "%v", err)
	case !found:
		return refuse(KindBadClaims, "the token has no %s%s", name, j.rules.clientHint(j))
	}
	if name != "client_id" {
		other, found, err := j.claims.text("client_id", maxClientID)
		if err != nil {
			return refuse(KindBadClaims, "%v", err)
		}
		if found && other != id {
			return refuse(KindBadClaims, "%s is %s, but client_id is %s", name, quote(id), quote(other))
		}
	}
	j.token.Principal.Client = identity.ClientID(id)
	return nil
}

func showClient(j *judgement) string {
	return j.rules.clientClaim + " " + quote(string(j.token.Principal.Client))
}

// checkTokenID wants a jti, which deny-lists and caps count by (RFC 9068 section 2.2).
func checkTokenID(j *judgement) *Refusal {
	id, found, err := j.claims.text("jti", maxTokenID)
	switch {
	case err != nil:
		return refuse(KindBadClaims, "%v", err)
	case !found:
		return refuse(KindBadClaims, "the token has no jti")
	}
	j.token.ID = id
	return nil
}

func showTokenID(j *judgement) string { return "jti " + quote(j.token.ID) }

// checkSessionID reads sid, which a logout at the issuer may name.
func checkSessionID(j *judgement) *Refusal {
	id, _, err := j.claims.text("sid", maxTokenID)
	if err != nil {
		return refuse(KindBadClaims, "%v", err)
	}
	j.token.SessionID = id
	return nil
}

// maxScopes is the most scopes that a token may carry.
const maxScopes = 200

// checkScope reads the scope claim (RFC 8693 section 4.2, RFC 6749 section 3.3).
// A token without one is a token without scopes.
func checkScope(j *judgement) *Refusal {
	raw, found := j.claims["scope"]
	if !found {
		return nil
	}
	all, err := unquote(raw)
	if err != nil {
		return refuse(KindBadClaims, "scope %v", err)
	}
	n := 0
	scopes := make([]identity.Scope, 0, 8)
	for one := range strings.SplitSeq(all, " ") {
		if one == "" {
			continue
		}
		if n++; n > maxScopes {
			return refuse(KindBadClaims, "scope has more than %d items", maxScopes)
		}
		if i := strings.IndexFunc(one, notScopeToken); i >= 0 {
			return refuse(KindBadClaims, "scope %s holds a character that is not allowed in a scope", quote(one))
		}
		scopes = append(scopes, identity.Scope(one))
	}
	j.token.Scopes = identity.NewScopes(scopes...)
	return nil
}

// notScopeToken is the complement of RFC 6749's NQCHAR.
func notScopeToken(r rune) bool {
	return r < 0x21 || r > 0x7e || r == '"' || r == '\\'
}

func showScope(j *judgement) string {
	if len(j.token.Scopes) == 0 {
		return "none"
	}
	return plain(j.token.Scopes.String())
}

// noteAccountClaim takes the mapping claim as it is; it refuses nothing, because
// a good token without an account is not a bad token. Only a top-level string of
// the exact name counts.
func noteAccountClaim(j *judgement) *Refusal {
	name := j.policy.AccountClaim
	if name == "" {
		return nil
	}
	raw, found := j.claims[name]
	if !found {
		j.token.AccountClaimReason = fmt.Sprintf("the token has no claim %s", quote(name))
		return nil
	}
	value, err := unquote(raw)
	if err != nil {
		j.token.AccountClaimReason = fmt.Sprintf("claim %s %v", quote(name), err)
		return nil
	}
	j.token.AccountClaim = value
	return nil
}

func showAccountClaim(j *judgement) string {
	switch {
	case j.policy.AccountClaim == "":
		return "no claim is configured"
	case j.token.AccountClaimReason != "":
		return j.token.AccountClaimReason
	}
	return quote(j.policy.AccountClaim) + " is " + quote(j.token.AccountClaim)
}

package token

import (
	"fmt"
	"strings"
)

// What follows was written from tokens recorded from Keycloak 26.7.

const lightweightHint = "this is a lightweight access token, which has neither sub nor aud: switch off \"Always use lightweight access token\" " +
	"(client.use.lightweight.access.token.enabled) of the client, or \"Add to lightweight access token\" on in the mappers of sub and of the audience"

// keycloakGrant splits the mark before the colon of a Keycloak jti, as in
// "onrtac:…": two letters for the session, two for the token, two for the grant.
func keycloakGrant(j *judgement) (tokenMark, grant string) {
	jti, _, err := j.claims.text("jti", maxTokenID)
	mark, _, ok := strings.Cut(jti, ":")
	if err != nil || !ok || len(mark) != 6 {
		return "", ""
	}
	return mark[2:4], mark[4:6]
}

// lightweight reports whether the realm left sub and aud out on purpose.
func lightweight(j *judgement) bool {
	_, sub := j.claims["sub"]
	_, aud := j.claims["aud"]
	mark, _ := keycloakGrant(j)
	return mark == "lt" && !(sub && aud) || !sub && !aud
}

func keycloakAudienceHint(j *judgement) string {
	if lightweight(j) {
		return "; " + lightweightHint
	}
	want := "the resource URL"
	if len(j.audiences) > 0 {
		want = quote(j.audiences[0])
	}
	scope := "none"
	if raw, ok := j.claims["scope"]; ok {
		scope = plain(string(raw))
	}
	return fmt.Sprintf("; fix in Keycloak: give the client scope that clients ask for a mapper of type Audience with Included Custom Audience %s "+
		"and Add to access token on, assign the scope to the client, and let the client ask for it (the token's scope: %s)", want, scope)
}

func keycloakSubjectHint(j *judgement) string {
	if lightweight(j) {
		return "; " + lightweightHint
	}
	return "; in Keycloak it comes from the client scope basic, which the client lacks"
}

// keycloakOwn tells service accounts from users: each of these marks is on
// recorded tokens of the client credentials grant and on no user's.
func keycloakOwn(j *judgement) string {
	if name, _, _ := j.claims.text("preferred_username", maxSubject); strings.HasPrefix(name, "service-account-") {
		return "preferred_username is " + quote(name)
	}
	if _, found := j.claims["client_id"]; found {
		return "client_id is present, which Keycloak sets for service accounts only"
	}
	if _, grant := keycloakGrant(j); grant == "cc" {
		return "jti says that the grant was client credentials"
	}
	if j.token.SessionID == "" {
		return "there is no sid, so no user signed in"
	}
	return ""
}

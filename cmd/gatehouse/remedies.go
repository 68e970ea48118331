package main

import (
	"strings"

	"gatehouse/auth/token"
)

// remedies say what to change, most of it at the issuer, for a token that a check
// refused. The first row whose check and part match is told; an empty part matches
// every reason.
var remedies = []struct {
	kind   token.Kind
	part   string // of the private reason
	remedy string
}{
	{token.KindWrongAudience, "", "The issuer has to put this server's URL (MCP_AUDIENCE) into aud, byte for byte: at Keycloak an Audience mapper in the client scope mcp:use, and the client has to ask for that scope. scripts/setup-oidc-users.sh makes both"},
	{token.KindWrongIssuer, "", "MCP_ISSUER has to be what the token says in iss, byte for byte. At Keycloak iss is the name that the browser used, unless it is started with --hostname=URL"},
	{token.KindExpired, "", "Get a new token (gatehouse token URL does so by itself). If it is new: set the clocks of this machine and the issuer by NTP; gatehouse check compares them"},
	{token.KindNotYetValid, "", "The issuer's clock is ahead of this machine's: set both by NTP (timedatectl set-ntp true); gatehouse check compares them"},
	{token.KindWrongType, "ID token", "This is an ID token, which says who signed in to a client; the client has to send its access token"},
	{token.KindWrongType, `"Refresh"`, "This is a refresh token, which is for the issuer alone; the client has to send its access token"},
	{token.KindWrongType, "DPoP", "The token is bound to a key: switch DPoP off for this client (at Keycloak \"Require DPoP bound tokens\"), and let the client send no DPoP header"},
	{token.KindWrongType, "header", "At Keycloak either set MCP_TOKEN_PROFILE=keycloak, or switch on the client's \"Use \\\"at+jwt\\\" as access token header type\""},
	{token.KindWrongType, "", "The client has to send its access token. At Keycloak: MCP_TOKEN_PROFILE=keycloak"},
	{token.KindBadClaims, "no sub", "The token names no user: at Keycloak switch \"Lightweight access token\" off for this client, and give it the client scope basic"},
	{token.KindBadClaims, "the token lives", "The issuer's tokens live longer than MCP_MAX_TOKEN_LIFETIME: shorten them at the issuer (at Keycloak \"Access Token Lifespan\")"},
	{token.KindBadClaims, "", "The issuer has to make an access token with sub, aud, iat and exp (docs/tokens.md)"},
	{token.KindUnknownKey, "", "The key that signed it is not among the issuer's: the token is of another issuer or realm, or its key was withdrawn. Sign in again"},
	{token.KindUnverifiable, "", "No key of the issuer verifies it: another issuer or realm made it, or it was changed on the way. Tokens signed with HS256 or none are never taken"},
	{token.KindMalformed, "", "This is no signed access token (a JWT of three parts). Opaque tokens can't be used: let the issuer make JWTs"},
}

// tokenRemedy is what to do about a failed step.
func tokenRemedy(s token.Step) string {
	for _, r := range remedies {
		if r.kind == s.Kind && strings.Contains(strings.ToLower(s.Detail), strings.ToLower(r.part)) {
			return r.remedy
		}
	}
	return ""
}

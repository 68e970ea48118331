package authtest

import (
	"fmt"
	"strings"

	"gatehouse/auth/token"
)

// types are rows B1 to B8 and C20 as far as they are the same for all profiles:
// good signatures of the right issuer under things that are no access token.
func (w *World) types(i *Issuer) []recipe {
	const wrong, malformed = token.KindWrongType, token.KindMalformed
	out := []recipe{
		bad("B1", "ID token by its at_hash", wrong, Claim("at_hash", "jEd0GIQ-2LeLUiZVey6TCA")),
		bad("B1", "ID token by its c_hash", wrong, Claim("c_hash", "jEd0GIQ-2LeLUiZVey6TCA")),
		bad("B3", "logout token by its events", wrong, Claim("events", map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}})),
		bad("B4", "introspection response by its claim", wrong, Claim("token_introspection", map[string]any{"active": true})),
		bad("B5", "header typ missing", wrong, WithoutHeader("typ")),
		bad("B5", "header typ an array", malformed, Header("typ", []string{"at+jwt"})),
		bad("B5", "header typ empty", malformed, Header("typ", "")),
		bad("B5", "header typ null", malformed, Header("typ", nil)),
		bad("B5", "header typ with a parameter", wrong, Header("typ", "at+jwt;charset=utf-8")),
		bad("B5", "header typ with a space behind", wrong, Header("typ", "at+jwt ")),
		bad("B5", "header typ that begins like ours", wrong, Header("typ", "at+jwtx")),
		bad("B5", "header typ that ends like ours", wrong, Header("typ", "text/at+jwt")),
		bad("B5", "header typ JOSE", wrong, Header("typ", "JOSE")),
		good("B5", "header typ at+jwt", Header("typ", "at+jwt")),
		good("B5", "header typ application/at+jwt", Header("typ", "application/at+jwt")),
		good("B5", "header typ AT+JWT", Header("typ", "AT+JWT")),
		own("B6", "Entra application token", Claim("idtyp", "app")),
		own("B6", "Auth0 machine token", Claim("gty", "client-credentials")),
		own("B6", "Cognito ID token", Claim("token_use", "id")),
		own("B6", "Okta service token", Claim("cid", "robot"), Claim("sub", "robot")),
		own("B6", "subject is the client", Claim("sub", Client)),
		good("B6", "markers that say user", Claim("idtyp", "user"), Claim("gty", "password"), Claim("token_use", "access"), Claim("cid", "someone")),
		bad("B7", "delegated", wrong, Claim("act", map[string]any{"sub": "robot"})),
		bad("B7", "may be delegated", wrong, Claim("may_act", map[string]any{"sub": "robot"})),
		bad("B7", "delegation null", wrong, Claim("act", nil)),
		bad("B8", "for a sibling server", token.KindWrongAudience, Claim("aud", "https://mcp.test:8443/other")),
		bad("C20", "bound to a DPoP key", wrong, Claim("cnf", map[string]any{"jkt": "SYvpmAWdabwcGQeyCtYrD9wLxBxih--xQhDAZF35SNs"})),
		bad("C20", "bound to a certificate", wrong, Claim("cnf", map[string]any{"x5t#S256": "AAAA"})),
		bad("C20", "bound to a key", wrong, Claim("cnf", map[string]any{"jwk": Raw(`{}`)})),
		bad("C20", "bound in an unknown way", wrong, Claim("cnf", map[string]any{"new": 1})),
		bad("C20", "binding empty", wrong, Claim("cnf", map[string]any{})),
		bad("C20", "binding null", wrong, Claim("cnf", nil)),
		bad("C20", "binding no object", wrong, Claim("cnf", "jkt")),
	}
	for _, typ := range []string{"logout+jwt", "secevent+jwt", "dpop+jwt", "token-introspection+jwt", "oauth-authz-req+jwt",
		"client-authentication+jwt", "id_token+jwt", "rt+jwt", "vc+sd-jwt", "entity-statement+jwt", "wit+jwt"} {
		row := "B4"
		if strings.HasPrefix(typ, "logout") || strings.HasPrefix(typ, "secevent") {
			row = "B3"
		}
		out = append(out, bad(row, "header typ "+typ, wrong, Header("typ", typ)))
	}
	return out
}

// rfc9068 are the cases of that profile alone.
func (w *World) rfc9068() []recipe {
	const wrong, claims = token.KindWrongType, token.KindBadClaims
	return []recipe{
		bad("B1", "ID token", wrong, Header("typ", "JWT"), Claim("nonce", "n-0S6_WzA2Mj"), Claim("azp", Client), Claim("at_hash", "MTIzNDU2Nzg5MDEyMzQ1Ng")),
		bad("B1", "ID token for us", wrong, Header("typ", "JWT"), Claim("nonce", "n-0S6_WzA2Mj")),
		bad("B5", "header typ JWT", wrong, Header("typ", "JWT")),
		bad("B2", "Keycloak access token under the wrong profile", wrong, Header("typ", "JWT"), Claim("typ", "Bearer"), Claim("azp", Client), Without("client_id")),
		bad("C1", "the other configured issuer named in a token of this one", token.KindWrongIssuer, Claim("iss", OtherURL)),
		bad("C1", "signed by the other configured issuer", token.KindWrongIssuer, SignedBy(w.Other.Current())),
		bad("C1", "signed by the other issuer under our kid", token.KindUnverifiable, SignedAs(w.Other.Current())),
		bad("C13", "client_id missing", claims, Without("client_id")),
		bad("C13", "client_id missing beside azp", claims, Without("client_id"), Claim("azp", Client)),
		bad("C13", "client_id empty", claims, Claim("client_id", "")),
		bad("C13", "client_id a number", claims, Claim("client_id", 7)),
		bad("C13", "client_id with a line feed", claims, Claim("client_id", "a\nb")),
		bad("C13", "client_id of 513 bytes", claims, Claim("client_id", strings.Repeat("c", 513))),
		good("ok", "client_id that is an address", Claim("client_id", "https://client.test/metadata.json")),
		good("ok", "payload typ, which means nothing here", Claim("typ", "whatever")),
		good("ok", "no sid", Without("sid")),
	}
}

// keycloak are the cases of that profile alone, most of them as recorded.
func (w *World) keycloak() []recipe {
	const wrong, claims = token.KindWrongType, token.KindBadClaims
	hs512 := []Change{Header("alg", "HS512"), Header("kid", "14e21907-a22f-4d75-b0eb-b861b6f2b556"), func(d *Draft) {
		d.Signature = func(string) []byte { return make([]byte, 64) }
	}}
	refresh := append([]Change{Claim("typ", "Refresh"), Claim("aud", RealmURL), Claim("aud_x", Audience)}, hs512...)
	offline := append([]Change{Claim("typ", "Offline"), Claim("aud", RealmURL), Without("exp")}, hs512...)
	account := Claim("aud", []string{Audience, "account"})
	service := []Change{account, Without("sid"), Claim("client_id", Client), Claim("preferred_username", "service-account-"+Client),
		Claim("jti", "trrtcc:3d5bbf84-5929-94bf-8700-855fc007fcb8"), Claim("clientHost", "127.0.0.1")}
	light := []Change{Claim("jti", "onltac:f9ce6848-936d-8ba5-17c2-39872f7ce48c"), Without("sub", "aud", "preferred_username", "email")}
	dpop := []Change{Header("typ", "at+jwt"), Claim("typ", "DPoP"),
		Claim("cnf", map[string]any{"jkt": "SYvpmAWdabwcGQeyCtYrD9wLxBxih--xQhDAZF35SNs", "kc-jkt-type": "DPoP"})}
	out := []recipe{
		good("ok", "recorded user token", Header("typ", "at+jwt"), account, Claim("auth_time", w.Now.Unix()), Claim("realm_access", map[string]any{"roles": []string{"offline_access"}})),
		good("ok", "recorded token of a dynamically registered client", Without("preferred_username", "email", "email_verified", "acr"), Claim("azp", "68459993-eb98-4007-a91b-32a15e07c9f3")),
		good("ok", "recorded token of a client that is a document", Claim("azp", "https://localhost:18445/client.json"), Claim("aud", []string{"mcp-server", Audience})),
		good("ok", "recorded token of a device", Claim("jti", "onrtdg:06e54fc8-579a-d829-9423-a86cbcda7dd2")),
		good("ok", "recorded token of an offline session", Claim("jti", "ofrtac:4b51e84b-b8cb-ec4b-7459-2c423678772d")),
		good("ok", "header typ jwt in lower case", Header("typ", "jwt")),
		good("ok", "jti without a mark", Claim("jti", "c0ffee")),
		bad("B1", "ID token", wrong, Claim("typ", "ID"), Claim("aud", Client), Claim("at_hash", "6jgaQEv77FHESBe_HLWLvg")),
		bad("B1", "ID token for us", wrong, Claim("typ", "ID")),
		bad("B2", "refresh token", token.KindUnverifiable, refresh...),
		bad("B2", "offline token", token.KindUnverifiable, offline...),
		bad("B3", "logout token", wrong, Header("typ", "logout+jwt"), Claim("typ", "Logout"), Claim("events", map[string]any{})),
		bad("B2", "bound token", wrong, dpop...),
		bad("B2", "payload typ DPoP without a binding", wrong, Claim("typ", "DPoP")),
		bad("B2", "binding beside payload typ Bearer", wrong, Claim("cnf", map[string]any{"jkt": "SYvpmAWdabwcGQeyCtYrD9wLxBxih--xQhDAZF35SNs"})),
		bad("B2", "payload typ missing", wrong, Without("typ")),
		bad("B2", "payload typ an array", wrong, Claim("typ", []string{"Bearer"})),
		bad("B2", "payload typ twice", claims, Twice("typ", "ID")),
		bad("C2", "lightweight token", token.KindWrongAudience, light...),
		bad("C13", "lightweight token with an audience", claims, Claim("jti", "onltac:f9ce6848-936d-8ba5-17c2-39872f7ce48c"), Without("sub")),
		good("ok", "lightweight token with sub and aud", Claim("jti", "onltac:f9ce6848-936d-8ba5-17c2-39872f7ce48c")),
		bad("C2", "scope mcp:use was not asked for", token.KindWrongAudience, Without("aud"), Claim("scope", "openid email profile")),
		bad("C2", "audience account alone", token.KindWrongAudience, Claim("aud", "account")),
		bad("C2", "audience the client itself", token.KindWrongAudience, Claim("aud", Client)),
		bad("C13", "azp missing", claims, Without("azp")),
		bad("C13", "azp empty", claims, Claim("azp", "")),
		bad("C13", "azp an array", claims, Claim("azp", []string{Client})),
		bad("C13", "client_id and azp differ", claims, Claim("client_id", "other")),
		bad("C13", "client_id a number", claims, Claim("client_id", 7)),
		bad("C1", "token of another realm under our kid", token.KindUnverifiable, SignedAs(w.attacker), Claim("iss", "https://id.test/realms/other")),
		bad("C1", "master realm named", token.KindWrongIssuer, Claim("iss", "https://id.test/realms/master")),
		own("B6", "service account", service...),
		own("B6", "service account by its name alone", Claim("preferred_username", "service-account-robot")),
		own("B6", "service account by client_id alone", Claim("client_id", Client)),
		own("B6", "service account by its grant alone", Claim("jti", "onrtcc:3d5bbf84-5929-94bf-8700-855fc007fcb8")),
		own("B6", "no session of a user", Without("sid")),
	}
	for _, typ := range []string{"Refresh", "Offline", "Logout", "Serialized-ID", "RegistrationAccessToken", "bearer", "BEARER", "Bearer ", ""} {
		out = append(out, bad("B2", fmt.Sprintf("payload typ %q", typ), wrong, Claim("typ", typ)))
	}
	return out
}

package login

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/oauth2"

	"gatehouse/auth/printable"
)

// said is what the issuer said in an error, in one line.
func said(err error) string {
	r, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		return plain(err.Error())
	case r.ErrorCode == "" && r.Response != nil:
		return plain("it answers " + r.Response.Status)
	case r.ErrorDescription == "":
		return plain(r.ErrorCode)
	}
	return plain(r.ErrorCode + ": " + r.ErrorDescription)
}

// maxPlain is how many bytes of a foreign text are shown.
const maxPlain = 500

// plain is a text from elsewhere as a terminal may have it: in one line, fit to be
// shown, and not endless.
func plain(s string) string {
	return printable.Text(strings.Join(strings.Fields(s), " "), maxPlain)
}

// remedies are known refusals of issuers, by a part of what they say. The first
// that matches is told.
var remedies = []struct{ part, remedy string }{
	{"offline tokens not allowed", "Give the user the realm role offline_access (users imported from a file lack it), or sign in with --online for as long as the browser's session lasts"},
	{"missing parameter: code_challenge", "The issuer wants PKCE from this client"},
	{"pkce", "The issuer wants PKCE with S256 from this client, which was sent: its setting may say plain. At Keycloak set the client's Proof Key for Code Exchange to S256"},
	{"invalid_scope", "The client may not ask for a scope that the server wants. At Keycloak add the client scope (such as mcp:use) to the client, as an optional one at least; scripts/setup-oidc-users.sh does"},
	{"invalid_target", "The issuer issues no tokens for this server's URL. At Keycloak with resource indicators, a client with the attribute resource_url has to name it"},
	{"redirect_uri", "The client must allow http://127.0.0.1/* as redirect URI"},
	{"client_not_found", "The issuer has no such client: make it with scripts/setup-oidc-users.sh, or name another with --client-id"},
	{"invalid_client", "The issuer has no such public client: make it with scripts/setup-oidc-users.sh, or name another with --client-id. Confidential clients (with a secret) can't be used here"},
	{"unauthorized_client", "The client must not use this way of signing in: switch on the standard flow, or the device authorization grant for --device"},
	{"access_denied", "The sign-in was refused in the browser"},
	{"expired_token", "The code was not entered in time: begin again"},
}

// refused words an error of the issuer, with what to do about it when that is known.
func refused(doing string, err error) error {
	text := said(err)
	for _, r := range remedies {
		if strings.Contains(strings.ToLower(text), r.part) {
			return fmt.Errorf("%s: %s\n%s", doing, text, r.remedy)
		}
	}
	return fmt.Errorf("%s: %s%s", doing, text, tlsHint(err))
}

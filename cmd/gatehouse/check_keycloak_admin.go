package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// signInAsAdmin looks at the rest with an administrator's eyes, where there is one.
func (r *realm) signInAsAdmin(ctx context.Context) bool {
	if r.password == "" {
		r.say(warned, "scope, audience and client", "not looked at: only an administrator can (KC_ADMIN_PASSWORD, --admin-user)\nOr give a token of the realm to gatehouse check --token-stdin, which explains what it lacks")
		return false
	}
	var tok struct {
		Token string `json:"access_token"`
	}
	form := url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {r.AdminUser}, "password": {r.password}}
	status, text, err := r.ask(ctx, http.MethodPost, r.Keycloak+"/realms/master/protocol/openid-connect/token", form, &tok)
	if err != nil || status != http.StatusOK {
		r.say(failed, "administrator "+r.AdminUser, "not let in: %d %s %s", status, text, errText(err))
		return false
	}
	r.token = tok.Token
	return true
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// admin reads a document of the realm's admin API; a failure is said.
func (r *realm) admin(ctx context.Context, path string, into any) bool {
	status, text, err := r.ask(ctx, http.MethodGet, r.Keycloak+"/admin/realms/"+url.PathEscape(r.Realm)+path, nil, into)
	if err != nil || status != http.StatusOK {
		r.say(failed, "administrator "+r.AdminUser, "may not see %s: %d %s %s", path, status, text, errText(err))
		return false
	}
	return true
}

// clientScope is what is read of one.
type clientScope struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Mappers []struct {
		Kind   string            `json:"protocolMapper"`
		Config map[string]string `json:"config"`
	} `json:"protocolMappers"`
	Attributes map[string]string `json:"attributes"`
}

// audiences returns what the scope's mappers put into aud, with access.token.claim on.
func (s *clientScope) audiences() (list []string) {
	for _, m := range s.Mappers {
		if m.Kind == "oidc-audience-mapper" && m.Config["access.token.claim"] == "true" {
			list = append(list, m.Config["included.custom.audience"]+m.Config["included.client.audience"])
		}
	}
	return list
}

func (r *realm) scopeAndAudience(ctx context.Context) bool {
	var scopes []clientScope
	if !r.admin(ctx, "/client-scopes", &scopes) {
		return false
	}
	resource := ""
	if len(r.c.Servers) > 0 {
		resource = r.c.Servers[0].Resource
	}
	var got []string
	for _, name := range r.wantedScopes() {
		i := slices.IndexFunc(scopes, func(s clientScope) bool { return s.Name == name })
		topic := "scope " + name
		if i < 0 {
			r.say(failed, topic, "the realm has no client scope of that name: no token can have it\nscripts/setup-oidc-users.sh makes it; in the console: Client scopes > Create client scope")
			continue
		}
		if scopes[i].Attributes["include.in.token.scope"] == "false" {
			r.say(failed, topic, "it is left out of the token's scope claim: switch on \"Include in token scope\"")
		} else {
			r.say(okay, topic, "is there")
		}
		got = append(got, scopes[i].audiences()...)
	}
	switch {
	case len(got) == 0:
		r.say(failed, "audience", "no mapper puts this server's URL into aud: every token is refused (wrong audience)\nAdd to the client scope a mapper of the type Audience with the \"Included Custom Audience\" %s and \"Add to access token\" on", orURL(resource))
	case resource == "":
		r.say(warned, "audience", "tokens get %s; set MCP_AUDIENCE to compare it with the server's", strings.Join(got, " "))
	case !slices.Contains(got, resource):
		r.say(failed, "audience", "tokens get %q and the server wants %q (MCP_AUDIENCE): they have to be equal byte for byte", strings.Join(got, " "), resource)
	default:
		r.say(okay, "audience", "%s", resource)
	}
	return true
}

func orURL(resource string) string {
	if resource == "" {
		return "https://HOST/mcp"
	}
	return resource
}

// keycloakClient is what is read of one.
type keycloakClient struct {
	ID          string            `json:"id"`
	Enabled     bool              `json:"enabled"`
	Public      bool              `json:"publicClient"`
	Standard    bool              `json:"standardFlowEnabled"`
	Redirects   []string          `json:"redirectUris"`
	Origins     []string          `json:"webOrigins"`
	Attributes  map[string]string `json:"attributes"`
	DefaultWith []string          `json:"defaultClientScopes"`
	OptionalTo  []string          `json:"optionalClientScopes"`
}

// clientFaults are what a native client of MCP stumbles over.
var clientFaults = []struct {
	has    func(r *realm, c *keycloakClient) bool
	weight verdict
	text   string
}{
	{func(_ *realm, c *keycloakClient) bool { return !c.Enabled }, failed, "it is disabled"},
	{func(_ *realm, c *keycloakClient) bool { return !c.Public }, failed, "it wants a secret: switch \"Client authentication\" off; native clients can keep none"},
	{func(_ *realm, c *keycloakClient) bool { return !c.Standard }, failed, "\"Standard flow\" is off: nobody can sign in with a browser"},
	{func(_ *realm, c *keycloakClient) bool { return !slices.Contains(c.Redirects, "http://127.0.0.1/*") }, failed, "the redirect URI http://127.0.0.1/* is missing (any port, without one in the pattern); most clients also use http://localhost/*"},
	{func(_ *realm, c *keycloakClient) bool { return !slices.Contains(c.Redirects, "http://localhost/*") }, warned, "the redirect URI http://localhost/* is missing, which some clients use"},
	{func(_ *realm, c *keycloakClient) bool { return c.Attributes["pkce.code.challenge.method"] != "S256" }, failed, "PKCE is not demanded: set \"Proof Key for Code Exchange\" to S256, or a stolen code is as good as a token"},
	{func(_ *realm, c *keycloakClient) bool {
		return c.Attributes["oauth2.device.authorization.grant.enabled"] != "true"
	}, warned, "the device authorization grant is off: gatehouse login --device will not do"},
	{func(_ *realm, c *keycloakClient) bool {
		return c.Attributes["access.token.header.type.rfc9068"] != "true"
	}, warned, "its tokens do not say typ at+jwt: with MCP_TOKEN_PROFILE=rfc9068 they are refused, with keycloak they are good"},
	{func(_ *realm, c *keycloakClient) bool {
		return c.Attributes["client.use.lightweight.access.token.enabled"] == "true"
	}, failed, "lightweight access tokens are on: they name neither user nor audience"},
	{func(_ *realm, c *keycloakClient) bool { return c.Attributes["dpop.bound.access.tokens"] == "true" }, failed, "its tokens are bound to DPoP keys, and the server takes bearer tokens: switch \"Require DPoP bound tokens\" off"},
	{func(r *realm, c *keycloakClient) bool {
		return slices.ContainsFunc(r.wantedScopes(), func(s string) bool {
			return !slices.Contains(c.DefaultWith, s) && !slices.Contains(c.OptionalTo, s)
		})
	}, failed, "it may not ask for a scope that the server wants: add the client scope to the client (Client scopes > Add client scope)"},
	{func(_ *realm, c *keycloakClient) bool {
		return !slices.Contains(c.OptionalTo, "offline_access") && !slices.Contains(c.DefaultWith, "offline_access")
	}, warned, "it may not ask for offline_access, which most clients do: add it as an optional client scope"},
	{func(_ *realm, c *keycloakClient) bool {
		return !slices.Contains(c.Origins, "http://localhost:6274") && !slices.Contains(c.Origins, "+") && !slices.Contains(c.Origins, "*")
	}, warned, "MCP Inspector's page can't ask it for tokens (CORS): add http://localhost:6274 to the web origins"},
}

func (r *realm) nativeClient(ctx context.Context) bool {
	var found []keycloakClient
	if !r.admin(ctx, "/clients?clientId="+url.QueryEscape(r.ClientID), &found) {
		return false
	}
	topic := "client " + r.ClientID
	if len(found) == 0 {
		r.say(failed, topic, "the realm has none of that name: scripts/setup-oidc-users.sh makes it; --client-id names another")
		return true
	}
	bad := false
	for _, f := range clientFaults {
		if f.has(r, &found[0]) {
			r.say(f.weight, topic, "%s", f.text)
			bad = true
		}
	}
	if !bad {
		r.say(okay, topic, "public, PKCE, loopback redirects, the server's scopes")
	}
	return true
}

// offlineAccess looks whether new users get the role; those imported from a file may
// still lack it.
func (r *realm) offlineAccess(ctx context.Context) bool {
	var roles []struct {
		Name string `json:"name"`
	}
	if !r.admin(ctx, "/roles/default-roles-"+url.PathEscape(strings.ToLower(r.Realm))+"/composites", &roles) {
		return false
	}
	for _, role := range roles {
		if role.Name == "offline_access" {
			r.say(okay, "offline_access", "users get the role by default; users imported from a file may lack the realm's default roles")
			return true
		}
	}
	r.say(failed, "offline_access", "users do not get the role by default, and clients that ask for offline_access are refused (\"Offline tokens not allowed\")\nAdd it to the realm's default roles (Realm settings > User registration > Default roles)")
	return true
}

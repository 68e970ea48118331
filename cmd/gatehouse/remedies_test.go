package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/token"
)

// fakeKeycloak answers what "gatehouse check --keycloak" asks of a realm. Each
// field is a document that a test may damage.
type fakeKeycloak struct {
	url, ca   string
	discovery map[string]any
	scopes    []map[string]any
	client    map[string]any
	roles     []map[string]any
	refuse    string // what registration is refused with
	made      int    // registered clients that were not removed
	clock     time.Duration
}

func newFakeKeycloak(t *testing.T) *fakeKeycloak {
	t.Helper()
	k := &fakeKeycloak{}
	srv := httptest.NewTLSServer(k)
	t.Cleanup(srv.Close)
	k.url = srv.URL
	k.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	realm := k.url + "/realms/staff"
	k.discovery = map[string]any{
		"issuer": realm, "authorization_endpoint": realm + "/auth", "token_endpoint": realm + "/token",
		"jwks_uri": realm + "/certs", "registration_endpoint": realm + "/register", "device_authorization_endpoint": realm + "/device",
		"scopes_supported": []string{"openid", "mcp:use", "offline_access"}, "code_challenge_methods_supported": []string{"plain", "S256"},
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	}
	k.scopes = []map[string]any{{"id": "1", "name": "mcp:use", "attributes": map[string]string{"include.in.token.scope": "true"},
		"protocolMappers": []map[string]any{{"protocolMapper": "oidc-audience-mapper", "config": map[string]string{
			"included.custom.audience": authtest.Audience, "access.token.claim": "true"}}}}}
	k.client = map[string]any{"id": "2", "enabled": true, "publicClient": true, "standardFlowEnabled": true,
		"redirectUris": []string{"http://127.0.0.1/*", "http://localhost/*"}, "webOrigins": []string{"http://localhost:6274"},
		"attributes": map[string]string{"pkce.code.challenge.method": "S256", "oauth2.device.authorization.grant.enabled": "true",
			"access.token.header.type.rfc9068": "true"},
		"defaultClientScopes": []string{"mcp:use"}, "optionalClientScopes": []string{"offline_access"}}
	k.roles = []map[string]any{{"name": "offline_access"}, {"name": "uma_authorization"}}
	return k
}

func (k *fakeKeycloak) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	if strings.HasPrefix(r.URL.Path, "/admin/") && r.Header.Get("Authorization") != "Bearer admin-token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Date", time.Now().Add(k.clock).UTC().Format(http.TimeFormat))
	switch r.Method + " " + r.URL.Path {
	case "GET /realms/staff/.well-known/openid-configuration":
		answer(k.discovery)
	case "GET /realms/staff/certs":
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(token.EncodeJWKS([]token.Key{{ID: "k", Algorithm: "ES256", Public: key.Public()}}))
	case "POST /realms/staff/register":
		if k.refuse != "" {
			w.WriteHeader(http.StatusForbidden)
			answer(map[string]string{"error": "insufficient_scope", "error_description": k.refuse})
			return
		}
		k.made++
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]string{"client_id": "x", "registration_client_uri": k.url + "/realms/staff/register/x", "registration_access_token": "rat"})
	case "DELETE /realms/staff/register/x":
		if r.Header.Get("Authorization") == "Bearer rat" {
			k.made--
			w.WriteHeader(http.StatusNoContent)
		}
	case "POST /realms/master/protocol/openid-connect/token":
		if r.PostFormValue("password") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": "Invalid user credentials"})
			return
		}
		answer(map[string]string{"access_token": "admin-token"})
	case "GET /admin/realms/staff/client-scopes":
		answer(k.scopes)
	case "GET /admin/realms/staff/clients":
		answer([]any{k.client})
	case "GET /admin/realms/staff/roles/default-roles-staff/composites":
		answer(k.roles)
	default:
		http.NotFound(w, r)
	}
}

// TestCheckKeycloak damages one thing of a realm at a time: each known fault is
// named together with what to do about it.
func TestCheckKeycloak(t *testing.T) {
	attribute := func(name, value string) func(*fakeKeycloak) {
		return func(k *fakeKeycloak) { k.client["attributes"].(map[string]string)[name] = value }
	}
	member := func(name string, value any) func(*fakeKeycloak) {
		return func(k *fakeKeycloak) { k.client[name] = value }
	}
	mapper := func(config map[string]string) func(*fakeKeycloak) {
		return func(k *fakeKeycloak) {
			k.scopes[0]["protocolMappers"] = []map[string]any{{"protocolMapper": "oidc-audience-mapper", "config": config}}
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*fakeKeycloak)
		env    string
		code   int
		want   []string
	}{
		{"all is well", nil, "", exitDone, []string{"ok    discovery: issuer https://", "ok    keys", "ok    registration", "ok    audience: " + authtest.Audience, "ok    client mcp-cli", "all passed, 0 warnings"}},
		{"no administrator", nil, "KC_ADMIN_PASSWORD=", exitDone, []string{"warn  scope, audience and client: not looked at", "--token-stdin"}},
		{"wrong administrator's password", nil, "KC_ADMIN_PASSWORD=guess", exitFailed, []string{"FAIL  administrator admin", "Invalid user credentials"}},
		{"wrong issuer host", func(k *fakeKeycloak) { k.discovery["issuer"] = "https://keycloak.internal/realms/staff" }, "", exitFailed, []string{"FAIL  discovery", `calls itself "https://keycloak.internal/realms/staff"`, "--hostname=https://127.0.0.1"}},
		{"clock 2 min off", func(k *fakeKeycloak) { k.clock = 2 * time.Minute }, "", exitFailed, []string{"FAIL  keys", "apart", "NTP"}},
		{"no PKCE in the realm", func(k *fakeKeycloak) { k.discovery["code_challenge_methods_supported"] = []string{"plain"} }, "", exitFailed, []string{"FAIL  PKCE: S256 is not offered"}},
		{"registration refused: host", func(k *fakeKeycloak) {
			k.refuse = "Policy 'Trusted Hosts' rejected request to client-registration service. Details: Host not trusted."
		}, "", exitDone, []string{"warn  registration: refused", "Host not trusted", "mcp-cli", "--allow-dcr"}},
		{"registration refused: scope", func(k *fakeKeycloak) { k.refuse = "Policy 'Allowed Client Scopes' rejected request" }, "", exitDone, []string{"warn  registration", "gets openid and the server's scopes"}},
		{"realm without the scope", func(k *fakeKeycloak) { k.scopes[0]["name"] = "mcp" }, "", exitFailed, []string{"FAIL  scope mcp:use", "setup-oidc-users.sh"}},
		{"realm without the mapper", func(k *fakeKeycloak) { k.scopes[0]["protocolMappers"] = nil }, "", exitFailed, []string{"FAIL  audience: no mapper", "Included Custom Audience", authtest.Audience}},
		{"mapper for another token", mapper(map[string]string{"included.custom.audience": authtest.Audience, "access.token.claim": "false"}), "", exitFailed, []string{"FAIL  audience: no mapper", "Add to access token"}},
		{"wrong audience", mapper(map[string]string{"included.custom.audience": authtest.Audience + "/", "access.token.claim": "true"}), "", exitFailed, []string{"FAIL  audience", authtest.Audience + "/", "byte for byte"}},
		{"client without PKCE", attribute("pkce.code.challenge.method", ""), "", exitFailed, []string{"FAIL  client mcp-cli: PKCE is not demanded", "S256"}},
		{"client with DPoP", attribute("dpop.bound.access.tokens", "true"), "", exitFailed, []string{"FAIL  client mcp-cli", "switch \"Require DPoP bound tokens\" off"}},
		{"lightweight tokens", attribute("client.use.lightweight.access.token.enabled", "true"), "", exitFailed, []string{"FAIL  client mcp-cli: lightweight"}},
		{"confidential client", member("publicClient", false), "", exitFailed, []string{"FAIL  client mcp-cli: it wants a secret"}},
		{"redirects with a port", member("redirectUris", []string{"http://127.0.0.1:8080/*"}), "", exitFailed, []string{"the redirect URI http://127.0.0.1/* is missing"}},
		{"client without the scope", member("defaultClientScopes", []string{"basic"}), "", exitFailed, []string{"FAIL  client mcp-cli: it may not ask for a scope"}},
		{"no web origins", member("webOrigins", nil), "", exitDone, []string{"warn  client mcp-cli", "CORS"}},
		{"users without offline_access", func(k *fakeKeycloak) { k.roles = k.roles[1:] }, "", exitFailed, []string{"FAIL  offline_access", "Offline tokens not allowed", "default roles"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, k := newWorld(t), newFakeKeycloak(t)
			if c.damage != nil {
				c.damage(k)
			}
			env := []string{"KC_ADMIN_PASSWORD=secret", "MCP_MODE=authenticated", "MCP_AUDIENCE=" + authtest.Audience, "MCP_ISSUER_CA=" + w.write(t, "ca.pem", k.ca), c.env}
			code, out, complaint := w.gatehouse(t, "", env, "check", "--keycloak", k.url+"/", "--realm", "staff")
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s\n%s", code, c.code, complaint, out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			if k.made != 0 {
				t.Errorf("the dry run left %d clients behind", k.made)
			}
			if strings.Contains(out+complaint, "secret\n") || strings.Contains(out, "admin-token") {
				t.Errorf("a secret is printed:\n%s%s", out, complaint)
			}
		})
	}
}

// TestEveryTokenFaultHasARemedy holds that check --token-stdin leaves nobody with
// a cause alone.
func TestEveryTokenFaultHasARemedy(t *testing.T) {
	s := newSite(t, time.Now().AddDate(0, 2, 0))
	now := time.Now()
	for name, c := range map[string]struct {
		token string
		want  string
	}{
		"wrong audience":        {s.issuer.Mint(authtest.Claim("aud", "https://other.test/mcp")), "Audience mapper in the client scope mcp:use"},
		"no audience":           {s.issuer.Mint(authtest.Without("aud")), "Audience mapper"},
		"wrong issuer host":     {s.issuer.Mint(authtest.Claim("iss", "https://keycloak.internal")), "--hostname=URL"},
		"expired":               {s.issuer.Mint(authtest.Claim("iat", now.Add(-2*time.Hour).Unix()), authtest.Claim("exp", now.Add(-time.Hour).Unix())), "clocks of this machine and the issuer by NTP"},
		"clock 2 min ahead":     {s.issuer.Mint(authtest.Claim("iat", now.Add(2*time.Minute).Unix()), authtest.Claim("exp", now.Add(7*time.Minute).Unix())), "The issuer's clock is ahead"},
		"without the subject":   {s.issuer.Mint(authtest.Without("sub")), "Lightweight access token"},
		"lives too long":        {s.issuer.Mint(authtest.Claim("exp", now.Add(1000*time.Hour).Unix())), "Access Token Lifespan"},
		"bound to a key":        {s.issuer.Mint(authtest.Claim("cnf", map[string]string{"jkt": "x"})), "Require DPoP bound tokens"},
		"without a scope":       {s.issuer.Mint(authtest.Claim("scope", "openid")), "give it to the client"},
		"opaque":                {"2YotnFZFEjr1zCsicMWpAA", "Opaque tokens"},
		"of another issuer":     {newSite(t, now.AddDate(0, 2, 0)).issuer.Mint(), "another issuer or realm"},
		"header of an ID token": {s.issuer.Mint(authtest.Header("typ", "JWT")), "MCP_TOKEN_PROFILE=keycloak"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, complaint := s.gatehouse(t, c.token, s.env, "check", "--token-stdin")
			if code != exitFailed || !strings.Contains(out, c.want) {
				t.Errorf("exit code %d, %s; %q is missing in:\n%s", code, complaint, c.want, out)
			}
		})
	}
	for kind := token.KindMalformed; kind <= token.KindBadClaims; kind++ {
		if tokenRemedy(token.Step{Kind: kind, Detail: "anything"}) == "" {
			t.Errorf("no remedy for %v", kind)
		}
	}
}

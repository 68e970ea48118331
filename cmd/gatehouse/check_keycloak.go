package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gatehouse/auth/login"
	"gatehouse/cmd/internal/conf"
)

// keycloakFlags are those of "gatehouse check --keycloak".
type keycloakFlags struct {
	Keycloak  string `placeholder:"URL" help:"Test a Keycloak realm instead: its base URL, as browsers and tokens have it. With $KC_ADMIN_PASSWORD also what only an administrator sees."`
	Realm     string `placeholder:"NAME" help:"With --keycloak: the realm."`
	ClientID  string `name:"client-id" default:"mcp-cli" placeholder:"ID" help:"With --keycloak: the public client of native MCP clients."`
	AdminUser string `default:"admin" placeholder:"NAME" help:"With --keycloak: an administrator of the realm master."`
}

// realm is a Keycloak realm under test.
type realm struct {
	*checker
	keycloakFlags
	http     *http.Client
	issuer   string
	password string // the administrator's; empty: not looked at with those eyes
	token    string
	meta     realmMetadata
}

// realmMetadata is what is read of the realm's public document.
type realmMetadata struct {
	Issuer       string   `json:"issuer"`
	Registration string   `json:"registration_endpoint"`
	Device       string   `json:"device_authorization_endpoint"`
	Scopes       []string `json:"scopes_supported"`
	Challenges   []string `json:"code_challenge_methods_supported"`
}

// realmTests are the tests of a realm, in this order; one that returns false ends
// them.
var realmTests = []func(*realm, context.Context) bool{
	(*realm).discovery,
	(*realm).keys,
	(*realm).pkce,
	(*realm).registration,
	(*realm).signInAsAdmin,
	(*realm).scopeAndAudience,
	(*realm).nativeClient,
	(*realm).offlineAccess,
}

// checkKeycloak runs them.
func (cmd *checkCmd) checkKeycloak(ctx context.Context, k *checker, s streams) error {
	if cmd.Realm == "" {
		return errors.New("check --keycloak: --realm NAME is missing")
	}
	base := strings.TrimRight(cmd.Keycloak, "/")
	if u, err := url.Parse(base); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("check --keycloak %q: want its base URL, such as https://id.example.com", cmd.Keycloak)
	}
	r := &realm{checker: k, keycloakFlags: cmd.keycloakFlags, issuer: base + "/realms/" + url.PathEscape(cmd.Realm), password: getenv(s, "KC_ADMIN_PASSWORD")}
	r.Keycloak = base
	ca := getenv(s, "MCP_ISSUER_CA")
	if ca == "" {
		ca = getenv(s, "MCP_CA")
	}
	var err error
	if r.http, err = login.NewHTTP(ca); err != nil {
		return err
	}
	for _, test := range realmTests {
		if !test(r, ctx) {
			break
		}
	}
	return k.closing(s)
}

// ask sends one request and reads the JSON answer of a success into into. text is
// what a refusal says. The administrator's token goes to the admin API alone.
func (r *realm) ask(ctx context.Context, method, at string, body any, into any) (status int, text string, err error) {
	var reader io.Reader
	contentType := "application/json"
	switch b := body.(type) {
	case nil:
	case url.Values:
		reader, contentType = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	default:
		j, err := json.Marshal(b)
		if err != nil {
			return 0, "", err
		}
		reader = bytes.NewReader(j)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, reader)
	if err != nil {
		return 0, "", err
	}
	if reader != nil {
		req.Header.Set("Content-Type", contentType)
	}
	if r.token != "" && strings.HasPrefix(at, r.Keycloak+"/admin/") {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return 0, "", err
	}
	var refusal struct {
		Error string `json:"error"`
		Text  string `json:"error_description"`
	}
	if json.Unmarshal(b, &refusal) == nil && refusal.Error != "" {
		text = refusal.Error + ": " + refusal.Text
	}
	if into != nil && resp.StatusCode/100 == 2 {
		err = json.Unmarshal(b, into)
	}
	return resp.StatusCode, text, err
}

func (r *realm) discovery(ctx context.Context) bool {
	at := r.issuer + "/.well-known/openid-configuration"
	status, _, err := r.ask(ctx, http.MethodGet, at, nil, &r.meta)
	switch {
	case err != nil:
		r.say(failed, "discovery", "%v\nIs Keycloak up, and is its certificate's authority named by MCP_ISSUER_CA?", err)
	case status == http.StatusNotFound:
		r.say(failed, "discovery", "%s answers 404: there is no realm %s, or Keycloak has a path before it (older ones: /auth)", at, r.Realm)
	case status != http.StatusOK:
		r.say(failed, "discovery", "%s answers %d", at, status)
	case r.meta.Issuer != r.issuer:
		r.say(failed, "discovery", "the realm calls itself %q and was asked for as %q: clients and tokens will disagree with the server\nStart Keycloak with --hostname=%s, or give the name that it has: MCP_ISSUER=%s", r.meta.Issuer, r.issuer, r.Keycloak, r.meta.Issuer)
	default:
		r.say(okay, "discovery", "issuer %s", r.issuer)
		return true
	}
	return false
}

func (r *realm) keys(ctx context.Context) bool {
	is := conf.Issuer{Issuer: r.issuer}
	if len(r.c.Issuers) > 0 {
		is = r.c.Issuers[0]
		is.Issuer, is.DiscoveryURL, is.JWKSURL, is.JWKSFile = r.issuer, "", "", ""
	}
	res, err := fetchKeys(ctx, is)
	if err != nil {
		r.say(failed, "keys", "%v%s", err, remedy(err, is))
		return true
	}
	r.found("keys", is, res, time.Now())
	return true
}

func (r *realm) pkce(context.Context) bool {
	if slices.Contains(r.meta.Challenges, "S256") {
		r.say(okay, "PKCE", "S256 is offered")
	} else {
		r.say(failed, "PKCE", "S256 is not offered: MCP clients refuse to sign in")
	}
	if r.meta.Device == "" {
		r.say(warned, "device grant", "not offered: gatehouse login --device will not do")
	}
	for _, s := range r.wantedScopes() {
		if !slices.Contains(r.meta.Scopes, s) {
			r.say(warned, "scope "+s, "the realm does not announce it; clients that look at scopes_supported may not ask for it")
		}
	}
	return true
}

// wantedScopes are the scopes that the server will want.
func (r *realm) wantedScopes() []string {
	if len(r.c.Servers) > 0 && len(r.c.Servers[0].RequiredScopes) > 0 {
		return r.c.Servers[0].RequiredScopes
	}
	return []string{"mcp:use"}
}

// registration tries what an MCP client does, and takes it back.
func (r *realm) registration(ctx context.Context) bool {
	const topic = "registration"
	if r.meta.Registration == "" {
		r.say(warned, topic, "not offered; clients need the id of the client %s", r.ClientID)
		return true
	}
	var made struct {
		ID    string `json:"client_id"`
		URI   string `json:"registration_client_uri"`
		Token string `json:"registration_access_token"`
	}
	status, text, err := r.ask(ctx, http.MethodPost, r.meta.Registration, map[string]any{
		"client_name": "gatehouse check (a dry run)", "redirect_uris": []string{"http://127.0.0.1:33418/callback"},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "none", "scope": "openid " + strings.Join(r.wantedScopes(), " "),
	}, &made)
	switch {
	case err != nil:
		r.say(failed, topic, "%v", err)
	case status/100 != 2:
		r.say(warned, topic, "refused from here (%d %s)\n%s", status, text, registrationRemedy(text, r.ClientID))
	default:
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, made.URI, nil)
		if err == nil && strings.HasPrefix(made.URI, r.Keycloak+"/") {
			req.Header.Set("Authorization", "Bearer "+made.Token)
			var resp *http.Response
			if resp, err = r.http.Do(req); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusNoContent {
					r.say(okay, topic, "clients on this host can register themselves (tried, and removed again)")
					return true
				}
			}
		}
		r.say(warned, topic, "worked, and the client %s could not be removed again: remove it in the console", made.ID)
	}
	return true
}

// registrationRemedy is what to do about a refused registration.
func registrationRemedy(text, client string) string {
	either := fmt.Sprintf("Either clients are told the id of the client %s, which needs no registration, or", client)
	switch {
	case strings.Contains(text, "Trusted Hosts"):
		return either + " the policy Trusted Hosts gets this host, and \"Client URIs Must Match\" is switched off (Clients > Client registration > Anonymous; scripts/setup-oidc-users.sh --allow-dcr)"
	case strings.Contains(text, "Allowed Client Scopes"):
		return either + " the policy Allowed Client Scopes gets openid and the server's scopes (Clients > Client registration > Anonymous; scripts/setup-oidc-users.sh --allow-dcr)"
	case strings.Contains(text, "Max Clients"):
		return either + " the realm is cleaned of registered clients that nobody uses, or the policy Max Clients gets a higher number"
	}
	return either + " the realm's policies for anonymous registration allow it (Clients > Client registration)"
}

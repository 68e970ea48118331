package demoissuer

import (
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"gatehouse/auth/printable"
)

// The clients that exist without registration.
const (
	// NativeClient is a public client for programs on this machine: any
	// loopback redirect URI, PKCE, device grant.
	NativeClient = "gatehouse-demo"
	// MachineClient is a confidential client without a person behind it
	// (client credentials); its secret is the demo's password.
	MachineClient = "gatehouse-demo-machine"
)

// maxClients bounds how many clients may be registered; the oldest go first.
const maxClients = 500

// maxName is how many bytes of the name that a client chose stand in logs and pages.
const maxName = 60

// client is a registered client, as it is kept.
type client struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Redirects []string  `json:"redirects"`
	Made      time.Time `json:"made"`

	scopes  []string // of the demo, beside the OpenID ones
	machine bool
	any     bool // any loopback redirect URI
}

var (
	_ op.Client           = (*client)(nil)
	_ op.HasRedirectGlobs = (*client)(nil)
)

func (c *client) GetID() string                       { return c.ID }
func (c *client) RedirectURIs() []string              { return c.Redirects }
func (c *client) PostLogoutRedirectURIs() []string    { return nil }
func (c *client) ApplicationType() op.ApplicationType { return op.ApplicationTypeNative }
func (c *client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c *client) LoginURL(id string) string                                { return "/login?id=" + url.QueryEscape(id) }
func (c *client) AccessTokenType() op.AccessTokenType                      { return op.AccessTokenTypeBearer } // see sealer
func (c *client) IDTokenLifetime() time.Duration                           { return time.Hour }
func (c *client) DevMode() bool                                            { return false }
func (c *client) RestrictAdditionalIdTokenScopes() func([]string) []string { return same }
func (c *client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return same
}
func (c *client) IsScopeAllowed(scope string) bool     { return slices.Contains(c.scopes, scope) }
func (c *client) IDTokenUserinfoClaimsAssertion() bool { return true }
func (c *client) ClockSkew() time.Duration             { return 0 }
func (c *client) PostLogoutRedirectURIGlobs() []string { return nil }

func same(s []string) []string { return s }

func (c *client) AuthMethod() oidc.AuthMethod {
	if c.machine {
		return oidc.AuthMethodBasic
	}
	return oidc.AuthMethodNone
}

func (c *client) GrantTypes() []oidc.GrantType {
	if c.machine {
		return []oidc.GrantType{oidc.GrantTypeClientCredentials}
	}
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode}
}

// RedirectURIGlobs lets the native client use any path on any loopback port.
// The library checks the host of what matches once more.
func (c *client) RedirectURIGlobs() []string {
	if !c.any {
		return nil
	}
	return []string{"http://127.0.0.1:*/**", "http://localhost:*/**", `http://\[::1\]:*/**`}
}

// registration is the part of RFC 7591 section 2 that means something here.
// What else a client sends is ignored, as the specification allows.
type registration struct {
	RedirectURIs []string `json:"redirect_uris"`
	Name         string   `json:"client_name"`
}

// registered is the answer (RFC 7591 section 3.2.1). Every client is a public
// one, whatever it asked for: a secret on the person's own disk protects nothing.
type registered struct {
	ID            string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Name          string   `json:"client_name,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	Scope         string   `json:"scope"`
}

func (s *store) register(r registration) (registered, error) {
	if len(r.RedirectURIs) == 0 || len(r.RedirectURIs) > 20 {
		return registered{}, errors.New("redirect_uris: want 1 to 20")
	}
	for _, u := range r.RedirectURIs {
		if err := checkRedirect(u); err != nil {
			return registered{}, err
		}
	}
	c := &client{ID: "dcr-" + strings.ToLower(rand.Text()), Name: printable.Text(r.Name, maxName), Redirects: r.RedirectURIs, Made: s.cfg.Now()}
	if err := s.addClient(c); err != nil {
		return registered{}, err
	}
	return registered{
		ID: c.ID, IssuedAt: c.Made.Unix(), Name: c.Name, RedirectURIs: c.Redirects, AuthMethod: "none",
		GrantTypes:    []string{"authorization_code", "refresh_token", string(oidc.GrantTypeDeviceCode)},
		ResponseTypes: []string{"code"},
		Scope:         strings.Join(append([]string{"openid", "profile", "email", "offline_access"}, s.cfg.Scopes...), " "),
	}, nil
}

// checkRedirect takes loopback URLs and private-use schemes (RFC 8252 section
// 7): codes of the demo never leave the machine.
func checkRedirect(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > 1000:
		return errors.New("redirect_uris: one is no URL")
	case u.Fragment != "" || u.User != nil:
		return errors.New("redirect_uris: no fragment and no user part, please")
	case u.Scheme == "http" || u.Scheme == "https":
		if !isLoopbackName(u.Hostname()) {
			return errors.New("redirect_uris: the demo sends codes to this machine only (http://127.0.0.1, http://localhost)")
		}
	case slices.Contains([]string{"", "javascript", "data", "vbscript", "file", "blob", "about", "ftp", "ws", "wss"}, u.Scheme):
		return errors.New("redirect_uris: this scheme is not for codes")
	}
	return nil
}

func isLoopbackName(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

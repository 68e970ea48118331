// Package demoissuer is a small OpenID provider for the first five minutes and
// for tests: two users, alice and bob, on loopback. The protocol is the work of
// zitadel/oidc; our own are the access tokens (RFC 9068, header typ "at+jwt"),
// dynamic client registration, the pages for people, and a control socket that
// hands a token to whoever may open it.
//
// It is no open door for other users of the machine: signing in needs a
// password that is made at the first start and can be read by its owner only.
package demoissuer

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Config says what to issue. All fields but Scopes, the lifetimes and Log are required.
type Config struct {
	Issuer    string   // https://localhost:PORT, without a trailing slash
	Resources []string // resource identifiers (RFC 8707); the first is the default audience
	StateDir  string   // keys, password, clients and refresh tokens; made 0700
	Scopes    []string // beside the OpenID ones; default mcp:use

	AccessLife  time.Duration // default 12 h
	RefreshLife time.Duration // default 30 days
	Now         func() time.Time
	Log         zerolog.Logger
}

// Issuer is a running issuer's state. Use Handler and ServeControl.
type Issuer struct {
	cfg    Config
	port   string
	key    *signingKey
	store  *store
	server *server
}

// New loads or makes the state in cfg.StateDir.
func New(cfg Config) (*Issuer, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	u, err := url.Parse(cfg.Issuer)
	if err != nil || u.Scheme != "https" || !isLoopbackName(u.Hostname()) || u.Port() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("demo issuer %q: want https://localhost:PORT", cfg.Issuer)
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make demo state directory: %w", err)
	}
	i := &Issuer{cfg: cfg, port: u.Port()}
	if i.key, err = loadKey(cfg.StateDir); err != nil {
		return nil, err
	}
	if i.store, err = newStore(cfg, i.key); err != nil {
		return nil, err
	}
	if i.server, err = newServer(i); err != nil {
		return nil, fmt.Errorf("set up the OpenID provider: %w", err)
	}
	return i, nil
}

func (c *Config) complete() error {
	if len(c.Resources) == 0 {
		return errors.New("demo issuer: no resource identifier to issue tokens for")
	}
	for _, r := range c.Resources {
		if u, err := url.Parse(r); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("demo issuer: resource %q: want an absolute https URL", r)
		}
	}
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"mcp:use"}
	}
	if c.AccessLife == 0 {
		c.AccessLife = 12 * time.Hour
	}
	if c.RefreshLife == 0 {
		c.RefreshLife = 30 * 24 * time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// resource picks the audience for the resource parameters of a request (RFC
// 8707 section 2): the default without one, and an error for an unknown one.
func (c *Config) resource(asked []string) (string, error) {
	switch {
	case len(asked) == 0:
		return c.Resources[0], nil
	case len(asked) > 1:
		return "", errTarget("one resource at a time")
	case !slices.Contains(c.Resources, asked[0]):
		return "", errTarget("this demo issues tokens for " + c.Resources[0])
	}
	return asked[0], nil
}

// Password is what both demo users sign in with.
func (i *Issuer) Password() string { return i.store.password }

func newServer(i *Issuer) (*server, error) {
	provider, err := op.NewProvider(&op.Config{
		CodeMethodS256:        true,
		AuthMethodPost:        true,
		GrantTypeRefreshToken: true,
		SupportedScopes:       append([]string{"openid", "profile", "email", "offline_access"}, i.cfg.Scopes...),
		SupportedClaims:       []string{"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "name", "preferred_username", "email", "email_verified"},
		DeviceAuthorization: op.DeviceAuthorizationConfig{
			Lifetime:     10 * time.Minute,
			PollInterval: 5 * time.Second,
			UserFormPath: "/device",
			UserCode:     op.UserCodeBase20,
		},
	}, i.store, op.StaticIssuer(i.cfg.Issuer), op.WithCrypto(sealer{i.store}))
	if err != nil {
		return nil, err
	}
	endpoints := *op.DefaultEndpoints
	endpoints.Introspection = nil // nobody here needs it
	endpoints.EndSession = nil    // there are no browser sessions
	return &server{LegacyServer: op.NewLegacyServer(provider, endpoints), issuer: i, store: i.store}, nil
}

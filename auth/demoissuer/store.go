package demoissuer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	maxPending  = 1000 // sign-ins under way, codes and device codes, each
	pendingLife = 10 * time.Minute
)

// store is the library's storage. What has to outlive a restart (clients,
// refresh tokens) is written at each change; the rest lives for minutes.
type store struct {
	cfg      Config
	key      *signingKey
	password string

	mu       sync.Mutex // guards the fields below
	saved    saved
	requests map[string]*authRequest
	codes    map[string]string // code to request id
	issued   map[string]claims // access tokens between CreateAccessToken and sealer.Encrypt
	revoked  map[string]int64  // jti to expiry: userinfo refuses these
	devices  map[string]*device
}

var (
	_ op.Storage                    = (*store)(nil)
	_ op.DeviceAuthorizationStorage = (*store)(nil)
	_ op.ClientCredentialsStorage   = (*store)(nil)
)

func newStore(cfg Config, key *signingKey) (*store, error) {
	kept, err := loadSaved(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	for _, c := range kept.Clients {
		c.scopes = cfg.Scopes
	}
	password, err := loadPassword(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	return &store{
		cfg: cfg, key: key, password: password, saved: kept,
		requests: map[string]*authRequest{}, codes: map[string]string{},
		issued: map[string]claims{}, revoked: map[string]int64{}, devices: map[string]*device{},
	}, nil
}

// authRequest is one sign-in under way; it is an op.AuthRequest.
type authRequest struct {
	*oidc.AuthRequest
	id       string
	scopes   []string
	resource string
	subject  string // set when the person has signed in
	at       time.Time
	made     time.Time
}

func (r *authRequest) GetID() string          { return r.id }
func (r *authRequest) GetACR() string         { return "" }
func (r *authRequest) GetAMR() []string       { return []string{"pwd"} }
func (r *authRequest) GetAudience() []string  { return []string{r.ClientID} } // of the ID token
func (r *authRequest) GetAuthTime() time.Time { return r.at }
func (r *authRequest) GetClientID() string    { return r.ClientID }
func (r *authRequest) GetNonce() string       { return r.Nonce }
func (r *authRequest) GetScopes() []string    { return r.scopes }
func (r *authRequest) GetSubject() string     { return r.subject }
func (r *authRequest) Done() bool             { return r.subject != "" }
func (r *authRequest) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}

// addRequest begins a sign-in. PKCE with S256 is a must (OAuth 2.1 section 4.1.1).
func (s *store) addRequest(a *oidc.AuthRequest, resource string) (*authRequest, error) {
	switch {
	case a.CodeChallenge == "":
		return nil, oidc.ErrInvalidRequest().WithDescription("code_challenge missing: the demo wants PKCE")
	case a.CodeChallengeMethod != oidc.CodeChallengeMethodS256:
		return nil, oidc.ErrInvalidRequest().WithDescription("code_challenge_method must be S256")
	case slices.Contains(a.Prompt, oidc.PromptNone):
		return nil, oidc.ErrLoginRequired().WithDescription("the demo keeps nobody signed in")
	}
	r := &authRequest{AuthRequest: a, id: rand.Text(), scopes: offline(a.Scopes), resource: resource, made: s.cfg.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, old := range s.requests {
		if s.cfg.Now().Sub(old.made) > pendingLife {
			s.dropRequest(id)
		}
	}
	if len(s.requests) >= maxPending {
		return nil, oidc.ErrServerError().WithDescription("too many sign-ins under way; try again in ten minutes")
	}
	s.requests[r.id] = r
	return r, nil
}

// offline adds offline_access: not every client asks for it, and everybody in
// the demo may have a refresh token.
func offline(scopes []string) []string {
	if slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		return scopes
	}
	return append(slices.Clone(scopes), oidc.ScopeOfflineAccess)
}

// dropRequest forgets a request and its code. The caller holds mu.
func (s *store) dropRequest(id string) {
	delete(s.requests, id)
	for code, of := range s.codes {
		if of == id {
			delete(s.codes, code)
		}
	}
}

// CreateAuthRequest is never reached: server.Authorize calls addRequest, which
// knows the resource parameter too.
func (s *store) CreateAuthRequest(context.Context, *oidc.AuthRequest, string) (op.AuthRequest, error) {
	return nil, oidc.ErrServerError()
}

var errNoRequest = errors.New("this sign-in is unknown or too old: start again at the client")

func (s *store) request(id string) (*authRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[id]
	if !ok || s.cfg.Now().Sub(r.made) > pendingLife {
		return nil, errNoRequest
	}
	c := *r
	return &c, nil
}

// approve records who signed in. A request is approved once.
func (s *store) approve(id string, u User) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.requests[id]
	if !ok || r.subject != "" {
		return errNoRequest
	}
	r.subject, r.at = u.Subject, s.cfg.Now()
	return nil
}

func (s *store) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	r, err := s.request(id)
	if err != nil {
		return nil, oidc.ErrInvalidRequest().WithDescription("%s", err.Error())
	}
	return r, nil
}

// SaveAuthCode makes the code good for one use. A request has one code ever.
func (s *store) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.requests[id]; !ok || r.subject == "" {
		return errNoRequest
	}
	for _, of := range s.codes {
		if of == id {
			return oidc.ErrInvalidRequest().WithDescription("this sign-in has had its code")
		}
	}
	s.codes[code] = id
	return nil
}

// AuthRequestByCode spends the code: whatever is wrong with the exchange, a
// second try needs a new sign-in (RFC 6749 section 4.1.2).
func (s *store) AuthRequestByCode(_ context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.codes[code]
	r := s.requests[id]
	if !ok || r == nil {
		return nil, errors.New("unknown or spent code")
	}
	s.dropRequest(id)
	if s.cfg.Now().Sub(r.made) > pendingLife {
		return nil, errors.New("the code is too old")
	}
	return r, nil
}

func (s *store) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropRequest(id)
	return nil
}

// addClient keeps a registered client.
func (s *store) addClient(c *client) error {
	c.scopes = s.cfg.Scopes
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.saved.Clients) >= maxClients {
		oldest := c
		for _, o := range s.saved.Clients {
			if o.Made.Before(oldest.Made) {
				oldest = o
			}
		}
		delete(s.saved.Clients, oldest.ID)
	}
	s.saved.Clients[c.ID] = c
	return s.saved.write(s.cfg.StateDir)
}

func (s *store) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	switch id {
	case NativeClient:
		return &client{ID: id, Name: "a program on this machine", any: true, scopes: s.cfg.Scopes}, nil
	case MachineClient:
		return &client{ID: id, Name: id, machine: true, scopes: s.cfg.Scopes}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.saved.Clients[id]; ok {
		return c, nil
	}
	return nil, oidc.ErrInvalidClient().WithDescription("no such client: register it again")
}

func (s *store) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id == MachineClient && s.isPassword(secret) {
		return nil
	}
	return errors.New("wrong client or secret")
}

func (s *store) isPassword(p string) bool {
	return subtle.ConstantTimeCompare([]byte(p), []byte(s.password)) == 1
}

// machineRequest is a client's own token request; there is no person behind it.
type machineRequest struct {
	id     string
	scopes []string
}

func (r machineRequest) GetSubject() string    { return r.id }
func (r machineRequest) GetAudience() []string { return nil }
func (r machineRequest) GetScopes() []string   { return r.scopes }
func (r machineRequest) GetClientID() string   { return r.id }

func (s *store) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	if err := s.AuthorizeClientIDSecret(ctx, id, secret); err != nil {
		return nil, oidc.ErrInvalidClient().WithParent(err)
	}
	return s.GetClientByClientID(ctx, id)
}

func (s *store) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	if len(scopes) == 0 {
		return machineRequest{id, s.cfg.Scopes}, nil
	}
	kept := slices.DeleteFunc(slices.Clone(scopes), func(x string) bool { return !slices.Contains(s.cfg.Scopes, x) })
	return machineRequest{id, kept}, nil
}

// CreateAccessToken notes what the token will say; sealer.Encrypt signs it.
func (s *store) CreateAccessToken(_ context.Context, r op.TokenRequest) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, err := s.resourceOf(r)
	if err != nil {
		return "", time.Time{}, err
	}
	c := s.issue(r, resource)
	return c.ID, time.Unix(c.Expiry, 0), nil
}

// issue notes an access token. The caller holds mu.
func (s *store) issue(r op.TokenRequest, resource string) claims {
	c := claims{Subject: r.GetSubject(), Audience: resource, Scope: strings.Join(r.GetScopes(), " ")}
	if x, ok := r.(interface{ GetClientID() string }); ok {
		c.ClientID = x.GetClientID()
	}
	c = s.stamp(c, s.cfg.AccessLife)
	s.issued[c.ID] = c
	return c
}

func (s *store) takeIssued(id string) (claims, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.issued[id]
	if !ok {
		return claims{}, errors.New("no access token was asked for under this id")
	}
	delete(s.issued, id)
	return c, nil
}

// resourceOf returns the audience of a token request, and spends a device
// code. The caller holds mu.
func (s *store) resourceOf(r op.TokenRequest) (string, error) {
	switch r := r.(type) {
	case *authRequest:
		return r.resource, nil
	case *refreshRequest:
		return r.Resource, nil
	case *op.DeviceAuthorizationState:
		return s.spendDevice(r)
	}
	return s.cfg.Resources[0], nil
}

func (s *store) SigningKey(context.Context) (op.SigningKey, error) { return s.key, nil }
func (s *store) KeySet(context.Context) ([]op.Key, error)          { return []op.Key{publicKey{s.key}}, nil }
func (s *store) Health(context.Context) error                      { return nil }
func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

package demoissuer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// maxGrants bounds the refresh tokens that are remembered, spent ones included.
const maxGrants = 5000

// grant is one refresh token, kept under the hash of it. Each use spends it
// and gives its successor; a spent one that comes back ends the whole family,
// because one of the two who hold it is a thief (OAuth 2.1 section 4.3.1).
type grant struct {
	Family   string    `json:"family"`
	Client   string    `json:"client"`
	Subject  string    `json:"subject"`
	Scopes   []string  `json:"scopes"`
	Resource string    `json:"resource"`
	AuthTime time.Time `json:"auth_time"`
	Expiry   time.Time `json:"expiry"`
	Spent    bool      `json:"spent,omitempty"`
}

// refreshRequest is an op.RefreshTokenRequest.
type refreshRequest struct {
	grant
	scopes []string // of this use, never more than the grant's
}

func (r *refreshRequest) GetAMR() []string            { return []string{"pwd"} }
func (r *refreshRequest) GetAudience() []string       { return []string{r.Client} } // of the ID token
func (r *refreshRequest) GetAuthTime() time.Time      { return r.AuthTime }
func (r *refreshRequest) GetClientID() string         { return r.Client }
func (r *refreshRequest) GetScopes() []string         { return r.scopes }
func (r *refreshRequest) GetSubject() string          { return r.Subject }
func (r *refreshRequest) SetCurrentScopes(s []string) { r.scopes = s }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func (s *store) CreateAccessAndRefreshTokens(_ context.Context, r op.TokenRequest, current string) (string, string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, err := s.resourceOf(r)
	if err != nil {
		return "", "", time.Time{}, err
	}
	g := grant{Family: rand.Text(), Subject: r.GetSubject(), Scopes: r.GetScopes(), Resource: resource, AuthTime: s.cfg.Now()}
	if x, ok := r.(op.IDTokenRequest); ok {
		g.Client, g.AuthTime = x.GetClientID(), x.GetAuthTime()
	}
	if current != "" {
		old, err := s.spend(current)
		if err != nil {
			return "", "", time.Time{}, err
		}
		g.Family, g.Scopes = old.Family, old.Scopes
	}
	g.Expiry = s.cfg.Now().Add(s.cfg.RefreshLife)
	token := rand.Text() + rand.Text()
	s.tidyGrants()
	s.saved.Grants[hashOf(token)] = &g
	if err := s.saved.write(s.cfg.StateDir); err != nil {
		return "", "", time.Time{}, err
	}
	c := s.issue(r, resource)
	return c.ID, token, time.Unix(c.Expiry, 0), nil
}

// spend marks a refresh token as used, exactly once. The caller holds mu.
func (s *store) spend(token string) (*grant, error) {
	g, ok := s.saved.Grants[hashOf(token)]
	switch {
	case !ok || s.cfg.Now().After(g.Expiry):
		return nil, oidc.ErrInvalidGrant().WithDescription("unknown or expired refresh token: sign in again")
	case g.Spent:
		s.endFamily(g.Family)
		s.cfg.Log.Warn().Str("client", g.Client).Str("subject", g.Subject).Msg("a spent refresh token came back; its successors are revoked too")
		return nil, oidc.ErrInvalidGrant().WithDescription("this refresh token was used before: sign in again")
	}
	g.Spent = true
	return g, nil
}

// endFamily forgets every refresh token of a sign-in. The caller holds mu.
func (s *store) endFamily(family string) {
	maps.DeleteFunc(s.saved.Grants, func(_ string, g *grant) bool { return g.Family == family })
	if err := s.saved.write(s.cfg.StateDir); err != nil {
		s.cfg.Log.Error().Err(err).Msg("revoke refresh tokens")
	}
}

// tidyGrants makes room for one more. The caller holds mu.
func (s *store) tidyGrants() {
	now := s.cfg.Now()
	maps.DeleteFunc(s.saved.Grants, func(_ string, g *grant) bool { return now.After(g.Expiry) })
	for len(s.saved.Grants) >= maxGrants {
		keys := slices.Collect(maps.Keys(s.saved.Grants))
		delete(s.saved.Grants, slices.MinFunc(keys, func(a, b string) int {
			return s.saved.Grants[a].Expiry.Compare(s.saved.Grants[b].Expiry)
		}))
	}
}

// TokenRequestByRefreshToken looks the token up; it is spent only when its
// successor is made.
func (s *store) TokenRequestByRefreshToken(_ context.Context, token string) (op.RefreshTokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.saved.Grants[hashOf(token)]
	if ok && g.Spent {
		_, err := s.spend(token)
		return nil, err
	}
	if !ok || s.cfg.Now().After(g.Expiry) {
		return nil, errors.New("unknown or expired refresh token")
	}
	return &refreshRequest{grant: *g, scopes: g.Scopes}, nil
}

func (s *store) GetRefreshTokenInfo(_ context.Context, clientID, token string) (userID, tokenID string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.saved.Grants[hashOf(token)]
	if !ok || g.Client != clientID {
		return "", "", op.ErrInvalidRefreshToken
	}
	return g.Subject, token, nil
}

// RevokeToken ends a refresh token with all of its family (RFC 7009). An
// access token is a signed statement that nobody can take back; userinfo alone
// refuses it from then on.
func (s *store) RevokeToken(_ context.Context, token, userID, clientID string) *oidc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.saved.Grants[hashOf(token)]; ok {
		if g.Client != clientID {
			return oidc.ErrInvalidClient().WithDescription("the token belongs to another client")
		}
		s.endFamily(g.Family)
		return nil
	}
	if userID != "" { // an access token that the library has verified
		now := s.cfg.Now()
		maps.DeleteFunc(s.revoked, func(_ string, exp int64) bool { return exp < now.Unix() })
		s.revoked[token] = now.Add(s.cfg.AccessLife).Unix()
	}
	return nil // RFC 7009 section 2.2: an unknown token is revoked already
}

func (s *store) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, tokenID, subject, _ string) error {
	s.mu.Lock()
	_, revoked := s.revoked[tokenID]
	s.mu.Unlock()
	if revoked {
		return errors.New("the token was revoked")
	}
	return setUserinfo(info, subject, []string{oidc.ScopeProfile, oidc.ScopeEmail})
}

func (s *store) SetUserinfoFromScopes(_ context.Context, info *oidc.UserInfo, subject, _ string, scopes []string) error {
	return setUserinfo(info, subject, scopes)
}

func setUserinfo(info *oidc.UserInfo, subject string, scopes []string) error {
	u, ok := userOf(subject)
	if !ok {
		return errors.New("the token speaks for none of the demo's users")
	}
	info.Subject = u.Subject
	if slices.Contains(scopes, oidc.ScopeProfile) {
		info.Name, info.PreferredUsername = u.Full, u.Name
	}
	if slices.Contains(scopes, oidc.ScopeEmail) {
		info.Email, info.EmailVerified = u.Email, true
	}
	return nil
}

// TerminateSession, and the rest below, belong to endpoints that the demo has not.
func (s *store) TerminateSession(context.Context, string, string) error { return errUnsupported }

var errUnsupported = errors.New("the demo does not do this")

func (s *store) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errUnsupported
}

func (s *store) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, errUnsupported
}

func (s *store) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, errUnsupported
}

func (s *store) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, errUnsupported
}

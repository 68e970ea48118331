package demoissuer

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// claims is what an access token says (RFC 9068 section 2.2).
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
	IssuedAt int64  `json:"iat"`
	Expiry   int64  `json:"exp"`
	ID       string `json:"jti"`
}

// signingKey is the one key of the issuer; ID tokens are signed with it too.
type signingKey struct {
	key *rsa.PrivateKey
	id  string
}

func newSigningKey(key *rsa.PrivateKey) (*signingKey, error) {
	jwk := jose.JSONWebKey{Key: key.Public()}
	thumb, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("name demo signing key: %w", err)
	}
	return &signingKey{key, base64.RawURLEncoding.EncodeToString(thumb)}, nil
}

// ID, SignatureAlgorithm and Key make a signingKey an op.SigningKey.
func (k *signingKey) ID() string                                  { return k.id }
func (k *signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *signingKey) Key() any                                    { return k.key }

// publicKey is the op.Key of a signingKey.
type publicKey struct{ k *signingKey }

func (p publicKey) ID() string                         { return p.k.id }
func (p publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (p publicKey) Use() string                        { return "sig" }
func (p publicKey) Key() any                           { return p.k.key.Public() }

// sign makes the access token. The library signs everything as typ "JWT",
// which a strict resource server refuses (RFC 9068 section 4).
func (k *signingKey) sign(c claims) (string, error) {
	header, err := json.Marshal(map[string]string{"alg": "RS256", "kid": k.id, "typ": "at+jwt"})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding.EncodeToString
	input := enc(header) + "." + enc(payload)
	sum := sha256.Sum256([]byte(input))
	sig, err := rsa.SignPKCS1v15(rand.Reader, k.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}
	return input + "." + enc(sig), nil
}

// sealer is what the library calls to turn "tokenID:subject" into an access
// token, and an authorization request's id into a code. The first becomes our
// signed token, the second a random string that the store remembers.
type sealer struct{ store *store }

var errNotSealed = errors.New("not an encrypted token")

func (s sealer) Encrypt(what string) (string, error) {
	id, _, isToken := strings.Cut(what, ":")
	if !isToken {
		return rand.Text(), nil
	}
	c, err := s.store.takeIssued(id)
	if err != nil {
		return "", err
	}
	return s.store.key.sign(c)
}

// Decrypt always refuses: the library then reads a token as what it is, a
// signed one.
func (s sealer) Decrypt(string) (string, error) { return "", errNotSealed }

// Mint is an access token made without any protocol, for those who may open
// the control socket.
type Mint struct {
	User     string        `json:"user"`
	Audience string        `json:"audience,omitempty"` // default: the first resource
	Scope    *string       `json:"scope,omitempty"`    // nil: every scope of the demo
	Client   string        `json:"client,omitempty"`   // default: TokenClient
	Life     time.Duration `json:"life,omitempty"`     // default: Config.AccessLife; negative: expired
}

// TokenClient is the client_id of tokens that were asked for by command.
const TokenClient = "gatehouse-demo-token"

// Mint signs an access token.
func (i *Issuer) Mint(m Mint) (string, error) {
	u, err := userNamed(m.User)
	if err != nil {
		return "", err
	}
	c := claims{Subject: u.Subject, Audience: i.cfg.Resources[0], ClientID: TokenClient, Scope: strings.Join(i.cfg.Scopes, " ")}
	if m.Audience != "" {
		c.Audience = m.Audience
	}
	if m.Scope != nil {
		c.Scope = *m.Scope
	}
	if m.Client != "" {
		c.ClientID = m.Client
	}
	life := i.cfg.AccessLife
	if m.Life != 0 {
		life = m.Life
	}
	return i.key.sign(i.store.stamp(c, life))
}

// stamp fills in the issuer, the times and the id.
func (s *store) stamp(c claims, life time.Duration) claims {
	now := s.cfg.Now()
	if life < 0 { // one that has expired was issued before that
		now = now.Add(life - time.Minute)
		life = time.Minute
	}
	c.Issuer, c.ID = s.cfg.Issuer, rand.Text()
	c.IssuedAt, c.Expiry = now.Unix(), now.Add(life).Unix()
	return c
}

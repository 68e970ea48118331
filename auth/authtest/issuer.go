package authtest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// Names that tests share.
const (
	Audience   = "https://mcp.test:8443/mcp"
	IssuerURL  = "https://issuer.test"
	OtherURL   = "https://other.test"
	RealmURL   = "https://id.test/realms/lab"
	Client     = "test"
	User       = "alice"
	Leeway     = 30 * time.Second
	AliceUUID  = "fddec036-a0bf-4a90-8086-da6f3dd60de0" // alice in a Keycloak realm
	AcctClaim  = "mcp_os_user"                          // the policies' account claim
	sampleScop = "openid email mcp:use profile"
)

// Issuer mints tokens as an authorization server does. Set its fields before the
// first use.
type Issuer struct {
	URL      string
	Profile  token.Profile
	Audience string
	Now      func() time.Time
	Keys     []*Key   // the last one signs
	Extra    []string // raw keys that the key set document holds besides
}

// NewIssuer returns an issuer of RFC 9068 tokens with one RS256 key.
func NewIssuer(url string) *Issuer {
	return &Issuer{URL: url, Profile: token.ProfileRFC9068, Audience: Audience, Now: time.Now, Keys: []*Key{NewKey("RS256")}}
}

// NewRealm returns an issuer of tokens like those of a Keycloak realm.
func NewRealm(url string) *Issuer {
	i := NewIssuer(url)
	i.Profile = token.ProfileKeycloak
	return i
}

// Rotate adds a key, which signs from now on; the older ones stay in the key set.
func (i *Issuer) Rotate(alg string) *Key {
	k := NewKey(alg)
	i.Keys = append(i.Keys, k)
	return k
}

// Withdraw takes keys out of the key set.
func (i *Issuer) Withdraw(keys ...*Key) {
	i.Keys = slices.DeleteFunc(i.Keys, func(k *Key) bool { return slices.Contains(keys, k) })
}

// Current returns the key that signs.
func (i *Issuer) Current() *Key { return i.Keys[len(i.Keys)-1] }

// JWKS returns the key set document.
func (i *Issuer) JWKS() []byte {
	doc := string(JWKS(i.Keys...))
	for _, raw := range i.Extra {
		doc = doc[:len(doc)-len("]}")] + "," + raw + "]}"
	}
	return []byte(doc)
}

// Policy returns the token policy that fits the issuer.
func (i *Issuer) Policy() token.Policy {
	return token.Policy{Issuer: identity.Issuer(i.URL), Profile: i.Profile, Leeway: Leeway, AccountClaim: AcctClaim}
}

// KeySet returns the issuers' keys as the verifier wants them, read from the
// documents.
func KeySet(issuers ...*Issuer) *token.KeySet {
	all := map[identity.Issuer][]token.Key{}
	for _, i := range issuers {
		keys, err := token.ParseJWKS(i.JWKS())
		if err != nil {
			panic("authtest: " + err.Error())
		}
		all[identity.Issuer(i.URL)] = keys
	}
	return token.NewKeySet(all)
}

// NewVerifier returns a verifier for the issuers.
func NewVerifier(issuers ...*Issuer) *token.Verifier {
	var policies []token.Policy
	for _, i := range issuers {
		policies = append(policies, i.Policy())
	}
	v, err := token.New(policies...)
	if err != nil {
		panic("authtest: " + err.Error())
	}
	return v
}

var tokenCount atomic.Int64

// Draft returns a good token, unsigned: right iss, aud, sub = alice, exp in 300 s,
// iat, a new jti, client "test", scope mcp:use.
func (i *Issuer) Draft() *Draft {
	now := i.Now().Unix()
	d := &Draft{Key: i.Current()}
	d.Header.Set("alg", d.Key.Algorithm)
	d.Header.Set("kid", d.Key.ID)
	d.Claims.Set("iss", i.URL)
	d.Claims.Set("aud", i.Audience)
	d.Claims.Set("exp", now+300)
	d.Claims.Set("iat", now)
	n := tokenCount.Add(1)
	if i.Profile != token.ProfileKeycloak {
		d.Header.Set("typ", "at+jwt")
		d.Claims.Set("sub", User)
		d.Claims.Set("jti", fmt.Sprintf("jti-%d", n))
		d.Claims.Set("client_id", Client)
		d.Claims.Set("scope", "mcp:use")
		return d
	}
	d.Header.Set("typ", "JWT")
	d.Claims.Set("sub", AliceUUID)
	d.Claims.Set("jti", fmt.Sprintf("onrtac:00000000-0000-0000-0000-%012d", n))
	d.Claims.Set("typ", "Bearer")
	d.Claims.Set("azp", Client)
	d.Claims.Set("sid", "session-of-alice")
	d.Claims.Set("acr", "1")
	d.Claims.Set("scope", sampleScop)
	d.Claims.Set("email_verified", true)
	d.Claims.Set("preferred_username", User)
	d.Claims.Set("email", "alice@example.org")
	return d
}

// Mint signs a good token with some changes.
func (i *Issuer) Mint(changes ...Change) string {
	d := i.Draft()
	for _, c := range changes {
		c(d)
	}
	return d.Compact()
}

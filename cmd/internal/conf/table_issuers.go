package conf

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// algorithms are the signature algorithms that a resource server may take:
// asymmetric ones only.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func isAlgorithm(s string) error {
	switch {
	case slices.Contains(algorithms, s):
		return nil
	case strings.EqualFold(s, "none"):
		return errors.New("would accept tokens that nobody signed")
	case strings.HasPrefix(s, "HS"):
		return errors.New("is symmetric: whoever can check such a token can forge it")
	}
	return errors.New("is not one of them" + didYouMean(s, algorithms))
}

var issuerRows = []Setting{
	{
		Key: "issuers[].issuer", Env: "MCP_ISSUER", Flag: "issuer", Type: webAddress(), Ways: InAuth, Needed: InAuth,
		Help: "The authorization server's issuer identifier, compared with the token's `iss` byte for byte.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].Issuer },
	},
	{
		Key: "issuers[].profile", Env: "MCP_TOKEN_PROFILE", Flag: "token-profile", Type: oneOf("rfc9068", "keycloak"),
		Derived: "`rfc9068`, but an issuer that looks like a Keycloak realm is refused until this is set", Ways: InAuth,
		Help: "What the issuer's access tokens look like: `rfc9068` as that RFC says, `keycloak` as Keycloak makes them without further settings.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].Profile },
	},
	{
		Key: "issuers[].ca_file", Env: "MCP_ISSUER_CA", Flag: "issuer-ca", Type: path(), Ways: InAuth,
		Help: "PEM file of the certificate authorities to trust for this issuer, instead of the system's.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].CAFile },
	},
	{
		Key: "issuers[].discovery_url", Env: "MCP_DISCOVERY_URL", Flag: "discovery-url", Type: webAddress(), Ways: InAuth,
		Derived: "from the issuer",
		Help:    "Where to fetch the issuer's metadata, when this host can't reach it under its own name: the base URL, or the whole one ending in `/.well-known/openid-configuration`. The document must still name the issuer.",
		at:      func(c *Config, i int) any { return &c.Issuers[i].DiscoveryURL },
	},
	{
		Key: "issuers[].jwks_url", Env: "MCP_JWKS_URL", Flag: "jwks-url", Type: webAddress(), Ways: InAuth,
		Derived: "from the issuer's metadata",
		Help:    "Where to fetch the issuer's keys; no metadata is fetched then.",
		at:      func(c *Config, i int) any { return &c.Issuers[i].JWKSURL },
	},
	{
		Key: "issuers[].jwks_file", Env: "MCP_JWKS_FILE", Flag: "jwks-file", Type: path(), Ways: InAuth,
		Help: "A file with the issuer's keys (a JSON Web Key Set); nothing is fetched then.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].JWKSFile },
	},
	{
		Key: "issuers[].algorithms", Env: "MCP_TOKEN_ALGORITHMS", Flag: "token-algorithms",
		Type:    list("algorithms", orList(algorithms), isAlgorithm),
		Default: strings.Join(algorithms, ","), Ways: InAuth,
		Help: "Signature algorithms that are accepted; what the issuer's metadata says does not count.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].Algorithms },
	},
	{
		Key: "issuers[].leeway", Env: "MCP_TOKEN_LEEWAY", Flag: "token-leeway", Type: duration(0, time.Minute), Default: "30s", Ways: InAuth,
		Help: "How far the issuer's clock may be off, for `exp`, `nbf` and `iat` alike.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].Leeway },
	},
	{
		Key: "issuers[].max_token_lifetime", Env: "MCP_MAX_TOKEN_LIFETIME", Flag: "max-token-lifetime", Type: duration(time.Minute, 30*day), Default: "24h", Ways: InAuth,
		Help: "Tokens that are valid for longer from `iat` to `exp` are refused.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].MaxTokenLifetime },
	},
	{
		Key: "issuers[].allow_missing_kid", Env: "MCP_ALLOW_MISSING_KID", Flag: "allow-missing-kid", Type: boolean(), Default: "false", Ways: InAuth,
		Help: "Accept tokens that do not name their key, from an issuer that publishes exactly one.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].AllowMissingKid },
	},
	{
		Key: "issuers[].refresh", Env: "MCP_KEY_REFRESH", Flag: "key-refresh", Type: duration(time.Minute, time.Hour), Default: "10m", Ways: InAuth,
		Help: "How often the keys are fetched at least, while the issuer answers: a key that it has withdrawn is refused after this time at the latest. A shorter max-age of the issuer's answer counts, 60 s at least.",
		at:   func(c *Config, i int) any { return &c.Issuers[i].KeysRefresh },
	},
	{
		Key: "keys.max_stale", Env: "MCP_KEY_MAX_STALE", Flag: "key-max-stale", Type: duration(10*time.Minute, 7*day), Default: "12h", Ways: InAuth,
		Help: "While the issuer can't be reached its last keys are used for this long; then every request is answered 503.",
		at:   func(c *Config, _ int) any { return &c.Keys.MaxStale },
	},
}

// Package issuer is the keykeeper's engine: it finds out where each issuer's
// keys are, fetches them in the background by the policy of docs/keys.md, keeps
// the last good sets, and hands them to the receivers' sockets. It is the only
// package that talks to an issuer, and takes no input but the issuers' answers
// and one fixed byte.
package issuer

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
)

// DefaultRefresh is the longest time between two fetches when the configuration
// does not say another one.
const DefaultRefresh = 10 * time.Minute

// wellKnown is the path suffix of OpenID Connect Discovery 1.0 section 4.
const wellKnown = "/.well-known/openid-configuration"

// Source says where the keys of one issuer come from: its discovery document,
// JWKSURL in place of that, or JWKSFile in place of any network.
type Source struct {
	// Issuer is the exact identifier: https, or http on a loopback address.
	Issuer identity.Issuer
	// DiscoveryURL is where the discovery document is fetched when the issuer's
	// own URL can't be reached from here: the base URL or the whole URL that
	// ends in /.well-known/openid-configuration. The document must name Issuer.
	DiscoveryURL string
	// JWKSURL is the key set's URL; there is no discovery then.
	JWKSURL string
	// CAPEM are the only certificates trusted, in place of the system's.
	CAPEM string
	// JWKSFile is the key set as a file, writable by its owner only.
	JWKSFile string
	// Refresh is the longest time between two fetches, 60 s to 1 h; zero means
	// DefaultRefresh. The shortest is half of it, or what the issuer sends as
	// max-age, 60 s at least.
	Refresh time.Duration
}

// Validate reports the first thing that is wrong with s, as a sentence that says
// what is accepted.
func (s Source) Validate() error {
	if _, err := s.pool(); err != nil {
		return err
	}
	if err := s.checkIssuer(); err != nil {
		return err
	}
	if s.JWKSFile != "" && (s.JWKSURL != "" || s.DiscoveryURL != "") {
		return errors.New("key set file: give it alone, without a discovery or key set URL")
	}
	if s.JWKSURL != "" && s.DiscoveryURL != "" {
		return errors.New("key set URL: give it alone, without a discovery URL")
	}
	if s.JWKSURL != "" {
		if _, err := s.allowed(s.JWKSURL); err != nil {
			return fmt.Errorf("key set URL: %w", err)
		}
	}
	if s.DiscoveryURL != "" {
		u, err := s.allowed(s.DiscoveryURL)
		if err != nil {
			return fmt.Errorf("discovery URL: %w", err)
		}
		if u.RawQuery != "" || strings.Contains(strings.TrimSuffix(u.Path, wellKnown), "/.well-known/") {
			return fmt.Errorf("discovery URL: must be a base URL or end in %s; give the key set URL for anything else", wellKnown)
		}
	}
	if s.Refresh != 0 && (s.Refresh < minInterval || s.Refresh > maxInterval) {
		return errors.New("refresh: must be between 60 s and 1 h")
	}
	return nil
}

// checkIssuer applies OpenID Connect Discovery 1.0 section 3 (`issuer`).
func (s Source) checkIssuer() error {
	if s.Issuer == "" || len(s.Issuer) > keys.MaxIssuer {
		return errors.New("issuer: must be a URL of at most 1 KiB")
	}
	u, err := s.allowed(string(s.Issuer))
	if err != nil {
		return fmt.Errorf("issuer: %w", err)
	}
	if u.RawQuery != "" || u.ForceQuery || strings.HasSuffix(u.Path, wellKnown) {
		return errors.New("issuer: must be the identifier itself, without query and without " + wellKnown)
	}
	return nil
}

// allowed parses a URL that may be fetched for this issuer: https, or http on a
// loopback address when the issuer itself is such a URL (the demo issuer).
func (s Source) allowed(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("must be an absolute https URL")
	case u.User != nil:
		return nil, errors.New("must not hold a user name or password")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, errors.New("must not have a fragment")
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && loopback(u.Hostname()) && s.demo():
		return u, nil
	}
	return nil, errors.New("must be https; http is for an issuer on a loopback address only")
}

// demo reports whether the issuer is an http one on a loopback address.
func (s Source) demo() bool {
	u, err := url.Parse(string(s.Issuer))
	return err == nil && u.Scheme == "http" && loopback(u.Hostname())
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// discoveryBase is what the well-known suffix is appended to.
func (s Source) discoveryBase() string {
	if s.DiscoveryURL == "" {
		return string(s.Issuer)
	}
	return strings.TrimSuffix(s.DiscoveryURL, wellKnown)
}

// pool returns the trusted certificates, nil for the system's.
func (s Source) pool() (*x509.CertPool, error) {
	if s.CAPEM == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.CAPEM)) {
		return nil, errors.New("private CA: no certificate in the PEM text")
	}
	return pool, nil
}

// fingerprint names the source: another place or trust makes another one, so
// that keys saved under an old configuration are not used under a new one.
func (s Source) fingerprint() string {
	h := sha256.New()
	for _, part := range []string{string(s.Issuer), s.DiscoveryURL, s.JWKSURL, s.CAPEM} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// origin is scheme, host and port, with the default port written out
// (RFC 6454 section 4).
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

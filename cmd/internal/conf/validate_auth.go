package conf

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gatehouse/certs"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts"
)

// userEditable are claims that users can change themselves at common providers.
var userEditable = []string{"preferred_username", "email", "upn", "name"}

// notAPerson are claims of a token that never name a person.
var notAPerson = []string{"iss", "aud", "exp", "nbf", "iat", "jti", "azp", "client_id", "scope", "typ", "sid", "nonce"}

// isAccountName checks the grammar of names of accounts and groups.
func isAccountName(s string) error {
	if !accounts.ValidName(s) {
		return errors.New("is no name of an account or group (lower-case letters, digits, _ and -, at most 31, beginning with a letter or _)")
	}
	return nil
}

// isToolset checks the form of a toolset's name; the worker knows which exist.
func isToolset(s string) error {
	if ok, _ := regexp.MatchString(`^[a-z][a-z0-9_-]{0,63}$`, s); !ok {
		return errors.New("is no toolset's name (lower-case letters, digits, _ and -)")
	}
	return nil
}

// isOrigin checks a web origin of RFC 6454 section 6.1.
func isOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Scheme+"://"+u.Host != s || strings.ToLower(s) != s || strings.Contains(u.Host, "*") {
		return errors.New("is no origin (scheme, host and port in lower case, without path or pattern)")
	}
	return nil
}

// accounts checks how principals become accounts.
func (l *loader) accounts() {
	const fileKey, claimKey = "accounts.file", "accounts.userid_claim"
	a := &l.c.Accounts
	file, claim := l.isSet(fileKey, 0), l.isSet(claimKey, 0)
	switch {
	case !file && !claim && l.c.RunAs == "": // said by running
	case !file && !claim:
		l.refuse("", "run_as %s needs to know which account a principal has: set %s, or %s", l.c.RunAs, name(fileKey, 0), name(claimKey, 0))
	case file && claim:
		l.refuse(l.where(fileKey, 0), "%s and %s are both set; exactly one of them is accepted, because two answers could differ", name(fileKey, 0), name(claimKey, 0))
	}
	if a.File != "" {
		l.accountsFile(a.File)
	}
	if claim && a.UserIDClaim != "" {
		l.claim()
	}
	if g := a.RequireGroup; g != "" {
		if err := isAccountName(g); err != nil {
			l.deny("accounts.require_group", 0, "%q %v", clip(g), err)
		}
	}
}

// accountsFile checks the operator's map from principals to accounts.
func (l *loader) accountsFile(file string) {
	const key = "accounts.file"
	b := l.readable(key, 0, "the accounts file", file)
	if b == nil {
		return
	}
	l.guard(key, 0, file)
	m, err := accounts.ParseMap(b)
	if err != nil {
		l.deny(key, 0, "%s: %v", file, err)
		return
	}
	if m.Len() == 0 {
		l.caution(key, 0, "%s names nobody, so nobody gets in", file)
	}
	strangers := 0
	m.Entries(func(e accounts.Entry) {
		if !slices.ContainsFunc(l.c.Issuers, func(is Issuer) bool { return is.Issuer == e.Issuer }) {
			strangers++
		}
	})
	if strangers > 0 {
		l.caution(key, 0, "%d of %d entries of %s name an issuer that is not configured; issuers are compared byte for byte", strangers, m.Len(), file)
	}
}

// claim checks the claim whose value is the account.
func (l *loader) claim() {
	const key = "accounts.userid_claim"
	a := &l.c.Accounts
	switch {
	case slices.Contains(notAPerson, a.UserIDClaim):
		l.deny(key, 0, "the claim %s never names a person's account", a.UserIDClaim)
	case slices.Contains(userEditable, a.UserIDClaim) && !a.ClaimAdminControlled:
		l.deny(key, 0, "at common providers users can change their %s themselves and so pick another's account; if at yours only administrators can, say so with MCP_USERID_CLAIM_IS_ADMIN_CONTROLLED=1 (accounts.userid_claim_is_admin_controlled), else use %s", a.UserIDClaim, name("accounts.file", 0))
	}
	if n := len(l.c.Issuers); n > 1 {
		l.caution(key, 0, "each of the %d issuers can name any account", n)
	}
}

// issuers checks each authorization server.
func (l *loader) issuers() {
	seen := map[string]bool{}
	for i := range l.c.Issuers {
		is, found := &l.c.Issuers[i], len(l.problems)
		if is.Issuer != "" {
			l.issuer(i, is)
		}
		if seen[is.Issuer] && is.Issuer != "" {
			l.deny("issuers[].issuer", i, "%s stands there twice", clip(is.Issuer))
		}
		seen[is.Issuer] = true
		l.fetched(i, is)
		if is.Issuer == "" || len(l.problems) > found {
			continue
		}
		if err := is.Source().Validate(); err != nil { // the keykeeper's own opinion
			l.refuse(l.where("issuers[].issuer", i), "issuers[%d]: %v", i, err)
		}
	}
}

// issuer checks the identifier and the profile that goes with it.
func (l *loader) issuer(i int, is *Issuer) {
	const key = "issuers[].issuer"
	u := l.secure(key, i, is.Issuer)
	if u == nil {
		return
	}
	if u.RawQuery != "" || u.ForceQuery {
		l.deny(key, i, "%s has a query, which no issuer has (RFC 8414 section 2)", clip(is.Issuer))
	}
	if at := strings.Index(is.Issuer, "/.well-known/"); at > 0 {
		l.deny(key, i, "%s is the address of a document; the issuer is what the document names, likely %s", clip(is.Issuer), is.Issuer[:at])
	}
	if strings.Contains(u.Path, "/realms/") && !l.isSet("issuers[].profile", i) {
		l.deny(key, i, "%s looks like a Keycloak realm, and no token of a stock Keycloak passes the profile rfc9068: set MCP_TOKEN_PROFILE=keycloak (issuers: profile: keycloak), or MCP_TOKEN_PROFILE=rfc9068 if its tokens have typ at+jwt and a client_id", clip(is.Issuer))
	}
}

// fetched checks where the keys come from.
func (l *loader) fetched(i int, is *Issuer) {
	for _, x := range []struct{ key, value string }{
		{"issuers[].discovery_url", is.DiscoveryURL}, {"issuers[].jwks_url", is.JWKSURL},
	} {
		if x.value != "" {
			l.secure(x.key, i, x.value)
		}
	}
	sources := []string{"issuers[].discovery_url", "issuers[].jwks_url", "issuers[].jwks_file"}
	for n, a := range sources {
		for _, b := range sources[n+1:] {
			if l.isSet(a, i) && l.isSet(b, i) {
				l.refuse(l.where(b, i), "%s and %s are both set; one of them is accepted", name(a, i), name(b, i))
			}
		}
	}
	if is.JWKSFile != "" {
		l.readable("issuers[].jwks_file", i, "the key set", is.JWKSFile)
		l.guard("issuers[].jwks_file", i, is.JWKSFile)
	}
	if is.CAFile != "" {
		if b := l.readable("issuers[].ca_file", i, "the certificate authority", is.CAFile); b != nil {
			is.caPEM = l.authority(i, is.CAFile, b)
		}
		l.guard("issuers[].ca_file", i, is.CAFile)
	}
}

// authority returns the certificates of a PEM file, without anything else in it.
func (l *loader) authority(i int, file string, b []byte) string {
	const key = "issuers[].ca_file"
	var out strings.Builder
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			l.deny(key, i, "%s has a certificate that can't be parsed", file)
			return ""
		}
		if l.c.host.Now.After(cert.NotAfter) {
			l.caution(key, i, "a certificate of %s expired on %s", file, cert.NotAfter.Format(time.DateOnly))
		}
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
	if out.Len() == 0 {
		l.deny(key, i, "%s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", file)
	}
	return out.String()
}

// secure checks that a URL is absolute and https, or http on loopback for a
// demonstration. It returns nil when it is not.
func (l *loader) secure(key string, i int, raw string) *url.URL {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme == "", u.Host == "", u.Opaque != "", u.Hostname() == "":
		l.deny(key, i, "%q is not an absolute URL; https://… is accepted", clip(raw))
	case u.User != nil:
		l.deny(key, i, "the URL holds a user name or password; take it out")
	case strings.Contains(raw, "#"):
		l.deny(key, i, "%q has a fragment; take out what begins with #", clip(raw))
	case u.Scheme == "https":
		return u
	case u.Scheme == "http" && loopbackHost(u.Hostname()) && l.c.Demo:
		return u
	case u.Scheme == "http" && loopbackHost(u.Hostname()):
		l.deny(key, i, "%q is http; https is accepted, and http on loopback for a demonstration alone (--demo)", clip(raw))
	default:
		l.deny(key, i, "%q is not https; anybody on the way could put in keys of their own", clip(raw))
	}
	return nil
}

// certificate checks the TLS certificate and its key.
func (l *loader) certificate() {
	t := l.c.TLS
	if t.Cert == "" || t.Key == "" {
		return
	}
	cert := l.readable("tls.cert", 0, "the certificate", t.Cert)
	key := l.readable("tls.key", 0, "the private key", t.Key)
	if cert == nil || key == nil {
		return
	}
	pair, err := certs.Parse(cert, key)
	if err != nil {
		l.deny("tls.cert", 0, "%s with the key %s: %v", t.Cert, t.Key, err)
		return
	}
	for _, note := range l.c.CertificateNotes(pair.Leaf) {
		l.caution("tls.cert", 0, "%s", note)
	}
	st, err := l.c.host.Stat(t.Key)
	if err == nil && st.Mode.Perm()&0o007 != 0 && st.Mode.IsRegular() {
		l.caution("tls.key", 0, "every user of this machine can read %s; run: chmod o-rwx %s", t.Key, t.Key)
	}
}

// expirySoon is how long before its end a certificate is warned about.
const expirySoon = 14 * day

// CertificateNotes says what clients will find wrong with the certificate: its
// dates and its names. It is empty for a good one.
func (c *Config) CertificateNotes(leaf *x509.Certificate) []string {
	var notes []string
	if err := certs.Validity(leaf, c.host.Now); err != nil {
		notes = append(notes, err.Error())
	} else if left := leaf.NotAfter.Sub(c.host.Now); left < expirySoon {
		notes = append(notes, fmt.Sprintf("certificate expires in %d days, on %s: renew it", int(left/day), leaf.NotAfter.Format(time.DateOnly)))
	}
	for _, s := range c.Servers {
		u, err := url.Parse(s.Resource)
		if err != nil || u.Hostname() == "" {
			continue
		}
		if leaf.VerifyHostname(u.Hostname()) != nil {
			notes = append(notes, fmt.Sprintf("certificate does not name %s, the host of the resource identifier %s: clients will refuse it", u.Hostname(), s.Resource))
		}
	}
	return notes
}

// resource checks one resource identifier (RFC 8707 section 2, RFC 9728).
func (l *loader) resource(i int, s *Server) {
	const key = "servers[].resource"
	raw := s.Resource
	if l.c.Way() == plan.RunLoopback || raw == "" {
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Scheme == "", u.Host == "", u.Opaque != "", u.Hostname() == "":
		l.deny(key, i, "%q is not an absolute URL; an https URL such as https://mcp.example.com/mcp is accepted", clip(raw))
	case u.Scheme != "https":
		l.deny(key, i, "%q is not https; tokens must never travel in the clear", clip(raw))
	case u.User != nil:
		l.deny(key, i, "the URL holds a user name or password; take it out")
	case strings.Contains(raw, "#"):
		l.deny(key, i, "%q has a fragment; take out what begins with #", clip(raw))
	case u.RawQuery != "" || u.ForceQuery:
		l.deny(key, i, "%q has a query; clients could not find its metadata document", clip(raw))
	case strings.ContainsAny(u.Path, "{}* \t") || strings.ContainsFunc(raw, func(r rune) bool { return r > '~' }):
		l.deny(key, i, "%q has a character that no path or host of a server has: a blank, {, }, * or one beyond ASCII", clip(raw))
	case strings.Contains(u.Path+"/", "/../") || strings.Contains(u.Path+"/", "/./"):
		l.deny(key, i, "%q has . or .. between slashes, which clients take out before they ask", clip(raw))
	case strings.HasSuffix(raw, "/"):
		l.deny(key, i, "%q ends in a slash; clients and issuers compare it byte for byte, so write %s", clip(raw), strings.TrimRight(raw, "/"))
	case u.Scheme+"://"+u.Host != strings.ToLower(u.Scheme+"://"+u.Host) || !strings.HasPrefix(raw, "https://"):
		l.deny(key, i, "%q has capitals in its scheme or host; clients and issuers compare it byte for byte, so write it in lower case", clip(raw))
	case u.Path != s.Path && s.Path != "":
		l.caution(key, i, "the path of %s is not %s, where the server answers: right only if a proxy changes it", raw, s.Path)
	}
}

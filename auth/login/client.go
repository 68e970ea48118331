package login

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
)

// NewHTTP returns an HTTP client that trusts the system's authorities and those in
// the PEM file ca, where one is named. Redirects are not followed: a URL that
// answers with one is not the one that tokens may be sent to.
func NewHTTP(ca string) (*http.Client, error) {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("read the private authority: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the private authority: no certificate in %s", ca)
		}
		tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &http.Client{Transport: tr, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// tlsHint is what to do about a certificate that is not trusted.
func tlsHint(err error) string {
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return "\nIf its certificate is from a private authority: --ca FILE names the authority's certificate (or MCP_CA, or NODE_EXTRA_CA_CERTS)"
	}
	var name x509.HostnameError
	if errors.As(err, &name) {
		return "\nThe certificate is for another name: use the URL with the name that is in it"
	}
	return ""
}

package auth

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"gatehouse/auth/identity"
)

// WellKnown is the path of a resource's metadata document; the resource's own
// path is inserted after it (RFC 9728 section 3.1).
const WellKnown = "/.well-known/oauth-protected-resource"

// Resource is one protected resource as it describes itself.
type Resource struct {
	// Identifier is published byte for byte as the operator configured it; it is
	// never derived from a request.
	Identifier string
	Issuers    []identity.Issuer
	// Scopes are the required and the extra ones, and never anything else.
	Scopes identity.Scopes
	// Name is shown to people.
	Name string
}

// Document returns the resource's metadata document (RFC 9728 section 2).
func (r Resource) Document() ([]byte, error) {
	b, err := json.Marshal(struct {
		Resource      string            `json:"resource"`
		Issuers       []identity.Issuer `json:"authorization_servers"`
		Scopes        identity.Scopes   `json:"scopes_supported,omitempty"`
		BearerMethods []string          `json:"bearer_methods_supported"`
		Name          string            `json:"resource_name,omitempty"`
	}{r.Identifier, r.Issuers, r.Scopes, []string{"header"}, r.Name})
	if err != nil {
		return nil, fmt.Errorf("write the resource metadata document: %w", err)
	}
	return b, nil
}

// MetadataPath returns the path at which a resource's metadata document lies:
// the resource's path, inserted after the well-known one.
func (r Resource) MetadataPath() (string, error) {
	u, err := r.parse()
	if err != nil {
		return "", err
	}
	if p := u.EscapedPath(); p != "/" {
		return WellKnown + p, nil
	}
	return WellKnown, nil
}

// MetadataURL returns the whole URL of that document, for the challenge.
func (r Resource) MetadataURL() (string, error) {
	u, err := r.parse()
	if err != nil {
		return "", err
	}
	p, err := r.MetadataPath()
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + u.Host + p, nil
}

// parse checks what the challenge's quoted strings and the clients rely on: an
// absolute https URL without user, query and fragment. Clients open what we
// publish.
func (r Resource) parse() (*url.URL, error) {
	u, err := url.Parse(r.Identifier)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the resource identifier: %w", err)
	case u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.ContainsAny(r.Identifier, "#\"\\"):
		return nil, fmt.Errorf("read the resource identifier %q: want an absolute https URL without user, query and fragment", r.Identifier)
	}
	return u, nil
}

package auth

import (
	"strings"

	"gatehouse/auth/identity"
)

// Challenge writes the WWW-Authenticate values of one protected resource
// (RFC 6750 section 3, RFC 9728 section 5.1). The zero Challenge names neither
// metadata nor scopes.
type Challenge struct {
	// MetadataURL is where the resource's metadata document lies; empty when it
	// is not advertised.
	MetadataURL string
	// Scopes is what a client should ask the issuer for: clients obey it over
	// their own settings.
	Scopes identity.Scopes
}

// Missing is the value for a request without a bearer token: it carries no error
// (RFC 6750 section 3.1).
func (c Challenge) Missing() string { return c.value("", "") }

// Error is the value for a request that was refused with one of the error codes
// of RFC 6750 section 3.1. The description is one of the fixed texts; an empty
// one is left out.
func (c Challenge) Error(code, description string) string { return c.value(code, description) }

func (c Challenge) value(code, description string) string {
	var b strings.Builder
	b.WriteString(scheme)
	sep := " "
	param := func(name, value string) {
		if value == "" {
			return
		}
		b.WriteString(sep)
		b.WriteString(name)
		b.WriteString(`="`)
		b.WriteString(value)
		b.WriteByte('"')
		sep = ", "
	}
	param("error", code)
	param("error_description", description)
	param("resource_metadata", c.MetadataURL)
	param("scope", c.Scopes.String())
	return b.String()
}

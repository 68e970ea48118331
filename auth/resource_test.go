package auth

import (
	"testing"

	"gatehouse/auth/identity"
)

func TestChallenge(t *testing.T) {
	full := Challenge{
		MetadataURL: "https://mcp.test:8443/.well-known/oauth-protected-resource/mcp",
		Scopes:      identity.NewScopes("mcp:use", "offline_access"),
	}
	for _, c := range []struct{ name, got, want string }{
		{"no token", full.Missing(), `Bearer resource_metadata="https://mcp.test:8443/.well-known/oauth-protected-resource/mcp", scope="mcp:use offline_access"`},
		{"bad token", full.Error("invalid_token", "expired"), `Bearer error="invalid_token", error_description="expired", resource_metadata="https://mcp.test:8443/.well-known/oauth-protected-resource/mcp", scope="mcp:use offline_access"`},
		{"without description", full.Error("invalid_token", ""), `Bearer error="invalid_token", resource_metadata="https://mcp.test:8443/.well-known/oauth-protected-resource/mcp", scope="mcp:use offline_access"`},
		{"metadata not advertised", Challenge{Scopes: full.Scopes}.Missing(), `Bearer scope="mcp:use offline_access"`},
		{"nothing known", Challenge{}.Missing(), `Bearer`},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, c.got, c.want)
		}
	}
}

func TestResourceDocument(t *testing.T) {
	r := Resource{
		Identifier: "https://mcp.test:8443/mcp", Issuers: []identity.Issuer{"https://id.test/realms/lab"},
		Scopes: identity.NewScopes("offline_access", "mcp:use"), Name: "Gatehouse",
	}
	got, err := r.Document()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resource":"https://mcp.test:8443/mcp","authorization_servers":["https://id.test/realms/lab"],` +
		`"scopes_supported":["mcp:use","offline_access"],"bearer_methods_supported":["header"],"resource_name":"Gatehouse"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestMetadataURL(t *testing.T) {
	for _, c := range []struct{ id, path, url string }{
		{"https://mcp.test/mcp", "/.well-known/oauth-protected-resource/mcp", "https://mcp.test/.well-known/oauth-protected-resource/mcp"},
		{"https://mcp.test:8443/a/b", "/.well-known/oauth-protected-resource/a/b", "https://mcp.test:8443/.well-known/oauth-protected-resource/a/b"},
		{"https://mcp.test", "/.well-known/oauth-protected-resource", "https://mcp.test/.well-known/oauth-protected-resource"},
		{"https://mcp.test/", "/.well-known/oauth-protected-resource", "https://mcp.test/.well-known/oauth-protected-resource"},
		{"https://[2001:db8::1]:8443/mcp", "/.well-known/oauth-protected-resource/mcp", "https://[2001:db8::1]:8443/.well-known/oauth-protected-resource/mcp"},
	} {
		r := Resource{Identifier: c.id}
		p, err := r.MetadataPath()
		if err != nil || p != c.path {
			t.Errorf("%s: path %q, %v, want %q", c.id, p, err, c.path)
		}
		u, err := r.MetadataURL()
		if err != nil || u != c.url {
			t.Errorf("%s: URL %q, %v, want %q", c.id, u, err, c.url)
		}
	}
	for _, id := range []string{"", "mcp.test/mcp", "http://mcp.test/mcp", "https:///mcp", "https://mcp.test/mcp?x=1", "https://mcp.test/mcp#x", "https://mcp.test/mcp#", `https://mcp".test/mcp`, "https://u:p@mcp.test/mcp", "https://mcp.test/\x00"} {
		if u, err := (Resource{Identifier: id}).MetadataURL(); err == nil {
			t.Errorf("%q: URL %q, want an error", id, u)
		}
	}
}

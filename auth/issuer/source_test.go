package issuer

import (
	"strings"
	"testing"
	"time"

	"gatehouse/auth/identity"
)

func TestSourcesThatAreAccepted(t *testing.T) {
	for name, s := range map[string]Source{
		"issuer alone":            {Issuer: "https://id.example"},
		"with a trailing slash":   {Issuer: "https://id.example/"},
		"with a path and port":    {Issuer: "https://id.example:8443/realms/r"},
		"discovery elsewhere":     {Issuer: "https://id.example", DiscoveryURL: "https://kc.internal:8443/realms/r"},
		"discovery's whole URL":   {Issuer: "https://id.example", DiscoveryURL: "https://kc.internal/realms/r/.well-known/openid-configuration"},
		"key set URL":             {Issuer: "https://id.example", JWKSURL: "https://kc.internal/certs?app=1"},
		"key set file":            {Issuer: "https://id.example", JWKSFile: "/etc/keys.json"},
		"demo":                    {Issuer: "http://127.0.0.1:8080"},
		"demo, IPv6":              {Issuer: "http://[::1]:8080/x"},
		"demo, by name":           {Issuer: "http://localhost:8080", JWKSURL: "http://127.0.0.1:8080/keys"},
		"shortest refresh":        {Issuer: "https://id.example", Refresh: time.Minute},
		"longest refresh":         {Issuer: "https://id.example", Refresh: time.Hour},
		"https on loopback is ok": {Issuer: "https://127.0.0.1:1/realms/r"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
			if _, err := NewFetcher(s); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSourcesThatAreRefused(t *testing.T) {
	const id = "https://id.example"
	for name, c := range map[string]struct {
		s    Source
		want string
	}{
		"zero value":                 {Source{}, "issuer: must be a URL"},
		"no URL":                     {Source{Issuer: "id.example"}, "absolute https URL"},
		"relative":                   {Source{Issuer: "/realms/r"}, "absolute https URL"},
		"http":                       {Source{Issuer: "http://id.example"}, "must be https"},
		"another scheme":             {Source{Issuer: "ftp://127.0.0.1"}, "must be https"},
		"http, loopback as a prefix": {Source{Issuer: "http://127.0.0.1.evil.example"}, "must be https"},
		"http, loopback as a user":   {Source{Issuer: "http://127.0.0.1@evil.example"}, "user name"},
		"http, private address":      {Source{Issuer: "http://10.0.0.1"}, "must be https"},
		"query":                      {Source{Issuer: "https://id.example?x=1"}, "without query"},
		"empty query":                {Source{Issuer: "https://id.example?"}, "without query"},
		"fragment":                   {Source{Issuer: "https://id.example#x"}, "fragment"},
		"empty fragment":             {Source{Issuer: "https://id.example#"}, "fragment"},
		"user":                       {Source{Issuer: "https://u:p@id.example"}, "user name"},
		"document as issuer":         {Source{Issuer: id + wellKnown}, "identifier itself"},
		"long":                       {Source{Issuer: issuerOf(1024)}, "at most 1 KiB"},
		"http discovery":             {Source{Issuer: id, DiscoveryURL: "http://kc.internal"}, "discovery URL: must be https"},
		"http discovery on loopback": {Source{Issuer: id, DiscoveryURL: "http://127.0.0.1"}, "discovery URL: must be https"},
		"other well-known":           {Source{Issuer: id, DiscoveryURL: id + "/.well-known/oauth-authorization-server/r"}, "give the key set URL"},
		"http key set":               {Source{Issuer: id, JWKSURL: "http://kc.internal"}, "key set URL: must be https"},
		"key set URL and discovery":  {Source{Issuer: id, JWKSURL: id, DiscoveryURL: id}, "give it alone"},
		"key set file and URL":       {Source{Issuer: id, JWKSURL: id, JWKSFile: "/x"}, "give it alone"},
		"no certificate":             {Source{Issuer: id, CAPEM: "hello"}, "no certificate"},
		"refresh too short":          {Source{Issuer: id, Refresh: 59 * time.Second}, "between 60 s and 1 h"},
		"refresh too long":           {Source{Issuer: id, Refresh: 61 * time.Minute}, "between 60 s and 1 h"},
		"refresh below zero":         {Source{Issuer: id, Refresh: -time.Minute}, "between 60 s and 1 h"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.s.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if _, err := NewFetcher(c.s); err == nil {
				t.Error("NewFetcher takes it")
			}
		})
	}
}

func TestEveryPartOfASourceIsInItsFingerprint(t *testing.T) {
	seen := map[string]string{}
	for name, s := range map[string]Source{
		"a":    {Issuer: "a"},
		"ab":   {Issuer: "ab"},
		"a,b":  {Issuer: "a", DiscoveryURL: "b"},
		"a,,b": {Issuer: "a", JWKSURL: "b"},
		"ca":   {Issuer: "a", CAPEM: "b"},
	} {
		f := s.fingerprint()
		if other, dup := seen[f]; dup {
			t.Errorf("%s and %s have the same", name, other)
		}
		seen[f] = name
	}
}

func issuerOf(n int) identity.Issuer {
	return identity.Issuer("https://id.example/" + strings.Repeat("x", n))
}

package issuertest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// browser trusts the issuer's certificate alone.
func browser(i *Issuer) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(i.CAPEM()))
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true},
		Timeout:       5 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(t *testing.T, i *Issuer, url string) (status int, body string) {
	t.Helper()
	resp, err := browser(i).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestIssuerServesTheKeysItMintsWith(t *testing.T) {
	for name, c := range map[string]Config{
		"default":  {},
		"realm":    {Path: "/realms/lab", Profile: token.ProfileKeycloak, Alg: "EdDSA"},
		"in clear": {Plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := Start(t, c)
			var doc struct {
				Issuer  identity.Issuer `json:"issuer"`
				JWKSURI string          `json:"jwks_uri"`
			}
			_, body := get(t, i, i.DiscoveryURL())
			if err := json.Unmarshal([]byte(body), &doc); err != nil || doc.Issuer != i.ID() || doc.JWKSURI != i.KeysURL() {
				t.Fatalf("document is %s, %v", body, err)
			}
			if string(i.ID()) != strings.TrimSuffix(i.DiscoveryURL(), discoveryPath) {
				t.Errorf("issuer is %s", i.ID())
			}
			judge, err := token.New(i.Policy())
			if err != nil {
				t.Fatal(err)
			}
			verify := func(raw string) error {
				_, body := get(t, i, doc.JWKSURI)
				ks, err := token.ParseJWKS([]byte(body))
				if err != nil {
					t.Fatal(err)
				}
				set := token.NewKeySet(map[identity.Issuer][]token.Key{i.ID(): ks})
				_, err = judge.Verify(raw, []string{authtest.Audience}, set, time.Now())
				return err
			}
			old, first := i.Mint(), i.Key()
			if err := verify(old); err != nil {
				t.Errorf("first key: %v", err)
			}
			second := i.Rotate()
			if i.Key() != second {
				t.Error("the new key does not sign")
			}
			if err := verify(i.Mint()); err != nil {
				t.Errorf("second key: %v", err)
			}
			if err := verify(old); err != nil {
				t.Errorf("first key, still served: %v", err)
			}
			i.Withdraw(first)
			if err := verify(old); err == nil {
				t.Error("the withdrawn key is served")
			}
			if i.Fetches() != 4 || i.Discoveries() != 1 {
				t.Errorf("counted %d and %d", i.Fetches(), i.Discoveries())
			}
		})
	}
}

func TestMisbehaviour(t *testing.T) {
	i := New(t)
	for name, c := range map[string]struct {
		h      http.Handler
		status int
		ok     func(body string) bool
	}{
		"status":   {Status(503), 503, func(b string) bool { return b == Canary }},
		"body":     {Body("text/html", "<html>"), 200, func(b string) bool { return b == "<html>" }},
		"huge":     {Huge(1 << 20), 200, func(b string) bool { return len(b) > 1<<20 && json.Valid([]byte(b)) }},
		"redirect": {Redirect("https://other.example/"), 302, func(string) bool { return true }},
	} {
		for _, on := range []struct {
			url string
			set func(http.Handler)
		}{{i.KeysURL(), i.AnswerKeys}, {i.DiscoveryURL(), i.AnswerDiscovery}} {
			on.set(c.h)
			if status, body := get(t, i, on.url); status != c.status || !c.ok(body) {
				t.Errorf("%s: %d, %d bytes", name, status, len(body))
			}
			on.set(nil)
			if status, _ := get(t, i, on.url); status != 200 {
				t.Errorf("after %s: %d", name, status)
			}
		}
	}
	i.Document("issuer", "https://third.example")
	i.Document("jwks_uri", nil)
	if _, body := get(t, i, i.DiscoveryURL()); !strings.Contains(body, "third.example") || strings.Contains(body, "jwks_uri") {
		t.Errorf("document: %s", body)
	}
}

func TestDownAndUpAtTheSameAddress(t *testing.T) {
	i := New(t)
	url := i.KeysURL()
	for range 3 {
		if status, _ := get(t, i, url); status != 200 {
			t.Errorf("up: %d", status)
		}
		i.Down()
		if resp, err := browser(i).Get(url); err == nil {
			t.Errorf("down: %d", resp.StatusCode)
		}
		i.Up()
	}
}

func TestStalledRequestEndsWithItsClient(t *testing.T) {
	i := New(t)
	i.AnswerKeys(i.Stall())
	c := browser(i)
	c.Timeout = 100 * time.Millisecond
	if resp, err := c.Get(i.KeysURL()); err == nil {
		t.Errorf("answered %d", resp.StatusCode)
	}
	i.AnswerKeys(nil)
	if status, _ := get(t, i, i.KeysURL()); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

package issuer

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/issuertest"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

func sourceOf(i *issuertest.Issuer) Source { return Source{Issuer: i.ID(), CAPEM: i.CAPEM()} }

func mustFetcher(t *testing.T, s Source) *Fetcher {
	t.Helper()
	f, err := NewFetcher(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantFailure fetches and checks the class of the failure, and that nothing the
// issuer said is in its text.
func wantFailure(t *testing.T, f *Fetcher, want keys.Health) *Error {
	t.Helper()
	r, err := f.Fetch(t.Context())
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v and %d keys, want an *Error", err, len(r.Keys))
	}
	if e.Health != want {
		t.Errorf("health is %s (%v), want %s", e.Health, e, want)
	}
	if text := e.Error(); strings.Contains(text, issuertest.Canary) || len(text) > 160 {
		t.Errorf("text is not a fixed one: %s", text)
	}
	return e
}

func TestFetchByDiscovery(t *testing.T) {
	for name, c := range map[string]issuertest.Config{
		"at the root":    {},
		"Keycloak realm": {Path: "/realms/lab"},
		"plain demo":     {Plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			i := issuertest.Start(t, c)
			f := mustFetcher(t, sourceOf(i))
			for range 3 {
				r, err := f.Fetch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Keys) != 1 || !r.Keys[0].Equal(i.Key().Public()) || r.JWKSURL != i.KeysURL() {
					t.Errorf("got %+v", r)
				}
				if d := time.Since(r.Date); d < 0 || d > time.Minute {
					t.Errorf("the issuer's clock is read as %v", r.Date)
				}
			}
			if i.Discoveries() != 1 || i.Fetches() != 3 {
				t.Errorf("%d discoveries and %d fetches, want 1 and 3", i.Discoveries(), i.Fetches())
			}
		})
	}
}

// TestIssuerBehindAnotherURL is field case B13: the issuer's public name is not
// reachable from here, discovery goes to an internal URL, the document must still
// name the public one.
func TestIssuerBehindAnotherURL(t *testing.T) {
	const public identity.Issuer = "https://id.public.example/realms/r"
	i := issuertest.Start(t, issuertest.Config{Path: "/realms/r"})
	for name, url := range map[string]string{"base": string(i.ID()), "whole": i.DiscoveryURL()} {
		f := mustFetcher(t, Source{Issuer: public, DiscoveryURL: url, CAPEM: i.CAPEM()})
		i.Document("issuer", string(i.ID()))
		if e := wantFailure(t, f, keys.HealthIssuer); e.Found != string(i.ID()) {
			t.Errorf("%s: found issuer is %q", name, e.Found)
		}
		i.Document("issuer", string(public))
		if r, err := f.Fetch(t.Context()); err != nil || len(r.Keys) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	before := i.Discoveries()
	f := mustFetcher(t, Source{Issuer: public, JWKSURL: i.KeysURL(), CAPEM: i.CAPEM()})
	if _, err := f.Fetch(t.Context()); err != nil {
		t.Errorf("key set URL: %v", err)
	}
	if i.Discoveries() != before {
		t.Error("discovery was done although the key set's URL is configured")
	}
}

func TestDiscoveryDocumentsThatAreRefused(t *testing.T) {
	i := issuertest.New(t)
	id := string(i.ID())
	doc := func(issuer, jwks any) http.Handler {
		b, err := json.Marshal(map[string]any{"issuer": issuer, "jwks_uri": jwks, "x": issuertest.Canary})
		if err != nil {
			t.Fatal(err)
		}
		return issuertest.Body("application/json", string(b))
	}
	body := func(s string) http.Handler { return issuertest.Body("application/json", s) }
	for name, c := range map[string]struct {
		h    http.Handler
		want keys.Health
	}{
		"another issuer":        {doc("https://evil.example", i.KeysURL()), keys.HealthIssuer},
		"trailing slash":        {doc(id+"/", i.KeysURL()), keys.HealthIssuer},
		"host in upper case":    {doc(strings.ToUpper(id), i.KeysURL()), keys.HealthIssuer},
		"no issuer":             {body(`{"jwks_uri":"` + i.KeysURL() + `"}`), keys.HealthIssuer},
		"issuer in other case":  {body(`{"ISSUER":"` + id + `","jwks_uri":"` + i.KeysURL() + `"}`), keys.HealthIssuer},
		"issuer twice":          {body(`{"issuer":"https://evil.example","issuer":"` + id + `","jwks_uri":"` + i.KeysURL() + `"}`), keys.HealthMalformed},
		"issuer as an array":    {doc([]string{id}, i.KeysURL()), keys.HealthMalformed},
		"no key set":            {doc(id, ""), keys.HealthInsecure},
		"key set over http":     {doc(id, "http://127.0.0.1:1/keys"), keys.HealthInsecure},
		"key set in a file":     {doc(id, "file:///etc/passwd"), keys.HealthInsecure},
		"key set with password": {doc(id, "https://u:p@127.0.0.1/keys"), keys.HealthInsecure},
		"HTML":                  {issuertest.Body("text/html", "<html>"+issuertest.Canary), keys.HealthMalformed},
		"JSON array":            {body(`[]`), keys.HealthMalformed},
		"null":                  {body(`null`), keys.HealthIssuer},
		"empty":                 {body(``), keys.HealthMalformed},
		"cut":                   {body(`{"issuer":"` + id), keys.HealthMalformed},
		"trailing data":         {body(`{"issuer":"` + id + `","jwks_uri":"` + i.KeysURL() + `"}{}`), keys.HealthMalformed},
		"2 MiB":                 {issuertest.Huge(2 << 20), keys.HealthTooLarge},
		"404":                   {issuertest.Status(404), keys.HealthStatus},
		"503":                   {issuertest.Status(503), keys.HealthStatus},
		"503 and huge":          {hugeStatus(503), keys.HealthTooLarge},
		"204":                   {issuertest.Status(204), keys.HealthStatus},
		"redirect off-origin":   {issuertest.Redirect("https://169.254.169.254/latest"), keys.HealthRedirect},
		"redirect to http":      {issuertest.Redirect(strings.Replace(i.DiscoveryURL(), "https", "http", 1)), keys.HealthRedirect},
		"redirect to itself":    {issuertest.Redirect(i.DiscoveryURL()), keys.HealthRedirect},
	} {
		t.Run(name, func(t *testing.T) {
			i.AnswerDiscovery(c.h)
			wantFailure(t, mustFetcher(t, sourceOf(i)), c.want)
		})
	}
	if i.Fetches() != 0 {
		t.Errorf("the key set was fetched %d times all the same", i.Fetches())
	}
}

func hugeStatus(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		issuertest.Huge(2<<20).ServeHTTP(w, r)
	})
}

func TestKeySetsThatAreRefused(t *testing.T) {
	i := issuertest.New(t)
	body := func(s string) http.Handler { return issuertest.Body("application/json", s) }
	var many []string
	for range token.MaxKeys + 1 {
		many = append(many, `{"kty":"OKP"}`)
	}
	f := mustFetcher(t, sourceOf(i))
	if _, err := f.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		h    http.Handler
		want keys.Health
	}{
		"{}":                  {body(`{}`), keys.HealthNoKey},
		"no key":              {body(`{"keys":[]}`), keys.HealthNoKey},
		"no usable key":       {body(`{"keys":[{"kty":"oct","kid":"` + issuertest.Canary + `","k":"AAAA"}]}`), keys.HealthNoKey},
		"65 keys":             {body(`{"keys":[` + strings.Join(many, ",") + `]}`), keys.HealthNoKey},
		"no object":           {body(`[]`), keys.HealthMalformed},
		"garbage":             {body("\x00\xff" + issuertest.Canary), keys.HealthMalformed},
		"HTML":                {issuertest.Body("text/html", "<html>"+issuertest.Canary), keys.HealthMalformed},
		"empty":               {body(``), keys.HealthMalformed},
		"257 KiB":             {issuertest.Huge(257 << 10), keys.HealthTooLarge},
		"200 MiB":             {issuertest.Huge(200 << 20), keys.HealthTooLarge},
		"503":                 {issuertest.Status(503), keys.HealthStatus},
		"403":                 {issuertest.Status(403), keys.HealthStatus},
		"redirect off-origin": {issuertest.Redirect("https://169.254.169.254/"), keys.HealthRedirect},
		"cut by the server":   {http.HandlerFunc(cutBody), keys.HealthUnreachable},
		"cut before headers":  {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), keys.HealthUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			i.AnswerKeys(c.h)
			wantFailure(t, f, c.want)
			i.AnswerKeys(nil)
			if _, err := f.Fetch(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func cutBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, `{"keys":[`)
}

func TestRedirectWithinTheOriginIsFollowed(t *testing.T) {
	i := issuertest.New(t)
	i.Document("jwks_uri", i.KeysURL()+"?x=1")
	i.AnswerKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "x=1" {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return
		}
		w.Write(authtest.JWKS(i.Key()))
	}))
	if _, err := mustFetcher(t, sourceOf(i)).Fetch(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKeySetIsPinned(t *testing.T) {
	i, evil := issuertest.New(t), issuertest.New(t)
	f := mustFetcher(t, sourceOf(i))
	if _, err := f.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.Document("jwks_uri", evil.KeysURL())
	if r, err := f.Fetch(t.Context()); err != nil || r.JWKSURL != i.KeysURL() {
		t.Errorf("got %s, %v", r.JWKSURL, err)
	}

	i.AnswerKeys(issuertest.Status(404))
	wantFailure(t, f, keys.HealthStatus) // the pinned one failed
	wantFailure(t, f, keys.HealthMoved)  // so discovery is asked again
	if evil.Fetches() != 0 {
		t.Error("a key set at another origin was fetched")
	}
	i.Document("jwks_uri", i.KeysURL()+"?v=2")
	i.AnswerKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "v=2" {
			http.NotFound(w, r)
			return
		}
		w.Write(authtest.JWKS(i.Key()))
	}))
	if r, err := f.Fetch(t.Context()); err != nil || r.JWKSURL != i.KeysURL()+"?v=2" {
		t.Errorf("another path of the same origin: got %s, %v", r.JWKSURL, err)
	}

	i.AnswerKeys(issuertest.Status(500))
	wantFailure(t, f, keys.HealthStatus)
	i.AnswerKeys(nil)
	i.AnswerDiscovery(issuertest.Status(500))
	if _, err := f.Fetch(t.Context()); err != nil {
		t.Errorf("the pinned URL answers again and discovery does not: %v", err)
	}
}

func TestTransportFailures(t *testing.T) {
	i := issuertest.New(t)
	other := issuertest.New(t)
	plain := issuertest.Start(t, issuertest.Config{Plain: true})
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.Config.ErrorLog = quiet
	old.TLS = tlsAtMost11()
	old.StartTLS()
	defer old.Close()
	down := issuertest.New(t)
	down.Down()
	for name, c := range map[string]struct {
		s      Source
		want   keys.Health
		detail string
	}{
		"unknown CA":   {Source{Issuer: i.ID()}, keys.HealthTLS, "unknown authority"},
		"wrong host":   {Source{Issuer: identity.Issuer(strings.Replace(string(i.ID()), "127.0.0.1", "localhost", 1)), CAPEM: i.CAPEM()}, keys.HealthTLS, "another host"},
		"no TLS":       {Source{Issuer: identity.Issuer(strings.Replace(string(plain.ID()), "http:", "https:", 1))}, keys.HealthTLS, "does not speak TLS"},
		"TLS 1.1":      {Source{Issuer: identity.Issuer(old.URL), CAPEM: pemOf(old)}, keys.HealthTLS, "TLS 1.2 or later"},
		"refused":      {sourceOf(down), keys.HealthUnreachable, "connection refused"},
		"no such host": {Source{Issuer: "https://no-such-host.invalid"}, keys.HealthUnreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := wantFailure(t, mustFetcher(t, c.s), c.want)
			if !strings.Contains(e.Detail, c.detail) {
				t.Errorf("detail is %q, want %q in it", e.Detail, c.detail)
			}
		})
	}
	if other.Fetches() != 0 {
		t.Error("a bystander was asked")
	}
}

func pemOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	var hits int
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	wantFailure(t, mustFetcher(t, Source{Issuer: "https://no-such-host.invalid"}), keys.HealthUnreachable)
	if hits != 0 {
		t.Errorf("%d requests came to the proxy", hits)
	}
	if tr, err := newTransport(Source{Issuer: "https://id.example"}); err != nil || tr.Proxy != nil {
		t.Errorf("the transport has a proxy function (%v)", err)
	}
}

// TestDemoIssuerStaysOnThisMachine: a name that resolves elsewhere is not
// connected to in cleartext.
func TestDemoIssuerStaysOnThisMachine(t *testing.T) {
	for _, addr := range []string{"169.254.169.254:80", "10.0.0.1:80", "[2001:db8::1]:80", "nonsense"} {
		if err := onlyLoopback(t.Context(), "tcp", addr, nil); !errors.Is(err, errNotLocal) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:80", "127.8.8.8:80", "[::1]:80", "[::ffff:127.0.0.1]:80"} {
		if err := onlyLoopback(t.Context(), "tcp", addr, nil); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	i := issuertest.Start(t, issuertest.Config{Plain: true})
	i.Document("jwks_uri", "http://id.example/keys")
	wantFailure(t, mustFetcher(t, sourceOf(i)), keys.HealthInsecure)
}

// hang is an issuer that takes requests and never answers.
type hang struct{}

func (hang) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestIssuerThatHangsCostsFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Fetcher{src: Source{Issuer: "https://id.example"}, base: hang{}}
		begun := time.Now()
		wantFailure(t, f, keys.HealthTimeout)
		if d := time.Since(begun); d != requestTimeout {
			t.Errorf("took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if _, err := f.Fetch(ctx); err == nil || time.Since(begun) != time.Second {
			t.Errorf("did not end with its context: %v", err)
		}
	})
}

// TestSilentPeerKeepsNoConnection holds that a fetch from something that takes
// connections and says nothing leaves neither a socket nor a goroutine behind.
func TestSilentPeerKeepsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails as well when goroutines are left
		src := Source{Issuer: "https://id.example"}
		base, err := newTransport(src)
		if err != nil {
			t.Fatal(err)
		}
		dialed := make(chan net.Conn, 1)
		base.DialContext = func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			dialed <- far
			return near, nil
		}
		wantFailure(t, &Fetcher{src: src, base: base}, keys.HealthTimeout)
		far := <-dialed
		closed := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, far)
			closed <- err
		}()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(requestTimeout):
			t.Error("the connection is still open")
			far.Close()
		}
	})
}

func TestMaxAge(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"max-age=300":                    300 * time.Second,
		"public, MAX-AGE=300":            300 * time.Second,
		`max-age="300"`:                  300 * time.Second,
		"max-age=300, max-age=900":       300 * time.Second,
		"max-age=0":                      0,
		"":                               -1,
		"no-cache":                       -1,
		"no-store, max-age=300":          -1,
		"max-age=300, no-cache":          -1,
		"max-age=-1":                     -1,
		"max-age=x":                      -1,
		"max-age":                        -1,
		"s-maxage=300":                   -1,
		"max-age=99999999999999999999":   -1,
		"max-age=2147483647, immutable ": 2147483647 * time.Second,
	} {
		d, ok := maxAge(http.Header{"Cache-Control": {in}})
		if !ok {
			d = -1
		}
		if d != want {
			t.Errorf("%q: %v, want %v", in, d, want)
		}
	}
}

func TestKeySetFile(t *testing.T) {
	dir := t.TempDir()
	good := authtest.JWKS(authtest.NewKey("EdDSA"))
	write := func(name string, b []byte, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const issuer = "https://id.example"
	name := write("good", good, 0o644)
	f := mustFetcher(t, Source{Issuer: issuer, JWKSFile: name})
	f.base = nil // no network at all
	if r, err := f.Fetch(t.Context()); err != nil || len(r.Keys) != 1 || r.JWKSURL != "" {
		t.Errorf("got %+v, %v", r, err)
	}
	for name, c := range map[string]struct {
		file string
		want keys.Health
	}{
		"missing":           {filepath.Join(dir, "none"), keys.HealthFile},
		"directory":         {dir, keys.HealthFile},
		"device":            {"/dev/zero", keys.HealthFile},
		"writable by group": {write("group", good, 0o620), keys.HealthFile},
		"writable by all":   {write("all", good, 0o602), keys.HealthFile},
		"too large":         {write("large", make([]byte, token.MaxJWKSBytes+1), 0o600), keys.HealthFile},
		"no JSON":           {write("text", []byte(issuertest.Canary), 0o600), keys.HealthMalformed},
		"no key":            {write("empty", []byte(`{"keys":[]}`), 0o600), keys.HealthNoKey},
	} {
		t.Run(name, func(t *testing.T) {
			wantFailure(t, mustFetcher(t, Source{Issuer: issuer, JWKSFile: c.file}), c.want)
		})
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: the rest needs root")
	}
	if err := os.Chown(name, 65534, 65534); err != nil { // as if put into the place of the one that was checked at the start
		t.Fatal(err)
	}
	wantFailure(t, f, keys.HealthFile)
}

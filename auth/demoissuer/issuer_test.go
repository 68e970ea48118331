package demoissuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/rs/zerolog"
	"golang.org/x/oauth2"

	"gatehouse/certs"
)

const resource = "https://localhost:8443/mcp"

// world is a running issuer and a client that trusts its certificate and
// follows no redirect.
type world struct {
	*testing.T
	issuer *Issuer
	url    string
	state  string
	http   *http.Client
	ctx    context.Context
	stop   func()
}

// TestMain keeps the library's log of refused requests out of the output.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

func start(t *testing.T) *world { return startIn(t, t.TempDir(), "127.0.0.1:0") }

func startIn(t *testing.T, state, addr string) *world {
	t.Helper()
	f, err := certs.Dev{Dir: t.TempDir()}.Leaf("issuer")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := certs.Load(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, state: state, url: fmt.Sprintf("https://localhost:%d", ln.Addr().(*net.TCPAddr).Port)}
	if w.issuer, err = New(Config{Issuer: w.url, Resources: []string{resource}, StateDir: state, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: w.issuer.Handler(), TLSConfig: &tls.Config{GetCertificate: certs.NewStore(pair, time.Now).GetCertificate}}
	go srv.ServeTLS(ln, "", "")
	w.stop = func() { srv.Close() }
	t.Cleanup(w.stop)
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	jar, _ := cookiejar.New(nil)
	w.http = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(w.http.CloseIdleConnections)
	w.ctx = oidc.ClientContext(context.Background(), w.http)
	return w
}

func (w *world) provider() *oidc.Provider {
	w.Helper()
	p, err := oidc.NewProvider(w.ctx, w.url)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) config(client string) *oauth2.Config {
	return &oauth2.Config{ClientID: client, Endpoint: w.provider().Endpoint(), RedirectURL: "http://127.0.0.1:49152/callback", Scopes: []string{"openid", "mcp:use"}}
}

func (w *world) get(u string) (int, string, http.Header) {
	w.Helper()
	resp, err := w.http.Get(u)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

func (w *world) post(path string, form url.Values) (int, string, http.Header) {
	w.Helper()
	resp, err := w.http.PostForm(w.url+path, form)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

// signIn walks from the authorization URL through the login page to the
// redirect, and returns its query.
func (w *world) signIn(authURL, user string) url.Values {
	w.Helper()
	status, body, h := w.get(authURL)
	if status != http.StatusFound {
		w.Fatalf("authorize: %d %s", status, body)
	}
	loc := h.Get("Location")
	if !strings.HasPrefix(loc, "/login?id=") {
		return query(w.T, loc) // refused by redirect
	}
	if status, body, _ = w.get(w.url + loc); status != http.StatusOK || !strings.Contains(body, "DEMO") {
		w.Fatalf("login page: %d %s", status, body)
	}
	action := regexp.MustCompile(`action="(/login\?id=[^"]+)"`).FindStringSubmatch(body)
	if action == nil {
		w.Fatalf("no form in the login page: %s", body)
	}
	status, body, h = w.post(action[1], url.Values{"username": {user}, "password": {w.issuer.Password()}})
	if status != http.StatusSeeOther {
		w.Fatalf("login: %d %s", status, body)
	}
	status, body, h = w.get(h.Get("Location"))
	if status != http.StatusFound {
		w.Fatalf("callback: %d %s", status, body)
	}
	return query(w.T, h.Get("Location"))
}

func query(t *testing.T, loc string) url.Values {
	t.Helper()
	u, err := url.Parse(loc)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

func (w *world) token(client, user string) *oauth2.Token {
	w.Helper()
	c, verifier := w.config(client), oauth2.GenerateVerifier()
	q := w.signIn(c.AuthCodeURL("st", oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", resource)), user)
	if q.Get("state") != "st" || q.Get("code") == "" {
		w.Fatalf("redirect: %v", q)
	}
	tok, err := c.Exchange(w.ctx, q.Get("code"), oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", resource))
	if err != nil {
		w.Fatal(err)
	}
	return tok
}

// decode returns header and claims of a token, unverified.
func decode(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a signed token: %q", token)
	}
	for i, into := range []*map[string]any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}

func TestCodeFlow(t *testing.T) {
	w := start(t)
	tok := w.token(NativeClient, "alice")
	header, c := decode(t, tok.AccessToken)
	if header["typ"] != "at+jwt" || header["alg"] != "RS256" || header["kid"] == "" {
		t.Errorf("header %v", header)
	}
	for name, want := range map[string]any{
		"iss": w.url, "sub": "demo-alice", "aud": resource, "client_id": NativeClient, "scope": "openid mcp:use offline_access",
	} {
		if c[name] != want {
			t.Errorf("%s = %v, want %v", name, c[name], want)
		}
	}
	if life := c["exp"].(float64) - c["iat"].(float64); life != 12*3600 {
		t.Errorf("life %v s", life)
	}
	if c["jti"] == "" || tok.RefreshToken == "" {
		t.Errorf("jti %v, refresh token %q", c["jti"], tok.RefreshToken)
	}
	// The access token verifies with the published keys, and the ID token with
	// go-oidc's verifier, at_hash included.
	p := w.provider()
	if _, err := p.Verifier(&oidc.Config{ClientID: resource}).Verify(w.ctx, tok.AccessToken); err != nil {
		t.Errorf("access token: %v", err)
	}
	id, err := p.Verifier(&oidc.Config{ClientID: NativeClient}).Verify(w.ctx, tok.Extra("id_token").(string))
	if err != nil {
		t.Fatal(err)
	}
	if err := id.VerifyAccessToken(tok.AccessToken); err != nil {
		t.Error(err)
	}
	info, err := p.UserInfo(w.ctx, oauth2.StaticTokenSource(tok))
	if err != nil || info.Subject != "demo-alice" || info.Email != "alice@demo.invalid" {
		t.Errorf("userinfo %+v, %v", info, err)
	}
}

func TestCodeIsSpentByItsFirstUse(t *testing.T) {
	w := start(t)
	c, verifier := w.config(NativeClient), oauth2.GenerateVerifier()
	q := w.signIn(c.AuthCodeURL("st", oauth2.S256ChallengeOption(verifier)), "bob")
	if _, err := c.Exchange(w.ctx, q.Get("code"), oauth2.VerifierOption(oauth2.GenerateVerifier())); err == nil {
		t.Fatal("a wrong verifier was taken")
	}
	if _, err := c.Exchange(w.ctx, q.Get("code"), oauth2.VerifierOption(verifier)); err == nil {
		t.Error("the code outlived a wrong verifier")
	}
}

func TestAuthorizeRefusals(t *testing.T) {
	w := start(t)
	s256 := oauth2.S256ChallengeOption(oauth2.GenerateVerifier())
	param := oauth2.SetAuthURLParam
	for name, c := range map[string]struct {
		opts []oauth2.AuthCodeOption
		want string // error in the redirect
	}{
		"no PKCE":          {nil, "invalid_request"},
		"plain PKCE":       {[]oauth2.AuthCodeOption{param("code_challenge", "abc"), param("code_challenge_method", "plain")}, "invalid_request"},
		"another resource": {[]oauth2.AuthCodeOption{s256, param("resource", "https://other.example/mcp")}, "invalid_target"},
		"prompt none":      {[]oauth2.AuthCodeOption{s256, param("prompt", "none")}, "login_required"},
		"implicit flow":    {[]oauth2.AuthCodeOption{s256, param("response_type", "id_token token")}, "unauthorized_client"},
		"request object":   {[]oauth2.AuthCodeOption{s256, param("request", "e30.e30.")}, "request_not_supported"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, h := w.get(w.config(NativeClient).AuthCodeURL("st", c.opts...))
			loc := h.Get("Location")
			if status != http.StatusFound || !strings.HasPrefix(loc, "http://127.0.0.1:49152/callback") {
				t.Fatalf("%d %s %s", status, loc, body)
			}
			u, _ := url.Parse(loc)
			q := u.Query()
			if u.Fragment != "" {
				q, _ = url.ParseQuery(u.Fragment)
			}
			if q.Get("error") != c.want || q.Get("code") != "" || q.Get("state") != "st" {
				t.Errorf("redirect %v, want error %s", q, c.want)
			}
		})
	}
}

func TestCodesNeverLeaveTheMachine(t *testing.T) {
	w := start(t)
	s256 := oauth2.S256ChallengeOption(oauth2.GenerateVerifier())
	for _, redirect := range []string{
		"https://evil.example/callback", "http://evil.example/callback", "http://127.0.0.1:1@evil.example/cb",
		"http://localhost.evil.example/cb", "https://127.0.0.1.evil.example/cb", "javascript:alert(1)", "evil:x", "",
	} {
		c := w.config(NativeClient)
		c.RedirectURL = redirect
		status, _, h := w.get(c.AuthCodeURL("st", s256))
		if status != http.StatusBadRequest || h.Get("Location") != "" {
			t.Errorf("redirect_uri %q: %d, Location %q", redirect, status, h.Get("Location"))
		}
		if status, body, _ := w.postJSON("/register", map[string]any{"redirect_uris": []string{redirect}}); status == http.StatusCreated && redirect != "evil:x" {
			t.Errorf("registration of %q: %d %s", redirect, status, body)
		}
	}
	for _, redirect := range []string{"http://localhost:6274/oauth/callback/debug", "http://127.0.0.1:1/", "http://[::1]:33333/cb"} {
		c := w.config(NativeClient)
		c.RedirectURL = redirect
		if status, body, h := w.get(c.AuthCodeURL("st", s256)); status != http.StatusFound {
			t.Errorf("redirect_uri %q: %d %s %s", redirect, status, h.Get("Location"), body)
		}
	}
}

func (w *world) postJSON(path string, v any) (int, string, http.Header) {
	w.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := w.http.Post(w.url+path, "application/json", strings.NewReader(string(b)))
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	out, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(out), resp.Header
}

func TestLoginNeedsThePassword(t *testing.T) {
	w := start(t)
	c := w.config(NativeClient)
	_, _, h := w.get(c.AuthCodeURL("st", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
	id := query(t, h.Get("Location")).Get("id")
	for _, form := range []url.Values{
		{"id": {id}, "username": {"alice"}},
		{"id": {id}, "username": {"alice"}, "password": {"alice"}},
		{"id": {id}, "username": {"root"}, "password": {w.issuer.Password()}},
		{"id": {"nonsense"}, "username": {"alice"}, "password": {w.issuer.Password()}},
	} {
		if status, body, _ := w.post("/login", form); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%v: %d %s", form, status, body)
		}
	}
	// The callback of a sign-in that nobody finished gives an error and no code.
	_, _, h = w.get(w.url + "/authorize/callback?id=" + id)
	if q := query(t, h.Get("Location")); q.Get("code") != "" || q.Get("error") == "" {
		t.Errorf("callback of an open sign-in: %v", q)
	}
	// Refusing sends the client away.
	_, _, h = w.post("/login", url.Values{"id": {id}, "answer": {"deny"}})
	if q := query(t, h.Get("Location")); q.Get("error") != "access_denied" || q.Get("state") != "st" {
		t.Errorf("refused: %v", q)
	}
}

func TestHostAndOrigin(t *testing.T) {
	w := start(t)
	req, _ := http.NewRequest("GET", w.url+"/keys", nil)
	req.Host = "attacker.example"
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("foreign Host: %d", resp.StatusCode)
	}
	for origin, want := range map[string]string{"http://localhost:6274": "http://localhost:6274", "https://evil.example": "", "null": ""} {
		req, _ := http.NewRequest("OPTIONS", w.url+"/register", nil)
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", "POST")
		req.Header.Set("Access-Control-Request-Headers", "content-type, mcp-protocol-version")
		resp, err := w.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("Origin %s: allowed %q, want %q", origin, got, want)
		}
	}
}

func TestDiscoveryDocuments(t *testing.T) {
	w := start(t)
	var docs []string
	for _, p := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		status, body, h := w.get(w.url + p)
		if status != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
			t.Fatalf("%s: %d %s", p, status, h)
		}
		docs = append(docs, body)
	}
	if docs[0] != docs[1] {
		t.Errorf("the two documents differ:\n%s\n%s", docs[0], docs[1])
	}
	var d map[string]any
	if err := json.Unmarshal([]byte(docs[0]), &d); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"issuer": w.url, "registration_endpoint": w.url + "/register", "code_challenge_methods_supported": "[S256]",
		"response_types_supported": "[code]", "scopes_supported": "[openid profile email offline_access mcp:use]",
	} {
		if got := fmt.Sprint(d[name]); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}

package demoissuer

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

func (w *world) refresh(client, token string) (int, string) {
	status, body, _ := w.post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token}})
	return status, body
}

func refreshOf(t *testing.T, body string) string {
	t.Helper()
	var v struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil || v.Access == "" || v.Refresh == "" {
		t.Fatalf("token response %s", body)
	}
	return v.Refresh
}

func TestRefreshRotatesAndReuseEndsTheFamily(t *testing.T) {
	w := start(t)
	first := w.token(NativeClient, "alice").RefreshToken
	status, body := w.refresh(NativeClient, first)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	second := refreshOf(t, body)
	if second == first {
		t.Fatal("the refresh token was not rotated")
	}
	if status, body := w.refresh("dcr-other", second); status == http.StatusOK {
		t.Errorf("another client refreshed: %s", body)
	}
	if status, body := w.refresh(NativeClient, first); status != http.StatusBadRequest || !strings.Contains(body, "invalid_grant") {
		t.Errorf("reuse: %d %s", status, body)
	}
	if status, body := w.refresh(NativeClient, second); status != http.StatusBadRequest || !strings.Contains(body, "invalid_grant") {
		t.Errorf("successor after reuse: %d %s", status, body)
	}
}

func TestRefreshTokenIsSpentOnceByManyAtOnce(t *testing.T) {
	w := start(t)
	token := w.token(NativeClient, "alice").RefreshToken
	var mu sync.Mutex
	var wg sync.WaitGroup
	good := 0
	for range 8 {
		wg.Go(func() {
			if status, _ := w.refresh(NativeClient, token); status == http.StatusOK {
				mu.Lock()
				good++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if good > 1 {
		t.Errorf("%d refreshes with one token succeeded", good)
	}
}

func TestRevocation(t *testing.T) {
	w := start(t)
	tok := w.token(NativeClient, "alice")
	if status, body, _ := w.post("/revoke", url.Values{"client_id": {NativeClient}, "token": {tok.RefreshToken}}); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if status, _ := w.refresh(NativeClient, tok.RefreshToken); status == http.StatusOK {
		t.Error("a revoked refresh token works")
	}
	if status, body, _ := w.post("/revoke", url.Values{"client_id": {NativeClient}, "token": {tok.AccessToken}, "token_type_hint": {"access_token"}}); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if _, err := w.provider().UserInfo(w.ctx, oauth2.StaticTokenSource(tok)); err == nil {
		t.Error("userinfo takes a revoked access token")
	}
	if status, _, _ := w.post("/revoke", url.Values{"client_id": {NativeClient}, "token": {"nonsense"}}); status != http.StatusOK {
		t.Errorf("revoking an unknown token: %d, want 200 (RFC 7009 section 2.2)", status)
	}
}

func TestDeviceGrant(t *testing.T) {
	w := start(t)
	verifier := oauth2.GenerateVerifier()
	begin := func() (deviceCode, userCode string) {
		status, body, _ := w.post("/device_authorization", url.Values{"client_id": {NativeClient}, "scope": {"mcp:use"},
			"code_challenge": {oauth2.S256ChallengeFromVerifier(verifier)}, "code_challenge_method": {"S256"}, "resource": {resource}})
		var v struct {
			Device string `json:"device_code"`
			User   string `json:"user_code"`
			URI    string `json:"verification_uri_complete"`
		}
		if err := json.Unmarshal([]byte(body), &v); err != nil || status != http.StatusOK || v.User == "" {
			t.Fatalf("%d %s", status, body)
		}
		if status, page, _ := w.get(v.URI); status != http.StatusOK || !strings.Contains(page, v.User) {
			t.Fatalf("device page: %d %s", status, page)
		}
		return v.Device, v.User
	}
	poll := func(code, verifier string) (int, string) {
		status, body, _ := w.post("/oauth/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"},
			"client_id": {NativeClient}, "device_code": {code}, "code_verifier": {verifier}})
		return status, body
	}
	decide := func(user, password, answer string) int {
		status, _, _ := w.post("/device", url.Values{"user_code": {strings.ToLower(strings.ReplaceAll(user, "-", ""))},
			"username": {"bob"}, "password": {password}, "answer": {answer}})
		return status
	}

	device, user := begin()
	if status, body := poll(device, verifier); status != http.StatusBadRequest || !strings.Contains(body, "authorization_pending") {
		t.Errorf("early poll: %d %s", status, body)
	}
	if status := decide(user, "wrong", "allow"); status != http.StatusForbidden {
		t.Errorf("wrong password: %d", status)
	}
	if status := decide(user, w.issuer.Password(), "allow"); status != http.StatusOK {
		t.Fatalf("approve: %d", status)
	}
	if status, body := poll(device, "wrong"); status != http.StatusBadRequest || !strings.Contains(body, "invalid_grant") {
		t.Errorf("wrong verifier: %d %s", status, body)
	}
	status, body := poll(device, verifier)
	if status != http.StatusOK {
		t.Fatalf("poll: %d %s", status, body)
	}
	refreshOf(t, body)
	var v struct {
		Access string `json:"access_token"`
	}
	json.Unmarshal([]byte(body), &v)
	if _, c := decode(t, v.Access); c["sub"] != "demo-bob" || c["aud"] != resource {
		t.Errorf("claims %v", c)
	}
	if status, body := poll(device, verifier); status == http.StatusOK {
		t.Errorf("the device code worked twice: %s", body)
	}

	device, user = begin()
	decide(user, "", "deny")
	if status, body := poll(device, verifier); status != http.StatusBadRequest || !strings.Contains(body, "access_denied") {
		t.Errorf("denied: %d %s", status, body)
	}
}

func TestRegisteredClientSignsIn(t *testing.T) {
	w := start(t)
	status, body, _ := w.postJSON("/register", map[string]any{
		"redirect_uris": []string{"http://127.0.0.1/callback"}, "client_name": "Tester <b>\x01</b>",
		"token_endpoint_auth_method": "client_secret_post", "grant_types": []string{"authorization_code"}, "unknown": 1})
	var reg registered
	if err := json.Unmarshal([]byte(body), &reg); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	if reg.AuthMethod != "none" || strings.Contains(body, "client_secret\"") {
		t.Errorf("registration answer %s", body)
	}
	if _, c := decode(t, w.token(reg.ID, "alice").AccessToken); c["client_id"] != reg.ID {
		t.Errorf("client_id %v", c["client_id"])
	}
	for name, reg := range map[string]any{
		"no redirect": map[string]any{}, "not an object": []int{1},
		"fragment":       map[string]any{"redirect_uris": []string{"http://localhost/#x"}},
		"too many":       map[string]any{"redirect_uris": strings.Split(strings.Repeat("http://localhost/ ", 21), " ")},
		"another server": map[string]any{"redirect_uris": []string{"https://claude.ai/cb"}},
	} {
		if status, body, _ := w.postJSON("/register", reg); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

func TestClientCredentials(t *testing.T) {
	w := start(t)
	ask := func(secret string) (int, string) {
		status, body, _ := w.post("/oauth/token", url.Values{"grant_type": {"client_credentials"},
			"client_id": {MachineClient}, "client_secret": {secret}, "scope": {"mcp:use admin"}})
		return status, body
	}
	if status, body := ask("wrong"); status != http.StatusUnauthorized && status != http.StatusBadRequest {
		t.Errorf("wrong secret: %d %s", status, body)
	}
	status, body := ask(w.issuer.Password())
	var v struct {
		Access string `json:"access_token"`
	}
	if json.Unmarshal([]byte(body), &v); status != http.StatusOK || v.Access == "" {
		t.Fatalf("%d %s", status, body)
	}
	if _, c := decode(t, v.Access); c["sub"] != MachineClient || c["client_id"] != MachineClient || c["scope"] != "mcp:use" {
		t.Errorf("claims %v", c)
	}
}

func TestStateOutlivesARestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "deep", strings.Repeat("x", 120))
	w := startIn(t, state, "127.0.0.1:0")
	tok := w.token(NativeClient, "alice")
	password := w.issuer.Password()
	addr := strings.TrimPrefix(w.url, "https://localhost")
	w.http.CloseIdleConnections()
	w.stop()

	again := startIn(t, state, "127.0.0.1"+addr)
	if again.issuer.Password() != password {
		t.Error("the password changed")
	}
	if again.issuer.key.id != w.issuer.key.id {
		t.Error("the signing key changed")
	}
	if status, body := again.refresh(NativeClient, tok.RefreshToken); status != http.StatusOK {
		t.Errorf("refresh after a restart: %d %s", status, body)
	}
	files, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", f.Name(), info.Mode().Perm())
		}
		b, err := os.ReadFile(filepath.Join(state, f.Name()))
		if err == nil && strings.Contains(string(b), tok.RefreshToken) {
			t.Errorf("%s holds a refresh token in the clear", f.Name())
		}
	}
}

func TestControlSocket(t *testing.T) {
	w := start(t)
	if _, err := AskToken(w.state, Mint{User: "alice"}); err == nil || !strings.Contains(err.Error(), "no demo issuer is running") {
		t.Errorf("without a socket: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.issuer.ServeControl(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(w.state, socketName)); !os.IsNotExist(err) {
			t.Error("the socket is still there")
		}
	}()
	var token string
	var err error
	for range 100 {
		if token, err = AskToken(w.state, Mint{User: "alice"}); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(w.state, socketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info, err)
	}
	if _, c := decode(t, token); c["sub"] != "demo-alice" || c["client_id"] != TokenClient || c["aud"] != resource || c["scope"] != "mcp:use" {
		t.Errorf("claims %v", c)
	}
	none := ""
	token, err = AskToken(w.state, Mint{User: "bob", Audience: "https://other.example/mcp", Scope: &none, Life: -time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, c := decode(t, token); c["aud"] != "https://other.example/mcp" || c["scope"] != "" || c["exp"].(float64) > float64(time.Now().Add(-59*time.Minute).Unix()) {
		t.Errorf("claims %v", c)
	}
	if _, err := AskToken(w.state, Mint{User: "root"}); err == nil || !strings.Contains(err.Error(), "alice, bob") {
		t.Errorf("unknown user: %v", err)
	}
	if err := w.issuer.ServeControl(ctx); err == nil || !strings.Contains(err.Error(), "another demo issuer runs") {
		t.Errorf("a second one with the same state: %v", err)
	}
	c, err := net.Dial("unix", filepath.Join(w.state, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("{\"user\":\"alice\",\"sub\":\"root\"}\n"))
	b := make([]byte, 1000)
	n, _ := c.Read(b)
	if !strings.Contains(string(b[:n]), "unknown field") {
		t.Errorf("unknown field: %s", b[:n])
	}
}

func TestNewRefusesOtherHosts(t *testing.T) {
	for _, issuer := range []string{"http://localhost:1", "https://example.com:443", "https://localhost", "https://localhost:1/", "https://0.0.0.0:1", "https://[::]:1", ""} {
		if _, err := New(Config{Issuer: issuer, Resources: []string{resource}, StateDir: t.TempDir()}); err == nil {
			t.Errorf("issuer %q was taken", issuer)
		}
	}
	for _, r := range []string{"", "http://localhost/mcp", "mcp"} {
		if _, err := New(Config{Issuer: "https://localhost:1", Resources: []string{r}, StateDir: t.TempDir()}); err == nil {
			t.Errorf("resource %q was taken", r)
		}
	}
}

func TestWriteAccounts(t *testing.T) {
	var b strings.Builder
	if err := WriteAccounts(&b, "https://localhost:8444", "gatehouse-"); err != nil {
		t.Fatal(err)
	}
	want := `- issuer: https://localhost:8444
  subject: demo-alice
  account: gatehouse-alice
  name: Alice Demo
  email: alice@demo.invalid
- issuer: https://localhost:8444
  subject: demo-bob
  account: gatehouse-bob
  name: Bob Demo
  email: bob@demo.invalid
`
	if b.String() != want {
		t.Errorf("accounts file:\n%s", b.String())
	}
}

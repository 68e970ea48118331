package login

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/oauth2"
)

func TestDiscoveryRefusals(t *testing.T) {
	doc := func(change map[string]any) http.Handler {
		d := map[string]any{"resource": serverURL, "authorization_servers": []string{issuerURL}}
		maps.Copy(d, change)
		return resourceServer(d)
	}
	status := func(code int, challenge string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			w.WriteHeader(code)
		})
	}
	for name, c := range map[string]struct {
		mcp          http.Handler
		server, want string
		issuer       string
	}{
		"no token needed":      {mcp: status(200, ""), want: "without asking for a token"},
		"wrong path":           {mcp: status(404, ""), want: "usually /mcp"},
		"not advertised":       {mcp: status(401, "Bearer"), want: "http.advertise_metadata"},
		"another origin":       {mcp: status(401, `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`), want: "calls itself https://mcp.example.com"},
		"cleartext metadata":   {mcp: status(401, `Bearer resource_metadata="http://mcp.example.com/x"`), want: "want https"},
		"another resource":     {mcp: doc(map[string]any{"resource": "https://mcp.example.com/mcp"}), want: `calls itself "https://mcp.example.com/mcp"`},
		"no issuer":            {mcp: doc(map[string]any{"authorization_servers": []string{}}), want: "names no issuer"},
		"another issuer named": {mcp: doc(nil), issuer: "https://other.test", want: "takes no tokens of https://other.test, only of " + issuerURL},
		"issuer unknown":       {mcp: doc(map[string]any{"authorization_servers": []string{"https://nowhere.test"}}), want: "read the configuration of the issuer https://nowhere.test"},
		"issuer in cleartext":  {mcp: doc(map[string]any{"authorization_servers": []string{"http://id.test"}}), want: "want https"},
		"server in cleartext":  {mcp: doc(nil), server: "http://mcp.example.com/mcp", want: "http is for this machine only"},
		"http to TLS":          {mcp: status(400, ""), server: strings.Replace(serverURL, "https:", "http:", 1), want: "write https://"},
		"no URL":               {mcp: doc(nil), server: "mcp.example.com", want: "want a whole URL"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Minute)
			w.mcp = c.mcp
			cl := w.client()
			cl.Issuer = c.issuer
			if c.server != "" {
				cl.Server = c.server
			}
			_, err := cl.discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestIssuersDocument holds what an issuer's own document must say: it is the word
// of whoever runs the server that a person typed the URL of.
func TestIssuersDocument(t *testing.T) {
	for name, c := range map[string]struct {
		member string
		value  any
		want   string
	}{
		"token endpoint in cleartext":      {"token_endpoint", "http://id.test/token", "token_endpoint"},
		"device endpoint in cleartext":     {"device_authorization_endpoint", "http://id.test/device", "device_authorization_endpoint"},
		"revocation endpoint in cleartext": {"revocation_endpoint", "http://id.test/revoke", "revocation_endpoint"},
		"a file for the browser":           {"authorization_endpoint", "file:///home/user/x.desktop", "authorization_endpoint"},
		"an option for the browser":        {"authorization_endpoint", "--new-window", "authorization_endpoint"},
		"PKCE is not mentioned":            {"code_challenge_methods_supported", nil, "does not offer PKCE"},
		"PKCE without a hash":              {"code_challenge_methods_supported", []string{"plain"}, "does not offer PKCE"},
		"without end":                      {"padding", strings.Repeat("x", bodyLimit), "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Minute)
			real := w.issuer.Handler()
			w.answerInstead(func(rw http.ResponseWriter, r *http.Request) {
				rec := httptest.NewRecorder()
				real.ServeHTTP(rec, r)
				if rec.Code != http.StatusOK {
					rw.WriteHeader(rec.Code)
					return
				}
				var doc map[string]any
				if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
					t.Error(err)
				}
				doc[c.member] = c.value
				rw.Header().Set("Content-Type", "application/json")
				json.NewEncoder(rw).Encode(doc)
			})
			_, err := w.client().discover(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestPlacesOfDocuments: a client looks for both documents in each place where the MCP
// specification says that they can lie, in its order, and takes no other issuer's.
func TestPlacesOfDocuments(t *testing.T) {
	const tenant = issuerURL + "/tenant"
	w := newWorld(t, time.Minute)
	for _, c := range []struct {
		issuer, at string // where the document lies
		named      string
		asked      int // how many places are looked at
	}{
		{issuerURL, "/.well-known/oauth-authorization-server", issuerURL, 1},
		{issuerURL, "/.well-known/openid-configuration", issuerURL, 2},
		{tenant, "/.well-known/oauth-authorization-server/tenant", tenant, 1},
		{tenant, "/.well-known/openid-configuration/tenant", tenant, 2},
		{tenant, "/tenant/.well-known/openid-configuration", tenant, 3},
		{tenant, "/tenant/.well-known/oauth-authorization-server", tenant, 0},
		{tenant, "/.well-known/oauth-authorization-server/tenant", issuerURL, 0},
	} {
		asked := 0
		w.answerInstead(func(rw http.ResponseWriter, r *http.Request) {
			asked++
			if r.URL.Path != c.at {
				http.NotFound(rw, r)
				return
			}
			json.NewEncoder(rw).Encode(map[string]any{"issuer": c.named, "token_endpoint": issuerURL + "/here", "code_challenge_methods_supported": []string{"S256"}})
		})
		d := &discovered{issuer: c.issuer}
		err := w.client().configuration(t.Context(), d)
		if want := c.asked > 0; want != (err == nil) || want && (d.endpoint.TokenURL != issuerURL+"/here" || asked != c.asked) {
			t.Errorf("issuer %s, document of %s at %s: %v after %d places; want it found %v, in place %d", c.issuer, c.named, c.at, err, asked, want, c.asked)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) })
	mux.HandleFunc("GET /.well-known/oauth-protected-resource", func(rw http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(rw).Encode(map[string]any{"resource": serverURL, "authorization_servers": []string{issuerURL}})
	})
	w.answerInstead(nil)
	w.mcp = mux
	if d, err := w.client().discover(t.Context()); err != nil || d.issuer != issuerURL {
		t.Errorf("document at the server's root: %v, %v", d, err)
	}
}

// TestRegistersAsNative: a web client, which OpenID Connect makes of one that does not
// say, may have no redirect to this machine.
func TestRegistersAsNative(t *testing.T) {
	w := newWorld(t, time.Minute)
	c := w.client()
	d, err := c.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	w.answerInstead(func(rw http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		rw.WriteHeader(http.StatusCreated)
		rw.Write([]byte(`{"client_id":"new"}`))
	})
	if as, err := c.identify(t.Context(), d, nil, "http://127.0.0.1:1/callback"); err != nil || as.id != "new" || got["application_type"] != "native" {
		t.Errorf("client %q, %v, sent %v", as.id, err, got)
	}
}

// TestTerminalGetsNoControlCharacters holds that nothing that an issuer says moves
// the cursor of the person's terminal.
func TestTerminalGetsNoControlCharacters(t *testing.T) {
	const evil = "\x1b]0;x\x07\u009b2J\r\nSigned in."
	w := newWorld(t, time.Minute)
	c, told := w.client(), ""
	c.Say = func(s string) { told += s }
	d, err := c.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.answerInstead(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/register":
			rw.WriteHeader(http.StatusForbidden)
			json.NewEncoder(rw).Encode(map[string]string{"error": evil, "error_description": evil})
		case "/device_authorization":
			json.NewEncoder(rw).Encode(map[string]any{"device_code": "x", "user_code": evil, "verification_uri": "https://id.test/" + evil, "expires_in": 60})
		default:
			rw.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(rw).Encode(map[string]string{"error": evil, "error_description": evil})
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, refusal := c.byDevice(ctx, d, nil)
	w.answerInstead(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, evil, http.StatusBadGateway) })
	_, broken := c.discover(t.Context())
	for what, text := range map[string]string{"said": told, "refusal": errText(refusal), "configuration": errText(broken)} {
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 || text == "" {
			t.Errorf("%s: %q", what, text)
		}
		if strings.Contains(text, "\nSigned in.") {
			t.Errorf("%s has a line of the issuer's: %q", what, text)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRegistrationIsRefused(t *testing.T) {
	w := newWorld(t, time.Minute)
	c, told := w.client(), ""
	c.Say = func(s string) { told += s }
	d, err := c.discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.answerInstead(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusForbidden)
		rw.Write([]byte(`{"error":"insufficient_scope","error_description":"Policy 'Trusted Hosts' rejected request"}`))
	})
	as, err := c.identify(t.Context(), d, nil, "http://127.0.0.1:1/callback")
	if err != nil || as.id != DefaultClient || !strings.Contains(told, "Trusted Hosts") || !strings.Contains(told, "--client-id") {
		t.Errorf("client %q, %v, told %q", as.id, err, told)
	}
}

func TestBearerParams(t *testing.T) {
	for v, want := range map[string]map[string]string{
		`Bearer resource_metadata="https://a/b?c=d,e", scope="x y"`: {"resource_metadata": "https://a/b?c=d,e", "scope": "x y"},
		`bearer error=invalid_token,scope="x"`:                      {"error": "invalid_token", "scope": "x"},
		`Bearer scope="first", scope="second"`:                      {"scope": "first"},
		`Bearer scope="open`:                                        {"scope": "open"},
		`Bearer`:                                                    {},
	} {
		if got, ok := bearerParams(v); !ok || !maps.Equal(got, want) {
			t.Errorf("%s: %v", v, got)
		}
	}
	if _, ok := bearerParams(`Basic realm="x"`); ok {
		t.Error("took Basic for Bearer")
	}
}

func TestRemedies(t *testing.T) {
	for _, c := range []struct{ code, description, want string }{
		{"not_allowed", "Offline tokens not allowed for the user or client", "realm role offline_access"},
		{"invalid_request", "Missing parameter: code_challenge_method", "PKCE"},
		{"invalid_scope", "Invalid scopes: mcp:use", "client scope"},
		{"invalid_request", "Invalid parameter: redirect_uri", "http://127.0.0.1/*"},
		{"invalid_client", "Invalid client or Invalid client credentials", "--client-id"},
		{"unauthorized_client", "Client is not allowed to initiate OAuth 2.0 Device Authorization Grant", "device authorization grant"},
		{"invalid_target", "", "resource_url"},
	} {
		got := refused("sign in", &oauth2.RetrieveError{ErrorCode: c.code, ErrorDescription: c.description}).Error()
		if !strings.Contains(got, c.code) || !strings.Contains(got, "\n") || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q, want a remedy with %q", c.code, c.description, got, c.want)
		}
	}
}

func TestStoreRefusesWhatOthersMayRead(t *testing.T) {
	s := Store{t.TempDir()}
	if err := s.write(&entry{Server: serverURL, RefreshToken: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.path(serverURL), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := s.read(serverURL); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}
}

func TestStoreRefusesAFolderThatOthersMayChange(t *testing.T) {
	s := Store{t.TempDir()}
	if err := os.Chmod(s.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := s.lock(t.Context(), serverURL); err == nil || !strings.Contains(err.Error(), "mode 0700") {
		t.Errorf("got %v", err)
	}
}

func TestStoreTellsServersApart(t *testing.T) {
	s := Store{"/x"}
	if a, b := s.path("https://a.test/mcp"), s.path("https://a.test/mcp/"); a == b {
		t.Errorf("one file for two servers: %s", a)
	}
	if p := s.path("https://a.test/../../etc/passwd"); strings.Count(p, "/") != 2 {
		t.Errorf("a URL leads out of the folder: %s", p)
	}
}

func TestLockWaitsNoLongerThanItsContext(t *testing.T) {
	s := Store{t.TempDir()}
	unlock, err := s.lock(t.Context(), serverURL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.lock(ctx, serverURL); err == nil {
		t.Fatal("two hold one lock")
	}
	unlock()
	again, err := s.lock(t.Context(), serverURL)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

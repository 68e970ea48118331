package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/demoissuer"
	"gatehouse/auth/logtest"
)

const (
	serverURL = "https://localhost:8443/mcp"
	issuerURL = "https://localhost:8444"
)

// world is a server that asks for tokens and the demo issuer, without a network.
type world struct {
	*testing.T
	issuer   *demoissuer.Issuer
	dir      string
	log      *logtest.Log // of the issuer
	mcp      http.Handler
	issuerAt http.Handler

	mu   sync.Mutex
	seen map[string]int // requests to the issuer's token endpoint by grant, and others by path
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the issuer's library logs refused requests
	os.Exit(m.Run())
}

func newWorld(t *testing.T, life time.Duration) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), log: new(logtest.Log), seen: map[string]int{}}
	var err error
	w.issuer, err = demoissuer.New(demoissuer.Config{Issuer: issuerURL, Resources: []string{serverURL},
		StateDir: t.TempDir(), AccessLife: life, Log: zerolog.New(w.log)})
	if err != nil {
		t.Fatal(err)
	}
	w.issuerAt = w.issuer.Handler()
	w.mcp = resourceServer(map[string]any{"resource": serverURL, "authorization_servers": []string{issuerURL}, "scopes_supported": []string{"mcp:use"}})
	return w
}

// resourceServer answers 401 with a challenge, and its metadata document.
func resourceServer(doc map[string]any) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://localhost:8443/.well-known/oauth-protected-resource/mcp", scope="mcp:use"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(doc)
	})
	return mux
}

// RoundTrip makes a world the network of its clients.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	in := httptest.NewRequest(r.Method, r.URL.String(), bytes.NewReader(body)).WithContext(r.Context())
	in.Header = r.Header.Clone()
	rec := httptest.NewRecorder()
	switch r.URL.Host {
	case "localhost:8443":
		w.mcp.ServeHTTP(rec, in)
	case "localhost:8444":
		key := r.URL.Path
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("grant_type") != "" {
			key = form.Get("grant_type")
		}
		w.mu.Lock()
		w.seen[key]++
		at := w.issuerAt
		w.mu.Unlock()
		at.ServeHTTP(rec, in)
	default:
		return nil, fmt.Errorf("dial %s: no such host", r.URL.Host)
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

func (w *world) count(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key]
}

// answerInstead puts a handler in the issuer's place; nil puts the issuer back.
func (w *world) answerInstead(h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issuerAt = h
	if h == nil {
		w.issuerAt = w.issuer.Handler()
	}
}

func (w *world) client() *Client {
	return &Client{Server: serverURL, Store: Store{w.dir}, Say: func(string) {},
		HTTP: &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// person goes through the issuer's pages as alice and returns where they lead.
func (w *world) person(address string) string {
	hc := w.client().HTTP
	page := w.must(hc.Get(address))
	if page.StatusCode != http.StatusFound {
		w.Errorf("authorize: %s", page.Status)
		return ""
	}
	loc := page.Header.Get("Location")
	if !strings.HasPrefix(loc, "/login") {
		return loc
	}
	body, _ := io.ReadAll(w.must(hc.Get(issuerURL + loc)).Body)
	action := regexp.MustCompile(`action="([^"]+)"`).FindSubmatch(body)
	form := url.Values{"username": {"alice"}, "password": {w.issuer.Password()}}
	done := w.must(hc.PostForm(issuerURL+string(action[1]), form))
	return w.must(hc.Get(done.Header.Get("Location"))).Header.Get("Location")
}

func (w *world) must(resp *http.Response, err error) *http.Response {
	if err != nil {
		w.Error(err)
		return &http.Response{Body: http.NoBody, Header: http.Header{}}
	}
	return resp
}

// enterCode is the person with the device's code: what the client said holds the address.
func (w *world) enterCode(said string) {
	at := regexp.MustCompile(`https://\S+user_code=\S+`).FindString(said)
	if at == "" {
		return
	}
	resp := w.must(w.client().HTTP.PostForm(at, url.Values{"username": {"alice"}, "password": {w.issuer.Password()}}))
	if resp.StatusCode != http.StatusOK {
		w.Errorf("device page: %s", resp.Status)
	}
}

// signedIn is a client after a sign-in by device.
func (w *world) signedIn() *Client {
	w.Helper()
	c := w.client()
	c.Say = w.enterCode
	if err := c.SignIn(context.Background(), true); err != nil {
		w.Fatal(err)
	}
	c.Say = func(string) {}
	return c
}

// claimsOf decodes a token, unverified.
func claimsOf(t *testing.T, token string) (c struct {
	Audience string `json:"aud"`
	Scope    string `json:"scope"`
	Client   string `json:"client_id"`
	Expiry   int64  `json:"exp"`
	ID       string `json:"jti"`
}) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("no token: %q", token)
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

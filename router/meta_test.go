package router

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gatehouse/auth"
	"gatehouse/session"
	"gatehouse/session/spawn"
)

var nobody = refusingSpawner{&spawn.Error{Kind: spawn.KindUnavailable}}

func TestMetadataDocument(t *testing.T) {
	r := newRig(t, nobody)
	const doc = `{"resource":"https://mcp.test:8443/mcp","authorization_servers":["https://issuer.test"],"scopes_supported":["mcp:use","offline_access"],"bearer_methods_supported":["header"],"resource_name":"Gatehouse"}`
	const other = `{"resource":"https://mcp.test:8443/other","authorization_servers":["https://issuer.test"],"scopes_supported":["files","mcp:use","offline_access"],"bearer_methods_supported":["header"],"resource_name":"Gatehouse"}`
	for version := range r.clients {
		for path, want := range map[string]string{auth.WellKnown: doc, auth.WellKnown + "/mcp": doc, auth.WellKnown + "/other": other} {
			for _, host := range []string{"", "evil.test"} { // the document is never made from the request
				q := request{method: "GET", path: path, host: host, header: http.Header{"Accept": {"text/html"}, "X-Forwarded-Host": {"evil.test"}}}
				resp, body := r.do(version, q)
				if resp.StatusCode != 200 || body != want || !json.Valid([]byte(body)) {
					t.Errorf("%s GET %s: %d %s", version, path, resp.StatusCode, body)
				}
				for k, v := range map[string]string{"Content-Type": "application/json", "Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=300"} {
					if got := resp.Header.Get(k); got != v {
						t.Errorf("%s GET %s: %s %q, want %q", version, path, k, got, v)
					}
				}
				q.method = "HEAD"
				head, body := r.do(version, q)
				if head.StatusCode != 200 || body != "" || head.Header.Get("Content-Length") != strconv.Itoa(len(want)) || head.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s HEAD %s: %d %q, length %s", version, path, head.StatusCode, body, head.Header.Get("Content-Length"))
				}
			}
			for _, h := range []http.Header{nil, {"Origin": {"http://localhost:6274"}, "Access-Control-Request-Method": {"GET"}}} {
				resp, body := r.do(version, request{method: "OPTIONS", path: path, header: h})
				if resp.StatusCode != 204 || body != "" || resp.Header.Get("Access-Control-Allow-Origin") == "" {
					t.Errorf("%s OPTIONS %s: %d %q %v", version, path, resp.StatusCode, body, resp.Header)
				}
			}
		}
	}
}

// A site of tokens that its operator hands out says nothing of an issuer: clients
// that find one insist on signing in.
func TestMetadataCanBeOff(t *testing.T) {
	r := newRig(t, nobody, func(c *Config, _ *session.Config) { c.AdvertiseMetadata = false })
	rows := []doorRow{{"challenge", post("/mcp", initBody, headers("")), 401, `Bearer scope="mcp:use offline_access"`,
		ours("null", "unauthorized", "authorization required: send a bearer token"), nil}}
	for _, p := range []string{auth.WellKnown, auth.WellKnown + "/mcp"} {
		rows = append(rows, doorRow{p, request{method: "GET", path: p}, 404, "", `{"error":"not found"}`, nil})
	}
	r.refusesAll(t, rows)
}

func TestHealth(t *testing.T) {
	ready := true
	r := newRig(t, nobody, func(c *Config, _ *session.Config) { c.Ready = func() bool { return ready } })
	check := func(path string, status int, want string) {
		t.Helper()
		for version := range r.clients {
			for _, q := range []request{{method: "GET", path: path}, {method: "GET", path: path, host: "whatever.test"}} {
				if resp, body := r.do(version, q); resp.StatusCode != status || body != want {
					t.Errorf("%s %s: %d %q, want %d %q", version, path, resp.StatusCode, body, status, want)
				}
			}
			if resp, body := r.do(version, request{method: "HEAD", path: path}); resp.StatusCode != status || body != "" {
				t.Errorf("%s HEAD %s: %d %q", version, path, resp.StatusCode, body)
			}
		}
	}
	check("/healthz", 200, "ok\n")
	check("/readyz", 200, "ok\n")
	ready = false
	check("/readyz", 503, "not ready\n")
	check("/healthz", 200, "ok\n")
	ready = true
	r.door.Drain()
	check("/readyz", 503, "not ready\n")
	check("/healthz", 200, "ok\n")
}

// TestDocumentOfEscapedPath: the document is where the challenge says, however the
// resource's path is written.
func TestDocumentOfEscapedPath(t *testing.T) {
	for _, path := range []string{"", "/mcp", "/%C3%A4", "/%2fmcp", "/%7Emcp", "/m%63p", "/a;b,c"} {
		door, err := New(Config{MaxBody: 1, Sessions: new(session.Table), AdvertiseMetadata: true, Servers: []Server{
			{Path: "/mcp", Gate: new(auth.Bearer), Resource: auth.Resource{Identifier: "https://mcp.test" + path}}}})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		at := strings.Split(door.servers[0].missing[0], `"`)[1]
		rec := httptest.NewRecorder()
		door.ServeHTTP(rec, httptest.NewRequest("GET", at, nil))
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"resource":"https://mcp.test`+path+`"`) {
			t.Errorf("%s: GET %s: %d %s", path, at, rec.Code, rec.Body)
		}
	}
}

func TestNewRefusesWhatCantBe(t *testing.T) {
	ok := Config{Servers: []Server{{Path: "/mcp", Gate: auth.Loopback{}}}, Loopback: true, MaxBody: 1, Sessions: new(session.Table)}
	if _, err := New(ok); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no sessions":     func(c *Config) { c.Sessions = nil },
		"no servers":      func(c *Config) { c.Servers = nil },
		"no body limit":   func(c *Config) { c.MaxBody = 0 },
		"no gate":         func(c *Config) { c.Servers = []Server{{Path: "/mcp"}} },
		"relative path":   func(c *Config) { c.Servers = []Server{{Path: "mcp", Gate: auth.Loopback{}}} },
		"pattern":         func(c *Config) { c.Servers = []Server{{Path: "/{x}", Gate: auth.Loopback{}}} },
		"wildcard":        func(c *Config) { c.Servers = []Server{{Path: "/mcp/*", Gate: auth.Loopback{}}} },
		"two of one path": func(c *Config) { c.Servers = append(c.Servers[:1:1], c.Servers[0]) },
		"health's path":   func(c *Config) { c.Servers = []Server{{Path: "/healthz", Gate: auth.Loopback{}}} },
		"resource not https": func(c *Config) {
			c.Loopback, c.AdvertiseMetadata = false, true
			c.Servers = []Server{{Path: "/mcp", Gate: auth.Loopback{}, Resource: auth.Resource{Identifier: "http://mcp.test/mcp"}}}
		},
		"resource with a sign": func(c *Config) {
			c.Loopback, c.AdvertiseMetadata = false, true
			c.Servers = []Server{{Path: "/mcp", Gate: auth.Loopback{}, Resource: auth.Resource{Identifier: "https://mcp.test/m*p"}}}
		},
		"resource with a blank": func(c *Config) {
			c.Loopback, c.AdvertiseMetadata = false, true
			c.Servers = []Server{{Path: "/mcp", Gate: auth.Loopback{}, Resource: auth.Resource{Identifier: "https://mcp.test/m%20p"}}}
		},
	} {
		cfg := ok
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: made", name)
		}
	}
}

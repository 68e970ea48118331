package router

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth"
	"gatehouse/auth/audit"
	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/logtest"
	"gatehouse/auth/token"
	"gatehouse/session"
	"gatehouse/session/spawn"
)

// rig is a whole door behind a real server, with an issuer and a spawner that
// the test controls.
type rig struct {
	t       *testing.T
	door    *Door
	table   *session.Table
	spawner *countingSpawner
	issuer  *authtest.Issuer
	other   *authtest.Issuer // whose tokens are as good, for the same server
	keys    *staticKeys
	audit   *logtest.Log
	base    string // https://127.0.0.1:port or http://
	addr    string
	clients map[string]*http.Client // "HTTP/1.1", and "HTTP/2.0" with TLS
}

// rigOption changes the configuration before the door is made.
type rigOption func(*Config, *session.Config)

func loopback(c *Config, s *session.Config) {
	c.Loopback = true
	s.MaxPerPrincipal = 0
	for i := range c.Servers {
		c.Servers[i].Gate = auth.Loopback{}
	}
}

// newRig serves /mcp, which wants mcp:use, and /other, which wants files too.
func newRig(t *testing.T, sp spawn.Spawner, options ...rigOption) *rig {
	t.Helper()
	r := &rig{t: t, issuer: newIssuer(), audit: new(logtest.Log), clients: map[string]*http.Client{}}
	r.other = newIssuer()
	r.other.URL = authtest.OtherURL
	r.keys = &staticKeys{set: authtest.KeySet(r.issuer, r.other)}
	r.spawner = &countingSpawner{Spawner: sp}
	cfg := Config{AdvertiseMetadata: true, MaxBody: 1 << 20, Audit: audit.New(r.audit), AllowedOrigins: []string{"https://app.test"}}
	for _, s := range []struct {
		path     string
		required identity.Scopes
	}{{"/mcp", identity.NewScopes("mcp:use")}, {"/other", identity.NewScopes("mcp:use", "files")}} {
		id := "https://mcp.test:8443" + s.path
		gate, err := auth.NewBearer(auth.BearerConfig{
			Verifier: authtest.NewVerifier(r.issuer, r.other), Keys: r.keys, Audiences: []string{id, "https://extra.test"},
			Required: s.required, MaxTokenBytes: 8 << 10, Now: time.Now,
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Servers = append(cfg.Servers, Server{Path: s.path, Gate: gate, Resource: auth.Resource{
			Identifier: id, Issuers: []identity.Issuer{authtest.IssuerURL}, Name: "Gatehouse",
			Scopes: identity.NewScopes(append(identity.NewScopes("offline_access"), s.required...)...),
		}})
	}
	limits := session.Config{MaxSessions: 32, MaxPerPrincipal: 8, CredentialGrace: time.Hour, Lifetime: session.Lifetime{StreamLossGrace: time.Minute}}
	for _, o := range options {
		o(&cfg, &limits)
	}
	r.table = session.New(limits, r.spawner, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel))
	cfg.Sessions = r.table
	door, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.door = door
	r.serve(!cfg.Loopback)
	return r
}

// newIssuer is authtest.NewIssuer with a key that is made in no time.
func newIssuer() *authtest.Issuer {
	return &authtest.Issuer{
		URL: authtest.IssuerURL, Profile: token.ProfileRFC9068, Audience: authtest.Audience, Now: time.Now,
		Keys: []*authtest.Key{authtest.NewKey("ES256")},
	}
}

func (r *rig) serve(withTLS bool) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ln = Limit(ln, 1<<10)
	r.addr = ln.Addr().String()
	var certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	pool := x509.NewCertPool()
	if withTLS {
		pair := selfSigned(r.t)
		pool.AddCert(pair.Leaf)
		certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }
	}
	server := NewServer(r.door, certificate, nil)
	server.ErrorLog = quietLog
	done := make(chan struct{})
	go func() {
		defer close(done)
		if withTLS {
			server.ServeTLS(ln, "", "")
		} else {
			server.Serve(ln)
		}
	}()
	r.base = "http://" + r.addr
	versions := []string{"HTTP/1.1"}
	if withTLS {
		r.base = "https://" + r.addr
		versions = append(versions, "HTTP/2.0")
	}
	for _, v := range versions {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols), DisableCompression: true}
		tr.Protocols.SetHTTP1(v == "HTTP/1.1")
		tr.Protocols.SetHTTP2(v == "HTTP/2.0")
		r.clients[v] = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		r.t.Cleanup(tr.CloseIdleConnections)
	}
	r.t.Cleanup(func() {
		r.table.Close()
		server.Close()
		<-done
	})
}

// mint returns a token for /mcp.
func (r *rig) mint(changes ...authtest.Change) string {
	return r.issuer.Mint(append([]authtest.Change{authtest.Claim("aud", "https://mcp.test:8443/mcp")}, changes...)...)
}

// request is what a test sends.
type request struct {
	method, path string
	header       http.Header
	host         string
	body         string
	unknown      bool // the length of the body is not said
}

// do sends a request in one version of HTTP and reads the whole answer.
func (r *rig) do(version string, q request) (*http.Response, string) {
	r.t.Helper()
	resp := r.open(version, q)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read the answer: %v", q.method, q.path, err)
	}
	return resp, string(b)
}

func (r *rig) open(version string, q request) *http.Response {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r.t.Cleanup(cancel)
	var body io.Reader
	if q.body != "" {
		body = strings.NewReader(q.body)
		if q.unknown {
			body = io.MultiReader(body)
		}
	}
	req, err := http.NewRequestWithContext(ctx, q.method, r.base+q.path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for k, v := range q.header {
		req.Header[k] = v
	}
	req.Host = q.host
	resp, err := r.clients[version].Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", q.method, q.path, err)
	}
	if resp.Proto != version {
		r.t.Fatalf("answered in %s, want %s", resp.Proto, version)
	}
	return resp
}

// headers of a client that does all right, with a token.
func headers(token string, more ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] == "" {
			h.Del(more[i])
		} else {
			h.Set(more[i], more[i+1])
		}
	}
	return h
}

// countingSpawner counts what the tests promise never happens.
type countingSpawner struct {
	spawn.Spawner
	n atomic.Int64
}

func (c *countingSpawner) Spawn(ctx context.Context, q spawn.Request) (spawn.Worker, error) {
	c.n.Add(1)
	return c.Spawner.Spawn(ctx, q)
}

// refusingSpawner refuses every worker.
type refusingSpawner struct{ err *spawn.Error }

func (r refusingSpawner) Spawn(context.Context, spawn.Request) (spawn.Worker, error) {
	return nil, r.err
}

// staticKeys is a key store that the test sets.
type staticKeys struct {
	mu     sync.Mutex
	set    *token.KeySet
	gen    uint64
	down   bool
	answer keys.Answer
}

func (k *staticKeys) Current() (*token.KeySet, uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, k.gen
}

func (k *staticKeys) Lookup(context.Context, string) keys.Answer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answer
}

func (k *staticKeys) Ready() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.down
}

func (k *staticKeys) change(f func(*staticKeys)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k)
	k.gen++
}

func selfSigned(t testing.TB) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// withLocalAddr is the context of a request that came in at an address.
func withLocalAddr(ctx context.Context, a *net.TCPAddr) context.Context {
	return context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(a))
}

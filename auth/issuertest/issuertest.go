// Package issuertest is an OIDC issuer for tests: it serves discovery and keys on
// a loopback port, over https unless told otherwise, misbehaves on request, counts
// what is fetched, and mints tokens with the keys that it serves. It keeps no
// secret and is for tests only.
package issuertest

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/token"
)

// The paths of the issuer, below its own, where Keycloak has them.
const (
	discoveryPath = "/.well-known/openid-configuration"
	keysPath      = "/protocol/openid-connect/certs"
)

// Config is what may be set before an issuer starts.
type Config struct {
	Path    string        // of the issuer's URL: "/realms/lab"; empty for none
	Plain   bool          // http in place of https
	Profile token.Profile // of minted tokens; rfc9068 when empty
	Alg     string        // of the first key; ES256 when empty, which is quick to make
}

// Issuer is a running issuer. Its methods may be called at any time.
type Issuer struct {
	t      testing.TB
	plain  bool
	path   string
	addr   string
	ca     string
	fetch  atomic.Int64
	disco  atomic.Int64
	stop   chan struct{} // closed when the test ends
	server *httptest.Server

	mu        sync.Mutex // guards what follows, and mint's keys
	mint      *authtest.Issuer
	keys      http.Handler // in place of the key set, nil for the right answer
	discovery http.Handler // in place of the document, nil for the right answer
	document  map[string]any
	header    http.Header // of the key set's answer
}

// New starts an https issuer at the root of its origin. It ends with the test.
func New(t testing.TB) *Issuer { return Start(t, Config{}) }

// Start starts an issuer. It ends with the test.
func Start(t testing.TB, c Config) *Issuer {
	t.Helper()
	if c.Alg == "" {
		c.Alg = "ES256"
	}
	if c.Profile == "" {
		c.Profile = token.ProfileRFC9068
	}
	i := &Issuer{t: t, plain: c.Plain, path: c.Path, stop: make(chan struct{}), header: http.Header{}}
	i.listen("127.0.0.1:0")
	i.mint = authtest.NewIssuer(i.origin() + c.Path)
	i.mint.Profile = c.Profile
	i.mint.Keys = []*authtest.Key{authtest.NewKey(c.Alg)}
	i.document = map[string]any{
		"issuer":                                i.mint.URL,
		"jwks_uri":                              i.KeysURL(),
		"authorization_endpoint":                i.mint.URL + "/protocol/openid-connect/auth",
		"token_endpoint":                        i.mint.URL + "/protocol/openid-connect/token",
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
	}
	t.Cleanup(func() {
		close(i.stop)
		i.Down()
	})
	return i
}

// listen starts the server on an address.
func (i *Issuer) listen(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		i.t.Fatalf("issuertest: %v", err)
	}
	s := httptest.NewUnstartedServer(i.routes())
	s.Listener.Close()
	s.Listener = l
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if i.plain {
		s.Start()
	} else {
		s.StartTLS()
		i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	}
	i.addr, i.server = l.Addr().String(), s
}

func (i *Issuer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(i.path+discoveryPath, func(w http.ResponseWriter, r *http.Request) {
		i.disco.Add(1)
		i.mu.Lock()
		h, doc := i.discovery, i.document
		i.mu.Unlock()
		if h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(doc)
	})
	mux.HandleFunc(i.path+keysPath, func(w http.ResponseWriter, r *http.Request) {
		i.fetch.Add(1)
		i.mu.Lock()
		h, set, header := i.keys, i.mint.JWKS(), i.header.Clone()
		i.mu.Unlock()
		if h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		maps.Copy(w.Header(), header)
		w.Write(set)
	})
	return mux
}

func (i *Issuer) origin() string {
	if i.plain {
		return "http://" + i.addr
	}
	return "https://" + i.addr
}

// ID is the issuer's identifier, which is its URL.
func (i *Issuer) ID() identity.Issuer { return identity.Issuer(i.origin() + i.path) }

// DiscoveryURL is the whole URL of the discovery document.
func (i *Issuer) DiscoveryURL() string { return i.origin() + i.path + discoveryPath }

// KeysURL is the URL of the key set.
func (i *Issuer) KeysURL() string { return i.origin() + i.path + keysPath }

// CAPEM is what to trust in order to reach the issuer; empty when it is plain.
func (i *Issuer) CAPEM() string { return i.ca }

// Policy is the token policy that fits the minted tokens.
func (i *Issuer) Policy() token.Policy { return i.mint.Policy() }

// Mint signs a token: a good one for authtest.Audience, with some changes.
func (i *Issuer) Mint(changes ...authtest.Change) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mint.Mint(changes...)
}

// Key returns the key that signs.
func (i *Issuer) Key() *authtest.Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mint.Current()
}

// Rotate makes a new key of the same algorithm, which signs from now on. The old
// one stays in the key set until Withdraw.
func (i *Issuer) Rotate() *authtest.Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mint.Rotate(i.mint.Current().Algorithm)
}

// Withdraw takes keys out of the key set.
func (i *Issuer) Withdraw(ks ...*authtest.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mint.Withdraw(ks...)
}

// Fetches is how often the key set was asked for.
func (i *Issuer) Fetches() int { return int(i.fetch.Load()) }

// Discoveries is how often the discovery document was asked for.
func (i *Issuer) Discoveries() int { return int(i.disco.Load()) }

// Command issuer is a loopback OIDC issuer for benchmarks. It serves discovery
// and keys, once over https for the server under test and once in cleartext for
// the floors, and writes into -dir at its start:
//
//	ca.pem            the CA of its https side
//	tokens-https      a token a line for each of -n subjects u0, u1, …
//	tokens-http       the same for the cleartext issuer
//
// It signs for nobody else.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/certs"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("issuer: ")
	plain := flag.String("http", "127.0.0.1:19000", "cleartext loopback address")
	secure := flag.String("https", "127.0.0.1:19001", "https loopback address")
	dir := flag.String("dir", ".", "where the files go")
	audience := flag.String("audience", "bench", "audience of the tokens")
	n := flag.Int("n", 32, "how many subjects")
	flag.Parse()
	if err := run(*plain, *secure, *dir, *audience, *n); err != nil {
		log.Fatal(err)
	}
}

func run(plain, secure, dir, audience string, n int) error {
	leaf, err := certs.Dev{Dir: dir}.Leaf("issuer")
	if err != nil {
		return err
	}
	pair, err := certs.Load(leaf.Cert, leaf.Key)
	if err != nil {
		return err
	}
	key := authtest.NewKey("RS256")
	handlers := map[string]http.Handler{}
	for _, scheme := range []string{"http", "https"} {
		addr := map[string]string{"http": plain, "https": secure}[scheme]
		iss := authtest.NewIssuer(scheme + "://" + addr)
		iss.Keys = []*authtest.Key{key}
		iss.Audience = audience
		if err := writeTokens(iss, filepath.Join(dir, "tokens-"+scheme), n); err != nil {
			return err
		}
		handlers[scheme] = routes(iss)
	}
	ca, err := os.ReadFile(leaf.CA)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o644); err != nil {
		return err
	}
	srv := &http.Server{Addr: secure, Handler: handlers["https"], ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{*pair}}}
	done := make(chan error, 2)
	go func() { done <- srv.ListenAndServeTLS("", "") }()
	go func() {
		done <- (&http.Server{Addr: plain, Handler: handlers["http"], ReadHeaderTimeout: 5 * time.Second}).ListenAndServe()
	}()
	return <-done
}

func writeTokens(iss *authtest.Issuer, file string, n int) error {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, iss.Mint(authtest.Claim("sub", fmt.Sprintf("u%d", i)), authtest.Claim("client_id", "bench"),
			authtest.Claim("exp", time.Now().Add(2*time.Hour).Unix())))
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

func routes(iss *authtest.Issuer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"issuer": iss.URL, "jwks_uri": iss.URL + "/jwks",
			"authorization_endpoint": iss.URL + "/auth", "token_endpoint": iss.URL + "/token",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(iss.JWKS())
	})
	return mux
}

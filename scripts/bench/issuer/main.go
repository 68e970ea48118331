// Command issuer is a loopback OIDC issuer for benchmarks. It serves discovery
// and keys, once over https for the server under test and once in cleartext for
// the floors, and writes into -dir at its start:
//
//	ca.pem            the CA of its https side
//	tokens-https      a token a line for each of -n subjects u0, u1, …
//	tokens-http       the same for the cleartext issuer
//	fresh             -fresh more tokens of the https issuer for u0, as long as the first
//	newer             as many again, each valid a second longer than the one before
//
// It signs for nobody else.
package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
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
	fresh := flag.Int("fresh", 0, "how many more tokens for the first subject")
	flag.Parse()
	if err := run(*plain, *secure, *dir, *audience, *n, *fresh); err != nil {
		log.Fatal(err)
	}
}

func run(plain, secure, dir, audience string, n, fresh int) error {
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
		handlers[scheme] = routes(iss)
		exp := time.Now().Add(2 * time.Hour).Unix()
		token := func(subject int, exp int64) string {
			return iss.Mint(authtest.Claim("sub", fmt.Sprintf("u%d", subject)), authtest.Claim("client_id", "bench"), authtest.Claim("exp", exp))
		}
		err := writeTokens(filepath.Join(dir, "tokens-"+scheme), n, func(i int) string { return token(i, exp) })
		if err == nil && scheme == "https" {
			err = errors.Join(writeTokens(filepath.Join(dir, "fresh"), fresh, func(int) string { return token(0, exp) }),
				writeTokens(filepath.Join(dir, "newer"), fresh, func(i int) string { return token(0, exp+1+int64(i)) }))
		}
		if err != nil {
			return err
		}
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

func writeTokens(file string, n int, token func(i int) string) error {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, token(i))
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

// Command hop is a test-only step between a program that speaks plain http and
// has no token option (the public conformance suite) and our TLS server: it
// keeps the Host header, adds the bearer token and streams answers through.
//
//	hop -listen 127.0.0.1:0 -to https://localhost:8443 -ca ca.pem -token-file FILE
//
// It prints the address that it listens on. Loopback only.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("hop: ")
	listen := flag.String("listen", "127.0.0.1:0", "loopback address to listen on")
	to := flag.String("to", "", "origin of the server under test, https://host:port")
	ca := flag.String("ca", "", "PEM file of the CA that signed its certificate")
	tokenFile := flag.String("token-file", "", "file that holds the bearer token")
	flag.Parse()
	hop, err := newHop(*to, *ca, *tokenFile)
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if !ln.Addr().(*net.TCPAddr).IP.IsLoopback() {
		log.Fatalf("%v is not a loopback address", ln.Addr())
	}
	fmt.Println(ln.Addr())
	srv := &http.Server{Handler: hop, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(srv.Serve(ln))
}

// newHop returns the proxy to origin, trusting ca alone and adding the token.
//
// It serves in full duplex. Otherwise net/http closes a request's body as soon as the
// answer begins, and the transport, which looks for the body's end after it has sent
// it, takes that for a failed request and cuts the answer off: a server that answers
// within a millisecond was quicker now and then.
func newHop(origin, ca, tokenFile string) (http.Handler, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("-to %q is no https origin", origin)
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	tok, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	bearer := "Bearer " + strings.TrimSpace(string(tok))
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: u.Hostname()}},
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(u)
			pr.Out.Host = pr.In.Host
			pr.Out.Header.Set("Authorization", bearer)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
			return
		}
		proxy.ServeHTTP(w, r)
	}), nil
}

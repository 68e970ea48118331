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
	proxy, err := newHop(*to, *ca, *tokenFile)
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
	srv := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(srv.Serve(ln))
}

// newHop returns the proxy to origin, trusting ca alone and adding the token.
func newHop(origin, ca, tokenFile string) (*httputil.ReverseProxy, error) {
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
	return &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: u.Hostname()}},
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(u)
			pr.Out.Host = pr.In.Host
			pr.Out.Header.Set("Authorization", bearer)
		},
	}, nil
}

package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/certs"
)

func TestListenLoopbackBindsBothOrNothing(t *testing.T) {
	both, err := listenLoopback(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(both) < 2 {
		t.Skip("no IPv6 here")
	}
	port := both[0].Addr().(*net.TCPAddr).Port
	if got := both[1].Addr().(*net.TCPAddr).Port; got != port {
		t.Errorf("ports %d and %d", port, got)
	}
	both[0].Close() // ::1 stays taken
	defer both[1].Close()
	if _, err := listenLoopback(port); err == nil {
		t.Fatal("bound one address of two")
	}
	again, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the first address stayed bound after the refusal: %v", err)
	}
	again.Close()
}

// TestExitCodes: 2 for a slip in the command line, 1 for what went wrong.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
	}{
		{"--help", 0},
		{"accounts --issuer https://localhost:8444", 0},
		{"", 2},
		{"--nope", 2},
		{"token --state /nowhere --user alice --life abc", 2},
		{"token --state /nowhere --user alice", 1},
		{"probe https://127.0.0.1:1/", 1},
	} {
		if code := run(strings.Fields(c.args)); code != c.code {
			t.Errorf("gatehouse-demo %s: exit code %d, want %d", c.args, code, c.code)
		}
	}
}

func TestProbe(t *testing.T) {
	d := certs.Dev{Dir: t.TempDir()}
	f, err := d.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	other, err := d.Leaf("other")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := certs.Load(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: certs.NewStore(pair, time.Now).GetCertificate})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	srv := &http.Server{Handler: mux}
	go srv.Serve(ln)
	defer srv.Close()
	url := "https://" + ln.Addr().String()

	for name, c := range map[string]struct {
		p    probeCmd
		want string // of the error; empty: it answers
	}{
		"its own certificate":  {probeCmd{URL: url + "/healthz", Cert: f.Cert}, ""},
		"any certificate":      {probeCmd{URL: url + "/healthz", Any: true}, ""},
		"another one":          {probeCmd{URL: url + "/healthz", Cert: other.Cert}, "another certificate"},
		"one nobody vouched":   {probeCmd{URL: url + "/healthz"}, "certificate"},
		"not ready":            {probeCmd{URL: url + "/readyz", Cert: f.Cert}, "404"},
		"no such file":         {probeCmd{URL: url + "/healthz", Cert: filepath.Join(t.TempDir(), "none.pem")}, "no such file"},
		"plaintext to the TLS": {probeCmd{URL: "http" + strings.TrimPrefix(url, "https") + "/healthz"}, "400"},
	} {
		err := c.p.Run()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

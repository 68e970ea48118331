package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse/auth/authtest"
	"gatehouse/certs"
)

// host is a machine with the real front end, where each person has an account.
// scripts/test-toolsets.sh makes the accounts and says in GATEHOUSE_HOST where
// the programs are and in GATEHOUSE_PEOPLE who is who.
type host struct {
	*stage
	url      string
	issuer   *authtest.Issuer
	roots    *x509.CertPool
	accounts map[string]string // person -> account
}

// hostConfig lets many sessions begin at once; all else is as delivered.
const hostConfig = `mode: authenticated
run_as: monitor
state_dir: %[1]s/state
listen: {port: %[2]d}
tls: {cert: %[3]s, key: %[4]s}
issuers:
  - {issuer: "https://issuer.test", jwks_file: %[1]s/jwks.json}
accounts: {file: %[1]s/accounts.yaml}
servers:
  - resource: https://localhost:%[2]d/mcp
    workspace: {repository: %[5]s}
limits: {spawn_rate: 50, spawn_burst: 100}
`

// newHost starts the front end on a shared repository.
func newHost(t *testing.T, repo string) *host {
	t.Helper()
	h := &host{stage: &stage{t: t, dir: t.TempDir(), repo: repo}, issuer: authtest.NewIssuer("https://issuer.test"),
		roots: x509.NewCertPool(), accounts: map[string]string{}}
	// Files that decide over others have to lie where only root can write.
	dir, err := os.MkdirTemp(os.Getenv("GATEHOUSE_HOST"), "run-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // the keykeeper reads the issuer's keys
	}
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := certs.Dev{Dir: filepath.Join(dir, "tls")}.Leaf("host")
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(leaf.CA)
	if err != nil {
		t.Fatal(err)
	}
	h.roots.AppendCertsFromPEM(pem)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	h.url = fmt.Sprintf("https://localhost:%d/mcp", port)
	h.issuer.Audience = h.url
	var people strings.Builder
	for _, p := range strings.Fields(os.Getenv("GATEHOUSE_PEOPLE")) {
		name, account, _ := strings.Cut(p, "=")
		h.accounts[name] = account
		fmt.Fprintf(&people, "- {issuer: \"https://issuer.test\", subject: %[1]s, account: %[2]s, name: %[1]s, email: %[1]s@example.com}\n", name, account)
	}
	for name, text := range map[string]string{
		"jwks.json": string(h.issuer.JWKS()), "accounts.yaml": people.String(),
		"gatehouse.yaml": fmt.Sprintf(hostConfig, dir, port, leaf.Cert, leaf.Key, repo),
	} {
		mode := os.FileMode(0o600)
		if name == "jwks.json" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	h.serve(dir)
	return h
}

// serve runs the server until the test ends.
func (h *host) serve(dir string) {
	t := h.t
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(os.Getenv("GATEHOUSE_HOST"), "bin", "gatehouse"), "serve", "--config", filepath.Join(dir, "gatehouse.yaml"))
	cmd.Env = []string{"HOME=/root", "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the server's log:\n%s", text[max(0, len(text)-5000):])
		}
	})
	client := &http.Client{Transport: h.transport(), Timeout: 2 * time.Second}
	for range 300 {
		resp, err := client.Get(strings.TrimSuffix(h.url, "/mcp") + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the server is not ready after 30 s")
}

// token is good for an hour, so that no test outlives it.
func (h *host) token(name string) string {
	now := time.Now()
	return h.issuer.Mint(authtest.Claim("sub", name), authtest.Claim("iat", now.Add(-time.Minute).Unix()),
		authtest.Claim("nbf", now.Add(-time.Minute).Unix()), authtest.Claim("exp", now.Add(time.Hour).Unix()))
}

func (h *host) transport() *http.Transport {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.TLSClientConfig = &tls.Config{RootCAs: h.roots}
	return tr
}

const (
	legacy = "2025-11-25" // each client has a session and a worker of its own
	modern = "2026-07-28" // all clients of a person share a worker
)

// connect opens a client of a person, in the given era of the protocol.
func (h *host) connect(name, era string) *client {
	h.t.Helper()
	c := &client{person: &person{stage: h.stage, name: name}}
	hc := &http.Client{Transport: bearer{h.token(name), h.transport()}}
	var err error
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "story", Version: "1"}, nil).
		Connect(h.t.Context(), &mcp.StreamableClientTransport{Endpoint: h.url, HTTPClient: hc}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
	if got := c.InitializeResult().ProtocolVersion; got != era {
		h.t.Fatalf("%s speaks %s, not %s", name, got, era)
	}
	h.t.Cleanup(func() { c.Close() })
	return c
}

var workerPID = regexp.MustCompile(`worker pid (\d+)`)

// worker returns the process behind a client, and checks that it is the person's.
func (h *host) worker(c *client) int {
	h.t.Helper()
	m := workerPID.FindStringSubmatch(c.must("", "status", nil, "account "+h.accounts[c.name]))
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		h.t.Fatal(err)
	}
	owner, err := exec.Command("stat", "-c", "%U", fmt.Sprintf("/proc/%d", pid)).Output()
	if got := strings.TrimSpace(string(owner)); err != nil || got != h.accounts[c.name] {
		h.t.Fatalf("%s's worker %d belongs to %s, %v", c.name, pid, got, err)
	}
	return pid
}

// end kills a worker and waits until the monitor has reaped it.
func (h *host) end(pid int) {
	h.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.t.Fatalf("kill worker %d: %v", pid, err)
	}
	for range 1000 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatalf("worker %d is still there 10 s after it was killed", pid)
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

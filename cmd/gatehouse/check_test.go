package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/issuertest"
)

// site is a world with an issuer, a certificate and the environment that a
// server in shared-account mode needs.
type site struct {
	world
	issuer *issuertest.Issuer
	env    []string
}

func newSite(t *testing.T, ends time.Time) site {
	t.Helper()
	s := site{world: newWorld(t), issuer: issuertest.New(t)}
	cert, key := certificateUntil(t, ends)
	s.env = []string{
		"MCP_MODE=authenticated", "MCP_RUN_AS=shared-account", "MCP_PORT=0",
		"MCP_ISSUER=" + string(s.issuer.ID()), "MCP_AUDIENCE=" + authtest.Audience,
		"MCP_ISSUER_CA=" + s.write(t, "issuer-ca.pem", s.issuer.CAPEM()),
		"MCP_TLS_CERT=" + s.write(t, "server.pem", cert), "MCP_TLS_KEY=" + s.write(t, "server.key", key),
	}
	return s
}

// repository makes what looks like a bare repository that a group writes.
func (s site) repository(t *testing.T, shared string, mode fs.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp(s.dir, "repository")
	objects := filepath.Join(dir, "objects")
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.Mkdir(objects, 0o700), os.Chmod(objects, mode)); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(dir)
	s.write(t, name+"/HEAD", "ref: refs/heads/main\n")
	s.write(t, name+"/config", "[core]\n\tsharedRepository = "+shared+"\n")
	return dir
}

// with replaces variables of the site's environment.
func (s site) with(vars ...string) []string {
	out := append([]string(nil), s.env...)
	for _, v := range vars {
		name, _, _ := strings.Cut(v, "=")
		for i := len(out) - 1; i >= 0; i-- {
			if strings.HasPrefix(out[i], name+"=") {
				out = append(out[:i], out[i+1:]...)
			}
		}
		out = append(out, v)
	}
	return out
}

// certificateUntil makes a certificate for the host of the resource identifier.
func certificateUntil(t *testing.T, ends time.Time) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ends.AddDate(0, -3, 0), NotAfter: ends, DNSNames: []string{"mcp.test"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// TestCheckOutside damages one thing of the outside at a time.
func TestCheckOutside(t *testing.T) {
	s := newSite(t, time.Now().AddDate(0, 2, 0))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	expired, expiredKey := certificateUntil(t, time.Now().AddDate(0, 0, -2))
	soon, soonKey := certificateUntil(t, time.Now().AddDate(0, 0, 3))
	for _, c := range []struct {
		name    string
		prepare func()
		down    bool // the issuer
		env     []string
		args    []string
		code    int
		want    []string
	}{
		{name: "all is well", want: []string{"issuers[0].issuer", "environment MCP_ISSUER", "ok    certificate: valid until", "ok    issuer ", "its clock agrees", "ok    worker of /mcp", "ok    port: can listen", "all passed"}},
		{name: "issuer down", down: true, code: exitFailed, want: []string{"FAIL  issuer " + string(s.issuer.ID()), "MCP_DISCOVERY_URL", "1 failed"}},
		{name: "issuer not asked", down: true, args: []string{"--offline"}, want: []string{"warn  issuer ", "--offline"}},
		{name: "issuer with an authority that nobody named", env: []string{"MCP_ISSUER_CA="}, code: exitFailed, want: []string{"FAIL  issuer ", "MCP_ISSUER_CA=FILE"}},
		{name: "document names another issuer", prepare: func() { s.issuer.Document("issuer", "https://other.example") }, code: exitFailed, want: []string{"FAIL  issuer ", `"https://other.example"`, "MCP_ISSUER"}},
		{name: "no metadata there", prepare: func() { s.issuer.AnswerDiscovery(issuertest.Status(404)) }, code: exitFailed, want: []string{"status 404", "/.well-known/openid-configuration", "/realms/NAME"}},
		{name: "no usable key", prepare: func() { s.issuer.AnswerKeys(issuertest.Body("application/json", `{"keys":[]}`)) }, code: exitFailed, want: []string{"FAIL  issuer ", "no usable key"}},
		{name: "no key for our algorithms", env: []string{"MCP_TOKEN_ALGORITHMS=PS256"}, code: exitFailed, want: []string{"FAIL  issuer ", "issuers[].algorithms"}},
		{name: "clocks apart", prepare: func() {
			s.issuer.KeysHeader("Date", time.Now().Add(2*time.Minute).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		}, code: exitFailed, want: []string{"FAIL  issuer ", "apart, more than the leeway of 30s", "NTP"}},
		{name: "clocks a little apart", prepare: func() {
			s.issuer.KeysHeader("Date", time.Now().Add(-15*time.Second).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		}, want: []string{"warn  issuer ", "apart"}},
		{name: "no clock to compare", prepare: func() { s.issuer.KeysHeader("Date", "") }, want: []string{"clocks were not compared: --token-stdin"}},
		{name: "certificate expired", env: []string{"MCP_TLS_CERT=" + s.write(t, "old.pem", expired), "MCP_TLS_KEY=" + s.write(t, "old.key", expiredKey)}, code: exitFailed, want: []string{"FAIL  certificate: certificate expired"}},
		{name: "certificate expires soon", env: []string{"MCP_TLS_CERT=" + s.write(t, "soon.pem", soon), "MCP_TLS_KEY=" + s.write(t, "soon.key", soonKey)}, want: []string{"warn  certificate: certificate expires in 2 days"}},
		{name: "certificate of another host", env: []string{"MCP_AUDIENCE=https://elsewhere.test:8443/mcp"}, code: exitFailed, want: []string{"FAIL  certificate: certificate does not name elsewhere.test"}},
		{name: "key of another certificate", env: []string{"MCP_TLS_KEY=" + s.write(t, "other.key", expiredKey)}, code: exitFailed, want: []string{"FAIL  configuration: MCP_TLS_CERT", "does not match", "Effective configuration:"}},
		{name: "port taken", env: []string{"MCP_PORT=" + port}, code: exitFailed, want: []string{"FAIL  port: listen on 127.0.0.1:" + port, "in use"}},
		{name: "clients call another port", env: []string{"MCP_PORT=" + port, "MCP_AUDIENCE=https://elsewhere.test/mcp"}, code: exitFailed, want: []string{"warn  port: clients of https://elsewhere.test/mcp call port 443, and this server listens on " + port, "else MCP_PORT=443"}},
		{name: "worker gone", env: []string{`MCP_WORKER_COMMAND=["/nonexistent/tool"]`}, code: exitFailed, want: []string{"FAIL  configuration: MCP_WORKER_COMMAND"}},
		{name: "workspace gone", env: []string{"MCP_WORKSPACE=/nonexistent/code.git"}, code: exitFailed, want: []string{"FAIL  worker of /mcp: there is no repository /nonexistent/code.git", "setup-workspace.sh"}},
		{name: "workspace is no repository", env: []string{"MCP_WORKSPACE=" + t.TempDir()}, code: exitFailed, want: []string{"FAIL  workspace of /mcp: ", "is no Git repository"}},
		{name: "workspace of a group whose objects others can't read", env: []string{"MCP_WORKSPACE=" + s.repository(t, "group", 0o775)}, want: []string{"warn  workspace of /mcp: ", "pass on their group; core.sharedRepository is not 0664"}},
		{name: "workspace of a group in order", env: []string{"MCP_WORKSPACE=" + s.repository(t, "0664", fs.ModeSetgid|0o775)}, want: []string{"ok    workspace of /mcp: ", "--check"}},
		{name: "working folder gone", env: []string{"MCP_WORKER_CWD=/nowhere/at/all"}, code: exitFailed, want: []string{"FAIL  worker of /mcp: the working folder /nowhere/at/all is not there"}},
		{name: "state folder that can't be", env: []string{"MCP_STATE_DIR=/proc/nowhere"}, code: exitFailed, want: []string{"FAIL  state: ", "MCP_STATE_DIR"}},
		{name: "unknown toolset", env: []string{"MCP_TOOLSETS=tests"}, code: exitFailed, want: []string{"FAIL  worker: MCP_TOOLSETS"}},
		{name: "option of the wrong type", env: []string{`MCP_TOOLSET_OPTIONS={"testing":{"timeout":[]}}`}, code: exitFailed, want: []string{"FAIL  worker: MCP_TOOLSET_OPTIONS", `option "timeout" must not be []`}},
		{name: "certificate missing, issuer down", down: true, env: []string{"MCP_TLS_CERT="}, code: exitFailed, want: []string{"FAIL  configuration: tls.cert (MCP_TLS_CERT) is missing", "FAIL  issuer "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.prepare != nil {
				c.prepare()
				defer func() {
					s.issuer.Document("issuer", string(s.issuer.ID()))
					s.issuer.AnswerDiscovery(nil)
					s.issuer.AnswerKeys(nil)
					s.issuer.KeysHeader("Date", "")
				}()
			}
			if c.down {
				s.issuer.Down()
				defer s.issuer.Up()
			}
			code, out, complaint := s.gatehouse(t, "", s.with(c.env...), append([]string{"check"}, c.args...)...)
			if code != c.code || complaint != "" {
				t.Errorf("exit code %d, want %d; stderr %q\n%s", code, c.code, complaint, out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			if strings.Contains(out, issuertest.Canary) {
				t.Errorf("what the issuer answered is repeated:\n%s", out)
			}
		})
	}
}

// TestCheckExplainsTokens gives one token at a time. The token itself must never
// be printed.
func TestCheckExplainsTokens(t *testing.T) {
	s := newSite(t, time.Now().AddDate(0, 2, 0))
	for _, c := range []struct {
		name  string
		token string
		env   []string
		code  int
		want  []string
	}{
		{"good", s.issuer.Mint(), nil, exitDone, []string{"This token would be accepted", "ok    required scopes"}},
		{"good with scheme and newline", "Bearer " + s.issuer.Mint() + "\n", nil, exitDone, []string{"would be accepted"}},
		{"another server's", s.issuer.Mint(authtest.Claim("aud", "https://other.test/mcp")), nil, exitFailed, []string{"wrong audience", "https://other.test/mcp", authtest.Audience, "would be refused"}},
		{"expired", s.issuer.Mint(authtest.Claim("exp", time.Now().Add(-time.Hour).Unix()), authtest.Claim("iat", time.Now().Add(-2*time.Hour).Unix())), nil, exitFailed, []string{"expired"}},
		{"expired and for another", s.issuer.Mint(authtest.Claim("aud", "x"), authtest.Claim("exp", time.Now().Add(-time.Hour).Unix()), authtest.Claim("iat", time.Now().Add(-2*time.Hour).Unix())), nil, exitFailed, []string{"expired", "wrong audience"}},
		{"of another issuer", issuertest.New(t).Mint(), nil, exitFailed, []string{"would be refused", "not reached"}},
		{"without the scope", s.issuer.Mint(authtest.Claim("scope", "openid profile")), nil, exitFailed, []string{"FAIL  required scopes", "lacks mcp:use", "client scope"}},
		{"longer than the limit", s.issuer.Mint(authtest.Claim("filler", strings.Repeat("x", 1000))), []string{"MCP_MAX_TOKEN=1KiB"}, exitFailed, []string{"FAIL  limit", "MCP_MAX_TOKEN"}},
		{"no token at all", "garbage", nil, exitFailed, []string{"malformed token"}},
		{"nothing", "", nil, exitFailed, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, complaint := s.gatehouse(t, c.token, s.with(c.env...), "check", "--token-stdin")
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s\n%s", code, c.code, complaint, out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
			for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(c.token), "Bearer "), ".") {
				if len(part) > 20 && strings.Contains(out+complaint, part) {
					t.Errorf("a part of the token is printed:\n%s%s", out, complaint)
				}
			}
		})
	}
	if code, _, complaint := s.gatehouse(t, "x", s.env, "check", "--token-stdin", "--server=1"); code != exitFailed || !strings.Contains(complaint, "has 1 server,") {
		t.Errorf("a server that is not there: %d %s", code, complaint)
	}
	if code, _, complaint := s.gatehouse(t, "x", []string{"MCP_MODE=loopback"}, "check", "--token-stdin"); code != exitFailed || !strings.Contains(complaint, "loopback") {
		t.Errorf("loopback: %d %s", code, complaint)
	}
}

// TestCheckExplainsTheAccount: in same-account mode a valid token is not enough.
func TestCheckExplainsTheAccount(t *testing.T) {
	s := newSite(t, time.Now().AddDate(0, 2, 0))
	me := strconv.Itoa(nobody)
	if os.Geteuid() != 0 {
		me = strconv.Itoa(os.Geteuid())
	}
	account, err := user.LookupId(me)
	if err != nil {
		t.Skip("this account has no name: ", err)
	}
	entry := func(subject, name string) string {
		return fmt.Sprintf("- issuer: %s\n  subject: %s\n  account: %s\n", s.issuer.ID(), subject, name)
	}
	for _, c := range []struct {
		name, subject, accounts string
		code                    int
		want                    []string
	}{
		{"mapped to us", "alice", entry("alice", account.Username), exitDone, []string{"ok    account " + account.Username}},
		{"mapped to another", "alice", entry("alice", "bob"), exitFailed, []string{"FAIL  account bob: is not " + account.Username}},
		{"not mapped", "alice", entry("carol", account.Username), exitFailed, []string{"no entry for this principal", "subject: alice\n        account: NAME"}},
		{"a client's own", "nightly", entry("nightly", account.Username), exitFailed, []string{"no user stands behind", "subject: nightly\n        client_id: nightly\n        account: NAME"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := s.with("MCP_RUN_AS=same-account", "MCP_ACCOUNTS_FILE="+s.write(t, "accounts.yaml", c.accounts))
			changes := []authtest.Change{authtest.Claim("sub", c.subject)}
			if c.subject == "nightly" {
				changes = append(changes, authtest.Claim("client_id", c.subject))
			}
			token := s.issuer.Mint(changes...)
			code, out, complaint := s.gatehouse(t, token, env, "check", "--token-stdin")
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s\n%s", code, c.code, complaint, out)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in:\n%s", want, out)
				}
			}
		})
	}
}

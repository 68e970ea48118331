package conf

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/cmd/internal/plan"
)

const precedenceFile = "mode: loopback\nlisten:\n  port: 1001\nlimits:\n  max_sessions: 11\nlog:\n  level: warn\n"

// TestPrecedence gives one setting in all places and takes them away in turn.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		env, flags string
		port       int
		origin     string
	}{
		{"MCP_PORT=1002", "--port=1003", 1003, "flag --port"},
		{"MCP_PORT=1002", "", 1002, "environment MCP_PORT"},
		{"MCP_PORT=", "", 1001, "gatehouse.yaml:3:9"},
		{"", "", 1001, "gatehouse.yaml:3:9"},
	} {
		got, _, err := loadCase(t, "alice", "", precedenceFile, c.env, c.flags)
		if err != nil {
			t.Fatal(err)
		}
		if origin := got.origins[slot{"listen.port", 0}].String(); got.Listen.Port != c.port || origin != c.origin {
			t.Errorf("%q %q: %d from %s, want %d from %s", c.env, c.flags, got.Listen.Port, origin, c.port, c.origin)
		}
	}
	got, _, err := loadCase(t, "alice", "", "mode: loopback", "", "")
	if err != nil || got.Listen.Port != 8000 || got.origins[slot{"listen.port", 0}].String() != "default" {
		t.Errorf("default: %d %v", got.Listen.Port, err)
	}
}

// TestWrongValueOfAWeakerSourceIsRefused: a value that is overridden must be
// right all the same, because the stronger one may be gone tomorrow.
func TestWrongValueOfAWeakerSourceIsRefused(t *testing.T) {
	_, _, err := loadCase(t, "alice", "", "mode: loopback\nlisten:\n  port: 99999\n", "MCP_PORT=8000", "")
	if err == nil || !strings.Contains(err.Error(), "gatehouse.yaml:3:9") {
		t.Errorf("got %v", err)
	}
}

// secretsFile has a secret wherever an operator might put one.
const secretsFile = `mode: loopback
servers:
  - path: /a
    worker:
      command: ["/usr/bin/tool", "--api-key=canary-1", "--token", "canary-2", "postgres://u:canary-3@db/x", "plain"]
      env: {PASSWORD: canary-4, HARMLESS: canary-5}
      env_file: worker.env
  - path: /b
    toolset_options:
      web: {apiKey: canary-6, nested: {client_secret: canary-7, list: ["https://u:canary-8@h/"]}, timeout: 5m}
`

func TestNoSecretIsShown(t *testing.T) {
	c, warnings, err := loadCase(t, "alice", "/etc/gw/worker.env text KEY=canary-9\n/etc/gw/worker.env mode 600\n", secretsFile, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Show(&b); err != nil {
		t.Fatal(err)
	}
	all := b.String() + strings.Join(warnings, "\n")
	if strings.Contains(all, "canary") {
		t.Errorf("a secret is shown:\n%s", all)
	}
	for _, want := range []string{"--api-key=(hidden)", "plain", "PASSWORD=(hidden)", `"timeout":"5m"`, "/etc/gw/worker.env"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing:\n%s", want, all)
		}
	}
	p, err := c.Plan([]string{"127.0.0.1:1"})
	if err != nil || !slices.Contains(p.Monitor.Servers[0].Worker.Command, "canary-2") {
		t.Error("the worker would not get what was hidden from people", err)
	}
}

// TestNoSecretIsQuotedInAProblem damages each value that may hold a secret.
func TestNoSecretIsQuotedInAProblem(t *testing.T) {
	for _, env := range []string{
		`MCP_WORKER_COMMAND=/usr/bin/tool --api-key canary`,
		`MCP_WORKER_COMMAND=["/usr/bin/tool", "--api-key", "canary"`,
		`MCP_WORKER_ENV={"KEY": "canary"`,
		`MCP_WORKER_ENV={"API-KEY": "canary"}`,
		`MCP_TOOLSET_OPTIONS={"web":"canary"}`,
		`MCP_TOOLSET_OPTIONS={"web":{"key":canary}}`,
	} {
		_, _, err := loadCase(t, "alice", "", "", env+"\nMCP_MODE=loopback", "")
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", env, err)
		}
	}
}

// TestShownConfiguration pins what check prints for a whole configuration.
func TestShownConfiguration(t *testing.T) {
	const machine = "/etc/gatehouse/tls/server.pem link /etc/gw/server.pem\n" +
		"/etc/gatehouse/tls/server.key link /etc/gw/server.key\n" +
		"/etc/gatehouse/accounts.yaml text - {issuer: https://id.example.com/realms/staff, subject: a, account: alice}\n" +
		"/etc/gatehouse/tickets.env text KEY=value\n/etc/gatehouse/tickets.env mode 600\n" +
		"/opt/tickets/bin/tickets-mcp mode 755\n"
	c, _, err := loadCase(t, "root", machine, ExampleMonitor, "MCP_IDLE_TIMEOUT=2h\nMCP_TOKEN_LEEWAY=10", "--max-sessions=40")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Show(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/show.golden", b.Bytes())

	p, err := c.Plan([]string{"0.0.0.0:8443"})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plan-monitor.golden", append(doc, '\n'))
}

// TestContentsThatNeedARestart: what is read from a file at the start alone is told apart
// by its content, and what is read again is not.
func TestContentsThatNeedARestart(t *testing.T) {
	const files = "/etc/gw/a.txt text Hello.\n/etc/gw/b.env text A=1\n/etc/gw/b.env mode 600\n/etc/gw/c.pem link /etc/gw/ca.pem\n"
	changed := func(change string) (keys []string) {
		t.Helper()
		var fixed [2]map[string]string
		for i, machine := range []string{files, files + change} {
			c, _, err := loadCase(t, "alice", machine, "", "MCP_MODE=authenticated\nMCP_RUN_AS=shared-account\nMCP_ISSUER=https://id.example.com\nMCP_AUDIENCE=https://mcp.example.com/mcp\n"+
				"MCP_TLS_CERT=/etc/gw/server.pem\nMCP_TLS_KEY=/etc/gw/server.key\nMCP_ISSUER_CA=/etc/gw/c.pem\nMCP_INSTRUCTIONS_FILE=/etc/gw/a.txt\nMCP_WORKER_ENV_FILE=/etc/gw/b.env", "")
			if err != nil {
				t.Fatal(err)
			}
			fixed[i] = c.fixed()
		}
		for key, was := range fixed[0] {
			if fixed[1][key] != was {
				keys = append(keys, key)
			}
		}
		return keys
	}
	for change, want := range map[string][]string{
		"":                          nil,
		"/etc/gw/a.txt text Bye.\n": {"the content of servers[0].instructions_file"},
		"/etc/gw/b.env text A=2\n":  nil, // read at each start of a worker
		"/etc/gw/c.pem link /etc/gw/server.pem\n": {"the content of issuers[0].ca_file"},
	} {
		if got := changed(change); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", change, got, want)
		}
	}
}

func TestLoopbackPlan(t *testing.T) {
	c, _, err := loadCase(t, "alice", "", "", "MCP_MODE=loopback\nMCP_TITLE=Tools\nMCP_STREAM_LOSS_GRACE=none\nMCP_ISSUER=https://id.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Plan([]string{"127.0.0.1:8000", "[::1]:8000"})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/plan-loopback.golden", append(doc, '\n'))
	if p.Keykeeper != nil || p.Monitor.Tokens != nil || p.Monitor.RunAs != plan.RunLoopback {
		t.Error("an issuer of the environment has reached the loopback plan")
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s", file, got)
	}
}

func TestIdleEnd(t *testing.T) {
	for env, want := range map[string]string{
		"": "30m", "MCP_STREAMLESS_TIMEOUT=none": "8h", "MCP_IDLE_TIMEOUT=none": "30m",
		"MCP_IDLE_TIMEOUT=none\nMCP_STREAMLESS_TIMEOUT=none": "", "MCP_IDLE_TIMEOUT=10m": "10m",
	} {
		c, _, err := loadCase(t, "alice", "", "", env+"\nMCP_MODE=loopback", "")
		if err != nil || c.idleEnd() != want {
			t.Errorf("%q: %q, want %q (%v)", env, c.idleEnd(), want, err)
		}
	}
}

// TestDependentDefaults: a short timeout lowers what nobody set.
func TestDependentDefaults(t *testing.T) {
	c, _, err := loadCase(t, "alice", "", "", "MCP_MODE=loopback\nMCP_IDLE_TIMEOUT=5s\nMCP_PROBE_INTERVAL=2s", "")
	if err != nil || c.Lifetime.ProbeTimeout != 2*time.Second || c.Lifetime.ReaperInterval != 2*time.Second {
		t.Errorf("probe timeout %v, reaper interval %v, %v", c.Lifetime.ProbeTimeout, c.Lifetime.ReaperInterval, err)
	}
}

package conf

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// published are the names of variables that people's scripts rely on.
const published = `MCP_PORT MCP_BIND_ADDRESS MCP_ISSUER MCP_ISSUER_CA MCP_DISCOVERY_URL MCP_JWKS_URL MCP_AUDIENCE MCP_EXTRA_AUDIENCES
MCP_TOKEN_PROFILE MCP_ACCOUNTS_FILE MCP_USERID_CLAIM MCP_USERID_CLAIM_IS_ADMIN_CONTROLLED MCP_RUN_AS MCP_REQUIRED_SCOPES MCP_EXTRA_SCOPES
MCP_TLS_CERT MCP_TLS_KEY MCP_TOOLSETS MCP_TOOLSET_OPTIONS MCP_WORKER_COMMAND MCP_WORKER_ENV_FILE MCP_WORKER_USER MCP_MAX_SESSIONS
MCP_MAX_SESSIONS_PER_PRINCIPAL MCP_IDLE_TIMEOUT MCP_CREDENTIAL_GRACE MCP_REQUEST_TIMEOUT MCP_MAX_LIFETIME MCP_PROBE_INTERVAL
MCP_PROBE_TIMEOUT MCP_STREAM_LOSS_GRACE MCP_STREAMLESS_TIMEOUT MCP_REAPER_INTERVAL MCP_REAP_ON_FAILED_PROBE MCP_TRACE MCP_TRACE_LIMIT
MCP_TITLE MCP_INSTRUCTIONS_FILE`

func TestPublishedVariablesAreThere(t *testing.T) {
	have := map[string]bool{}
	for _, s := range Table() {
		have[s.Env] = true
	}
	for _, name := range strings.Fields(published) {
		if !have[name] {
			t.Errorf("no setting has the variable %s", name)
		}
	}
}

func TestTableIsSound(t *testing.T) {
	keyForm := regexp.MustCompile(`^[a-z_]+(\[\])?(\.[a-z_]+){0,2}$`)
	seen := map[string]bool{}
	once := func(what, name string) {
		if name != "" && seen[what+name] {
			t.Errorf("%s %s stands there twice", what, name)
		}
		seen[what+name] = true
	}
	c := &Config{Servers: make([]Server, 1), Issuers: make([]Issuer, 1)}
	for _, s := range Table() {
		once("key", s.Key)
		once("variable", s.Env)
		once("flag", s.Flag)
		if !keyForm.MatchString(s.Key) || s.Env == "" || !strings.HasPrefix(s.Env, "MCP_") {
			t.Errorf("%s: odd key or no variable", s.Key)
		}
		if !strings.HasSuffix(strings.TrimSuffix(s.Help, ")"), ".") && !strings.HasSuffix(s.Help, ").") {
			t.Errorf("%s: the help is no sentence: %q", s.Key, s.Help)
		}
		if s.Ways == 0 || s.Needed&^s.Ways != 0 {
			t.Errorf("%s: needed where it has no meaning", s.Key)
		}
		if s.Type.Accepts == "" || s.Type.parse == nil || s.Type.show == nil {
			t.Errorf("%s: incomplete type", s.Key)
		}
		at := reflect.ValueOf(s.at(c, 0))
		if at.Kind() != reflect.Pointer {
			t.Fatalf("%s: no place for the value", s.Key)
		}
		if s.Default == "" {
			continue
		}
		v, err := s.Type.parse(s.Default)
		if err != nil {
			t.Errorf("%s: default: %v", s.Key, err)
			continue
		}
		if got, want := reflect.TypeOf(v), at.Type().Elem(); !got.AssignableTo(want) {
			t.Errorf("%s: type gives %v, the place takes %v", s.Key, got, want)
		}
		again, err := s.Type.parse(s.Type.show(v))
		if err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%s: %q is shown as %q, which gives %v, %v", s.Key, s.Default, s.Type.show(v), again, err)
		}
	}
}

// TestEveryPlaceIsItsOwn writes through each setting and looks that no other
// one changed: two rows that share a field would be a silent fault.
func TestEveryPlaceIsItsOwn(t *testing.T) {
	c := &Config{Servers: make([]Server, 1), Issuers: make([]Issuer, 1)}
	places := map[any]string{}
	for _, s := range Table() {
		p := s.at(c, 0)
		if other := places[p]; other != "" {
			t.Errorf("%s and %s write to one place", s.Key, other)
		}
		places[p] = s.Key
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	b, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(b) != Reference() {
		t.Error(`docs/config.md is not what the table gives; run: go generate ./cmd/internal/conf`)
	}
	for _, s := range Table() {
		if n := strings.Count(string(b), "**`"+s.Key+"`**"); n != 1 {
			t.Errorf("%s stands in docs/config.md %d times", s.Key, n)
		}
	}
}

// TestReferenceExamplesStart loads the files that the reference shows.
func TestReferenceExamplesStart(t *testing.T) {
	const machine = "/etc/gatehouse/tls/server.pem link /etc/gw/server.pem\n" +
		"/etc/gatehouse/tls/server.key link /etc/gw/server.key\n" +
		"/etc/gatehouse/accounts.yaml text - {issuer: https://id.example.com/realms/staff, subject: a, account: alice}\n" +
		"/etc/gatehouse/tickets.env text KEY=value\n/etc/gatehouse/tickets.env mode 600\n" +
		"/opt/tickets/bin/tickets-mcp mode 755\n/usr/local/bin/my-mcp-server mode 755\n"
	for name, yaml := range map[string]string{"loopback": ExampleLoopback, "monitor": ExampleMonitor} {
		if _, warnings, err := loadCase(t, "root", machine, yaml, "", ""); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, err, warnings)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "90s": 90 * time.Second, "5m": 5 * time.Minute, "8h": 8 * time.Hour,
		"1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "500ms": 500 * time.Millisecond, "1m500ms": time.Minute + 500*time.Millisecond, "007s": 7 * time.Second,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "s", "-1", "-1h", "+5m", "1.5h", "1,5h", "5 m", "5M", "1m1h", "1m2m", "1h ", "1w", "1us", "0x10", "1e3", "99999999999999999999", "99999999999999999999s", "3651d", "none", "five"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Hour: "1h", 36 * time.Hour: "36h", 48 * time.Hour: "2d", 90 * time.Second: "1m30s", 250 * time.Millisecond: "250ms"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestNearestName(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"prot", "port"}, {"listen_port", ""}, {"pat", "path"}, {"resuorce", "resource"}, {"", ""}, {"z", ""},
		{strings.Repeat("x", 1000), ""},
	} {
		if got := nearest(c.given, []string{"port", "path", "resource"}); got != c.want {
			t.Errorf("%q: %q, want %q", clip(c.given), got, c.want)
		}
	}
}

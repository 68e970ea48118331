// Package monitor is the privileged half of the front door: the parent of every
// other process. It parses nothing but fixed frames and tokens that it verifies
// by itself, maps principals to accounts, starts workers as those accounts and
// owns the time they may live. It has no network and no HTTP.
package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
	"gatehouse/session/accounts"
	"gatehouse/session/privdrop"
)

// Mode is under which account workers run.
type Mode string

// The modes; anything else refuses to start.
const (
	ModeLoopback Mode = "loopback"       // no token: the invoking account, or WorkerUser as root
	ModeMonitor  Mode = "monitor"        // the token's account; root only
	ModeSame     Mode = "same-account"   // the server's account, for principals that map to it; never root
	ModeShared   Mode = "shared-account" // the server's account for all, or WorkerUser as root
)

// Config is everything that the monitor must know. It is complete: no default is
// filled in, and New refuses what does not fit together.
type Config struct {
	Mode     Mode
	BinDir   string // where gatehouse, gatehouse-keykeeper and gatehouse-worker lie
	StateDir string
	TLSCert  string // paths; both or neither
	TLSKey   string
	Policies []token.Policy // none in loopback mode
	Servers  []Server

	AccountsFile string // at most one of the two
	AccountClaim string
	WorkerUser   string // as root, where no token names an account
	FrontUser    string // as root
	KeysUser     string // as root, unless in loopback mode
	Accounts     accounts.Policy

	MaxWorkers      int
	MaxPerPrincipal int // ignored in loopback mode, like the next three
	MaxPerToken     int
	SpawnRate       float64 // a second and principal
	SpawnBurst      int
	WarmWorkers     int // that wait for a session, of each kind; 0: none
	// WarmIdle is how long they wait; 0: five minutes.
	WarmIdle        time.Duration
	CredentialGrace time.Duration
	MaxStale        time.Duration
	DrainLimit      time.Duration
	// AccountRecheck is how often the accounts of running workers are looked at.
	AccountRecheck time.Duration
	KillGrace      time.Duration // EOF to SIGTERM
	KillGraceHard  time.Duration // SIGTERM to SIGKILL

	// FrontPart and KeysPart are the other processes' parts of the plan, passed on
	// unread.
	FrontPart, KeysPart []byte
	// Reload is how the configuration is found anew, Decode reads what that writes to
	// its stdout (on stderr are warnings, one a line, or why it fails), and Fixed is what can't change without a restart.
	Reload Recipe
	Decode func([]byte) (*Config, error)
	Fixed  map[string]string
	// Operators is the socket on which operators list and end sessions; nil: none.
	Operators *os.File
	Listeners []*os.File
	// Guard ends (EOF) when the process above is gone; nil: there is none.
	Guard *os.File
	// PartEnv is added to the environment of front end and keykeeper.
	PartEnv []string
	// TZ is the time zone that workers are told; "": none.
	TZ  string
	Log zerolog.Logger
}

// Server is one endpoint.
type Server struct {
	Path      string
	Audiences []string // none in loopback mode
	// Scopes are those that a token must have. A reload may change them.
	Scopes identity.Scopes
	// Command is argv; empty: the built-in gatehouse-worker, which gets Settings.
	Command  []string
	Env      map[string]string
	EnvFile  string
	Cwd      string
	Settings json.RawMessage
}

// Keep are the capabilities that a monitor needs, as root.
var Keep = []privdrop.Capability{
	privdrop.Chown, privdrop.DACReadSearch, privdrop.Kill, privdrop.SetGID, privdrop.SetUID,
}

func (c *Config) authenticated() bool { return c.Mode != ModeLoopback }

// check validates the configuration as a whole.
func (c *Config) check(root bool) error {
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{c.Mode != ModeLoopback && c.Mode != ModeMonitor && c.Mode != ModeSame && c.Mode != ModeShared, fmt.Sprintf("unknown way to run %q", c.Mode)},
		{c.Mode == ModeMonitor && !root, "monitor mode needs root"},
		{c.Mode == ModeSame && root, "same-account mode as root would make every worker root"},
		{root && c.FrontUser == "", "as root the front end needs an account of its own"},
		{root && c.authenticated() && c.KeysUser == "", "as root the keykeeper needs an account of its own"},
		{root && (c.Mode == ModeLoopback || c.Mode == ModeShared) && c.WorkerUser == "", "as root workers need an account"},
		{c.FrontUser != "" && (c.FrontUser == c.KeysUser || c.FrontUser == c.WorkerUser), "front end, keykeeper and workers must not share an account"},
		{c.KeysUser != "" && c.KeysUser == c.WorkerUser, "front end, keykeeper and workers must not share an account"},
		{c.authenticated() != (len(c.Policies) > 0), "tokens are judged exactly when there is authentication"},
		{c.authenticated() != (len(c.KeysPart) > 0), "a keykeeper runs exactly when there is authentication"},
		{(c.Mode == ModeMonitor || c.Mode == ModeSame) && (c.AccountsFile == "") == (c.AccountClaim == ""), "exactly one of accounts file and account claim is needed"},
		{(c.TLSCert == "") != (c.TLSKey == ""), "certificate and key go together"},
		{c.authenticated() && c.TLSCert == "", "authentication needs TLS"},
		{!filepath.IsAbs(c.BinDir) || !filepath.IsAbs(c.StateDir), "program and state folders must be absolute"},
		{len(c.Servers) == 0, "no server"},
		{len(c.Listeners) == 0, "no listener"},
		{len(c.FrontPart) == 0, "no part for the front end"},
		{c.MaxWorkers <= 0, "max_workers must be positive"},
		{c.authenticated() && (c.MaxPerPrincipal <= 0 || c.MaxPerToken <= 0 || c.SpawnRate <= 0 || c.SpawnBurst <= 0 || c.MaxStale <= 0), "limits of a principal must be positive"},
		{c.WarmWorkers < 0, "warm_workers must not be negative"},
		{c.CredentialGrace < 0 || c.WarmIdle < 0 || c.DrainLimit < 0 || c.KillGrace < 0 || c.KillGraceHard < 0 || c.AccountRecheck < 0, "durations must not be negative"},
	} {
		if rule.broken {
			return errors.New("plan: " + rule.text)
		}
	}
	for i, s := range c.Servers {
		if c.authenticated() != (len(s.Audiences) > 0) {
			return fmt.Errorf("plan: server %d (%s): audiences are needed exactly when there is authentication", i, s.Path)
		}
	}
	return nil
}

// issuers are the issuers of the policies.
func (c *Config) issuers() []identity.Issuer {
	var out []identity.Issuer
	for _, p := range c.Policies {
		out = append(out, p.Issuer)
	}
	return out
}

// systemAccount finds the account of one of our own processes; nil for "".
func systemAccount(ctx context.Context, d *accounts.Directory, name string) (*accounts.Account, error) {
	if name == "" {
		return nil, nil
	}
	a, err := d.System(ctx, identity.Account(name))
	if err != nil {
		return nil, fmt.Errorf("account %s of the service: %w", name, err)
	}
	return &a, nil
}

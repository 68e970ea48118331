package conf

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"gatehouse/cmd/internal/plan"
)

// The two modes; see docs/security.md.
const (
	ModeLoopback      = "loopback"
	ModeAuthenticated = "authenticated"
)

// Config is the effective configuration: flags, environment, file and defaults
// merged. Only Load makes one.
type Config struct {
	Mode     string
	RunAs    string // as configured: monitor, same-account, shared-account
	Demo     bool
	StateDir string
	Listen   Listen
	TLS      TLS
	Issuers  []Issuer
	Keys     Keys
	Servers  []Server
	Accounts Accounts
	HTTP     HTTP
	Limits   Limits
	Lifetime Lifetime
	Log      Log

	Operators  Operators
	runtimeDir string // XDG_RUNTIME_DIR
	origins    map[slot]Origin
	host       Host
}

// Listen is where the front end listens.
type Listen struct {
	Port      int
	Addresses []string // IP addresses or localhost
}

// TLS names the certificate chain and its key, PEM files.
type TLS struct{ Cert, Key string }

// Issuer is one authorization server whose tokens are taken.
type Issuer struct {
	Issuer, Profile                       string
	CAFile, DiscoveryURL, JWKSURL         string
	JWKSFile                              string
	Algorithms                            []string
	Leeway, MaxTokenLifetime, KeysRefresh time.Duration
	AllowMissingKid                       bool

	caPEM string // the content of CAFile
}

// Keys is what holds for the keys of all issuers.
type Keys struct{ MaxStale time.Duration }

// Server is one MCP endpoint.
type Server struct {
	Path, Resource  string
	ExtraAudiences  []string
	RequiredScopes  []string
	ExtraScopes     []string
	Title           string
	Instructions    string // a file
	Toolsets        []string
	ToolsetOptions  json.RawMessage
	Workspace       string // a Git repository
	Branch          string
	Worker          Worker
	instructionText *string // the file's content
}

// Worker is the program that serves a session.
type Worker struct {
	Command        []string // empty: gatehouse-worker
	Env            map[string]string
	EnvFile, Cwd   string
	Interrupt, Era string
}

// Accounts is how a principal becomes an account.
type Accounts struct {
	File                        string
	UserIDClaim                 string
	ClaimAdminControlled        bool
	WorkerUser                  string
	MinUID, MaxUID              int
	DeniedGroups                []string
	DenyUsers                   []string
	RequireGroup                string
	ShadowLock                  string
	AllowNologin, AllowOpenHome bool
	Recheck                     time.Duration
}

// HTTP is what the front end tells and allows.
type HTTP struct {
	AllowedOrigins    []string
	AdvertiseMetadata bool
	ResourceName      string
}

// Limits are caps in sessions, bytes and spawns a second.
type Limits struct {
	MaxSessions, MaxSessionsPerPrincipal int
	MaxWorkers, MaxWorkersPerToken       int
	WarmWorkers                          int
	SpawnRate                            float64
	SpawnBurst                           int
	MaxCalls                             int
	MaxBody, MaxMessage, MaxToken        int64
}

// Lifetime is the policy of plan.Lifetime with the two times of the monitor.
type Lifetime struct {
	plan.Lifetime
	Replay                      plan.Replay
	CredentialGrace, DrainLimit time.Duration
}

// Operators is how sessions are listed and ended from outside.
type Operators struct{ Socket, Group string }

// SocketRoot is where sockets lie by default when root starts the server.
const SocketRoot = "/run/gatehouse"

// OperatorsSocket is the path of the socket of a server on that port; empty for none.
func (c *Config) OperatorsSocket(port int) string {
	switch {
	case c.Operators.Socket == "none":
		return ""
	case c.Operators.Socket != "":
		return c.Operators.Socket
	case c.Root():
		return fmt.Sprintf("%s/%d.sock", SocketRoot, port)
	case filepath.IsAbs(c.runtimeDir):
		return filepath.Join(c.runtimeDir, fmt.Sprintf("gatehouse-%d.sock", port))
	}
	return filepath.Join(c.StateDir, fmt.Sprintf("operators-%d.sock", port))
}

// Log is what is written down.
type Log struct {
	Level      string
	Trace      bool
	TraceLimit int64
}

// Authenticated reports whether callers need a token.
func (c *Config) Authenticated() bool { return c.Mode == ModeAuthenticated }

// Way is how workers run, the zero value when that is not decided.
func (c *Config) Way() plan.RunAs {
	if c.Mode == ModeLoopback {
		return plan.RunLoopback
	}
	return plan.RunAs(c.RunAs)
}

// EUID is the user id that the server was started by.
func (c *Config) EUID() int { return c.host.EUID }

// Root reports whether the server was started by root.
func (c *Config) Root() bool { return c.host.EUID == 0 }

// ServerAccount is the name of the account that the server was started by.
func (c *Config) ServerAccount() string { return c.host.Account }

// BinDir is where the programs of the service lie.
func (c *Config) BinDir() string { return c.host.BinDir }

// Lookup finds an account by its exact name.
func (c *Config) Lookup(name string) (uid, gid int, err error) { return c.host.LookupUser(name) }

// Where is the place where a setting got its value, empty for a default, and its
// key as messages write it. The key must be in the table.
func (c *Config) Where(key string, i int) (place, written string) {
	find(key)
	return c.origins[slot{key, i}].Where, keyOf(key, i)
}

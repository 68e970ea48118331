// Package plan is what "gatehouse serve" hands to the monitor: the configuration
// after flags, environment, file and defaults were merged and validated, cut
// into what each process may know. It travels as one JSON document in a sealed
// memory file; the monitor reads its own part and passes the other two on
// without looking inside.
//
// Descriptors of the processes:
//
//	monitor    3 plan · 4… the listeners (Monitor.Listeners of them) · then the
//	           operators' socket (only when Monitor.Operators)
//	front end  3 front-end part · 4 socket to the monitor · 5 socket to the keykeeper
//	           (only when Front.Auth is set) · then certificate, key (only when
//	           Front.TLS) · then the listeners
//	keykeeper  3 keykeeper part · 4 socket to the monitor · 5 socket to the front end
package plan

import (
	"encoding/json"
	"time"
)

// Plan is the whole document.
type Plan struct {
	Monitor   Monitor         `json:"monitor"`
	Front     json.RawMessage `json:"front"`               // a Front
	Keykeeper json.RawMessage `json:"keykeeper,omitempty"` // a Keykeeper; absent in loopback mode
}

// RunAs says under which account workers run.
type RunAs string

// The ways to run; see docs/security.md.
const (
	RunLoopback RunAs = "loopback"       // no token: the invoking account, or WorkerUser when root
	RunMonitor  RunAs = "monitor"        // the token's account (root only)
	RunSame     RunAs = "same-account"   // only principals that map to the server's own account
	RunShared   RunAs = "shared-account" // everybody as the server's account, or WorkerUser when root
)

// Monitor is the privileged half's part.
type Monitor struct {
	RunAs     RunAs `json:"run_as"`
	Listeners int   `json:"listeners"` // how many descriptors from 4 on are listeners
	// Reload is how "gatehouse" is run to find the configuration anew, and Fixed is
	// what can't change without a restart: a digest of each such setting.
	Reload    Recipe            `json:"reload"`
	Fixed     map[string]string `json:"fixed,omitempty"`
	Operators bool              `json:"operators"`          // the operators' socket follows the listeners
	BinDir    string            `json:"bin_dir"`            // where the other programs lie
	StateDir  string            `json:"state_dir"`          // private state of the service
	TLSCert   string            `json:"tls_cert,omitempty"` // paths, opened by the monitor
	TLSKey    string            `json:"tls_key,omitempty"`
	Tokens    []Issuer          `json:"tokens,omitempty"` // empty in loopback mode
	Servers   []Server          `json:"servers"`

	AccountsFile string `json:"accounts_file,omitempty"`
	UserIDClaim  string `json:"userid_claim,omitempty"`
	// WorkerUser is the account of workers whose account no token names, as root.
	WorkerUser string `json:"worker_user,omitempty"`
	FrontUser  string `json:"front_user,omitempty"` // "gatehouse" as root, else empty
	KeysUser   string `json:"keys_user,omitempty"`  // "gatehouse-keys" as root, else empty
	Accounts   Policy `json:"accounts"`

	MaxWorkers      int           `json:"max_workers"`
	MaxPerPrincipal int           `json:"max_per_principal"` // ignored in loopback mode
	MaxPerToken     int           `json:"max_per_token"`     // by issuer and jti
	WarmWorkers     int           `json:"warm_workers"`      // that wait for a session, of each kind
	SpawnRate       float64       `json:"spawn_rate"`        // spawns a second and principal, after the burst
	SpawnBurst      int           `json:"spawn_burst"`       //
	CredentialGrace time.Duration `json:"credential_grace"`  // worker's life after exp + leeway
	DrainLimit      time.Duration `json:"drain_limit"`       // how long running calls may finish on SIGTERM
	MaxStale        time.Duration `json:"max_stale"`         // key sets older than this decide nothing
	KillGrace       time.Duration `json:"kill_grace"`        // EOF to SIGTERM (2 s)
	KillGraceHard   time.Duration `json:"kill_grace_hard"`   // SIGTERM to SIGKILL (3 s)
	AccountRecheck  time.Duration `json:"account_recheck"`   // how often running workers' accounts are looked at
	LogLevel        string        `json:"log_level"`         //
}

// Recipe is a run of "gatehouse resolve".
type Recipe struct {
	Args []string `json:"args,omitempty"` // empty: there is no reload
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
}

// Policy is which operating-system accounts may be used at all.
type Policy struct {
	MinUID        int      `json:"min_uid"` // 1000
	MaxUID        int      `json:"max_uid"` // 60000
	DeniedGroups  []string `json:"denied_groups"`
	DenyUsers     []string `json:"deny_users,omitempty"`
	RequireGroup  string   `json:"require_group,omitempty"`
	ShadowLock    string   `json:"shadow_lock"` // "refuse" or "ignore"
	AllowNologin  bool     `json:"allow_nologin"`
	AllowOpenHome bool     `json:"allow_open_home"`
}

// Issuer is the token policy of one issuer, the same in monitor and front end.
type Issuer struct {
	Issuer           string        `json:"issuer"`
	Profile          string        `json:"profile"` // "rfc9068" or "keycloak"
	Algorithms       []string      `json:"algorithms"`
	Leeway           time.Duration `json:"leeway"`
	MaxLifetime      time.Duration `json:"max_lifetime"`
	AllowMissingKid  bool          `json:"allow_missing_kid"`
	AccountClaimName string        `json:"account_claim,omitempty"`
}

// Server is one MCP endpoint as the monitor sees it.
type Server struct {
	Path      string   `json:"path"`
	Audiences []string `json:"audiences,omitempty"` // the resource identifier first
	Scopes    []string `json:"scopes,omitempty"`    // the required ones
	Worker    Worker   `json:"worker"`
}

// Worker is what is run for a server.
type Worker struct {
	// Command is argv; empty means the built-in gatehouse-worker, which alone
	// gets settings on descriptor 3.
	Command  []string          `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	EnvFile  string            `json:"env_file,omitempty"`
	Cwd      string            `json:"cwd,omitempty"` // empty: the account's home
	Settings json.RawMessage   `json:"settings,omitempty"`
}

// Front is the front end's part.
type Front struct {
	Auth            bool          `json:"auth"` // false: loopback mode
	TLS             bool          `json:"tls"`
	Listeners       []string      `json:"listeners"` // the addresses, for Host checks and logs
	Tokens          []Issuer      `json:"tokens,omitempty"`
	Servers         []FrontServer `json:"servers"`
	AllowedOrigins  []string      `json:"allowed_origins,omitempty"` // beside loopback ones
	AdvertisePRM    bool          `json:"advertise_metadata"`
	ResourceName    string        `json:"resource_name,omitempty"`
	MaxTokenBytes   int           `json:"max_token_bytes"` // 8 KiB, at most 16 KiB
	MaxBody         int64         `json:"max_body"`
	MaxMessage      int64         `json:"max_message"`
	MaxSessions     int           `json:"max_sessions"`
	MaxPerPrincipal int           `json:"max_sessions_per_principal"`
	MaxStale        time.Duration `json:"max_stale"`
	CredentialGrace time.Duration `json:"credential_grace"`
	Lifetime        Lifetime      `json:"lifetime"`
	Replay          Replay        `json:"replay"`
	MaxCalls        int           `json:"max_calls"` // running in one session
	DrainLimit      time.Duration `json:"drain_limit"`
	LogLevel        string        `json:"log_level"`
	Trace           bool          `json:"trace"`       // log every message, never headers or tokens
	TraceLimit      int           `json:"trace_limit"` // how much of a message's body, in bytes; 0 shows none
	Demo            bool          `json:"demo"`
}

// Lifetime is the session lifetime policy. Zero switches a timeout off, except
// StreamLossGrace, where a negative value does and zero means at once.
type Lifetime struct {
	Idle             time.Duration `json:"idle"`
	ProbeInterval    time.Duration `json:"probe_interval"`
	ProbeTimeout     time.Duration `json:"probe_timeout"`
	StreamLossGrace  time.Duration `json:"stream_loss_grace"`
	Streamless       time.Duration `json:"streamless"`
	ReaperInterval   time.Duration `json:"reaper_interval"`
	MaxLifetime      time.Duration `json:"max_lifetime"`
	RequestTimeout   time.Duration `json:"request_timeout"`
	StartTimeout     time.Duration `json:"start_timeout"` // a worker's first answer
	ReapFailedProbes bool          `json:"reap_on_failed_probe"`
}

// Replay bounds what is kept of each stream; if one is 0 nothing is.
type Replay struct {
	Events int           `json:"events"`
	Bytes  int64         `json:"bytes"`
	Keep   time.Duration `json:"keep"`
}

// FrontServer is one MCP endpoint as the front end sees it.
type FrontServer struct {
	Path           string   `json:"path"`
	Resource       string   `json:"resource,omitempty"`
	Audiences      []string `json:"audiences,omitempty"` // the resource identifier first
	RequiredScopes []string `json:"required_scopes,omitempty"`
	ExtraScopes    []string `json:"extra_scopes,omitempty"`
	Interrupt      string   `json:"interrupt,omitempty"` // "sigint" when the worker understands it
	Era            string   `json:"era,omitempty"`       // "legacy", "modern"; empty: find out
}

// Keykeeper is the keykeeper's part.
type Keykeeper struct {
	Issuers  []KeySource   `json:"issuers"`
	StateDir string        `json:"state_dir"` // where the last good sets are kept
	MaxStale time.Duration `json:"max_stale"`
	LogLevel string        `json:"log_level"`
}

// KeySource is where the keys of one issuer come from.
type KeySource struct {
	Issuer       string        `json:"issuer"`
	DiscoveryURL string        `json:"discovery_url,omitempty"` // fetch only; the document must name Issuer
	JWKSURL      string        `json:"jwks_url,omitempty"`      // skips discovery
	CAPEM        string        `json:"ca_pem,omitempty"`        // trust only these instead of the system's
	JWKSFile     string        `json:"jwks_file,omitempty"`     // no network at all
	Refresh      time.Duration `json:"refresh"`                 // 10 min
}

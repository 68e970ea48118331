package conf

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/issuer"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts"
	"gatehouse/session/settings"
)

// How long a worker may take to end by itself: from EOF to SIGTERM, and from
// there to SIGKILL.
const (
	killGrace     = 2 * time.Second
	killGraceHard = 3 * time.Second
)

// Plan cuts a valid configuration into what each process may know. addresses
// are those of the listeners, in the order of their descriptors.
func (c *Config) Plan(addresses []string) (plan.Plan, error) {
	var p plan.Plan
	m, err := c.monitor(len(addresses))
	if err != nil {
		return p, err
	}
	p.Monitor = m
	if p.Front, err = json.Marshal(c.front(addresses)); err != nil {
		return p, fmt.Errorf("encode the front end's part: %w", err)
	}
	if !c.Authenticated() {
		return p, nil
	}
	if p.Keykeeper, err = json.Marshal(c.keykeeper()); err != nil {
		return p, fmt.Errorf("encode the keykeeper's part: %w", err)
	}
	return p, nil
}

// reloadable are the keys, or beginnings of keys, of what a reload may change.
var reloadable = []string{
	"limits.", "lifetime.", "http.", "servers[].required_scopes", "servers[].extra_scopes",
	"accounts.min_uid", "accounts.max_uid", "accounts.denied_groups", "accounts.deny_users", "accounts.require_group",
	"accounts.shadow_lock", "accounts.allow_nologin", "accounts.allow_open_home", "log.trace",
}

// CanReload reports whether a reload may change the setting.
func (s *Setting) CanReload() bool {
	return slices.ContainsFunc(reloadable, func(prefix string) bool { return strings.HasPrefix(s.Key, prefix) })
}

// fixed is a digest of each value that a reload can't change, by its key, and of the files
// whose content is read at the start and never again.
func (c *Config) fixed() map[string]string {
	out := map[string]string{}
	digest := func(key string, value any) {
		raw, err := json.Marshal(value)
		if err != nil {
			panic("conf: " + key + ": " + err.Error()) // no value is of such a type
		}
		sum := sha256.Sum256(raw)
		out[key] = hex.EncodeToString(sum[:8])
	}
	for _, s := range rows {
		if s.CanReload() || !s.Ways.has(c.Way()) {
			continue
		}
		for i := range c.count(s.list()) {
			digest(keyOf(s.Key, i), s.at(c, i))
		}
	}
	for i := range c.Issuers {
		if pem := c.Issuers[i].caPEM; c.Authenticated() && pem != "" {
			digest("the content of "+keyOf("issuers[].ca_file", i), pem)
		}
	}
	for i := range c.Servers {
		if text := c.Servers[i].instructionText; text != nil {
			digest("the content of "+keyOf("servers[].instructions_file", i), text)
		}
	}
	return out
}

// KeyDir is where the last good key sets are kept.
func (c *Config) KeyDir() string { return filepath.Join(c.StateDir, "keys") }

func (c *Config) monitor(listeners int) (plan.Monitor, error) {
	a, m := &c.Accounts, &c.Limits
	out := plan.Monitor{
		RunAs: c.Way(), Listeners: listeners, BinDir: c.host.BinDir, StateDir: c.StateDir,
		Accounts:   plan.Policy(c.AccountPolicy()),
		MaxWorkers: m.MaxWorkers, MaxPerPrincipal: 2 * m.MaxSessionsPerPrincipal, MaxPerToken: m.MaxWorkersPerToken,
		SpawnRate: m.SpawnRate, SpawnBurst: m.SpawnBurst, WarmWorkers: m.WarmWorkers,
		CredentialGrace: c.Lifetime.CredentialGrace, DrainLimit: c.Lifetime.DrainLimit, MaxStale: c.Keys.MaxStale,
		KillGrace: killGrace, KillGraceHard: killGraceHard, AccountRecheck: a.Recheck, LogLevel: c.Log.Level,
	}
	out.Fixed = c.fixed()
	if c.Authenticated() {
		out.TLSCert, out.TLSKey = c.TLS.Cert, c.TLS.Key
		out.Tokens = c.tokens()
	}
	if InAccounts.has(c.Way()) {
		out.AccountsFile, out.UserIDClaim = a.File, a.UserIDClaim
	} else if c.Root() {
		out.WorkerUser = a.WorkerUser
	}
	if c.Root() {
		out.FrontUser = FrontUser
		if c.Authenticated() {
			out.KeysUser = KeysUser
		}
	}
	for i := range c.Servers {
		s, err := c.server(&c.Servers[i])
		if err != nil {
			return out, err
		}
		out.Servers = append(out.Servers, s)
	}
	return out, nil
}

// AccountPolicy is which accounts may be used at all.
func (c *Config) AccountPolicy() accounts.Policy {
	a := &c.Accounts
	return accounts.Policy{
		MinUID: a.MinUID, MaxUID: a.MaxUID, DeniedGroups: a.DeniedGroups, DenyUsers: a.DenyUsers, RequireGroup: a.RequireGroup,
		ShadowLock: a.ShadowLock, AllowNologin: a.AllowNologin, AllowOpenHome: a.AllowOpenHome,
	}
}

// tokens is the token policy of every issuer.
func (c *Config) tokens() []plan.Issuer {
	var out []plan.Issuer
	for _, is := range c.Issuers {
		out = append(out, plan.Issuer{
			Issuer: is.Issuer, Profile: is.Profile, Algorithms: is.Algorithms, Leeway: is.Leeway,
			MaxLifetime: is.MaxTokenLifetime, AllowMissingKid: is.AllowMissingKid, AccountClaimName: c.Accounts.UserIDClaim,
		})
	}
	return out
}

// Audiences is what a token's aud may name, the resource identifier first; nil
// in loopback mode.
func (c *Config) Audiences(i int) []string {
	if s := &c.Servers[i]; c.Authenticated() {
		return append([]string{s.Resource}, s.ExtraAudiences...)
	}
	return nil
}

func (c *Config) server(s *Server) (plan.Server, error) {
	w := &s.Worker
	out := plan.Server{Path: s.Path, Worker: plan.Worker{Command: w.Command, Env: w.Env, EnvFile: w.EnvFile, Cwd: w.Cwd}}
	if c.Authenticated() {
		out.Audiences = append([]string{s.Resource}, s.ExtraAudiences...)
		out.Scopes = s.RequiredScopes
	}
	if len(w.Command) > 0 {
		return out, nil
	}
	doc := settings.Settings{Server: s.Path, Title: s.Title, Instructions: s.instructionText, IdleEnd: c.idleEnd()}
	if len(s.Toolsets) > 0 {
		doc.Toolsets = s.Toolsets
	}
	if len(s.ToolsetOptions) > 0 {
		if err := json.Unmarshal(s.ToolsetOptions, &doc.Options); err != nil {
			return out, fmt.Errorf("decode toolset_options: %w", err)
		}
	}
	if s.Workspace != "" {
		doc.Workspace = &settings.Workspace{Repository: s.Workspace, Branch: s.Branch}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return out, fmt.Errorf("encode the worker's settings: %w", err)
	}
	out.Worker.Settings = raw
	return out, nil
}

// idleEnd is what tools remind of: the shorter of the two times after which a
// quiet session ends, empty for never.
func (c *Config) idleEnd() string {
	idle, streamless := c.Lifetime.Idle, c.Lifetime.Streamless
	switch {
	case idle == 0 && streamless == 0:
		return ""
	case idle == 0 || streamless != 0 && streamless < idle:
		return FormatDuration(streamless)
	}
	return FormatDuration(idle)
}

func (c *Config) front(addresses []string) plan.Front {
	m := &c.Limits
	out := plan.Front{
		Auth: c.Authenticated(), TLS: c.Authenticated(), Listeners: addresses,
		AllowedOrigins: c.HTTP.AllowedOrigins, MaxTokenBytes: int(m.MaxToken), MaxBody: m.MaxBody, MaxMessage: m.MaxMessage,
		MaxSessions: m.MaxSessions, MaxPerPrincipal: m.MaxSessionsPerPrincipal, MaxStale: c.Keys.MaxStale,
		CredentialGrace: c.Lifetime.CredentialGrace, Lifetime: c.Lifetime.Lifetime, Replay: c.Lifetime.Replay, MaxCalls: m.MaxCalls, DrainLimit: c.Lifetime.DrainLimit,
		LogLevel: c.Log.Level, Trace: c.Log.Trace, TraceLimit: int(c.Log.TraceLimit), Demo: c.Demo && c.Authenticated(),
	}
	if c.Authenticated() {
		out.Tokens = c.tokens()
		out.AdvertisePRM, out.ResourceName = c.HTTP.AdvertiseMetadata, c.HTTP.ResourceName
	}
	for i := range c.Servers {
		s := &c.Servers[i]
		f := plan.FrontServer{Path: s.Path, Interrupt: absent(s.Worker.Interrupt, "none"), Era: absent(s.Worker.Era, "auto")}
		if c.Authenticated() {
			f.Resource, f.Audiences = s.Resource, c.Audiences(i)
			f.RequiredScopes, f.ExtraScopes = s.RequiredScopes, s.ExtraScopes
		}
		out.Servers = append(out.Servers, f)
	}
	return out
}

// absent turns the word for nothing into the empty string.
func absent(s, nothing string) string {
	if s == nothing {
		return ""
	}
	return s
}

func (c *Config) keykeeper() plan.Keykeeper {
	out := plan.Keykeeper{StateDir: c.KeyDir(), MaxStale: c.Keys.MaxStale, LogLevel: c.Log.Level}
	for _, is := range c.Issuers {
		out.Issuers = append(out.Issuers, plan.KeySource{
			Issuer: is.Issuer, DiscoveryURL: is.DiscoveryURL, JWKSURL: is.JWKSURL, CAPEM: is.caPEM,
			JWKSFile: is.JWKSFile, Refresh: is.KeysRefresh,
		})
	}
	return out
}

// Source is where the keys of an issuer come from.
func (is *Issuer) Source() issuer.Source {
	return issuer.Source{
		Issuer: identity.Issuer(is.Issuer), DiscoveryURL: is.DiscoveryURL, JWKSURL: is.JWKSURL, CAPEM: is.caPEM,
		JWKSFile: is.JWKSFile, Refresh: is.KeysRefresh,
	}
}

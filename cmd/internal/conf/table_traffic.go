package conf

var trafficRows = []Setting{
	{
		Key: "http.allowed_origins", Env: "MCP_ALLOWED_ORIGINS", Flag: "allowed-origins",
		Type: list("origins", "origins such as https://inspector.example:6274", isOrigin), Default: "none", Ways: Always,
		Help: "Web pages that may call, beside those served from loopback.",
		at:   func(c *Config, _ int) any { return &c.HTTP.AllowedOrigins },
	},
	{
		Key: "http.advertise_metadata", Env: "MCP_ADVERTISE_METADATA", Flag: "advertise-metadata", Type: boolean(), Default: "true", Ways: InAuth,
		Help: "Serve the protected resource metadata (RFC 9728) by which clients find the issuer. Off for sites where everybody brings a token.",
		at:   func(c *Config, _ int) any { return &c.HTTP.AdvertiseMetadata },
	},
	{
		Key: "http.resource_name", Env: "MCP_RESOURCE_NAME", Flag: "resource-name", Type: text(256), Default: "Gatehouse", Ways: InAuth,
		Help: "The name for people in the metadata.",
		at:   func(c *Config, _ int) any { return &c.HTTP.ResourceName },
	},
	{
		Key: "limits.max_sessions", Env: "MCP_MAX_SESSIONS", Flag: "max-sessions", Type: whole(1, 100000), Default: "32", Ways: Always,
		Help: "Sessions at a time; beyond them a new one is refused.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxSessions },
	},
	{
		Key: "limits.max_sessions_per_principal", Env: "MCP_MAX_SESSIONS_PER_PRINCIPAL", Flag: "max-sessions-per-principal", Type: whole(1, 100000),
		Derived: "8, or max_sessions when that is less", Ways: InAuth,
		Help: "Sessions of one principal; a further one ends that principal's longest-quiet session without stream and call.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxSessionsPerPrincipal },
	},
	{
		Key: "limits.max_workers", Env: "MCP_MAX_WORKERS", Flag: "max-workers", Type: whole(1, 200000),
		Derived: "twice max_sessions", Ways: Always,
		Help: "Workers that may run at a time, which the monitor holds whatever the front end asks for; as many again may be ending. One principal may have twice max_sessions_per_principal.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxWorkers },
	},
	{
		Key: "limits.max_workers_per_token", Env: "MCP_MAX_WORKERS_PER_TOKEN", Flag: "max-workers-per-token", Type: whole(1, 200000),
		Derived: "twice max_sessions_per_principal", Ways: InAuth,
		Help: "Workers that one token (by `iss` and `jti`) may have running at a time.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxWorkersPerToken },
	},
	{
		Key: "limits.warm_workers", Env: "MCP_WARM_WORKERS", Flag: "warm-workers", Type: whole(0, 100), Default: "0", Ways: Always,
		Help: "Workers that are started ahead after a session was opened, for the next sessions of the same principal, scopes and server. Unused ones count against the caps, make room for sessions, and end after five minutes.",
		at:   func(c *Config, _ int) any { return &c.Limits.WarmWorkers },
	},
	{
		Key: "limits.max_calls", Env: "MCP_MAX_CALLS", Flag: "max-calls", Type: whole(1, 10000), Default: "64", Ways: Always,
		Help: "Calls that may run in one session at a time; a further one is refused with kind `busy`.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxCalls },
	},
	{
		Key: "limits.spawn_rate", Env: "MCP_SPAWN_RATE", Flag: "spawn-rate", Type: number(0.01, 10000), Default: "4", Ways: InAuth,
		Help: "Workers a second that one principal may start once the burst is used up; beyond it 429.",
		at:   func(c *Config, _ int) any { return &c.Limits.SpawnRate },
	},
	{
		Key: "limits.spawn_burst", Env: "MCP_SPAWN_BURST", Flag: "spawn-burst", Type: whole(1, 100000), Default: "32", Ways: InAuth,
		Help: "Workers that one principal may start at once.",
		at:   func(c *Config, _ int) any { return &c.Limits.SpawnBurst },
	},
	{
		Key: "limits.max_body", Env: "MCP_MAX_BODY", Flag: "max-body", Type: size(1<<10, 1<<30), Default: "16MiB", Ways: Always,
		Help: "Largest request body; beyond it 413.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxBody },
	},
	{
		Key: "limits.max_message", Env: "MCP_MAX_MESSAGE", Flag: "max-message", Type: size(1<<10, 1<<30), Default: "16MiB", Ways: Always,
		Help: "Longest message of a worker; a longer one ends its session.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxMessage },
	},
	{
		Key: "limits.max_token", Env: "MCP_MAX_TOKEN", Flag: "max-token", Type: size(1<<10, 16<<10), Default: "8KiB", Ways: InAuth,
		Help: "Longest access token.",
		at:   func(c *Config, _ int) any { return &c.Limits.MaxToken },
	},
}

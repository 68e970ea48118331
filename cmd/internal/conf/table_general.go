package conf

var generalRows = []Setting{
	{
		Key: "mode", Env: "MCP_MODE", Flag: "mode", Type: oneOf(ModeLoopback, ModeAuthenticated),
		Ways: Always, Needed: Always,
		Help: "Whether callers need a token. `loopback`: no token, cleartext, this machine only, for any local user. `authenticated`: TLS and a bearer token of an issuer below.",
		at:   func(c *Config, _ int) any { return &c.Mode },
	},
	{
		Key: "run_as", Env: "MCP_RUN_AS", Flag: "run-as", Type: oneOf("monitor", "same-account", "shared-account"),
		Derived: "`monitor` when started by root, else none: it must be chosen", Needed: InAuth, Ways: InAuth,
		Help: "Under which account workers run: `monitor`, the token's account (root only); `same-account`, only principals that map to the server's own account get in; `shared-account`, everybody as the server's account.",
		at:   func(c *Config, _ int) any { return &c.RunAs },
	},
	{
		Key: "demo", Env: "MCP_DEMO", Flag: "demo", Type: boolean(), Default: "false", Ways: InAuth,
		Help: "Accept an issuer over http on loopback, for a demonstration on this machine; the server then can't listen beyond loopback.",
		at:   func(c *Config, _ int) any { return &c.Demo },
	},
	{
		Key: "state_dir", Env: "MCP_STATE_DIR", Flag: "state-dir", Type: path(),
		Derived: "`/var/lib/gatehouse` as root, else `$XDG_STATE_HOME/gatehouse` or `~/.local/state/gatehouse`", Ways: Always,
		Help: "Folder for the service's own state: the last good keys, private folders of workers.",
		at:   func(c *Config, _ int) any { return &c.StateDir },
	},
	{
		Key: "listen.port", Env: "MCP_PORT", Flag: "port", Type: whole(0, 65535),
		Derived: "8000 in loopback mode, 8443 in authenticated mode", Ways: Always,
		Help: "TCP port; 0 takes any free one.",
		at:   func(c *Config, _ int) any { return &c.Listen.Port },
	},
	{
		Key: "listen.bind_address", Env: "MCP_BIND_ADDRESS", Flag: "bind-address",
		Type:    list("addresses", "IP addresses, or localhost for 127.0.0.1 and ::1; 0.0.0.0 is every IPv4 address, :: every address of both families", isAddress),
		Default: "localhost", Ways: Always,
		Help: "Addresses to listen on. Loopback mode takes loopback addresses only, and nothing widens that.",
		at:   func(c *Config, _ int) any { return &c.Listen.Addresses },
	},
	{
		Key: "tls.cert", Env: "MCP_TLS_CERT", Flag: "tls-cert", Type: path(), Ways: InAuth, Needed: InAuth,
		Help: "Certificate chain in PEM, the server's own certificate first.",
		at:   func(c *Config, _ int) any { return &c.TLS.Cert },
	},
	{
		Key: "tls.key", Env: "MCP_TLS_KEY", Flag: "tls-key", Type: path(), Ways: InAuth, Needed: InAuth,
		Help: "Private key of the certificate in PEM, not encrypted.",
		at:   func(c *Config, _ int) any { return &c.TLS.Key },
	},
	{
		Key: "log.level", Env: "MCP_LOG_LEVEL", Flag: "log-level", Type: oneOf("debug", "info", "warn", "error"), Default: "info", Ways: Always,
		Help: "The least severity that is logged.",
		at:   func(c *Config, _ int) any { return &c.Log.Level },
	},
	{
		Key: "operators.socket", Env: "MCP_OPERATORS_SOCKET", Flag: "operators-socket", Type: socketPath(), Ways: Always,
		Derived: "as root `/run/gatehouse/PORT.sock`, else `gatehouse-PORT.sock` in `XDG_RUNTIME_DIR`, else `operators-PORT.sock` in `state_dir`",
		Help:    "The socket by which `gatehouse sessions` lists and ends sessions; none for no such socket.",
		at:      func(c *Config, _ int) any { return &c.Operators.Socket },
	},
	{
		Key: "operators.group", Env: "MCP_OPERATORS_GROUP", Flag: "operators-group", Type: text(32), Default: "gatehouse-operators", Ways: Always,
		Help: "Members of this group may use the socket, when root started the server and the group exists; else only whoever started it.",
		at:   func(c *Config, _ int) any { return &c.Operators.Group },
	},
	{
		Key: "log.trace", Env: "MCP_TRACE", Flag: "trace", Type: boolean(), Default: "false", Ways: Always,
		Help: "Log every message of both directions, one a line, never headers, tokens or query strings. Messages hold what users work on.",
		at:   func(c *Config, _ int) any { return &c.Log.Trace },
	},
	{
		Key: "log.trace_limit", Env: "MCP_TRACE_LIMIT", Flag: "trace-limit", Type: size(0, 16<<20), Default: "2KiB", Ways: Always,
		Help: "How much of a message's body the trace shows; 0 shows none.",
		at:   func(c *Config, _ int) any { return &c.Log.TraceLimit },
	},
}

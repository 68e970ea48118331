package conf

const emptyEnvironment = "no more than HOME, USER, LOGNAME and SHELL of the account, PATH, LANG, the server's TZ if it has one, and TMPDIR where several share an account"

var serverRows = []Setting{
	{
		Key: "servers[].path", Env: "MCP_PATH", Flag: "path", Type: text(256), Default: "/mcp", Ways: Always,
		Help: "Path of the endpoint. Each further server needs one of its own.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Path },
	},
	{
		Key: "servers[].resource", Env: "MCP_AUDIENCE", Flag: "audience", Type: webAddress(), Ways: InAuth, Needed: InAuth,
		Help: "The resource identifier: the URL under which clients know this server, without trailing slash or fragment. Tokens must name it in `aud`; the metadata document publishes it.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Resource },
	},
	{
		Key: "servers[].extra_audiences", Env: "MCP_EXTRA_AUDIENCES", Flag: "extra-audiences",
		Type: list("text", "audiences, such as a client id; never account, which every Keycloak token can name", isWord), Default: "none", Ways: InAuth,
		Help: "Further values of `aud` that are accepted.",
		at:   func(c *Config, i int) any { return &c.Servers[i].ExtraAudiences },
	},
	{
		Key: "servers[].required_scopes", Env: "MCP_REQUIRED_SCOPES", Flag: "required-scopes",
		Type: list("scopes", "scope names", isScope), Default: "mcp:use", Ways: InAuth,
		Help: "Scopes that a token must have, all of them.",
		at:   func(c *Config, i int) any { return &c.Servers[i].RequiredScopes },
	},
	{
		Key: "servers[].extra_scopes", Env: "MCP_EXTRA_SCOPES", Flag: "extra-scopes",
		Type: list("scopes", "scope names", isScope), Default: "none", Ways: InAuth,
		Help: "Scopes that clients are told to ask for and that are not required, such as `offline_access`.",
		at:   func(c *Config, i int) any { return &c.Servers[i].ExtraScopes },
	},
	{
		Key: "servers[].title", Env: "MCP_TITLE", Flag: "title", Type: text(256), Ways: Always,
		Help: "What people see as the name of this instance (the built-in worker only).",
		at:   func(c *Config, i int) any { return &c.Servers[i].Title },
	},
	{
		Key: "servers[].instructions_file", Env: "MCP_INSTRUCTIONS_FILE", Flag: "instructions-file", Type: path(), Ways: Always,
		Help: "A file whose text replaces the instructions for the model, UTF-8, at most 32768 characters; an empty file sends none (the built-in worker only).",
		at:   func(c *Config, i int) any { return &c.Servers[i].Instructions },
	},
	{
		Key: "servers[].toolsets", Env: "MCP_TOOLSETS", Flag: "toolsets",
		Type: list("names", "names of toolsets", isToolset), Derived: "the built-in ones", Ways: Always,
		Help: "Toolsets to serve (the built-in worker only). Choosing fewer narrows what a model is offered; it is no security control.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Toolsets },
	},
	{
		Key: "servers[].toolset_options", Env: "MCP_TOOLSET_OPTIONS", Flag: "toolset-options", Type: object(), Ways: Always,
		Help: "Options of the toolsets, keyed by toolset (the built-in worker only).",
		at:   func(c *Config, i int) any { return &c.Servers[i].ToolsetOptions },
	},
	{
		Key: "servers[].workspace.repository", Env: "MCP_WORKSPACE", Flag: "workspace", Type: path(), Ways: Always,
		Help: "Git repository, bare or not, that the workspace toolsets work on (the built-in worker only).",
		at:   func(c *Config, i int) any { return &c.Servers[i].Workspace },
	},
	{
		Key: "servers[].workspace.branch", Env: "MCP_WORKSPACE_BRANCH", Flag: "workspace-branch", Type: text(256), Ways: Always,
		Derived: "what the repository's HEAD names",
		Help:    "The shared branch of the workspace.",
		at:      func(c *Config, i int) any { return &c.Servers[i].Branch },
	},
	{
		Key: "servers[].worker.command", Env: "MCP_WORKER_COMMAND", Flag: "worker-command", Type: argv(),
		Derived: "the built-in `gatehouse-worker`", Ways: Always,
		Help: "The stdio MCP server to run for each session. With run_as monitor the program is an absolute path.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Worker.Command },
	},
	{
		Key: "servers[].worker.env", Env: "MCP_WORKER_ENV", Type: table(), Ways: Always, Derived: emptyEnvironment,
		Help: "Environment variables for the worker, but for HOME, USER, LOGNAME and SHELL. Secrets belong into env_file.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Worker.Env },
	},
	{
		Key: "servers[].worker.env_file", Env: "MCP_WORKER_ENV_FILE", Flag: "worker-env-file", Type: path(), Ways: Always,
		Help: "File of NAME=value lines with secrets for the worker, owned by root or the server's account and readable by nobody else.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Worker.EnvFile },
	},
	{
		Key: "servers[].worker.cwd", Env: "MCP_WORKER_CWD", Flag: "worker-cwd", Type: path(), Ways: Always,
		Derived: "the account's home",
		Help:    "The worker's working folder.",
		at:      func(c *Config, i int) any { return &c.Servers[i].Worker.Cwd },
	},
	{
		Key: "servers[].worker.interrupt", Env: "MCP_WORKER_INTERRUPT", Flag: "worker-interrupt", Type: oneOf("sigint", "none"), Ways: Always,
		Derived: "`sigint` for the built-in worker, else `none`",
		Help:    "How a worker is interrupted that does not answer after a cancel, before it is stopped.",
		at:      func(c *Config, i int) any { return &c.Servers[i].Worker.Interrupt },
	},
	{
		Key: "servers[].worker.era", Env: "MCP_WORKER_ERA", Flag: "worker-era", Type: oneOf("legacy", "modern", "auto"), Default: "auto", Ways: Always,
		Help: "Which handshake the worker speaks: `legacy` (initialize), `modern` (2026-07-28), `auto` finds out.",
		at:   func(c *Config, i int) any { return &c.Servers[i].Worker.Era },
	},
}

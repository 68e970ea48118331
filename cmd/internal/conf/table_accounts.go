package conf

import "time"

const defaultDenied = "root,sudo,wheel,adm,shadow,disk,docker,lxd,kvm"

var accountRows = []Setting{
	{
		Key: "accounts.file", Env: "MCP_ACCOUNTS_FILE", Flag: "accounts-file", Type: path(), Ways: InAccounts,
		Derived: "none; exactly one of this and `accounts.userid_claim` must be set",
		Help:    "YAML list of `issuer`, `subject`, `account`, and optionally `client_id` (that client's tokens alone, its own among them), and `name` and `email` for commits.",
		at:      func(c *Config, _ int) any { return &c.Accounts.File },
	},
	{
		Key: "accounts.userid_claim", Env: "MCP_USERID_CLAIM", Flag: "userid-claim", Type: text(128), Ways: InAccounts,
		Derived: "none; exactly one of this and `accounts.file` must be set",
		Help:    "A claim whose value is the account's name. It must be one that users can't change.",
		at:      func(c *Config, _ int) any { return &c.Accounts.UserIDClaim },
	},
	{
		Key: "accounts.userid_claim_is_admin_controlled", Env: "MCP_USERID_CLAIM_IS_ADMIN_CONTROLLED", Flag: "userid-claim-is-admin-controlled",
		Type: boolean(), Default: "false", Ways: InAccounts,
		Help: "Says that at this issuer only administrators can set the claim; needed for `preferred_username`, `email`, `upn` and `name`.",
		at:   func(c *Config, _ int) any { return &c.Accounts.ClaimAdminControlled },
	},
	{
		Key: "accounts.worker_user", Env: "MCP_WORKER_USER", Flag: "worker-user", Type: text(32), Ways: InLoopback | InShared,
		Derived: "`gatehouse-worker` when started by root; nobody else can set it",
		Help:    "The account of workers whose account no token names. Never root.",
		at:      func(c *Config, _ int) any { return &c.Accounts.WorkerUser },
	},
	{
		Key: "accounts.min_uid", Env: "MCP_MIN_UID", Flag: "min-uid", Type: whole(1000, 65533), Default: "1000", Ways: InAccounts,
		Help: "The least uid and gid that a token's account may have.",
		at:   func(c *Config, _ int) any { return &c.Accounts.MinUID },
	},
	{
		Key: "accounts.max_uid", Env: "MCP_MAX_UID", Flag: "max-uid", Type: whole(1000, 1<<31-2), Default: "60000", Ways: InAccounts,
		Help: "The greatest uid and gid that a token's account may have.",
		at:   func(c *Config, _ int) any { return &c.Accounts.MaxUID },
	},
	{
		Key: "accounts.recheck", Env: "MCP_ACCOUNT_RECHECK", Flag: "account-recheck", Type: duration(time.Second, day), Default: "5m", Ways: InAccounts,
		Help: "How often the accounts of running workers are looked at; one that was locked, expired or lost a group ends its workers.",
		at:   func(c *Config, _ int) any { return &c.Accounts.Recheck },
	},
	{
		Key: "accounts.denied_groups", Env: "MCP_DENIED_GROUPS", Flag: "denied-groups", Type: list("names", "names of groups", isAccountName),
		Default: defaultDenied, Ways: InAccounts,
		Help: "Accounts in one of these groups get no worker.",
		at:   func(c *Config, _ int) any { return &c.Accounts.DeniedGroups },
	},
	{
		Key: "accounts.deny_users", Env: "MCP_DENY_USERS", Flag: "deny-users", Type: list("names", "names of accounts", isAccountName), Default: "none", Ways: InAccounts,
		Help: "Accounts that get no worker, whatever else holds.",
		at:   func(c *Config, _ int) any { return &c.Accounts.DenyUsers },
	},
	{
		Key: "accounts.require_group", Env: "MCP_REQUIRE_GROUP", Flag: "require-group", Type: text(32), Ways: InAccounts,
		Help: "Only accounts in this group get a worker.",
		at:   func(c *Config, _ int) any { return &c.Accounts.RequireGroup },
	},
	{
		Key: "accounts.shadow_lock", Env: "MCP_SHADOW_LOCK", Flag: "shadow-lock", Type: oneOf("refuse", "ignore"), Default: "refuse", Ways: InAccounts,
		Help: "What a locked password (`!` before a hash) means: `refuse` gives no worker. Accounts without any password are fine.",
		at:   func(c *Config, _ int) any { return &c.Accounts.ShadowLock },
	},
	{
		Key: "accounts.allow_nologin", Env: "MCP_ALLOW_NOLOGIN", Flag: "allow-nologin", Type: boolean(), Default: "false", Ways: InAccounts,
		Help: "Allow accounts whose shell lets nobody log in (nologin, false, no program), and pass over /etc/nologin.",
		at:   func(c *Config, _ int) any { return &c.Accounts.AllowNologin },
	},
	{
		Key: "accounts.allow_open_home", Env: "MCP_ALLOW_OPEN_HOME", Flag: "allow-open-home", Type: boolean(), Default: "false", Ways: InAccounts,
		Help: "Allow accounts whose home belongs to another account, or may be written by others.",
		at:   func(c *Config, _ int) any { return &c.Accounts.AllowOpenHome },
	},
}

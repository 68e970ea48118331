package conf

import "time"

var lifetimeRows = []Setting{
	{
		Key: "lifetime.idle_timeout", Env: "MCP_IDLE_TIMEOUT", Flag: "idle-timeout", Type: durationOrNone(time.Second, maxDuration, 0), Default: "8h", Ways: Always,
		Help: "How long a client may be quiet before its session ends, also with an open stream.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.Idle },
	},
	{
		Key: "lifetime.probe_interval", Env: "MCP_PROBE_INTERVAL", Flag: "probe-interval", Type: durationOrNone(100*time.Millisecond, day, 0), Default: "2m", Ways: Always,
		Help: "How often a quiet session with an open stream is sent a ping.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.ProbeInterval },
	},
	{
		Key: "lifetime.probe_timeout", Env: "MCP_PROBE_TIMEOUT", Flag: "probe-timeout", Type: duration(100*time.Millisecond, time.Hour), Default: "30s", Derived: "or the probe interval when that is less", Ways: Always,
		Help: "How long the answer to a ping may take.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.ProbeTimeout },
	},
	{
		Key: "lifetime.reap_on_failed_probe", Env: "MCP_REAP_ON_FAILED_PROBE", Flag: "reap-on-failed-probe", Type: boolean(), Default: "true", Ways: Always,
		Help: "End a session early when two pings in a row stay unanswered on the stream that the client is still on.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.ReapFailedProbes },
	},
	{
		Key: "lifetime.stream_loss_grace", Env: "MCP_STREAM_LOSS_GRACE", Flag: "stream-loss-grace", Type: durationOrNone(0, maxDuration, -1), Default: "5m", Ways: Always,
		Help: "How long a client that closed its stream has to open another; 0 ends the session at once; with none the streamless timeout counts.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.StreamLossGrace },
	},
	{
		Key: "lifetime.streamless_timeout", Env: "MCP_STREAMLESS_TIMEOUT", Flag: "streamless-timeout", Type: durationOrNone(time.Second, maxDuration, 0), Default: "30m", Ways: Always,
		Help: "How long a client that never opens a stream may be quiet; for those of 2026-07-28 how long their worker stays while none of them calls or listens.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.Streamless },
	},
	{
		Key: "lifetime.reaper_interval", Env: "MCP_REAPER_INTERVAL", Flag: "reaper-interval", Type: duration(100*time.Millisecond, time.Hour), Default: "60s", Derived: "or the shortest of the timeouts when that is less", Ways: Always,
		Help: "How often sessions are looked through for those to end.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.ReaperInterval },
	},
	{
		Key: "lifetime.max_lifetime", Env: "MCP_MAX_LIFETIME", Flag: "max-lifetime", Type: durationOrNone(time.Second, maxDuration, 0), Default: "none", Ways: Always,
		Help: "How long a session may live at all.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.MaxLifetime },
	},
	{
		Key: "lifetime.request_timeout", Env: "MCP_REQUEST_TIMEOUT", Flag: "request-timeout", Type: durationOrNone(100*time.Millisecond, maxDuration, 0), Default: "none", Ways: Always,
		Help: "How long a call may take; breaking it costs the call, not the session.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.RequestTimeout },
	},
	{
		Key: "lifetime.start_timeout", Env: "MCP_START_TIMEOUT", Flag: "start-timeout", Type: duration(100*time.Millisecond, 10*time.Minute), Default: "30s", Ways: Always,
		Help: "How long a new worker may take to its first answer.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.StartTimeout },
	},
	{
		Key: "lifetime.credential_grace", Env: "MCP_CREDENTIAL_GRACE", Flag: "credential-grace", Type: durationOrNone(0, 30*day, 0), Default: "1h", Ways: InAuth,
		Help: "How long a worker stays after its token expired, for a newer token of the same principal; nothing is served in between.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.CredentialGrace },
	},
	{
		Key: "lifetime.replay_events", Env: "MCP_REPLAY_EVENTS", Flag: "replay-events", Type: whole(0, 100000), Default: "256", Ways: Always,
		Help: "How many events of each stream are kept for a client that loses it; 0 keeps none, and no event has an id.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.Replay.Events },
	},
	{
		Key: "lifetime.replay_bytes", Env: "MCP_REPLAY_BYTES", Flag: "replay-bytes", Type: size(0, 1<<30), Default: "1MiB", Ways: Always,
		Help: "How many bytes of each stream are kept, and a quarter of what a session keeps of all of them; 0 keeps none.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.Replay.Bytes },
	},
	{
		Key: "lifetime.replay_time", Env: "MCP_REPLAY_TIME", Flag: "replay-time", Type: duration(0, time.Hour), Default: "60s", Ways: Always,
		Help: "How long an event is kept; 0 keeps none.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.Replay.Keep },
	},
	{
		Key: "lifetime.drain_limit", Env: "MCP_DRAIN_LIMIT", Flag: "drain-limit", Type: durationOrNone(0, time.Hour, 0), Default: "10s", Ways: Always,
		Help: "How long running calls may finish when the server is stopped.",
		at:   func(c *Config, _ int) any { return &c.Lifetime.DrainLimit },
	},
}

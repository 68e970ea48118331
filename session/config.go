package session

import (
	"io"
	"time"
)

// Config is what bounds sessions. The zero value admits none.
type Config struct {
	// MaxSessions is how many sessions may exist at once, those still starting or
	// ending included. 0 admits none.
	MaxSessions int
	// MaxPerPrincipal is the same for one principal; 0: only MaxSessions counts.
	MaxPerPrincipal int
	// MaxMessage is the longest line in bytes that a worker may write; 0: 16 MiB.
	MaxMessage int
	// MaxCalls is how many requests of one session may be running; 0: 64.
	MaxCalls int
	// Interrupt says of each server, by index, whether its workers give running calls
	// up at a SIGINT and live on.
	Interrupt []bool
	// CredentialGrace is how long a session stays after its newest token's expiry.
	CredentialGrace time.Duration
	Lifetime        Lifetime
	Replay          Replay
	// Eras are the eras of workers that are configured: "legacy" or "modern", by
	// server. The others' are found out.
	Eras map[uint16]string

	// Now and Rand are the clock and the source of ids; nil: the real ones.
	Now  func() time.Time
	Rand io.Reader
}

// Lifetime is the session lifetime policy. Zero switches a
// timeout off, except StreamLossGrace, where a negative value does and zero
// means at once. The fields are those of the plan's Lifetime, in its order, so
// that one converts into the other.
type Lifetime struct {
	Idle             time.Duration // any session may be quiet this long
	ProbeInterval    time.Duration
	ProbeTimeout     time.Duration
	StreamLossGrace  time.Duration // a client that closed its stream has this long to come back
	Streamless       time.Duration // a client that never opened a stream may be quiet this long
	ReaperInterval   time.Duration // 0: 60 s
	MaxLifetime      time.Duration
	RequestTimeout   time.Duration // progress pushes it out
	StartTimeout     time.Duration // spawn to handshake answer; 0: 30 s
	ReapFailedProbes bool
}

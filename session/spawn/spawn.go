// Package spawn is the contract by which the front end asks for a worker, the
// fixed frames that carry it to the monitor, and the client half of that
// conversation. The front end never execs: every worker comes through a Spawner.
package spawn

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Request asks for one worker.
type Request struct {
	// Server is the index of the configured server whose worker is wanted.
	Server uint16
	// Token is the bearer token itself, which the monitor verifies again with
	// keys of its own; empty in loopback mode alone.
	Token string
}

// Spawner starts workers. Implementations: Client (the monitor, privileged or
// not, over a socketpair) and sessiontest.Spawner (in-process, tests only).
type Spawner interface {
	// Spawn returns a started worker. It returns a *Error when the monitor
	// refuses or the worker can't be started, ctx.Err() when ctx ends first (a
	// worker that arrives later is killed by the implementation).
	Spawn(ctx context.Context, r Request) (Worker, error)
}

// Worker is one started worker process and the lease under which it lives.
type Worker interface {
	// Stdin, Stdout and Stderr are the front end's ends of the worker's pipes,
	// in non-blocking mode, so that deadlines work. The caller closes them.
	Stdin() *os.File
	Stdout() *os.File
	Stderr() *os.File
	// PID is the worker's process id, 0 in-process.
	PID() int
	// UID is the user id that the worker runs as.
	UID() int
	// Account is the name of that account.
	Account() string
	// Lease is when the monitor ends the worker unless it is renewed; the zero
	// time means never.
	Lease() time.Time
	// Renew shows the monitor a newer token of the same principal, which moves the
	// lease, and waits no longer than it takes to send it. done is called once, and
	// must not block: with nil, or a *Error, of KindRefused where the monitor says no.
	Renew(token string, done func(error))
	// Stop ends the worker's whole process tree: EOF on stdin, after 2 s
	// SIGTERM, after 3 s more SIGKILL. It returns at once, and may be repeated.
	Stop()
	// Interrupt sends SIGINT to the worker's first process. It returns at once.
	Interrupt()
	// Exited is closed when the worker has ended and its tree is gone.
	Exited() <-chan struct{}
	// AfterExit has f called, in a goroutine of its own, once Exited is closed. It is
	// for whoever would else keep a goroutine waiting, and may be called once.
	AfterExit(f func())
	// Status says how the worker ended; valid once Exited is closed.
	Status() Status
}

// Status is how a worker ended.
type Status struct {
	Code   int    // exit code, -1 when ended by a signal
	Signal int    // signal number, 0 when it exited by itself
	Reason string // why the monitor ended it ("lease expired"), empty when it did not
}

// Kind classifies why there is no worker.
type Kind uint8

// The closed list of refusals. The zero value is an internal fault.
const (
	KindInternal    Kind = iota
	KindToken            // the token is not good enough for the monitor
	KindUndecided        // the monitor has no usable keys at present
	KindNoAccount        // valid token, no account by policy
	KindClientOwn        // a client's own token (client credentials)
	KindLimit            // a cap of the monitor (per principal, per token, global)
	KindRate             // spawn rate exceeded
	KindUnavailable      // the worker could not be started
	KindDraining         // the monitor is stopping
	KindRefused          // the request does not fit the handle (RENEW, KILL)
)

// Error is a refusal. Reason is for the log alone.
type Error struct {
	Kind       Kind
	Reason     string
	RetryAfter time.Duration // set for KindRate
}

func (e *Error) Error() string { return fmt.Sprintf("spawn: %v: %s", e.Kind, e.Reason) }

// String names the kind for logs.
func (k Kind) String() string {
	names := [...]string{"internal", "token", "undecided", "noAccount", "clientOwn", "limit", "rate", "unavailable", "draining", "refused"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

package bridge

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"gatehouse/session/jsonrpc"
)

// Code is the error code of the message that Next returned last; 0: it was no
// error response.
func (c *Call) Code() int { return c.curCode }

// Denied are the capabilities that the worker asked for during the call and that
// its client has not.
func (c *Call) Denied() Capability {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.denied
}

// Cancel ends a running call at its client's wish and tells the worker. It does
// nothing when the call is over.
func (c *Call) Cancel(reason string) {
	if c.b.giveUp(c, ErrCancelled) {
		c.b.reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, c.id, reason))
		c.b.suspect()
	}
}

// Retire tells the worker that the call is cancelled, waits at most limit for a
// response all the same, and closes the call.
func (c *Call) Retire(ctx context.Context, limit time.Duration, reason string) {
	c.b.mu.Lock()
	c.Over = nil // it is us who end it
	c.b.mu.Unlock()
	c.b.reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%q}}`, c.id, reason))
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if _, final, err := c.Next(ctx, 0); final || err != nil {
			break
		}
	}
	c.b.giveUp(c, ErrCancelled)
	c.Close()
}

// Park says that nobody waits for the call until Rebind gives it to another request.
func (c *Call) Park() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.parked = true
}

// Rebind gives a running call to another request of its client: the response has that
// request's id and progress its token from now on, and the worker may ask for what it
// declares. A response that came before has the old id, and a call that was begun
// without a token has no progress.
func (c *Call) Rebind(id, token []byte, o Options) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.Options, c.denied, c.parked = o, 0, false
	c.clientID = bytes.Clone(id)
	if c.token != nil {
		c.token = bytes.Clone(token)
	}
}

// Ask does a call of the front end itself and returns the worker's response, which
// has m's id.
//
// Errors: as Begin and Next.
func (b *Bridge) Ask(ctx context.Context, m *jsonrpc.Message) ([]byte, error) {
	var c Call
	if err := b.Begin(ctx, &c, m, Options{Single: true, Aside: true}); err != nil {
		return nil, b.why(err)
	}
	defer c.Close()
	answer, _, err := c.Next(ctx, 0)
	if err != nil {
		if ctx.Err() != nil {
			c.Cancel("timeout")
		}
		return nil, b.why(err)
	}
	return bytes.Clone(answer), nil
}

// SpeaksModern says that the worker is of the modern era: it writes no batches, and
// is asked whether it lives by liveness (see Config.Liveness).
func (b *Bridge) SpeaksModern(liveness string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noBatches = true
	b.cfg.Liveness = liveness
}

// Send writes a notification or a response of the front end itself to the worker.
//
// Errors: ErrGone, ctx.Err().
func (b *Bridge) Send(ctx context.Context, raw []byte) error { return b.forward(ctx, raw) }

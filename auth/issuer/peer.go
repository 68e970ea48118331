package issuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
)

// resendSpacing is how long a receiver's next byte stays unread, so that one that
// asks without end costs no more than that.
const resendSpacing = 100 * time.Millisecond

// errNotAsk ends the connection of a receiver that sends anything but the one
// byte. What it sent is not looked at.
var errNotAsk = errors.New("receiver sent something else than the one byte")

// peer is one receiver. Messages to it are not queued: what is marked is sent in
// its newest form as soon as the receiver reads.
type peer struct {
	wake chan struct{}

	mu    sync.Mutex // guards dirty
	dirty map[identity.Issuer]bool
}

// mark has the last message about an issuer sent.
func (p *peer) mark(iss identity.Issuer) {
	p.mu.Lock()
	p.dirty[iss] = true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take returns whether an issuer is marked, and unmarks it.
func (p *peer) take(iss identity.Issuer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.dirty[iss]
	delete(p.dirty, iss)
	return was
}

// Serve sends all sets, and every newer one, over conn, one message a Write, and
// takes the byte keys.Ask from it. It returns nil when the receiver closed its
// end, ctx's error when that ended, and another error when the receiver broke the
// protocol or the socket failed. It closes conn.
func (e *Engine) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &peer{wake: make(chan struct{}, 1), dirty: make(map[identity.Issuer]bool)}
	e.mu.Lock()
	e.peers[p] = true
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.peers, p)
		e.mu.Unlock()
	}()
	e.markAll(p)

	var wg sync.WaitGroup
	wg.Go(func() { cancel(e.hear(ctx, conn, p)) })
	wg.Go(func() {
		if err := e.send(ctx, conn, p); err != nil {
			cancel(err)
		}
	})
	<-ctx.Done()
	conn.Close()
	wg.Wait()
	err := context.Cause(ctx)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

func (e *Engine) markAll(p *peer) {
	for _, k := range e.keepers {
		p.mark(k.src.Issuer)
	}
}

// send writes what is marked.
func (e *Engine) send(ctx context.Context, conn io.Writer, p *peer) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		}
		for _, k := range e.keepers {
			if !p.take(k.src.Issuer) {
				continue
			}
			if _, err := conn.Write(e.message(k.src.Issuer)); err != nil {
				return fmt.Errorf("send key message: %w", err)
			}
		}
	}
}

// hear takes the receiver's bytes.
func (e *Engine) hear(ctx context.Context, conn io.Reader, p *peer) error {
	var buf [2]byte
	for {
		n, err := conn.Read(buf[:])
		switch {
		case err != nil:
			return err
		case n != 1 || buf[0] != keys.Ask:
			return errNotAsk
		}
		e.markAll(p)
		e.ask()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resendSpacing):
		}
	}
}

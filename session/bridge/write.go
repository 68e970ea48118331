package bridge

import (
	"context"
	"errors"
	"io"
	"syscall"

	"gatehouse/session/jsonrpc"
)

// maxReplies is how many bytes may wait for the worker to read them while nobody
// of ours waits for it: answers to its pings, refusals, cancels.
const maxReplies = 64 << 10

// lockWrites waits for the right to write to the worker. For a call, when not nil,
// it also marks the call as sent; a call that ended meanwhile is its error.
func (b *Bridge) lockWrites(ctx context.Context, c *Call) error {
	select {
	case <-b.writeLock:
	default:
		var ended <-chan struct{}
		if c != nil {
			ended = c.w.signal // nothing else wakes a call that was not sent: see Call.push
		}
		select {
		case <-b.writeLock:
		case <-ended:
			b.mu.Lock()
			defer b.mu.Unlock()
			return c.over
		case <-b.done:
			return ErrGone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.over != nil {
		b.unlockWrites()
		return c.over
	}
	c.sent = true
	return nil
}

func (b *Bridge) unlockWrites() { b.writeLock <- struct{}{} }

// writeLine writes a line, with the right to write held, and gives the right back.
// A write that fails ends the worker: what it read of the line can't be known.
//
// Errors: ErrGone, which is ErrUnsent when nothing was written.
func (b *Bridge) writeLine(line []byte) error {
	n, err := b.in.write(line)
	b.unlockWrites()
	if err == nil {
		return nil
	}
	b.broken(err)
	if n == 0 {
		return ErrUnsent
	}
	return ErrGone
}

// broken ends the worker after a write that failed. A pipe that nobody reads any
// more says that the worker has ended or is about to: what it said last is read
// first, and the reason is that of whoever sees its end.
func (b *Bridge) broken(err error) {
	unread := errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
	if unread && within(2*lastWords, b.done) { // twice, because workerEnded may wait once
		return
	}
	b.end("the worker's stdin: "+err.Error(), false)
}

// forward writes a message to the worker, edited, and waits until it is written.
func (b *Bridge) forward(ctx context.Context, raw []byte, edits ...jsonrpc.Edit) error {
	line := newBuffer(len(raw) + 64)
	defer line.Free()
	line.B = jsonrpc.AppendLine(line.B, raw, edits...)
	if err := b.lockWrites(ctx, nil); err != nil {
		return err
	}
	return b.writeLine(line.B)
}

// reply writes a message to the worker, edited, without waiting for it. A worker
// that causes more of them than it reads is ended.
func (b *Bridge) reply(raw []byte, edits ...jsonrpc.Edit) {
	b.mu.Lock()
	if b.reason != "" {
		b.mu.Unlock()
		return
	}
	b.replies = jsonrpc.AppendLine(b.replies, raw, edits...)
	full := len(b.replies) > maxReplies
	if !b.replying {
		b.replying = true
		b.workers.Add(1)
		go b.writeReplies()
	}
	b.mu.Unlock()
	if full {
		b.end("the worker asks and does not read", false)
	}
}

// writeReplies writes what reply left, until nothing is left.
func (b *Bridge) writeReplies() {
	defer b.workers.Done()
	for b.lockWrites(context.Background(), nil) == nil {
		b.mu.Lock()
		lines := b.replies
		b.replies = nil
		b.replying = len(lines) > 0
		b.mu.Unlock()
		if len(lines) == 0 {
			b.unlockWrites()
			return
		}
		if b.writeLine(lines) != nil {
			return
		}
	}
}

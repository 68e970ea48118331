package bridge

import (
	"fmt"
	"time"
)

// Times of what follows when a call was given up (MCP 2025-11-25,
// basic/utilities/cancellation and ping). Whether the worker obeyed can't be seen,
// so it is asked whether it still listens.
const (
	livenessAfter = 2 * time.Second // from giving up to the question
	livenessLimit = 2 * time.Second // for the answer, before it is interrupted
	interrupted   = 3 * time.Second // from there to its end
)

// doubt is the state of that question.
type doubt struct {
	open  bool   // a question is due or under way
	again bool   // another call was given up meanwhile
	id    uint64 // of the question; 0: not asked yet
	timer *time.Timer
}

// suspect begins the escalation, unless one is under way.
func (b *Bridge) suspect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reason != "":
	case b.doubt.open:
		b.doubt.again = true
	default:
		b.doubt = doubt{open: true, timer: time.AfterFunc(livenessAfter, b.question)}
	}
}

// question asks the worker whether it listens.
func (b *Bridge) question() {
	b.mu.Lock()
	if b.reason != "" {
		b.mu.Unlock()
		return
	}
	b.lastID++
	id := b.lastID
	b.doubt.id, b.doubt.again = id, false
	b.doubt.timer = time.AfterFunc(livenessLimit, b.unanswered)
	liveness := b.cfg.Liveness
	b.mu.Unlock()
	b.reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%s}`, id, liveness))
}

// answered takes the answer to the question, whatever it says, and reports whether
// it is one. b.mu is held.
func (b *Bridge) answered(id uint64) bool {
	if id == 0 || id != b.doubt.id {
		return false
	}
	b.doubt.timer.Stop()
	again := b.doubt.again
	b.doubt = doubt{open: again}
	if again {
		b.doubt.timer = time.AfterFunc(livenessAfter, b.question)
	}
	return true
}

// unanswered interrupts a worker that understands it, and gives it a last while.
func (b *Bridge) unanswered() {
	b.mu.Lock()
	if b.reason != "" || b.doubt.id == 0 {
		b.mu.Unlock()
		return
	}
	b.doubt.timer = time.AfterFunc(interrupted, b.deaf)
	b.mu.Unlock()
	b.log().Warn().Bool("interrupt", b.cfg.Interrupt).Msg("the worker does not answer after a call was given up")
	if b.cfg.Interrupt {
		b.w.Interrupt()
	}
}

// deaf ends a worker that still does not answer.
func (b *Bridge) deaf() {
	b.mu.Lock()
	waiting := b.reason == "" && b.doubt.id != 0
	b.mu.Unlock()
	if waiting {
		b.end("the worker did not answer after a call was given up", false)
	}
}

package bridge

import (
	"errors"
	"os"
	"runtime"
	"time"
)

// One at a time reads the worker's stdout:
//
//   - the reader, a goroutine of the Bridge; or
//   - a call that waits for its first answer, when nobody else reads. It handles all
//     that comes, whoever's it is, until something came for itself or its time is
//     over. Most calls then cost no other goroutine; or
//   - nobody, for at most twice idleTurn after such a call. A worker that says
//     something by itself is heard that much later, while calls come one after another.
//
// The reader leaves when calls come so quickly that the next one is likely to read for
// itself, and comes back when it does not come, when a call goes that did not read all
// (others run, or half a line is there), and for calls that wait for long: those have
// to see their client leave. What is left of an ended worker is the reader's.

// turn says who reads. b.mu guards it.
type turn struct {
	taken   bool      // somebody does
	call    *Call     // this one, if it is a call
	answers uint64    // of the worker, so far
	noted   uint64    // answers, when the reader was last done with all calls
	done    time.Time // when that was
	passed  uint64    // how often nobody was left to read
	seen    uint64    // passed, when look was last called
	timer   *time.Timer
	watched bool // the timer will call look
}

const (
	idleTurn = 20 * time.Millisecond
	maxOwn   = 200 * time.Millisecond // longest wait under which a call reads for itself
)

// longAgo is a deadline that breaks a read off.
var longAgo = time.Unix(1, 0)

// startReader starts the reader, b.mu held.
func (b *Bridge) startReader() {
	b.turn.taken = true
	if f, ok := b.out.(*os.File); ok {
		_ = f.SetReadDeadline(time.Time{}) // a call's
	}
	go b.read()
}

// read is the reader. When the worker broke the protocol or is being stopped the rest
// is thrown away, so that it does not block on its stdout.
func (b *Bridge) read() {
	for !b.gone() {
		if err := b.src.lines(b.onLine); err != nil {
			b.end(endReason(err), false)
		}
		b.backPressure()
		b.pace()
		if b.leave() {
			return
		}
	}
	defer b.workers.Done()
	b.src.close()
	for b.src.fill() == nil {
		b.src.buf.B = b.src.buf.B[:0]
		b.src.drop()
	}
	close(b.eof)
}

// leave says that the reader has to leave, because calls come quickly, or because
// another one has taken its place.
func (b *Bridge) leave() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.turn
	if b.src.raw == nil || t.noted == t.answers || len(b.calls) > 0 || b.src.buf != nil || b.reason != "" {
		return false
	}
	now, last := b.cfg.Now(), t.done
	t.noted, t.done = t.answers, now
	switch {
	case last.IsZero():
		go b.read() // with a small stack: the handshake has made this one grow, and sessions are idle for long
	case now.Sub(last) > idleTurn:
		return false
	default:
		b.pass()
	}
	return true
}

// pass leaves nobody reading, b.mu held: the worker has said all that it was asked for,
// and does not flood, although nobody may have found its pipe empty.
func (b *Bridge) pass() {
	t := &b.turn
	b.src.rest()
	t.taken = false
	t.passed++
	switch {
	case t.watched:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(idleTurn, b.look)
	default:
		t.timer.Reset(idleTurn)
	}
	t.watched = true
}

// look starts the reader when nobody has read since it looked last.
func (b *Bridge) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.turn
	switch {
	case t.taken && t.call == nil:
		t.watched = false
	case t.taken || t.passed != t.seen:
		t.seen = t.passed
		t.timer.Reset(idleTurn)
	default:
		t.watched = false
		b.startReader()
	}
}

// readOwn has c read, for at most wait, until something came for it. It returns false
// when c can't: somebody reads, or too much waits for clients.
func (b *Bridge) readOwn(c *Call, wait time.Duration) bool {
	b.mu.Lock()
	f, ok := b.out.(*os.File)
	if !ok || b.src.raw == nil || b.turn.taken || c.over != nil || b.full() {
		b.mu.Unlock()
		return false
	}
	b.turn.taken, b.turn.call = true, c
	_ = f.SetReadDeadline(time.Now().Add(wait))
	b.mu.Unlock()
	runtime.Gosched() // the worker needs a moment, and others may have calls to write
	more := true
	for more {
		err := b.src.lines(b.onLine)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			b.end(endReason(err), false)
		}
		b.mu.Lock()
		if more = err == nil && c.queue.Len() == 0 && c.over == nil; !more {
			b.handOn()
		}
		b.mu.Unlock()
		if more {
			b.pace()
		}
	}
	return true
}

// handOn ends a call's turn, b.mu held.
func (b *Bridge) handOn() {
	b.turn.call = nil
	if len(b.calls) > 0 || b.src.buf != nil || b.reason != "" {
		b.startReader()
	} else {
		b.pass()
	}
}

// needReader starts the reader if nobody reads.
func (b *Bridge) needReader() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.turn.taken {
		b.startReader()
	}
}

// breakOff ends the turn of a call that is over, b.mu held.
func (b *Bridge) breakOff(c *Call) {
	if c != nil && b.turn.call == c {
		_ = b.out.(*os.File).SetReadDeadline(longAgo)
	}
}

// endTurn has the reader see to the rest of an ended worker, b.mu held.
func (b *Bridge) endTurn() {
	if b.turn.timer != nil {
		b.turn.timer.Stop()
	}
	if !b.turn.taken {
		b.startReader()
	}
	b.breakOff(b.turn.call)
}

// endReason is what a failed read says about the worker.
func endReason(err error) string {
	var broken violation
	switch {
	case errors.As(err, &broken):
		return broken.Error()
	case errors.Is(err, errLine):
		return "the worker wrote a line over the limit"
	}
	return "the worker closed its output"
}

// backPressure waits while clients leave too much unread: then the worker waits
// too.
func (b *Bridge) backPressure() {
	b.mu.Lock()
	for b.full() && b.reason == "" {
		b.room.Wait()
	}
	b.mu.Unlock()
}

// pace has a worker that floods wait.
func (b *Bridge) pace() {
	if b.cfg.Pace != nil && b.src.floods() {
		b.cfg.Pace()
	}
}

// full says that clients leave too much unread, b.mu held.
func (b *Bridge) full() bool { return b.held > 2*b.cfg.MaxMessage }

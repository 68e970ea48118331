package session

import (
	"bytes"
	"context"
	"sync"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// hub hands what one worker says about changes to those who listen (MCP 2026-07-28,
// basic/patterns/subscriptions).
type hub struct {
	mu        sync.Mutex // guards what follows
	listeners map[*listener]bool
	over      error // why nobody listens any more; nil while the worker lives
	graceful  bool
}

// open reports whether anybody listens.
func (h *hub) open() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.listeners) > 0
}

// end lets all listeners go; graceful: with the response that says so.
func (h *hub) end(graceful bool, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil {
		h.over, h.graceful = why, graceful
	}
	for l := range h.listeners {
		l.wake()
	}
}

// let lets those go who listen now, gracefully; others may come.
func (h *hub) let() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.ended = true
		l.wake()
	}
}

// change hands on one notification, with the id of each listener's own stream.
func (h *hub) change(c era.Change, m *jsonrpc.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if !l.agreed.Wants(c) {
			continue
		}
		text := era.Tag(m, l.id)
		// What is still waiting says the same.
		if !contains(l.queue, text) {
			for len(l.queue) > 0 && (len(l.queue) >= maxChanges || l.bytes+len(text) > changesRoom) {
				l.pop()
			}
			l.push(text)
			l.wake()
		}
	}
}

func contains(queue [][]byte, text []byte) bool {
	for _, q := range queue {
		if bytes.Equal(q, text) {
			return true
		}
	}
	return false
}

// listener is one subscriptions/listen request.
type listener struct {
	s      *Session
	id     []byte // as it stands in the client's request
	agreed era.Filter
	signal chan struct{} // one token: look again
	queue  [][]byte      // guarded by s.hub.mu
	bytes  int           // likewise: in queue
	closed bool          // likewise
	ended  bool          // likewise: the worker hands nothing on any more
	done   bool
}

// push and pop are of the queue, s.hub.mu held.
func (l *listener) push(text []byte) {
	l.queue = append(l.queue, text)
	l.bytes += len(text)
}

func (l *listener) pop() []byte {
	text := l.queue[0]
	l.queue[0] = nil // what lies behind the queue's beginning lives as long as it
	l.queue = l.queue[1:]
	l.bytes -= len(text)
	return text
}

func (l *listener) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// What waits for a listener that does not read, in number and in bytes; then the oldest
// make room.
const (
	maxChanges  = 1024
	changesRoom = 1 << 20
)

// maxListeners is how many streams one principal may listen on at one worker.
const maxListeners = 32

// listen begins a subscription. The acknowledgement is its first message.
func (s *Session) listen(ctx context.Context, m *jsonrpc.Message) (*listener, error) {
	want, err := era.ParseFilter(m)
	if err != nil {
		return nil, err
	}
	l := &listener{s: s, id: bytes.Clone(m.IDBytes()), signal: make(chan struct{}, 1)}
	l.agreed = want.Of(s.server)
	uris, told := s.interests.add(ctx, s, l.agreed.URIs)
	l.agreed.URIs = uris
	if s.modern.Load() {
		l.agreed = l.agreed.And(told)
	}
	h := &s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil || len(h.listeners) >= maxListeners {
		go s.interests.drop(s, l.agreed.URIs)
		if h.over != nil {
			return nil, bridge.ErrUnsent
		}
		return nil, &Error{Kind: KindBusy, Reason: "too many subscriptions"}
	}
	if h.listeners == nil {
		h.listeners = map[*listener]bool{}
	}
	h.listeners[l] = true
	l.push(l.agreed.Acknowledge(l.id))
	return l, nil
}

func (l *listener) next(ctx context.Context, wait time.Duration) (Item, error) {
	limit := time.NewTimer(time.Hour)
	defer limit.Stop()
	if wait > 0 {
		limit.Reset(wait)
	}
	for {
		if item, ok, err := l.take(); ok || err != nil {
			return item, err
		}
		var expiry <-chan time.Time
		if at := l.s.expiresAt(); !at.IsZero() {
			t := time.NewTimer(at.Sub(l.s.t.now()))
			defer t.Stop()
			expiry = t.C
		}
		select {
		case <-l.signal:
		case <-expiry:
		case <-limit.C:
			return Item{}, ErrWait
		case <-ctx.Done():
			return Item{}, ctx.Err()
		}
	}
}

func (l *listener) take() (item Item, ok bool, err error) {
	h := &l.s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(l.queue) > 0 {
		return Item{Bytes: l.pop()}, true, nil
	}
	at := l.s.expiresAt()
	expired := !at.IsZero() && !l.s.t.now().Before(at)
	switch {
	case l.done:
		return item, false, ErrGone
	case h.over != nil && !h.graceful:
		return item, false, h.over
	case h.over != nil || l.ended || expired:
		l.done = true
		return Item{Bytes: era.Closed(l.id), Final: true}, true, nil
	}
	return item, false, nil
}

func (l *listener) close() {
	h := &l.s.hub
	h.mu.Lock()
	again := l.closed
	l.closed = true
	delete(h.listeners, l)
	h.mu.Unlock()
	if !again {
		l.s.interests.drop(l.s, l.agreed.URIs)
	}
}

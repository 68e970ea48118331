package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// tuneLimit is how long a worker may take to take a subscription.
const tuneLimit = 5 * time.Second

// retireLimit is how long a subscription that was cancelled may take to be
// answered. No answer is due, but what comes shows that the worker forgot it.
const retireLimit = 200 * time.Millisecond

// interests are the resources that anybody behind a worker wants to hear of. A
// legacy worker is told of each; at a modern one the front end has one subscription
// of its own for everything, because some workers keep a single one.
type interests struct {
	mu   sync.Mutex // one change at a time; guards what follows
	uris map[string]int
	call *bridge.Call // our subscription at a modern worker
	lost int          // how many have ended, or were not taken
	// silent is when the worker had last let the whole time of a change go by without a
	// word. Changes that waited for that one do not wait again, each for as long.
	silent time.Time
	heard  bool // it has said something in the change that is made now
}

// begin locks n.mu for a change. It returns whether to ask the worker at all: it was not
// silent while the change waited for its turn.
func (n *interests) begin(s *Session) (hears bool) {
	came := s.t.now()
	n.mu.Lock()
	n.heard = false
	return !n.silent.After(came)
}

// ask asks a legacy worker for something about a resource, n.mu held, and reports
// whether it agreed.
func (n *interests) ask(ctx context.Context, s *Session, method, uri string) bool {
	answer, err := s.b.Ask(ctx, subscription(method, uri))
	if err == nil {
		n.heard = true
	} else if ctx.Err() != nil && !n.heard {
		n.silent = s.t.now()
	}
	return ok(answer, err)
}

// add notes interest in resources and returns those that the worker agrees to, and
// what a modern worker has agreed to tell in all; nil: nothing.
func (n *interests) add(ctx context.Context, s *Session, uris []string) (agreed []string, told *era.Filter) {
	hears := n.begin(s)
	defer n.mu.Unlock()
	if n.uris == nil {
		n.uris = map[string]int{}
	}
	// Whoever listens already must not lose it with the client of this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tuneLimit)
	defer cancel()
	var fresh []string
	for _, uri := range uris {
		if n.uris[uri] == 0 {
			if !s.modern.Load() && !(hears && n.ask(ctx, s, "resources/subscribe", uri)) {
				continue
			}
			fresh = append(fresh, uri)
		}
		n.uris[uri]++
		agreed = append(agreed, uri)
	}
	if !s.modern.Load() || len(agreed) == 0 && n.call != nil {
		return agreed, s.acked.Load()
	}
	if hears && (len(fresh) > 0 || n.call == nil) {
		n.tune(ctx, s)
	}
	told = s.acked.Load()
	agreed = slices.DeleteFunc(agreed, func(uri string) bool {
		if told != nil && slices.Contains(told.URIs, uri) {
			return false
		}
		if n.uris[uri]--; n.uris[uri] == 0 {
			delete(n.uris, uri)
		}
		return true
	})
	return agreed, told
}

// drop takes interest back.
func (n *interests) drop(s *Session, uris []string) {
	hears := n.begin(s)
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.t.ctx, tuneLimit)
	defer cancel()
	for _, uri := range uris {
		if n.uris[uri]--; n.uris[uri] > 0 {
			continue
		}
		delete(n.uris, uri)
		if hears && !s.modern.Load() && s.b.Reason() == "" {
			n.ask(ctx, s, "resources/unsubscribe", uri) // what still comes goes nowhere
		}
	}
	// At a modern worker the subscription stays wider than it must be until another
	// resource is added: nobody is told what nobody wants.
}

// start opens the subscription at a modern worker for what its lists change.
func (n *interests) start(ctx context.Context, s *Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tuneLimit)
	defer cancel()
	n.tune(ctx, s)
}

// tune makes the subscription at a modern worker what it has to be, n.mu held. The
// old one ends first, because a worker may keep one alone.
func (n *interests) tune(ctx context.Context, s *Session) {
	if n.call != nil {
		n.call.Retire(ctx, retireLimit, "to subscribe to more")
		n.call = nil
	}
	uris := make([]string, 0, len(n.uris))
	for uri := range n.uris {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	f := era.All(s.server, uris)
	if f.Empty() {
		return
	}
	c, ended := new(bridge.Call), make(chan struct{})
	s.acked.Store(nil)
	over := func() {
		close(ended)
		n.over(s, c)
	}
	if s.b.Begin(ctx, c, mustParse(f.Listen()), bridge.Options{Single: true, Aside: true, Over: over}) != nil {
		n.lapse(s)
		return
	}
	n.call = c
	for s.acked.Load() == nil && ctx.Err() == nil && s.b.Reason() == "" {
		select {
		case <-s.ackSignal:
		case <-ended:
			return
		case <-ctx.Done():
			n.silent = s.t.now()
		case <-s.b.Done():
		}
	}
}

// over takes note that the worker has ended our subscription.
func (n *interests) over(s *Session, c *bridge.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.call != c {
		return // it was ended by us, or never began
	}
	c.Close()
	n.call = nil
	n.lapse(s)
}

// lapse does what is left to do when there is no subscription at a modern worker any
// more, n.mu held. Its clients hear of it when they have subscriptions themselves, and
// come back; for a legacy client, which has none, it is opened again, later each time.
func (n *interests) lapse(s *Session) {
	n.lost++
	s.acked.Store(nil)
	if s.shared() {
		s.hub.let()
		return
	}
	time.AfterFunc(min(time.Second<<min(n.lost-1, 10), longestPause), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.t.ctx, tuneLimit)
		defer cancel()
		if n.call == nil && s.b.Reason() == "" {
			n.tune(ctx, s)
		}
	})
}

// longestPause is how long a legacy client may be without a subscription that its
// worker ends again and again.
const longestPause = 10 * time.Minute

func subscription(method, uri string) *jsonrpc.Message {
	return mustParse(append(append([]byte(`{"jsonrpc":"2.0","id":"s","method":"`+method+`","params":{"uri":`), jsonrpc.Quote(uri)...), "}}"...))
}

// mustParse parses a message of our own making.
func mustParse(raw []byte) *jsonrpc.Message {
	m, err := jsonrpc.ParseWorker(raw)
	if err != nil {
		panic("session: a message of ours: " + err.Error())
	}
	return &m
}

// ok reports whether a call brought a result.
func ok(answer []byte, err error) bool {
	if err != nil {
		return false
	}
	m, err := jsonrpc.ParseWorker(answer)
	return err == nil && m.Result.Present()
}

// heard takes a notification that belongs to no call, of a worker whose clients
// listen or whose era is not the client's.
func (s *Session) heard(b *bridge.Buffer) {
	defer b.Free()
	m, err := jsonrpc.ParseWorker(b.B)
	if err != nil {
		return
	}
	c := era.Changed(&m)
	switch c.Kind {
	case era.NoChange:
		return
	case era.Acknowledged:
		f, _ := era.ParseFilter(&m) // what can't be read is nothing
		s.acked.Store(&f)
		select {
		case s.ackSignal <- struct{}{}:
		default:
		}
		return
	case era.ToolsChanged:
		s.tools.changed()
		s.t.answers.forget(s.key)
	}
	if s.shared() {
		s.hub.change(c, &m)
		return
	}
	if c.Kind == era.ResourceUpdated && !s.subscribed(c.URI) {
		return
	}
	text := era.Untag(&m)
	out := bridge.NewBuffer(len(text))
	out.B = append(out.B, text...)
	s.outbox.notification(false, out)
}

// subscribed reports whether a legacy client at a modern worker wants to hear of a
// resource.
func (s *Session) subscribed(uri string) bool {
	s.backLock.Lock()
	defer s.backLock.Unlock()
	return era.Filter{URIs: s.legacy.subs}.Wants(era.Change{Kind: era.ResourceUpdated, URI: uri})
}

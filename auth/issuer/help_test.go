package issuer

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/logtest"
)

var quiet = log.New(io.Discard, "", 0)

func tlsAtMost11() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
}

const testIssuer identity.Issuer = "https://id.example/realms/r"

// script is an issuer without a network: it answers as it is told and notes when
// it was asked.
type script struct {
	mu     sync.Mutex
	answer func(context.Context) (Result, error)
	calls  []time.Time
	now    int // fetches that run
	most   int // fetches that ever ran at once
}

func (s *script) Fetch(ctx context.Context) (Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, time.Now())
	s.now++
	s.most = max(s.most, s.now)
	answer := s.answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	return answer(ctx)
}

func (s *script) set(answer func(context.Context) (Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// since returns the times of the fetches after t.
func (s *script) since(t time.Time) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(c time.Time) bool { return !c.After(t) })
}

// serving answers with these keys.
func serving(ks ...*authtest.Key) func(context.Context) (Result, error) {
	var r Result
	for _, k := range ks {
		r.Keys = append(r.Keys, k.Public())
	}
	return func(context.Context) (Result, error) { return r, nil }
}

func failing(h keys.Health) func(context.Context) (Result, error) {
	return func(context.Context) (Result, error) {
		return Result{}, &Error{Doing: doingSet, Health: h}
	}
}

// hanging takes as long as a real fetch that gets no answer.
func hanging(ctx context.Context) (Result, error) {
	select {
	case <-ctx.Done():
	case <-time.After(requestTimeout):
	}
	return Result{}, &Error{Doing: doingSet, Health: keys.HealthTimeout}
}

// world is an engine with one receiver.
type world struct {
	engine *Engine
	store  *keys.Store
	log    *logtest.Log

	mu      sync.Mutex
	removed []keys.Removed
	stop    func()
}

// start runs an engine over a script, in the caller's bubble.
func start(t *testing.T, c Config, fetchers ...fetcher) *world {
	t.Helper()
	w := &world{log: new(logtest.Log)}
	if c.Sources == nil {
		c.Sources = []Source{{Issuer: testIssuer}}
	}
	if c.MaxStale == 0 {
		c.MaxStale = 12 * time.Hour
	}
	c.Log = zerolog.New(w.log).Level(zerolog.InfoLevel)
	e, err := newEngine(c, fetchers)
	if err != nil {
		t.Fatal(err)
	}
	w.engine = e
	w.run(t, c)
	return w
}

// run starts the engine and connects a store to it.
func (w *world) run(t *testing.T, c Config) {
	ctx, cancel := context.WithCancel(t.Context())
	var issuers []identity.Issuer
	for _, s := range c.Sources {
		issuers = append(issuers, s.Issuer)
	}
	w.store = keys.NewStore(issuers, c.MaxStale, time.Now, func(r []keys.Removed) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.removed = append(w.removed, r...)
	})
	near, far := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { w.engine.Run(ctx) })
	wg.Go(func() { w.engine.Serve(ctx, far) })
	wg.Go(func() { w.store.Serve(ctx, near) })
	w.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(w.stop)
}

func (w *world) has(kid string) bool {
	set, _ := w.store.Current()
	return set.HasKeyID(kid)
}

func (w *world) usable(iss identity.Issuer) bool {
	return slices.ContainsFunc(w.store.Status(), func(st keys.Status) bool { return st.Issuer == iss && st.Usable })
}

func (w *world) health() keys.Health { return w.store.Status()[0].Health }

func newKeys(n int) []*authtest.Key {
	ks := make([]*authtest.Key, n)
	for i := range ks {
		ks[i] = authtest.NewKey("EdDSA")
	}
	return ks
}

func update(at time.Time, ks ...*authtest.Key) keys.Update {
	u := keys.Update{Issuer: testIssuer, FetchedAt: at, AttemptedAt: at, Health: keys.HealthOK}
	for _, k := range ks {
		u.Keys = append(u.Keys, k.Public())
	}
	return u
}

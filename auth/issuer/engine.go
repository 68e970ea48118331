package issuer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
)

// askInterval is the shortest time between two rounds of fetching that receivers
// asked for, all receivers, issuers and key ids together.
const askInterval = 10 * time.Second

// Config is what an Engine is made of.
type Config struct {
	Sources []Source // at least one, no issuer twice
	// StateDir is where last good sets are saved; made with mode 0700 when it
	// does not exist. Empty: nothing is saved.
	StateDir string
	MaxStale time.Duration // how long a set is good for; 12 h is usual
	Log      zerolog.Logger
	// Random returns a number in [0, 1) for jitter; nil means math/rand.
	Random func() float64
}

// Engine keeps the key sets of all configured issuers and hands them to the
// receivers that it serves.
type Engine struct {
	keepers []*keeper
	log     zerolog.Logger
	asks    chan struct{} // a receiver's byte came; one pending is enough

	mu      sync.Mutex                 // guards what follows
	sets    map[identity.Issuer][]byte // the last message about each issuer, encoded
	peers   map[*peer]bool
	askedAt time.Time // of the last byte
}

// fetcher is what a keeper gets its keys from: *Fetcher, or a script in tests.
type fetcher interface {
	Fetch(ctx context.Context) (Result, error)
}

// New returns an engine; Run starts it. It fails on a source that is not valid,
// and opens nothing.
func New(c Config) (*Engine, error) {
	fetchers := make([]fetcher, len(c.Sources))
	for i, s := range c.Sources {
		f, err := NewFetcher(s)
		if err != nil {
			return nil, fmt.Errorf("key source %d: %w", i+1, err)
		}
		fetchers[i] = f
	}
	return newEngine(c, fetchers)
}

func newEngine(c Config, fetchers []fetcher) (*Engine, error) {
	if len(c.Sources) == 0 {
		return nil, errors.New("key sources: none is configured")
	}
	if c.MaxStale <= 0 {
		return nil, errors.New("max stale: must be above zero")
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	e := &Engine{
		log:   c.Log,
		asks:  make(chan struct{}, 1),
		sets:  make(map[identity.Issuer][]byte),
		peers: make(map[*peer]bool),
	}
	for i, s := range c.Sources {
		if e.sets[s.Issuer] != nil {
			return nil, errors.New("key sources: an issuer is configured twice")
		}
		k := &keeper{
			engine:   e,
			src:      s,
			fetch:    fetchers[i],
			store:    newStateFile(c.StateDir, s),
			maxStale: c.MaxStale,
			random:   c.Random,
			kick:     make(chan struct{}, 1),
			log:      c.Log.With().Str("issuer", string(s.Issuer)).Logger(),
			now:      keys.Update{Issuer: s.Issuer, Health: keys.HealthStarting},
		}
		if err := e.publish(k.now); err != nil {
			return nil, err
		}
		e.keepers = append(e.keepers, k)
	}
	return e, nil
}

// Run restores saved sets, fetches at once and then by the policy, until ctx
// ends. It returns when nothing of it runs any more.
func (e *Engine) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, k := range e.keepers {
		k.restore()
	}
	for _, k := range e.keepers {
		wg.Go(func() { k.run(ctx) })
	}
	wg.Go(func() { e.runAsks(ctx) })
	wg.Wait()
}

// publish makes u the message about its issuer and sends it to every receiver.
func (e *Engine) publish(u keys.Update) error {
	b, err := u.Encode()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sets[u.Issuer] = b
	for p := range e.peers {
		p.mark(u.Issuer)
	}
	return nil
}

// message is the last message about an issuer.
func (e *Engine) message(iss identity.Issuer) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sets[iss]
}

// ask notes that a receiver wants keys that it does not have.
func (e *Engine) ask() {
	e.mu.Lock()
	e.askedAt = time.Now()
	e.mu.Unlock()
	select {
	case e.asks <- struct{}{}:
	default:
	}
}

// unanswered reports whether a receiver asked after t.
func (e *Engine) unanswered(t time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.askedAt.IsZero() && !t.After(e.askedAt)
}

// runAsks turns what receivers ask for into rounds of fetching: the first at
// once, then at most one in askInterval. What is asked for in between is not
// forgotten but done together when the interval is over, so that a genuine new
// key is found within it however many invented ones are asked for.
func (e *Engine) runAsks(ctx context.Context) {
	free := time.NewTimer(0) // when the next round may begin
	defer free.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-free.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-e.asks:
		}
		for _, k := range e.keepers {
			k.refresh()
		}
		free.Reset(askInterval)
	}
}

package issuer_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/authtest"
	"gatehouse/auth/identity"
	"gatehouse/auth/issuer"
	"gatehouse/auth/issuertest"
	"gatehouse/auth/keys"
	"gatehouse/auth/logtest"
	"gatehouse/auth/token"
)

// service is a keykeeper's engine and the front end's store, with a real issuer
// and a real socket between them.
type service struct {
	t        *testing.T
	store    *keys.Store
	verifier *token.Verifier
	log      *logtest.Log
	stop     func()
}

func serve(t *testing.T, i *issuertest.Issuer, dir string) *service {
	t.Helper()
	s := &service{t: t, log: new(logtest.Log)}
	engine, err := issuer.New(issuer.Config{
		Sources:  []issuer.Source{{Issuer: i.ID(), CAPEM: i.CAPEM()}},
		StateDir: dir,
		MaxStale: 12 * time.Hour,
		Log:      zerolog.New(s.log),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.verifier, err = token.New(i.Policy()); err != nil {
		t.Fatal(err)
	}
	s.store = keys.NewStore([]identity.Issuer{i.ID()}, 12*time.Hour, time.Now, nil)
	ctx, cancel := context.WithCancel(context.Background())
	near, far := issuer.Seqpacket(t)
	var wg sync.WaitGroup
	wg.Go(func() { engine.Run(ctx) })
	wg.Go(func() { engine.Serve(ctx, far) })
	wg.Go(func() { s.store.Serve(ctx, near) })
	s.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(s.stop)
	return s
}

// present does what the front end does with a token, and returns its status.
func (s *service) present(raw string) int {
	_, _, refused := keys.Judge(s.t.Context(), s.verifier, s.store, raw, []string{authtest.Audience}, time.Now)
	switch {
	case refused == nil:
		return http.StatusOK
	case refused.Undecided:
		return http.StatusServiceUnavailable
	}
	return http.StatusUnauthorized
}

func (s *service) until(what string, limit time.Duration, ok func() bool) {
	s.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	s := serve(t, i, "")
	s.until("keys arrive", 5*time.Second, s.store.Ready)
	old := i.Key()
	oldToken := i.Mint()
	if got := s.present(oldToken); got != 200 {
		t.Fatalf("the first token: %d", got)
	}
	i.Rotate()
	i.Withdraw(old)
	before := i.Fetches()
	if got := s.present(i.Mint()); got != 200 {
		t.Errorf("a token of the new key: %d", got)
	}
	if n := i.Fetches() - before; n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
	if set, _ := s.store.Current(); set.HasKeyID(old.ID) {
		t.Error("the withdrawn key outlived the fetch that brought the new one")
	}
	if got := s.present(oldToken); got == 200 {
		t.Error("a token of the withdrawn key is accepted")
	}
}

// TestBadSignaturesFetchNothing is the row "known kid, garbage signature".
func TestBadSignaturesFetchNothing(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	s := serve(t, i, "")
	s.until("keys arrive", 5*time.Second, s.store.Ready)
	before := i.Fetches()
	forger := authtest.NewKey("ES256")
	for range 2000 {
		if got := s.present(i.Mint(authtest.SignedAs(forger))); got != 401 {
			t.Fatalf("status %d", got)
		}
	}
	if n := i.Fetches() - before; n != 0 {
		t.Errorf("%d fetches", n)
	}
}

// TestInventedKeyIDsOverTheNetwork are the first two rows, with a real issuer.
func TestInventedKeyIDsOverTheNetwork(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	s := serve(t, i, "")
	s.until("keys arrive", 5*time.Second, s.store.Ready)
	good := i.Mint()
	before, begun := i.Fetches(), time.Now()
	if got := s.present(i.Mint(authtest.Header("kid", "first"))); got != 401 {
		t.Errorf("the first invented key id: %d, want 401 because the issuer was asked", got)
	}
	var wg sync.WaitGroup
	var decided atomic.Int64
	for n := range 2000 {
		wg.Go(func() {
			if s.present(i.Mint(authtest.Header("kid", fmt.Sprintf("x%d", n)))) != 503 {
				decided.Add(1)
			}
		})
	}
	for range 50 {
		if got := s.present(good); got != 200 {
			t.Errorf("good traffic: %d", got)
		}
	}
	wg.Wait()
	if took := time.Since(begun); took > 9*time.Second {
		t.Skipf("the machine took %v", took)
	}
	if n := decided.Load(); n != 0 {
		t.Errorf("%d invented key ids were decided, want 503 for all", n)
	}
	if n := i.Fetches() - before; n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

// TestOutage is field case B51, and the restart of security case 14.
func TestOutage(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	i.Down()
	dir := t.TempDir()
	s := serve(t, i, dir)
	time.Sleep(200 * time.Millisecond)
	if s.store.Ready() {
		t.Fatal("ready without keys")
	}
	raw := i.Mint()
	if got := s.present(raw); got != 503 {
		t.Errorf("a good token while nothing can be decided: %d, want 503", got)
	}
	i.Up()
	s.until("keys arrive when the issuer comes up", 5*time.Second, s.store.Ready)
	if got := s.present(raw); got != 200 {
		t.Errorf("afterwards: %d", got)
	}
	s.stop()
	i.Down()
	s = serve(t, i, dir)
	s.until("saved keys arrive", 5*time.Second, s.store.Ready)
	if got := s.present(raw); got != 200 {
		t.Errorf("after a restart with the issuer down: %d", got)
	}
}

func TestNothingThatTheIssuerSaysIsLogged(t *testing.T) {
	t.Parallel()
	i := issuertest.New(t)
	i.AnswerKeys(issuertest.Status(503))
	s := serve(t, i, "")
	logged := func(health keys.Health) func() bool {
		return func() bool { return strings.Contains(s.log.String(), string(health)) }
	}
	s.until("503 is logged", 10*time.Second, logged("status 503"))
	i.AnswerKeys(issuertest.Body("text/html", "<html>"+issuertest.Canary))
	s.until("HTML is logged", 10*time.Second, logged(keys.HealthMalformed))
	i.AnswerDiscovery(issuertest.Status(500))
	s.until("discovery is logged", 10*time.Second, logged("status 500"))
	i.AnswerDiscovery(nil)
	i.Document("issuer", "https://third.example")
	s.until("the other issuer is logged", 10*time.Second, logged("https://third.example"))
	if strings.Contains(s.log.String(), issuertest.Canary) {
		t.Errorf("the log repeats the issuer: %s", s.log)
	}
}

// TestNothingIsLeftRunning: after the stop of an engine whose issuer hangs, with
// receivers connected and callers waiting.
func TestNothingIsLeftRunning(t *testing.T) {
	i := issuertest.New(t)
	i.AnswerKeys(i.Stall())
	s := serve(t, i, t.TempDir())
	var wg sync.WaitGroup
	for n := range 1000 {
		wg.Go(func() { s.store.Lookup(t.Context(), fmt.Sprintf("x%d", n)) })
	}
	wg.Wait()
	s.stop()
	s.until("no goroutine of ours and no connection is left", 10*time.Second, func() bool {
		buf := make([]byte, 8<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		for _, ours := range []string{"auth/issuer.(", "auth/keys.(", "net/http.(*persistConn)", "net/http.(*Transport)"} {
			if strings.Contains(stacks, ours) {
				return false
			}
		}
		return true
	})
}

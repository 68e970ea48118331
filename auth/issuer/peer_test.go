package issuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

// Seqpacket returns the two ends of a socketpair as the processes get them.
func Seqpacket(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

func newTestEngine(t *testing.T, fetchers ...*script) *Engine {
	t.Helper()
	c := Config{MaxStale: 12 * time.Hour}
	var all []fetcher
	for i, f := range fetchers {
		iss := testIssuer
		if i > 0 {
			iss = identity.Issuer(fmt.Sprintf("%s/%d", testIssuer, i))
		}
		c.Sources = append(c.Sources, Source{Issuer: iss})
		all = append(all, f)
	}
	e, err := newEngine(c, all)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func receive(t *testing.T, conn net.Conn) keys.Update {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, keys.MaxMessage+1)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	u, err := keys.Parse(buf[:n])
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestReceiversOverSockets(t *testing.T) {
	ks := newKeys(1)
	s := &script{answer: failing(keys.HealthUnreachable)}
	e := newTestEngine(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	monitor, monitorFar := Seqpacket(t)
	front, frontFar := Seqpacket(t)
	done := make(chan error, 2)
	go func() { done <- e.Serve(ctx, monitorFar) }()
	go func() { done <- e.Serve(ctx, frontFar) }()
	for _, c := range []net.Conn{monitor, front} {
		if u := receive(t, c); u.Health != keys.HealthStarting || u.Issuer != testIssuer {
			t.Errorf("first message: %+v", u)
		}
	}
	s.set(serving(ks...))
	go e.Run(ctx)
	for _, c := range []net.Conn{monitor, front} {
		if u := receive(t, c); u.Health != keys.HealthOK || len(u.Keys) != 1 {
			t.Errorf("second message: %+v", u)
		}
	}
	front.Write([]byte{keys.Ask}) // sent again, and fetched, for it alone
	if u := receive(t, front); u.Health != keys.HealthOK {
		t.Errorf("after the question: %+v", u)
	}
	front.Close()
	if err := <-done; err != nil {
		t.Errorf("a receiver that went away: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	if _, err := monitor.Read(make([]byte, keys.MaxMessage+1)); err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("the monitor's end: %v", err)
	}
}

// TestLargestMessageFitsTheSocket: one write, one read, with the system's default
// buffer.
func TestLargestMessageFitsTheSocket(t *testing.T) {
	a, b := Seqpacket(t)
	msg := make([]byte, keys.MaxMessage)
	go a.Write(msg)
	b.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := b.Read(make([]byte, keys.MaxMessage+1)); n != len(msg) || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestReceiverThatSendsAnythingElseIsCutOff(t *testing.T) {
	for name, b := range map[string]string{
		"another byte": "r",
		"two bytes":    "RR",
		"a message":    `{"v":1}`,
		"a zero byte":  "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{answer: serving(newKeys(1)...)}
			e := newTestEngine(t, s)
			near, far := Seqpacket(t)
			done := make(chan error, 1)
			go func() { done <- e.Serve(t.Context(), far) }()
			near.Write([]byte(b))
			if err := <-done; !errors.Is(err, errNotAsk) {
				t.Errorf("Serve: %v", err)
			}
			if len(e.asks) != 0 || len(e.peers) != 0 {
				t.Error("it was taken for a question, or is still served")
			}
		})
	}
}

// TestReceiverThatDoesNotReadHoldsNobodyUp: it gets the newest set when it reads
// again, and the others get every one meanwhile.
func TestReceiverThatDoesNotReadHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ks := newKeys(1)
		s := &script{answer: serving(ks...)}
		w := start(t, Config{Random: random(0)}, s)
		idle, far := net.Pipe()
		defer idle.Close()
		go w.engine.Serve(t.Context(), far)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if age := time.Since(w.store.Status()[0].FetchedAt); age > 10*time.Minute {
			t.Errorf("the other receiver's set is %v old", age)
		}
		buf := make([]byte, keys.MaxMessage+1)
		var last keys.Update
		for range 2 { // the one that was being written, and the newest
			n, err := idle.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			if last, err = keys.Parse(buf[:n]); err != nil {
				t.Fatal(err)
			}
		}
		if age := time.Since(last.FetchedAt); age > 10*time.Minute {
			t.Errorf("the set that came in the end is %v old", age)
		}
	})
}

// TestReceiverThatAsksWithoutEndCostsLittle: ten messages a second to itself, and
// one fetch in 10 s.
func TestReceiverThatAsksWithoutEndCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: serving(newKeys(1)...)}
		w := start(t, Config{}, s)
		time.Sleep(time.Minute)
		begun := time.Now()
		bad, far := net.Pipe()
		go w.engine.Serve(t.Context(), far)
		var messages int
		go func() {
			buf := make([]byte, keys.MaxMessage+1)
			for {
				if _, err := bad.Read(buf); err != nil {
					return
				}
				messages++
			}
		}()
		go func() {
			for {
				if _, err := bad.Write([]byte{keys.Ask}); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		bad.Close()
		synctest.Wait()
		if n := len(s.since(begun.Add(-1))); n > 7 {
			t.Errorf("%d fetches in a minute", n)
		}
		if messages > 620 {
			t.Errorf("%d messages in a minute", messages)
		}
	})
}

func TestAllIssuersAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*script
		for range 3 {
			all = append(all, &script{answer: serving(newKeys(1)...)})
		}
		e := newTestEngine(t, all...)
		near, far := net.Pipe()
		go e.Serve(t.Context(), far)
		seen := map[identity.Issuer][]token.Key{}
		buf := make([]byte, keys.MaxMessage+1)
		for range 3 {
			n, err := near.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			u, err := keys.Parse(buf[:n])
			if err != nil {
				t.Fatal(err)
			}
			seen[u.Issuer] = u.Keys
		}
		if len(seen) != 3 {
			t.Errorf("messages about %v", seen)
		}
		near.Close()
	})
}

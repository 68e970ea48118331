package router

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// ends are the two ends of a connection through Limit.
func ends(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := Limit(inner, 1)
	defer ln.Close()
	if theirs, err = net.Dial("tcp", inner.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if ours, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	if ours.(*conn).raw == nil {
		t.Fatal("the connection is not read as a descriptor")
	}
	return ours, theirs
}

// TestConnIsAConnection: ours does all that the net package's do, deadlines included.
func TestConnIsAConnection(t *testing.T) {
	for name, swap := range map[string]bool{"as the first": false, "as the second": true} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				c1, c2 = ends(t)
				if swap {
					c1, c2 = c2, c1
				}
				return c1, c2, func() { c1.Close(); c2.Close() }, nil
			})
		})
	}
}

// TestReplacedDeadlines: the last deadline counts, whatever the poller was told before.
func TestReplacedDeadlines(t *testing.T) {
	const soon, later = 50 * time.Millisecond, time.Hour
	now := time.Now
	for _, c := range []struct {
		name string
		do   func(c net.Conn, wait func()) // wait: reads until a byte comes, which is after soon
		late bool                          // whether a read at the end is too late
	}{
		{"over", func(c net.Conn, _ func()) { c.SetReadDeadline(now().Add(-1)) }, true},
		{"over and lifted", func(c net.Conn, _ func()) { c.SetReadDeadline(now().Add(-1)); c.SetReadDeadline(time.Time{}) }, false},
		{"over and moved", func(c net.Conn, _ func()) { c.SetReadDeadline(now().Add(-1)); c.SetReadDeadline(now().Add(later)) }, false},
		{"soon and lifted", func(c net.Conn, _ func()) { c.SetReadDeadline(now().Add(soon)); c.SetReadDeadline(time.Time{}) }, false},
		{"waited under a late one, then soon", func(c net.Conn, wait func()) {
			c.SetReadDeadline(now().Add(later))
			wait()
			c.SetReadDeadline(now().Add(soon))
		}, true},
		{"waited under none, then over", func(c net.Conn, wait func()) { wait(); c.SetReadDeadline(time.Unix(1, 0)) }, true},
		{"waited, failed, lifted", func(c net.Conn, _ func()) {
			c.SetReadDeadline(now().Add(soon))
			c.Read(make([]byte, 1))
			c.SetReadDeadline(time.Time{})
		}, false},
		{"broken off while it waits", func(c net.Conn, _ func()) {
			time.AfterFunc(soon, func() { c.SetReadDeadline(time.Unix(1, 0)) })
		}, true},
		{"moved while it waits", func(c net.Conn, _ func()) {
			c.SetReadDeadline(now().Add(2 * soon))
			time.AfterFunc(soon, func() { c.SetReadDeadline(now().Add(later)) })
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := ends(t)
			b := make([]byte, 1)
			c.do(ours, func() {
				time.AfterFunc(soon, func() { theirs.Write([]byte{1}) })
				if _, err := ours.Read(b); err != nil {
					t.Fatal(err)
				}
			})
			time.AfterFunc(5*soon, func() { theirs.Write([]byte{1}) })
			_, err := ours.Read(b)
			if late := errors.Is(err, os.ErrDeadlineExceeded); late != c.late || !late && err != nil {
				t.Errorf("%v, want too late: %v", err, c.late)
			}
			var ne *net.OpError
			if err != nil && (!errors.As(err, &ne) || ne.Op != "read" || !ne.Timeout()) {
				t.Errorf("net/http does not know %#v", err)
			}
		})
	}
}

// TestConnErrors: net/http knows the ends of a connection by their errors.
func TestConnErrors(t *testing.T) {
	ours, theirs := ends(t)
	theirs.Close()
	if n, err := ours.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the client's end: %d, %v", n, err)
	}
	ours, theirs = ends(t)
	theirs.(*net.TCPConn).SetLinger(0)
	theirs.Close() // a reset
	_, err := ours.Read(make([]byte, 1))
	var ne *net.OpError
	if !errors.As(err, &ne) || ne.Op != "read" || ne.Source == nil {
		t.Errorf("after a reset: %#v", err)
	}
	ours.Close()
	if _, err := ours.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after our end: %v", err)
	}
}

// TestConnIsClosedByHalves: net/http ends an answer so and goes on reading for a while.
func TestConnIsClosedByHalves(t *testing.T) {
	ours, theirs := ends(t)
	half, ok := ours.(interface{ CloseWrite() error }) // what net/http asks for
	if !ok {
		t.Fatal("net/http can't end what it sends alone")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if n, err := theirs.Read(b); n != 0 || err != io.EOF {
		t.Errorf("the client reads %d, %v; want the end", n, err)
	}
	if _, err := theirs.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := ours.Read(b); n != 1 || err != nil {
		t.Errorf("after that we read %d, %v", n, err)
	}
	if _, err := ours.Write(b); err == nil {
		t.Error("after that we can still write")
	}
}

// TestConnAllocates: a read, a write and their deadlines make no garbage.
func TestConnAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ours, theirs := ends(t)
	b := make([]byte, 8)
	n := testing.AllocsPerRun(100, func() {
		ours.SetDeadline(time.Now().Add(time.Minute))
		ours.Write(b)
		theirs.Read(b)
		theirs.Write(b)
		ours.Read(b)
		ours.SetDeadline(time.Time{})
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkConn(b *testing.B) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer inner.Close()
	theirs, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer theirs.Close()
	below, err := inner.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer below.Close()
	p := make([]byte, 100)
	for name, c := range map[string]net.Conn{"net": below, "ours": newConn(below, nil)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.SetReadDeadline(time.Now().Add(time.Minute))
				c.SetReadDeadline(time.Time{})
				c.SetWriteDeadline(time.Now().Add(time.Minute))
				c.Write(p)
				c.SetWriteDeadline(time.Time{})
				theirs.Read(p)
			}
		})
	}
}

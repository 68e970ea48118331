package router

import (
	"errors"
	"io"
	"net"
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

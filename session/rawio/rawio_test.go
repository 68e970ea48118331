package rawio

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func raw(t *testing.T, f *os.File) syscall.RawConn {
	t.Helper()
	c, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestReadAndWrite: all sizes arrive as they were sent, by raw calls and ordinary ones.
func TestReadAndWrite(t *testing.T) {
	r, w := pipe(t)
	in, out := raw(t, r), raw(t, w)
	got := make([]byte, 2*much)
	for i := range 2 * often {
		sent := bytes.Repeat([]byte{byte(i)}, 1+i*31)
		var n int
		var err error
		out.Control(func(fd uintptr) { n, err = Write(fd, sent) })
		if err != nil || n != len(sent) {
			t.Fatalf("wrote %d of %d: %v", n, len(sent), err)
		}
		in.Control(func(fd uintptr) { n, err = Read(fd, got) })
		if err != nil || !bytes.Equal(got[:n], sent) {
			t.Fatalf("read %d of %d: %v", n, len(sent), err)
		}
	}
}

// TestErrors: what an ordinary call says, in each way of making it.
func TestErrors(t *testing.T) {
	r, w := pipe(t)
	in := raw(t, r)
	b := make([]byte, 10)
	for range 2 * often {
		in.Control(func(fd uintptr) {
			if n, err := Read(fd, b); n != 0 || err != syscall.EAGAIN {
				t.Fatalf("an empty pipe: %d, %v", n, err)
			}
		})
	}
	w.Close()
	for range 2 * often {
		in.Control(func(fd uintptr) {
			if n, err := Read(fd, b); n != 0 || err != nil {
				t.Fatalf("the end: %d, %v", n, err)
			}
		})
	}
	r, w = pipe(t)
	out := raw(t, w)
	r.Close()
	out.Control(func(fd uintptr) {
		if n, err := Write(fd, b); n != 0 || err != syscall.EPIPE {
			t.Errorf("a pipe without a reader: %d, %v", n, err)
		}
	})
	_, w = pipe(t)
	out = raw(t, w)
	full := 0
	for full < 1<<20 {
		var n int
		var err error
		out.Control(func(fd uintptr) { n, err = Write(fd, make([]byte, 4096)) })
		if full += n; err == syscall.EAGAIN {
			return
		}
	}
	t.Error("a pipe is never full")
}

// TestOneInManyIsOrdinary: the watchdog is woken now and then, and by large transfers.
func TestOneInManyIsOrdinary(t *testing.T) {
	n := 0
	for range 10 * often {
		if ordinary(10) {
			n++
		}
	}
	if n != 10 {
		t.Errorf("%d of %d", n, 10*often)
	}
	first, second := ordinary(much), ordinary(much) // two in a row: one at most by its turn
	if !ordinary(much+1) || first && second {
		t.Error("the size does not decide")
	}
}

// TestReady: sockets of the network that do not block, and nothing else.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		network, address string
		ready            bool
	}{{"tcp", "127.0.0.1:0", true}, {"tcp", "[::1]:0", true}, {"unix", filepath.Join(t.TempDir(), "s"), false}} {
		ln, err := net.Listen(c.network, c.address)
		if err != nil {
			t.Logf("%s: %v", c.address, err) // without IPv6
			continue
		}
		defer ln.Close()
		to, err := net.Dial(c.network, ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		from, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		rc, err := from.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if Ready(rc) != c.ready {
			t.Errorf("%s %s: %v", c.network, c.address, !c.ready)
		}
		rc.Control(func(fd uintptr) { syscall.SetNonblock(int(fd), false) })
		if Ready(rc) {
			t.Errorf("%s: a socket that blocks is taken", c.address)
		}
		from.Close()
		if Ready(rc) {
			t.Errorf("%s: a closed socket is taken", c.address)
		}
	}
	if r, _ := pipe(t); Ready(raw(t, r)) {
		t.Error("a pipe is taken")
	}
}

func BenchmarkRead(b *testing.B) {
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	c, _ := r.SyscallConn()
	p := make([]byte, 100)
	c.Control(func(fd uintptr) {
		for b.Loop() {
			Read(fd, p)
		}
	})
}

package bridge

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

func allLines(r io.Reader, limit int) (lines []string, err error) {
	s := newSource(r, limit)
	defer s.close()
	for err == nil {
		err = s.lines(func(line []byte) error {
			lines = append(lines, string(line))
			return nil
		})
	}
	return lines, err
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 5000)
	huge := strings.Repeat("y", 300<<10)
	want := []string{"a", "", long, "b", huge, "c"}
	text := strings.Join(want, "\n") + "\nhalf a line"
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves": iotest.HalfReader(strings.NewReader(text)), "with the error": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := allLines(r, 1<<20)
		if !slices.Equal(got, want) || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %d lines, %v", name, len(got), err)
		}
	}
}

func TestLineLimit(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{strings.Repeat("x", 100) + "\n", true},
		{strings.Repeat("x", 101) + "\n", false},
		{strings.Repeat("x", 101), false},
		{"a\n" + strings.Repeat("x", 101), false},
		{strings.Repeat("x", 10000), false},
	} {
		_, err := allLines(strings.NewReader(c.text), 100)
		if got := errors.Is(err, io.EOF); got != c.ok {
			t.Errorf("%d bytes: %v", len(c.text), err)
		}
		_, err = allLines(strings.NewReader(strings.Repeat("z", 4096*3)+"\n"), 4096)
		if !errors.Is(err, errLine) {
			t.Errorf("over a limit of one buffer: %v", err)
		}
	}
}

// TestIdlePipeHoldsNoBuffer: while a pipe is empty the source has nothing in hand,
// and after a large line nothing large.
func TestIdlePipeHoldsNoBuffer(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s := newSource(r, 1<<20)
	if s.raw == nil {
		t.Fatal("a pipe is not read as a file")
	}
	go func() {
		_, _ = io.WriteString(w, strings.Repeat("x", 200<<10)+"\nhalf")
		_ = w.Close()
	}()
	lines := 0
	for err == nil {
		err = s.lines(func(line []byte) error {
			lines++
			return nil
		})
		if lines == 1 && err == nil && s.buf != nil && cap(s.buf.B) > 2*classes[0] {
			t.Errorf("%d bytes are held for half a line", cap(s.buf.B))
		}
	}
	if lines != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("%d lines, %v", lines, err)
	}
	if s.buf == nil {
		t.Error("the half line is gone")
	}
	s.close()
}

func TestBufferClasses(t *testing.T) {
	for n, want := range map[int]int{0: 4 << 10, 4 << 10: 4 << 10, 4<<10 + 1: 64 << 10, 1 << 20: 1 << 20, 1<<20 + 5: 1<<20 + 5} {
		b := newBuffer(n)
		if len(b.B) != 0 || cap(b.B) < want {
			t.Errorf("%d: len %d, cap %d", n, len(b.B), cap(b.B))
		}
		b.Free()
	}
	b := newBuffer(0)
	b.B = append(b.B, "abc"...)
	b.grow(1 << 20)
	if string(b.B) != "abc" || cap(b.B) < 8<<10 {
		t.Errorf("grown: %q, cap %d", b.B, cap(b.B))
	}
}

// TestFloodYields: a pipe that is never empty leaves others their turn, every maxTurn
// bytes at least.
func TestFloodYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 16*maxTurn) // Fd has its writes wait
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(strings.Repeat(strings.Repeat("x", 1023)+"\n", size>>10))); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	var turns atomic.Int64
	var over atomic.Bool
	go func() {
		for !over.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	s := newSource(r, 1<<20)
	defer s.close()
	for err == nil {
		err = s.lines(func([]byte) error { return nil })
	}
	over.Store(true)
	if n, want := turns.Load(), int64(size/maxTurn/2); n < want || !errors.Is(err, io.EOF) {
		t.Errorf("%d turns while %d bytes were read, want %d: %v", n, size, want, err)
	}
}

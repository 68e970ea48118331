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
	"time"

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

// TestFloods: many lines from a pipe that is never empty are a flood; a long one, or
// as many with a pause, are none.
func TestFloods(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s := newSource(r, 1<<20)
	defer s.close()
	floods := 0
	read := func(lines int) {
		for got := 0; got < lines; {
			if err := s.lines(func([]byte) error { got++; return nil }); err != nil {
				t.Fatal(err)
			}
			if s.floods() {
				floods++
			}
		}
	}
	say := func(text string) {
		if _, err := io.WriteString(w, text); err != nil {
			t.Error(err)
		}
	}
	for range 2 * maxRun { // each comes after the pipe was found empty
		time.AfterFunc(time.Millisecond, func() { say("x\n") })
		read(1)
	}
	go say(strings.Repeat("x", 1<<20) + "\n")
	read(1)
	if floods != 0 {
		t.Errorf("%d floods where there was none", floods)
	}
	line := strings.Repeat("x", 512) + "\n" // seven in a read
	say(strings.Repeat(line, 100))
	read(100)
	if floods != 1 {
		t.Errorf("a hundred lines at once were %d floods", floods)
	}
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

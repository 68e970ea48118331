package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// saysLarge is a worker whose answers have n bytes of text, which it writes in parts.
// form is the answer, with ID and TEXT for its id and text.
func saysLarge(form string, n int) sessiontest.Func {
	part := strings.Repeat("x", 64<<10)
	return func(p *sessiontest.Process) int {
		in := bufio.NewReader(p.In)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return 0
			}
			m, err := jsonrpc.Parse([]byte(line[:len(line)-1]))
			if err != nil || m.Kind != jsonrpc.Request {
				continue
			}
			if string(m.Method()) == "initialize" {
				fmt.Fprintf(p.Out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}`+"\n", m.IDBytes())
				continue
			}
			before, after, _ := strings.Cut(strings.ReplaceAll(form, "ID", string(m.IDBytes())), "TEXT")
			_, _ = io.WriteString(p.Out, before)
			for left := n; left > 0; left -= len(part) {
				_, _ = io.WriteString(p.Out, part[:min(left, len(part))])
			}
			if _, err := io.WriteString(p.Out, after); err != nil {
				return 1
			}
		}
	}
}

// largeCall makes a call under that id and has use look at its answer.
func largeCall(t *testing.T, b *Bridge, id string, o Options, use func(answer []byte)) {
	t.Helper()
	var c Call
	if err := b.Begin(context.Background(), &c, parse(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"m"}`), o); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg, final, err := c.Next(context.Background(), time.Minute)
	if err != nil || !final {
		t.Fatalf("final %v: %v", final, err)
	}
	use(msg)
}

// unmapped forgets the mappings of other tests.
func unmapped() {
	spare.Lock()
	defer spare.Unlock()
	spare.bySize = nil
}

// lying are the mappings that nobody uses.
func lying() (all [][]byte) {
	spare.Lock()
	defer spare.Unlock()
	for _, of := range spare.bySize {
		all = append(all, of...)
	}
	return all
}

// TestLargeResultIsHeldOnce: while results of the longest line pass, there is one buffer
// of that size, two when they are translated; next to nothing else is allocated, and the
// memory is given back.
func TestLargeResultIsHeldOnce(t *testing.T) {
	const limit, rounds = 16 << 20, 3
	form := `{"jsonrpc":"2.0","id":ID,"result":{"x":"TEXT"}}` + "\n"
	toLegacy := era.ToLegacy([]byte("tools/call"), &era.Server{})
	for name, c := range map[string]struct {
		o       Options
		buffers int
	}{"as it is": {Options{}, 1}, "translated": {Options{Translation: &toLegacy}, 2}} {
		t.Run(name, func(t *testing.T) {
			b, _ := started(t, saysLarge(form, limit-100), Config{MaxMessage: limit})
			unmapped()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range rounds {
				largeCall(t, b, fmt.Sprint(1000000+i), c.o, func(answer []byte) {
					if len(answer) < limit-100 {
						t.Errorf("%d bytes", len(answer))
					}
				})
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > rounds*4<<20 {
				t.Errorf("%d MiB were allocated beside the buffers for %d results", got>>20, rounds)
			}
			b.Stop("all is read")
			<-b.Finished() // nobody holds a buffer any more
			all := lying()
			if len(all) != c.buffers {
				t.Errorf("%d mappings were made and given back, want %d", len(all), c.buffers)
			}
			for _, m := range all {
				if n := resident(t, m); n > 0 {
					t.Errorf("%d bytes of a buffer that was given back still cost memory", n)
				}
			}
		})
	}
}

// resident is how many bytes of m are in memory.
func resident(t *testing.T, m []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	in := make([]byte, len(m)/page)
	if _, _, e := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&in[0]))); e != 0 {
		t.Fatal(e)
	}
	for _, b := range in {
		n += int(b&1) * page
	}
	return n
}

// TestLargeAnswers: answers whose buffer is handed on say what the worker said, under
// the client's id, and the lines beside them are not lost.
func TestLargeAnswers(t *testing.T) {
	const n = maxPooled + 12345
	text := strings.Repeat("x", n)
	note := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
	for name, c := range map[string]struct {
		form, want string // want: as the client gets it
		notes      int
	}{
		"id in front":        {`{"jsonrpc":"2.0","id":ID,"result":{"x":"TEXT"}}` + "\n", `{"jsonrpc":"2.0","id":CLIENT,"result":{"x":"TEXT"}}`, 0},
		"id behind":          {`{"result":{"x":"TEXT"},"id":ID,"jsonrpc":"2.0"}` + "\n", `{"result":{"x":"TEXT"},"id":CLIENT,"jsonrpc":"2.0"}`, 0},
		"white space":        {" \t" + `{"jsonrpc":"2.0","id":ID ,` + "\r" + `"result":{"x":"TEXT"}}` + " \r\n", `{"jsonrpc":"2.0","id":CLIENT , "result":{"x":"TEXT"}}`, 0},
		"lines on each side": {note + `{"jsonrpc":"2.0","id":ID,"result":{"x":"TEXT"}}` + "\n" + note + note, `{"jsonrpc":"2.0","id":CLIENT,"result":{"x":"TEXT"}}`, 3},
		"in a batch":         {`[{"jsonrpc":"2.0","id":ID,"result":{"x":"TEXT"}},` + note[:len(note)-1] + "]\n", `{"jsonrpc":"2.0","id":CLIENT,"result":{"x":"TEXT"}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b, up := started(t, saysLarge(c.form, n), Config{})
			calls := 0
			for _, id := range []string{"7", `"` + strings.Repeat("i", 100) + `"`, `"` + strings.Repeat("i", jsonrpc.MaxID-2) + `"`} {
				largeCall(t, b, id, Options{}, func(answer []byte) {
					if want := strings.Replace(strings.Replace(c.want, "CLIENT", id, 1), "TEXT", text, 1); string(answer) != want {
						t.Errorf("id of %d bytes: got %d bytes, want %d: %.100q", len(id), len(answer), len(want), answer)
					}
				})
				calls++
				eventually(t, "the notifications beside it", func() bool { return up.heard() == calls*c.notes })
			}
		})
	}
}

// TestTakeOnlyWholeLines: a source gives its buffer away for a long line that is handled
// and for nothing else.
func TestTakeOnlyWholeLines(t *testing.T) {
	long, short := strings.Repeat("y", maxPooled+1), strings.Repeat("s", maxPooled)
	s := newSource(strings.NewReader(short+"\na\n"+long+"\n"+long+"\nb\n"), 4*maxPooled)
	defer s.close()
	var got []string
	var err error
	for err == nil {
		err = s.lines(func(line []byte) error {
			got = append(got, string(line))
			if b := s.take(line[1:]); b != nil {
				t.Errorf("the buffer was given away for a part of a line of %d bytes", len(line))
			}
			b := s.take(line)
			if (b != nil) != (len(line) > maxPooled) {
				t.Errorf("a line of %d bytes: given away: %v", len(line), b != nil)
			}
			if b == nil {
				return nil
			}
			if s.take(line) != nil {
				t.Error("a buffer was given away twice")
			}
			if string(b.B) != long || cap(b.B)-len(b.B) < jsonrpc.MaxID {
				t.Errorf("%d bytes with room for %d", len(b.B), cap(b.B))
			}
			b.Free()
			return nil
		})
	}
	if want := []string{short, "a", long, long, "b"}; !errors.Is(err, io.EOF) || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d lines: %v", len(got), err)
	}
}

// TestMappedBuffers: a mapping is used again, empty, and freed once.
func TestMappedBuffers(t *testing.T) {
	unmapped()
	b := newBuffer(maxPooled + 1)
	if b.mapped == nil || cap(b.B) < maxPooled+1 {
		t.Fatalf("cap %d, mapped %v", cap(b.B), b.mapped != nil)
	}
	b.B = append(b.B, strings.Repeat("secret", maxPooled/6)...)
	first := &b.mapped[0]
	b.Free()
	b.Free()
	b = newBuffer(maxPooled + 2)
	if &b.mapped[0] != first {
		t.Error("a mapping that nobody uses was not used again")
	}
	if got := b.B[:maxPooled]; strings.Trim(string(got), "\x00") != "" {
		t.Error("a mapping holds what another left in it")
	}
	if len(lying()) != 0 {
		t.Error("a mapping in use lies in wait for another")
	}
	b.Free()
}

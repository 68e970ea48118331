package session_test

import (
	"bufio"
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// fastEcho answers every request with an empty result and costs next to nothing, so
// that what is measured is ours.
func fastEcho(p *sessiontest.Process) int {
	in := bufio.NewReaderSize(p.In, 64<<10)
	var out []byte
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0
		}
		at := bytes.Index(line, []byte(`"id":`)) + 5
		end := at + bytes.IndexByte(line[at:], ',')
		result := `,"result":{}}`
		if bytes.Contains(line, []byte(`"initialize"`)) {
			result = `,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"b","version":"1"}}}`
		}
		out = append(out[:0], `{"jsonrpc":"2.0","id":`...)
		out = append(out, line[at:end]...)
		out = append(out, result...)
		out = append(out, '\n')
		if _, err := p.Out.Write(out); err != nil {
			return 0
		}
	}
}

// BenchmarkCall is one call of a session, as the router makes it, over pipes of the
// system; the worker runs in the same process.
func BenchmarkCall(b *testing.B) {
	w := newWorld(b, session.Config{}, &sessiontest.Spawner{Worker: fastEcho})
	s := w.open(alice)
	id := s.ID()
	body := []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		m, err := jsonrpc.Parse(body)
		if err != nil {
			b.Fatal(err)
		}
		s, ok := w.Find(0, alice, id)
		if !ok {
			b.Fatal("not found")
		}
		x, err := s.Begin(ctx, m, session.ModeStream)
		if err != nil {
			b.Fatal(err)
		}
		if item, err := x.Next(ctx, 100*time.Millisecond); err != nil || !item.Final {
			b.Fatal(err)
		}
		x.Close()
	}
}

// BenchmarkCallsInParallel is the same from several clients of one session each.
func BenchmarkCallsInParallel(b *testing.B) {
	w := newWorld(b, session.Config{}, &sessiontest.Spawner{Worker: fastEcho})
	body := []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		s := w.open(alice)
		for pb.Next() {
			m, err := jsonrpc.Parse(body)
			if err != nil {
				b.Error(err)
				return
			}
			x, err := s.Begin(context.Background(), m, session.ModeStream)
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := x.Next(context.Background(), time.Minute); err != nil {
				b.Error(err)
			}
			x.Close()
		}
	})
}

// BenchmarkLargeResult passes a result of 1 MiB.
func BenchmarkLargeResult(b *testing.B) {
	big := `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("line of a file ", 70000) + `"}]}}` + "\n"
	w := newWorld(b, session.Config{}, &sessiontest.Spawner{Worker: func(p *sessiontest.Process) int {
		return bigEcho(p, big)
	}})
	s := w.open(alice)
	body := []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo"}}`)
	b.SetBytes(int64(len(big)))
	b.ReportAllocs()
	for b.Loop() {
		x, err := s.Begin(b.Context(), parse(b, string(body)), session.ModeStream)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := x.Next(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		x.Close()
	}
}

func bigEcho(p *sessiontest.Process, big string) int {
	in := bufio.NewReader(p.In)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		at := bytes.Index(line, []byte(`"id":`)) + 5
		end := at + bytes.IndexByte(line[at:], ',')
		rest := big
		if bytes.Contains(line, []byte(`"initialize"`)) {
			rest = `,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"b","version":"1"}}}` + "\n"
		}
		if _, err := p.Out.Write(append([]byte(`{"jsonrpc":"2.0","id":`), string(line[at:end])+rest...)); err != nil {
			return 0
		}
	}
}

// BenchmarkOpen is a session from initialize to its worker's end.
func BenchmarkOpen(b *testing.B) {
	w := newWorld(b, session.Config{}, &sessiontest.Spawner{Worker: fastEcho})
	b.ReportAllocs()
	for b.Loop() {
		w.open(alice).End("benchmark")
	}
}

// TestMemoryOfAnIdleSession: the target is 32 KiB in the front end, most of it for what
// waits for the collector and for the runtime's own; 8 KiB live. The worker's own
// goroutines and buffers lie in this process too and are measured apart.
func TestMemoryOfAnIdleSession(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	const n, limit = 200, 12 << 10
	worker := func(p *sessiontest.Process) int { return fastEcho(p) }
	w := newWorld(t, session.Config{MaxSessions: n + 10}, &sessiontest.Spawner{Worker: worker})
	warm := w.open(alice)
	if _, err := w.call(warm, tool("1", "echo", ``)); err != nil {
		t.Fatal(err)
	}
	before := inUse()
	for range n {
		s := w.open(alice)
		for range 3 {
			if _, err := w.call(s, tool("1", "echo", ``)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The worker's share: a 64 KiB reader, and a goroutine or two.
	const workers = 64<<10 + 2*(4<<10)
	each := int(inUse()-before)/n - workers
	t.Logf("%d bytes a session", each)
	if each > limit {
		t.Errorf("an idle session holds %d bytes, the limit is %d", each, limit)
	}
}

// inUse is the memory of heap and stacks after a collection.
func inUse() uint64 {
	for range 3 {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestAllocationsOfACall holds the hot path: one object a call, the Exchange.
func TestAllocationsOfACall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: fastEcho})
	s := w.open(alice)
	m := parse(t, `{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":12}}}`)
	n := testing.AllocsPerRun(200, func() {
		x, err := s.Begin(context.Background(), m, session.ModeStream)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Next(context.Background(), time.Second); err != nil {
			t.Fatal(err)
		}
		x.Close()
	})
	if n > 2 { // one, and one that a collection in between may cost
		t.Errorf("%v allocations a call", n)
	}
}

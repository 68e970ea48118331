package session_test

import (
	"bufio"
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"

	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
)

// fastEra is fastEcho in one era: it refuses the other's opening and answers what is
// left with a small result.
func fastEra(era string) sessiontest.Func {
	return func(p *sessiontest.Process) int {
		in := bufio.NewReaderSize(p.In, 64<<10)
		var out []byte
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return 0
			}
			if !bytes.Contains(line, []byte(`"id":`)) {
				continue
			}
			at := bytes.Index(line, []byte(`"id":`)) + 5
			end := at + bytes.IndexByte(line[at:], ',')
			opening, discover := bytes.Contains(line, []byte(`"method":"initialize"`)), bytes.Contains(line, []byte(`"method":"server/discover"`))
			result := `,"result":{"content":[{"type":"text","text":"hello"}]}}`
			switch {
			case opening && era == "legacy":
				result = `,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"b","version":"1"}}}`
			case discover && era == "modern":
				result = `,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}`
			case opening || discover:
				result = `,"error":{"code":-32601,"message":"unknown"}}`
			case era == "modern":
				result = `,"result":{"resultType":"complete","content":[{"type":"text","text":"hello"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"b","version":"1"}}}}`
			}
			out = append(append(append(append(out[:0], `{"jsonrpc":"2.0","id":`...), line[at:end]...), result...), '\n')
			if _, err := p.Out.Write(out); err != nil {
				return 0
			}
		}
	}
}

// BenchmarkEras is one call from a client of each era in a worker of each era. cpu-ns
// is the processor time of the whole process, the worker included, which a busy machine
// disturbs less than the time that passes.
func BenchmarkEras(b *testing.B) {
	bodies := map[string][]byte{
		"legacy": []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`),
		"modern": []byte(modernTool("12", "echo", `"text":"hello"`, `{"elicitation":{}}`, "")),
	}
	for _, client := range []string{"legacy", "modern"} {
		for _, era := range []string{"legacy", "modern"} {
			b.Run(client+" client "+era+" worker", func(b *testing.B) {
				w := newWorld(b, session.Config{}, &sessiontest.Spawner{Worker: fastEra(era)})
				s := w.modern(alice)
				if client == "legacy" {
					s = w.open(alice)
				}
				ctx := b.Context()
				b.ReportAllocs()
				start := processorTime()
				for b.Loop() {
					m, err := jsonrpc.Parse(bodies[client])
					if err != nil {
						b.Fatal(err)
					}
					begin := s.Begin
					if client == "modern" {
						begin = s.BeginModern
					}
					x, err := begin(ctx, m, session.ModeStream)
					if err != nil {
						b.Fatal(err)
					}
					if item, err := x.Next(ctx, 10*time.Second); err != nil || !item.Final {
						b.Fatal(err)
					}
					x.Close()
				}
				b.ReportMetric(float64(processorTime()-start)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime is what this process has used, in nanoseconds.
func processorTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it can't fail for this process
	return u.Utime.Nano() + u.Stime.Nano()
}

// TestAllocationsBetweenEras holds what a call costs whose client and worker are of
// different eras: beside the Exchange what keeps its rounds, and a legacy client's
// message for a retry. One more is what a collection in between may cost.
func TestAllocationsBetweenEras(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range []struct {
		client, worker string
		most           float64
	}{{"modern", "modern", 1}, {"modern", "legacy", 2}, {"legacy", "modern", 3}} {
		t.Run(c.client+" client "+c.worker+" worker", func(t *testing.T) {
			w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: fastEra(c.worker)})
			m, begin := parse(t, tool("12", "echo", `"text":"hello"`)), w.modern(alice).BeginModern
			if c.client == "modern" {
				m = parse(t, modernTool("12", "echo", `"text":"hello"`, `{"elicitation":{}}`, ""))
			} else {
				begin = w.open(alice).Begin
			}
			n := testing.AllocsPerRun(200, func() {
				x, err := begin(context.Background(), m, session.ModeStream)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := x.Next(context.Background(), time.Minute); err != nil {
					t.Fatal(err)
				}
				x.Close()
			})
			if n > c.most+1 {
				t.Errorf("%v allocations a call, the limit is %v", n, c.most)
			}
		})
	}
}

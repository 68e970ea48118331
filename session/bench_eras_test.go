package session_test

import (
	"bufio"
	"bytes"
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

// BenchmarkEras is one call from a client of each era in a worker of each era.
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
					if item, err := x.Next(ctx, 100*time.Millisecond); err != nil || !item.Final {
						b.Fatal(err)
					}
					x.Close()
				}
			})
		}
	}
}

package session

import (
	"strconv"
	"strings"
	"time"

	"gatehouse/session/jsonrpc"
)

// probe is the question whether the client is still on its stream (MCP 2025-11-25,
// basic/utilities/ping). An answer proves that it is there and is no activity. The
// outbox's lock guards it.
type probe struct {
	id     uint64        // of the last one
	stream *Stream       // where it goes down; nil: none is out
	taken  bool          // the stream has it
	waited time.Duration // since then, in passes
	since  time.Duration // since the last answer, in passes
	failed int           // not answered, in a row
}

// pingPrefix begins the ids of our own questions. Those of workers' requests are
// numbers as clients see them.
const pingPrefix = "gatehouse-ping-"

// forget gives up what was asked: the client has shown itself. Opening another stream
// is such a sign, so that what went down one that was left is never held against it.
func (p *probe) forget() { *p = probe{id: p.id} }

// take returns the ping for that stream, if one is due.
func (p *probe) take(x *Stream) []byte {
	if p.stream != x || p.taken {
		return nil
	}
	p.taken = true
	return []byte(`{"jsonrpc":"2.0","id":"` + pingPrefix + strconv.FormatUint(p.id, 10) + `","method":"ping"}`)
}

// send asks, down the stream that is open now.
func (p *probe) send(x *Stream) {
	p.id++
	p.stream, p.taken, p.waited = x, false, 0
	x.wake()
}

// pass is one look at a session with an open stream whose client has been quiet for
// that long. It reports whether two questions in a row went unanswered on the stream
// that the client is still on.
func (p *probe) pass(l *Lifetime, x *Stream, quiet time.Duration) (gone bool) {
	p.since += l.ReaperInterval
	switch {
	case x == nil || l.ProbeInterval <= 0:
		p.forget()
	case p.stream == nil:
		if quiet >= l.ProbeInterval && p.since >= l.ProbeInterval {
			p.send(x)
		}
	case !p.taken: // a write before it is blocked, which has a limit of its own
	default:
		if p.waited += l.ReaperInterval; p.waited < l.ProbeTimeout {
			return false
		}
		p.failed++
		p.send(x)
	}
	return p.failed >= 2 && l.ReapFailedProbes
}

// answered takes a client's response and reports whether it answers a ping of ours,
// be it with an error. Late answers are answers.
func (o *outbox) answered(m *jsonrpc.Message) bool {
	digits, ok := strings.CutPrefix(string(m.IDBytes()), `"`+pingPrefix)
	digits, quoted := strings.CutSuffix(digits, `"`)
	n, err := strconv.ParseUint(digits, 10, 63)
	if !ok || !quoted || err != nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > 0 && n <= o.probe.id {
		o.probe.forget()
	}
	return true
}

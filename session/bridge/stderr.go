package bridge

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/printable"
)

// Limits on a worker's stderr.
const (
	tailBytes      = 64 << 10 // what is remembered of it
	stderrRate     = 64 << 10 // bytes a second that reach the log, and the burst
	stderrLine     = 1 << 10  // a longer line is cut into pieces of this
	stderrReported = 2 << 10  // how much of the tail goes to the log at a bad end
)

// stderrDrain reads a worker's stderr as fast as it comes: a worker must never
// block on it. The last part is kept, and what the rate allows is logged, line by
// line and with control characters escaped. One goroutine uses it.
type stderrDrain struct {
	log  func() *zerolog.Logger
	now  func() time.Time
	tail ring

	line    []byte    // the line under way
	tokens  float64   // bytes that may be logged now
	at      time.Time // when tokens was true
	skipped int       // bytes not logged since the last line that was
}

// run drains src until it ends.
func (d *stderrDrain) run(src io.Reader) {
	s := newSource(src, tailBytes)
	d.tokens, d.at = stderrRate, d.now()
	for s.fill() == nil {
		d.tail.write(s.buf.B)
		d.split(s.buf.B)
		s.buf.B = s.buf.B[:0]
		s.drop()
	}
	s.close()
	d.flush()
	d.line = nil
}

// split cuts at newlines and at carriage returns, with which progress bars
// overwrite their line.
func (d *stderrDrain) split(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexAny(b, "\r\n")
		part := b
		if i >= 0 {
			part = b[:i]
		}
		for len(d.line)+len(part) > stderrLine {
			n := stderrLine - len(d.line)
			d.line = append(d.line, part[:n]...)
			part = part[n:]
			d.flush()
		}
		d.line = append(d.line, part...)
		if i < 0 {
			return
		}
		d.flush()
		b = b[i+1:]
	}
	if len(d.line) == 0 {
		d.line = nil
	}
}

// flush logs the line under way, if the rate allows.
func (d *stderrDrain) flush() {
	defer func() { d.line = d.line[:0] }()
	if len(bytes.TrimSpace(d.line)) == 0 {
		return
	}
	now := d.now()
	d.tokens = min(stderrRate, d.tokens+now.Sub(d.at).Seconds()*stderrRate)
	d.at = now
	if d.tokens < float64(len(d.line)) {
		d.skipped += len(d.line)
		return
	}
	d.tokens -= float64(len(d.line))
	e := d.log().Info()
	if d.skipped > 0 {
		e.Int("skipped_bytes", d.skipped)
		d.skipped = 0
	}
	e.Str("stderr", shown(d.line)).Msg("worker says")
}

// oneLine folds what may stand between words.
var oneLine = strings.NewReplacer("\t", " ", "\n", " ")

// shown is what a worker wrote as a line of the log has it.
func shown(b []byte) string { return printable.Text(oneLine.Replace(string(b)), len(b)) }

// ring keeps the last tailBytes bytes. It takes memory only as it fills.
type ring struct {
	b  []byte
	at int // where the next byte goes once b is full
}

func (r *ring) write(p []byte) {
	if len(p) > tailBytes {
		p = p[len(p)-tailBytes:]
	}
	if free := tailBytes - len(r.b); free > 0 {
		n := min(free, len(p))
		r.b = append(r.b, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(r.b[r.at:], p)
		p = p[n:]
		r.at = (r.at + n) % tailBytes
	}
}

// last returns the last n bytes at most.
func (r *ring) last(n int) []byte {
	all := append(bytes.Clone(r.b[r.at:]), r.b[:r.at]...)
	return all[max(0, len(all)-n):]
}

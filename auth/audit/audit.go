// Package audit writes one line a request: who asked for what, and what became
// of it. A line never holds a header value, a query string, a body or a token;
// what a client chose (a path, a method's name) is cut, and all of it is printable.
package audit

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/identity"
	"gatehouse/auth/printable"
)

// MaxText is how many bytes of a text that a client chose stand in a line.
const MaxText = 128

// Line is what is said about one request. Empty fields are left out.
type Line struct {
	Remote   string // address of the connection's other end
	Protocol string // "HTTP/1.1", "HTTP/2.0"
	Method   string
	Path     string // without the query
	Status   int
	Bytes    int64 // of the response's body
	Duration time.Duration
	At       time.Time // when it was finished

	Principal identity.Principal // zero: unknown
	Account   string             // where a worker was started
	Session   string             // a short part of the session's id
	Message   string             // the JSON-RPC method, or "response"
	Kind      string             // of a refusal or failure
	Reason    string             // the private half of it
}

// Log writes lines. The zero Log writes nothing.
type Log struct {
	out    zerolog.Logger
	second *atomic.Pointer[second] // the last that was written
}

// second is how a second is written in lines.
type second struct {
	unix int64
	text string
}

// New returns a Log that writes JSON lines to w.
func New(w io.Writer) Log {
	return Log{out: zerolog.New(w), second: new(atomic.Pointer[second])}
}

// at writes a time as zerolog does. Lines come in thousands a second, and all of one
// second have the same.
func (l *Log) at(t time.Time) string {
	s := l.second.Load()
	if s == nil || s.unix != t.Unix() {
		s = &second{t.Unix(), t.Format(zerolog.TimeFieldFormat)}
		l.second.Store(s)
	}
	return s.text
}

// Request writes the line of a finished request. Refusals that say that
// something is wrong on our side are warnings.
func (l *Log) Request(r *Line) {
	if l.second == nil {
		return
	}
	e := l.out.Info()
	if r.Status >= 500 {
		e = l.out.Warn()
	}
	e.Str("remote", host(r.Remote)).Str("proto", r.Protocol).Str("method", shown(r.Method)).Str("path", shown(r.Path)).
		Int("status", r.Status).Int64("bytes", r.Bytes).Int64("us", r.Duration.Microseconds())
	for _, f := range [...]struct{ name, value string }{
		{"iss", string(r.Principal.Issuer)}, {"sub", string(r.Principal.Subject)}, {"client", string(r.Principal.Client)},
		{"account", r.Account}, {"session", r.Session}, {"rpc", shown(r.Message)}, {"kind", r.Kind}, {"reason", r.Reason},
	} {
		if f.value != "" {
			e.Str(f.name, printable.Text(f.value, len(f.value)))
		}
	}
	e.Str(zerolog.TimestampFieldName, l.at(r.At)).Msg("request")
}

// host strips the port, which tells nothing, from a network address.
func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

// shown is a text that a client chose.
func shown(s string) string { return printable.Text(s, MaxText) }

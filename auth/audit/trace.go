package audit

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"gatehouse/auth/identity"
)

// Trace writes one line a message, in both directions, with the beginning of its
// body. It never holds a header, a token or a query string; bodies it does hold,
// so it is off unless an operator asks for it. The nil Trace is off.
type Trace struct {
	out   zerolog.Logger
	limit int
}

// NewTrace returns a Trace that writes JSON lines to w and shows limit bytes of
// each body, 0 none.
func NewTrace(w io.Writer, limit int) *Trace {
	return &Trace{out: zerolog.New(w).With().Timestamp().Logger(), limit: max(limit, 0)}
}

// Direction is which way a message goes, seen from the server.
type Direction string

// The directions.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// Message writes the line of one message. path is without the query; session is a
// short part of its id.
func (t *Trace) Message(d Direction, method, path, session string, p identity.Principal, body []byte) {
	if t == nil {
		return
	}
	e := t.out.Info().Str("dir", string(d)).Str("method", shown(method)).Str("path", shown(path))
	if session != "" {
		e.Str("session", session)
	}
	if p.Subject != "" {
		e.Str("sub", string(p.Subject))
	}
	e.Int("size", len(body)).Str("body", t.shown(body)).Msg("message")
}

// shown is as much of a body as may be shown, cut between characters.
func (t *Trace) shown(body []byte) string {
	if len(body) <= t.limit {
		return string(body)
	}
	n := t.limit
	for n > 0 && n > t.limit-utf8.UTFMax && !utf8.RuneStart(body[n]) {
		n--
	}
	return fmt.Sprintf("%s...(+%d more)", body[:n], len(body)-n)
}

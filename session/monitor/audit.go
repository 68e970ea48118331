package monitor

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"gatehouse/auth/printable"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/spawn"
)

// clean makes a value of a token or a request fit for a log line.
func clean(s string) string { return printable.Text(s, printable.Value) }

// complaint puts what a program of ours says about the configuration, in several
// lines, into one of the log. It is not cut short where a principal's words would be:
// the remedy stands at the end.
func complaint(err error) string {
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		switch {
		case b.Len() == 0 || line == "":
		case strings.HasSuffix(b.String(), ":"):
			b.WriteByte(' ')
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return printable.Text(b.String(), maxComplaint)
}

// whose adds the principal and the token's id, never the token.
func whose(e *zerolog.Event, v *verdict) *zerolog.Event {
	if v.principal.Subject != "" {
		e = e.Str("iss", clean(string(v.principal.Issuer))).Str("sub", clean(string(v.principal.Subject))).
			Str("client_id", clean(string(v.principal.Client)))
	}
	if v.jti != "" {
		e = e.Str("jti", clean(v.jti))
	}
	return e
}

func who(e *zerolog.Event, a *assignment) *zerolog.Event {
	if a == nil {
		return e
	}
	return e.Str("account", clean(string(a.account.Name))).Uint32("uid", a.account.UID)
}

// auditStart logs a start: "spawn" of a worker for a session, "warm" of one for which
// "spawn" follows if a session gets it.
func (m *Monitor) auditStart(event string, l *lease, pid int) {
	v, until, _ := l.snapshot()
	e := who(whose(m.log.Info().Str("audit", event), &v), &l.assignment).
		Str("server", m.cfg.Servers[l.server].Path).Int("pid", pid)
	if !until.IsZero() {
		e = e.Time("lease", until.UTC().Truncate(time.Second))
	}
	e.Msg("worker started")
}

// auditExit logs an end.
func (m *Monitor) auditExit(l *lease, pid int, st proc.Status, reason string) {
	v, _, _ := l.snapshot()
	e := who(whose(m.log.Info().Str("audit", "exit"), &v), &l.assignment).
		Str("server", m.cfg.Servers[l.server].Path).Int("pid", pid).Str("status", st.String())
	if reason != "" {
		e = e.Str("reason", clean(reason))
	}
	e.Msg("worker ended")
}

// quiet bounds how many lines refusals write: a front end that was taken over could
// fill the disk with them, and bury what matters.
type quiet struct {
	mu      sync.Mutex // guards what follows
	limiter *rate.Limiter
	dropped int
}

// admit reports whether a line may be written, and how many were not before it.
func (q *quiet) admit(now time.Time) (dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limiter == nil {
		q.limiter = rate.NewLimiter(20, 200) // lines a second, and at once
	}
	if !q.limiter.AllowN(now, 1) {
		q.dropped++
		return 0, false
	}
	dropped, q.dropped = q.dropped, 0
	return dropped, true
}

// refusal logs why there is no worker and returns the error.
func (m *Monitor) refusal(server uint16, v *verdict, a *assignment, err error) error {
	dropped, ok := m.refusals.admit(time.Now())
	if !ok {
		return err
	}
	kind := spawn.KindInternal
	reason := err.Error()
	var e *spawn.Error
	if errors.As(err, &e) {
		kind, reason = e.Kind, e.Reason
	}
	line := m.log.Warn().Str("audit", "refused")
	if dropped > 0 {
		line = line.Int("refusals_not_logged", dropped)
	}
	who(whose(line, v), a).Str("server", m.cfg.Servers[server].Path).
		Stringer("kind", kind).Str("reason", clean(reason)).Msg("refused")
	return err
}

// alert logs what an operator must look at.
func (m *Monitor) alert(err error, text string) {
	m.log.Error().Bool("alert", true).Str("reason", clean(err.Error())).Msg(text)
}

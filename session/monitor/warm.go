package monitor

import (
	"cmp"
	"os"
	"slices"
	"time"

	"gatehouse/session/filestate"
)

// A warm worker is one that was started before anybody asked for it, for the
// principal, scopes, server and account of a session that was opened a moment ago. It
// is given to a session once, when it is exactly what would be started now, and is no
// different from then on (docs/decisions/0009-warm-workers.md).

// warmIdle is how long a warm worker waits for a session.
const warmIdle = 5 * time.Minute

// owner is who has a worker: a front end, and the handle there. No front end: the
// worker is being ended.
type owner struct {
	a      *attendant
	handle uint64
}

// fits reports whether a worker under this lease may serve such a request.
func (l *lease) fits(v *verdict, server uint16, a *assignment) bool {
	return l.server == server && l.verdict.principal == v.principal && slices.Equal(l.verdict.scopes, v.scopes) &&
		l.assignment.identical(a)
}

// identical is same, with what a worker is told.
func (a *assignment) identical(b *assignment) bool {
	return a.same(b) && a.account.Shell == b.account.Shell && a.as == b.as && a.private == b.private &&
		a.name == b.name && a.email == b.email
}

// reserveWarm takes a place for a worker that nobody waits for. It is nil when there
// are want of its kind, or when a cap or the rate is in the way: a warm worker makes
// nobody wait.
func (t *leases) reserveWarm(v *verdict, server uint16, a assignment, until time.Time, want int) *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := 0
	for l := range t.warm {
		if l.fits(v, server, &a) {
			have++
		}
	}
	if have >= want || t.room(v) != nil || t.takeRate(v.principal) != nil {
		return nil
	}
	l := t.enter(v, server, a, until)
	l.taken = make(chan owner, 1)
	t.warm[l] = struct{}{}
	return l
}

// claim gives a request the warm worker that has waited longest, on the request's own
// token; nil when there is none. Whoever claims it sends to l.taken once.
func (t *leases) claim(v *verdict, server uint16, a *assignment, until time.Time) *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	var found *lease
	for l := range t.warm {
		if l.state == leaseWarm && l.fits(v, server, a) && !ended(l.body, 0) && (found == nil || l.number < found.number) {
			found = l
		}
	}
	if found == nil || t.limits.perPrincipal > 0 && found.verdict.tokenID != v.tokenID && t.active.of[v.tokenID] >= t.limits.perToken {
		return nil
	}
	delete(t.warm, found)
	found.given, found.state, found.since = true, leaseRunning, t.now()
	found.hold(v, until)
	return found
}

// withhold sees to it that nobody gets a warm worker any more, and reports whether
// somebody has claimed it already.
func (l *lease) withhold() (claimed bool) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	delete(l.table.warm, l)
	return l.given
}

// evict ends a warm worker that is in the way of one more for v, and reports whether
// there was one. t.mu is held.
func (t *leases) evict(v *verdict) bool {
	var found *lease
	lim := &t.limits
	for l := range t.warm {
		inTheWay := t.active.all >= lim.workers || lim.perPrincipal > 0 &&
			(t.active.mine[v.principal] >= lim.perPrincipal && l.verdict.principal == v.principal ||
				t.active.of[v.tokenID] >= lim.perToken && l.verdict.tokenID == v.tokenID)
		if inTheWay && (found == nil || l.number < found.number) {
			found = l
		}
	}
	if found == nil || t.closed {
		return false
	}
	found.end("made room for a session", overdue)
	return true
}

// endWarm ends all warm workers.
func (t *leases) endWarm(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.warm {
		l.end(reason, overdue)
	}
}

// takeWarm is a warm worker that is what would be started now, and its lease; nil
// when there is none.
func (m *Monitor) takeWarm(v *verdict, server uint16, as *assignment) (*lease, *running) {
	if m.live.Load().WarmWorkers == 0 {
		return nil, nil
	}
	for {
		l := m.leases.claim(v, server, as, m.until(v))
		if l == nil {
			return nil, nil
		}
		w := l.body.(*running) // of a claimed lease it does not change
		if m.runner.stillSo(w) {
			w.job, w.env = job{}, nil
			return l, w
		}
		l.stop("what it was started with has changed", overdue)
		l.taken <- owner{}
	}
}

// keepWarm starts warm workers of the kind that a front end asked for, as many as are
// wanted, unless that front end is gone.
func (m *Monitor) keepWarm(a *attendant, v *verdict, server uint16, as *assignment) {
	for {
		cfg := m.live.Load()
		until := time.Now().Add(cmp.Or(cfg.WarmIdle, warmIdle))
		if !v.served.IsZero() && v.served.Before(until) {
			until = v.served
		}
		l := m.leases.reserveWarm(v, server, *as, until, cfg.WarmWorkers)
		if l == nil {
			return
		}
		// Its key or its account may be gone; the next session's token will tell.
		if m.judge.Generation() != v.generation || m.rules.Load() != as.rules || a.ctx.Err() != nil {
			l.release()
			return
		}
		number := m.number.Add(1)
		w, err := m.runner.start(job{server: server, verdict: v, assignment: as}, number)
		if err != nil {
			l.release()
			m.log.Warn().Err(err).Msg("a warm worker did not start")
			return
		}
		l.describe(number, w.child.PID())
		l.run(w)
		m.auditStart("warm", l, w.child.PID())
		go m.attendWarm(l, w)
	}
}

// attendWarm waits until a warm worker is given to somebody, or ends.
func (m *Monitor) attendWarm(l *lease, w *running) {
	var to owner
	select {
	case to = <-l.taken:
	case <-w.Done():
		if l.withhold() {
			to = <-l.taken
		}
	}
	m.attendWorker(to, l, w)
}

// handles are the descriptors for the front end: the pipes, and a pidfd.
func (w *running) handles() []*os.File {
	return []*os.File{w.stdio.Stdin, w.stdio.Stdout, w.stdio.Stderr, w.child.TakePIDFD()}
}

// stillSo reports whether a worker that was started some time ago is what would be
// started now: program, working folder and environment.
func (r *runner) stillSo(w *running) bool {
	k := &r.workers[w.job.server]
	if k.command.Check() != nil {
		return false
	}
	program, err := filestate.Of(k.command.Argv[0])
	if err != nil || program != w.program {
		return false
	}
	place := r.place(w.job.assignment, w.private)
	env, err := k.command.Environ(place)
	return err == nil && slices.Equal(env, w.env) && k.command.Dir(place) == w.dir
}

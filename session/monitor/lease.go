package monitor

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"gatehouse/auth/identity"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/spawn"
)

// body is what a lease keeps alive: a worker's process tree.
type body interface {
	// Done is closed when the first process has ended.
	Done() <-chan struct{}
	// Signal signals every process of the tree.
	Signal(sig syscall.Signal)
	// Interrupt sends SIGINT to the first process.
	Interrupt()
	// Kill kills every process of the tree.
	Kill()
	// Status is how the first process ended; valid once Done is closed.
	Status() proc.Status
}

// ladder is how patiently a worker is ended: eof after its input ended comes
// SIGTERM, and term after that SIGKILL.
type ladder struct{ eof, term time.Duration }

// overdue is the ladder for a worker whose time is over: it had its warning.
var overdue = ladder{0, 800 * time.Millisecond}

// leaseCheck is the longest that an expiry timer sleeps. The timers of the
// runtime stand still while the host is suspended; the wall clock is looked at
// this often at least, for all leases in the same moment: a thousand of them would
// wake the monitor a hundred times a second.
const leaseCheck = 10 * time.Second

// limits bound what can run. The zero value admits nothing.
type limits struct {
	workers      int
	perPrincipal int // 0: only workers counts, and there is no rate either
	perToken     int
	rate         rate.Limit // spawns a second and principal
	burst        int
}

// leases is the table of all workers. Caps count workers that are not being ended;
// together with those that are, there may be twice as many, in all and of a principal.
type leases struct {
	limits limits
	now    func() time.Time

	mu      sync.Mutex // guards what follows, and all fields of every lease
	all     map[*lease]struct{}
	warm    map[*lease]struct{} // those that were given to nobody and are not being ended
	active  tally
	ending  tally
	buckets map[identity.Principal]*rate.Limiter
	closed  bool
	empty   *sync.Cond
}

// tally counts leases for the caps.
type tally struct {
	all  int
	mine map[identity.Principal]int
	of   map[string]int // by token
}

func newTally() tally {
	return tally{mine: make(map[identity.Principal]int), of: make(map[string]int)}
}

func (c *tally) add(v *verdict, n int) {
	c.all += n
	if c.mine[v.principal] += n; c.mine[v.principal] == 0 {
		delete(c.mine, v.principal)
	}
	if v.tokenID == "" {
		return
	}
	if c.of[v.tokenID] += n; c.of[v.tokenID] == 0 {
		delete(c.of, v.tokenID)
	}
}

// lease is one worker's right to live.
type lease struct {
	table      *leases
	verdict    verdict // the newest
	server     uint16
	assignment assignment
	until      time.Time // zero: never ends
	state      leaseState
	reason     string // why it is being ended
	urgent     bool   // ended in a state in which there was no body to kill yet
	body       body
	timer      *time.Timer

	// Of a warm worker.
	given bool       // somebody has claimed it
	taken chan owner // who that is

	// For operators.
	number uint64
	pid    int
	since  time.Time
}

type leaseState uint8

const (
	leaseStarting leaseState = iota // reserved, no process yet
	leaseWarm                       // runs, and was given to nobody
	leaseRunning
	leaseStopping
)

func newLeases(l limits, now func() time.Time) *leases {
	t := &leases{
		limits: l, now: now, all: make(map[*lease]struct{}), warm: make(map[*lease]struct{}), buckets: make(map[identity.Principal]*rate.Limiter),
		active: newTally(), ending: newTally(),
	}
	t.empty = sync.NewCond(&t.mu)
	return t
}

// reserve takes a place for a worker, or says which limit is in the way. A warm
// worker that is in the way is ended.
func (t *leases) reserve(v *verdict, server uint16, a assignment, until time.Time) (*lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.room(v)
	for err != nil && t.evict(v) {
		err = t.room(v)
	}
	if err != nil {
		return nil, err
	}
	if err := t.takeRate(v.principal); err != nil {
		return nil, err
	}
	return t.enter(v, server, a, until), nil
}

// room says which cap is in the way of one more worker; nil: none. t.mu is held.
func (t *leases) room(v *verdict) error {
	active, mine, ofToken := t.active.all, t.active.mine[v.principal], t.active.of[v.tokenID]
	ending := t.ending.mine[v.principal]
	lim := &t.limits
	switch {
	case t.closed:
		return refuse(spawn.KindDraining, "the service is stopping")
	case active >= lim.workers || len(t.all) >= 2*lim.workers:
		return refuse(spawn.KindLimit, "%d workers run, %d more are being ended", active, len(t.all)-active)
	case lim.perPrincipal > 0 && (mine >= lim.perPrincipal || mine+ending >= 2*lim.perPrincipal):
		return refuse(spawn.KindLimit, "%d workers of this principal run, %d more are being ended", mine, ending)
	case lim.perPrincipal > 0 && ofToken >= lim.perToken:
		return refuse(spawn.KindLimit, "%d workers of this token run", ofToken)
	}
	return nil
}

// enter puts a lease into the table, t.mu held.
func (t *leases) enter(v *verdict, server uint16, a assignment, until time.Time) *lease {
	l := &lease{table: t, verdict: *v, server: server, assignment: a, until: until}
	t.all[l] = struct{}{}
	t.active.add(v, 1)
	return l
}

// leave has a lease count as being ended from now on, t.mu held.
func (l *lease) leave(reason string) {
	l.state, l.reason = leaseStopping, reason
	l.table.active.add(&l.verdict, -1)
	l.table.ending.add(&l.verdict, 1)
	delete(l.table.warm, l)
}

// limit has other limits hold from now on. Workers beyond them live on.
func (t *leases) limit(l limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = l
	clear(t.buckets)
}

// takeRate takes one from the principal's bucket. t.mu is held.
func (t *leases) takeRate(p identity.Principal) error {
	if t.limits.perPrincipal == 0 {
		return nil
	}
	now := t.now()
	b := t.buckets[p]
	if b == nil {
		for other, full := range t.buckets { // a full bucket is like none
			if full.TokensAt(now) >= float64(t.limits.burst) {
				delete(t.buckets, other)
			}
		}
		b = rate.NewLimiter(t.limits.rate, t.limits.burst)
		t.buckets[p] = b
	}
	r := b.ReserveN(now, 1)
	if wait := r.DelayFrom(now); !r.OK() || wait > 0 {
		r.CancelAt(now)
		err := refuse(spawn.KindRate, "too many spawns of this principal")
		err.RetryAfter = max(wait, time.Second)
		return err
	}
	return nil
}

// release gives the place of a lease back whose worker is gone or never was.
func (l *lease) release() {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, live := t.all[l]; !live {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.state != leaseStopping {
		l.leave("")
	}
	t.ending.add(&l.verdict, -1)
	delete(t.all, l)
	if len(t.all) == 0 {
		t.empty.Broadcast()
	}
}

// describe notes what operators are told.
func (l *lease) describe(number uint64, pid int) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.number, l.pid, l.since = number, pid, l.table.now()
}

// run gives the lease its worker. If it was ended meanwhile, so is the worker.
func (l *lease) run(b body) {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	l.body = b
	l.arm()
	if l.state == leaseStopping {
		if l.urgent {
			b.Kill()
		} else {
			go climb(b, ladder{0, time.Second})
		}
		return
	}
	l.state = leaseRunning
	if _, warm := t.warm[l]; warm {
		l.state = leaseWarm
	}
}

// arm sets the timer. t.mu is held.
func (l *lease) arm() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if !l.until.IsZero() && l.body != nil {
		// Round strips the monotonic reading: what counts is the wall clock.
		now := l.table.now().Round(0)
		left, look := l.until.Sub(now), now.Truncate(leaseCheck).Add(leaseCheck).Sub(now)
		l.timer = time.AfterFunc(min(max(left, 0), look), l.check)
	}
}

// check ends a lease whose time is over.
func (l *lease) check() {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, live := t.all[l]; !live {
		return
	}
	switch {
	case l.until.IsZero(): // it was given to somebody for ever in this moment
	case t.now().Round(0).Before(l.until):
		l.arm()
	case l.state == leaseStopping:
		go l.body.Kill() // a slow end must not last longer than the lease, nor hold up others
	case l.state == leaseWarm:
		l.end("nobody needed it", overdue)
	default:
		l.end("lease expired", overdue)
	}
}

// stop ends the lease's worker. Only the first reason counts.
func (l *lease) stop(reason string, how ladder) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.end(reason, how)
}

// end is stop with t.mu held.
func (l *lease) end(reason string, how ladder) {
	if _, live := l.table.all[l]; !live || l.state == leaseStopping {
		return
	}
	l.leave(reason)
	if l.body != nil {
		go climb(l.body, how)
	}
}

// interrupt has a worker give up what it is doing, unless it is being ended.
func (l *lease) interrupt() {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if l.state == leaseRunning {
		l.body.Interrupt()
	}
}

// kill ends the worker at once, also one that is being ended.
func (l *lease) kill(reason string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if _, live := l.table.all[l]; live && l.state != leaseStopping {
		l.leave(reason)
	}
	l.urgent = true
	if l.body != nil {
		l.body.Kill()
	}
}

// climb goes up the ladder until the worker has ended.
func climb(b body, how ladder) {
	if ended(b, how.eof) {
		return
	}
	b.Signal(syscall.SIGTERM)
	b.Signal(syscall.SIGCONT) // a stopped process sees SIGTERM only then
	if ended(b, how.term) {
		return
	}
	b.Kill()
}

func ended(b body, wait time.Duration) bool {
	if wait <= 0 {
		select {
		case <-b.Done():
			return true
		default:
			return false
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-b.Done():
		return true
	case <-t.C:
		return false
	}
}

// renew moves the lease to a newer token of the same principal.
func (l *lease) renew(v *verdict, until time.Time) error {
	t := l.table
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case l.state != leaseRunning:
		return refuse(spawn.KindRefused, "the worker is being ended")
	case v.principal != l.verdict.principal:
		return refuse(spawn.KindRefused, "the token is another principal's")
	case l.until.IsZero() || !v.served.After(l.verdict.served): // not by the lease: the grace may be a shorter one since
		return refuse(spawn.KindRefused, "the token is not newer")
	}
	l.hold(v, until)
	return nil
}

// hold has the lease stand on that token from now on, t.mu held.
func (l *lease) hold(v *verdict, until time.Time) {
	l.table.active.add(&l.verdict, -1)
	l.table.active.add(v, 1)
	l.verdict, l.until = *v, until
	l.arm()
}

// why is the reason for the end, as the front end is told.
func (l *lease) why() string {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	return l.reason
}

// snapshot returns what may change.
func (l *lease) snapshot() (verdict, time.Time, leaseState) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	return l.verdict, l.until, l.state
}

// each calls fn for every lease at present, without holding the table.
func (t *leases) each(fn func(*lease)) {
	t.mu.Lock()
	list := make([]*lease, 0, len(t.all))
	for l := range t.all {
		list = append(list, l)
	}
	t.mu.Unlock()
	for _, l := range list {
		fn(l)
	}
}

// withdraw ends every worker that stands on a key which is gone.
func (t *leases) withdraw(iss identity.Issuer, keyIDs []string, how ladder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.all {
		if l.verdict.principal.Issuer == iss && slices.Contains(keyIDs, l.verdict.keyID) {
			l.end("key withdrawn", how)
		}
	}
}

// close refuses new leases from now on.
func (t *leases) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// wait returns when there is no lease any more.
func (t *leases) wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.all) > 0 {
		t.empty.Wait()
	}
}

// count is how many leases there are.
func (t *leases) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// tokenIDOf identifies a token for caps: by issuer and jti, or, where the issuer
// sends none, by what was signed. Signatures can be varied without a new token.
func tokenIDOf(iss identity.Issuer, jti, raw string) string {
	if jti != "" {
		return string(iss) + " " + jti
	}
	return raw[:max(strings.LastIndexByte(raw, '.'), 0)]
}

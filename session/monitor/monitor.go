package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
	"gatehouse/auth/token"
	"gatehouse/session/accounts"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/monitor/world"
	"gatehouse/session/spawn"
)

// Monitor is the running service.
type Monitor struct {
	cfg    Config
	log    zerolog.Logger
	host   *proc.Host
	judge  judge
	keys   *keys.Store // nil in loopback mode
	assign assigner
	byMap  *byMap // nil without an accounts file
	runner *runner
	leases *leases

	live          atomic.Pointer[Config] // what a reload may change, as it is now
	front, keeper *accounts.Account      // nil: our own
	number        atomic.Uint64          // of the last worker
	fronts        atomic.Int64           // front ends started so far
	rules         atomic.Uint64          // how often what decides on accounts was read again
	stopping      atomic.Bool
	over          chan struct{} // closed when nothing may be restarted any more
	fatal         chan error

	parts  sync.WaitGroup // the supervisors of front end and keykeeper
	output relay          // what they print

	guardOnce sync.Once
	guard     chan struct{} // closed when the process above is gone

	refusals quiet // bounds what refusals write to the log

	reloading sync.Mutex // one reload at a time

	mu        sync.Mutex // guards what follows
	keyring   keyring
	attendant *attendant // of the front end that runs now
	children  map[string]*proc.Child
}

// New prepares a monitor: everything that can be wrong is found here. It starts
// nothing but the thread that will start processes.
func New(ctx context.Context, cfg Config) (*Monitor, error) {
	root := os.Geteuid() == 0
	if err := cfg.check(root); err != nil {
		return nil, err
	}
	m := &Monitor{
		cfg: cfg, log: cfg.Log, host: proc.NewHost(), output: relay{to: os.Stderr},
		over: make(chan struct{}), fatal: make(chan error, 4), children: make(map[string]*proc.Child),
	}
	m.live.Store(&m.cfg)
	m.leases = newLeases(m.limits(), time.Now)
	for _, step := range []func(context.Context, bool) error{
		m.setAccounts, m.setJudge, m.setPrograms, m.setRunner, m.setState,
	} {
		if err := step(ctx, root); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Monitor) limits() limits {
	return m.cfg.limits()
}

func (c *Config) limits() limits {
	l := limits{workers: c.MaxWorkers}
	if c.authenticated() {
		l.perPrincipal, l.perToken = c.MaxPerPrincipal, c.MaxPerToken
		l.rate, l.burst = rate.Limit(c.SpawnRate), c.SpawnBurst
	}
	return l
}

// setAccounts finds the accounts of our own processes and of workers.
func (m *Monitor) setAccounts(ctx context.Context, root bool) error {
	local := &accounts.Directory{Etc: "/etc"} // system users are local
	var err error
	if m.front, err = systemAccount(ctx, local, m.cfg.FrontUser); err != nil {
		return err
	}
	if m.keeper, err = systemAccount(ctx, local, m.cfg.KeysUser); err != nil {
		return err
	}
	dir := &accounts.Directory{Etc: "/etc", Getent: m.getent}
	own := accounts.Account{}
	if !root {
		if own, err = dir.Self(ctx, uint32(os.Geteuid()), uint32(os.Getegid())); err != nil {
			return err
		}
	}
	names, err := m.namer()
	if err != nil {
		return err
	}
	switch {
	case m.cfg.Mode == ModeMonitor:
		m.assign = &tokenAccount{namer: names, dir: dir, policy: m.policy}
	case m.cfg.Mode == ModeSame:
		m.assign = &sameAccount{namer: names, own: own}
	case root:
		w := &workerAccount{name: identity.Account(m.cfg.WorkerUser), dir: dir, policy: m.policy}
		if _, err := w.Assign(ctx, &verdict{}); err != nil {
			return fmt.Errorf("account for workers: %w", err)
		}
		m.assign = w
	default:
		m.assign = &ownAccount{own: own, private: m.cfg.Mode == ModeShared}
	}
	return nil
}

// policy is which accounts may be used at all, now. Our own are none of them.
func (m *Monitor) policy() accounts.Policy {
	p := m.live.Load().Accounts
	p.DenyUsers = slices.Concat(p.DenyUsers, []string{m.cfg.FrontUser, m.cfg.KeysUser})
	return p
}

// namer reads the accounts file, if there is one.
func (m *Monitor) namer() (namer, error) {
	if m.cfg.AccountsFile == "" {
		return byClaim{}, nil
	}
	list, err := accounts.ReadMap(m.cfg.AccountsFile, os.Geteuid())
	if err != nil {
		return nil, err
	}
	m.byMap = &byMap{}
	m.byMap.current.Store(list)
	return m.byMap, nil
}

func (m *Monitor) setJudge(context.Context, bool) error {
	if !m.cfg.authenticated() {
		m.judge = loopbackJudge{}
		return nil
	}
	verifier, err := token.New(m.cfg.Policies...)
	if err != nil {
		return err
	}
	m.keys = keys.NewStore(m.cfg.issuers(), m.cfg.MaxStale, time.Now, m.withdrawn)
	j := &tokenJudge{verifier: verifier, keys: m.keys, now: time.Now}
	for _, s := range m.cfg.Servers {
		j.audiences = append(j.audiences, s.Audiences)
	}
	m.judge = j
	return nil
}

// withdrawn ends the workers that stand on keys which are gone.
func (m *Monitor) withdrawn(gone []keys.Removed) {
	for _, r := range gone {
		m.log.Warn().Str("issuer", clean(string(r.Issuer))).Int("keys", len(r.KeyIDs)).Msg("keys were withdrawn; workers that stand on them end")
		m.leases.withdraw(r.Issuer, r.KeyIDs, ladder{0, m.cfg.KillGraceHard})
	}
}

// setPrograms checks the programs that we start.
func (m *Monitor) setPrograms(_ context.Context, root bool) error {
	m.runner = &runner{host: m.host, tz: m.cfg.TZ, uncontained: m.uncontained}
	for i := range m.cfg.Servers {
		k, err := newWorkerKind(&m.cfg.Servers[i], m.cfg.BinDir, m.cfg.Mode == ModeMonitor, os.Geteuid())
		if err != nil {
			return err
		}
		m.runner.workers = append(m.runner.workers, k)
	}
	names := []string{"gatehouse"}
	if m.cfg.authenticated() {
		names = append(names, "gatehouse-keykeeper")
	}
	for _, name := range names {
		c := world.Command{Argv: []string{filepath.Join(m.cfg.BinDir, name)}, Strict: root}
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}

// setRunner finds out how worker trees are contained.
func (m *Monitor) setRunner(context.Context, bool) error {
	owner := os.Getpid()
	if m.cfg.Guard != nil { // which made it, having the right to
		owner = os.Getppid()
	}
	base, err := cgroup.OpenFor(owner)
	if err != nil {
		m.log.Warn().Err(err).Msg("no control groups: a worker that sets out to can leave processes behind")
		return nil
	}
	m.runner.groups.Store(base)
	return nil
}

// uncontained is told by the runner that control groups do not work after all.
func (m *Monitor) uncontained(err error) {
	m.log.Warn().Err(err).Msg("starting in a control group does not work here: a worker that sets out to can leave processes behind")
}

// setState makes the folders of the service.
func (m *Monitor) setState(_ context.Context, root bool) error {
	if m.cfg.Mode == ModeShared || (root && m.cfg.Mode == ModeLoopback) {
		var err error
		if m.runner.private, err = world.OpenPrivate(m.cfg.StateDir); err != nil {
			return err
		}
	}
	if !m.cfg.authenticated() {
		return nil
	}
	cert, key, err := m.openCert()
	if err != nil {
		return err
	}
	closeFiles([]*os.File{cert, key})
	return keysFolder(filepath.Join(m.cfg.StateDir, "keys"), m.keeper)
}

// keysFolder makes the folder in which the keykeeper saves key sets, and gives it to
// the keykeeper's account.
func keysFolder(path string, owner *accounts.Account) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	if err == nil && owner != nil {
		if err = openToPass(filepath.Dir(path)); err == nil {
			err = os.Lchown(path, int(owner.UID), int(owner.GID))
		}
	}
	if err != nil {
		return fmt.Errorf("make folder for key sets: %w", err)
	}
	return nil
}

// openToPass lets other accounts pass through a folder of ours, and leaves the rest
// of its mode as it is.
func openToPass(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return os.Chmod(dir, st.Mode().Perm()|0o011)
}

// until is when a lease for that token ends; zero: never.
func (m *Monitor) until(v *verdict) time.Time {
	if v.served.IsZero() {
		return time.Time{}
	}
	return v.served.Add(m.live.Load().CredentialGrace)
}

// patient is the ladder for workers whose input has ended or is about to.
func (m *Monitor) patient() ladder { return ladder{m.cfg.KillGrace, m.cfg.KillGraceHard} }

// judged has the judge decide, and wants the scopes that the server requires, as the
// front end has before us.
func (m *Monitor) judged(ctx context.Context, server uint16, raw string) (verdict, error) {
	v, err := m.judge.Judge(ctx, server, raw)
	if err != nil {
		return v, err
	}
	servers := m.live.Load().Servers
	if int(server) >= len(servers) || !v.scopes.Has(servers[server].Scopes...) {
		return v, refuse(spawn.KindToken, "the token lacks a scope that its server requires")
	}
	return v, nil
}

// spawn serves one SPAWN. A refusal is a *spawn.Error.
func (m *Monitor) spawn(a *attendant, r spawn.SpawnRequest) error {
	v, err := m.judged(a.ctx, r.Server, r.Token)
	if err != nil {
		return m.refusal(r.Server, &v, nil, err)
	}
	rules := m.rules.Load()
	as, err := m.assign.Assign(a.ctx, &v)
	if err != nil {
		return m.refusal(r.Server, &v, nil, err)
	}
	as.rules = rules
	l, warm := m.takeWarm(&v, r.Server, &as)
	if l == nil {
		if l, err = m.leases.reserve(&v, r.Server, as, m.until(&v)); err != nil {
			return m.refusal(r.Server, &v, &as, err)
		}
	}
	if err := m.decideAgain(a.ctx, r, l, &v, &as); err != nil {
		m.giveBack(l, warm)
		return m.refusal(r.Server, &v, &as, err)
	}
	if warm != nil {
		l.taken <- m.handOver(a, r.Seq, l, warm)
	} else if err := m.startCold(a, r.Seq, l, job{server: r.Server, verdict: &v, assignment: &as}); err != nil {
		return m.refusal(r.Server, &v, &as, refuse(spawn.KindUnavailable, "%v", err))
	}
	if m.live.Load().WarmWorkers > 0 {
		go m.keepWarm(a, &v, r.Server, &as)
	}
	return nil
}

// decideAgain judges once more what was judged by keys or rules that were replaced
// before the lease stood in the table, where whoever replaces them looks.
func (m *Monitor) decideAgain(ctx context.Context, r spawn.SpawnRequest, l *lease, v *verdict, as *assignment) error {
	if m.judge.Generation() != v.generation {
		if _, err := m.judged(ctx, r.Server, r.Token); err != nil {
			return err
		}
	}
	if m.rules.Load() != as.rules {
		return m.recheck(ctx, l, v)
	}
	return nil
}

// startCold starts a worker for the front end under a lease of its own.
func (m *Monitor) startCold(a *attendant, seq uint64, l *lease, j job) error {
	number := m.number.Add(1)
	w, err := m.runner.start(j, number)
	if err != nil {
		l.release()
		return err
	}
	l.describe(number, w.child.PID())
	l.run(w)
	s := m.handOver(a, seq, l, w)
	go m.attendWorker(s, l, w)
	return nil
}

// giveBack gives a lease up that nobody will use, and ends its worker, if it has one.
func (m *Monitor) giveBack(l *lease, warm *running) {
	if warm == nil {
		l.release()
		return
	}
	l.stop("key withdrawn", ladder{0, m.cfg.KillGraceHard})
	l.taken <- owner{}
}

// handOver gives a started worker to the front end. Without one any more the worker
// ends, and the owner is nobody's.
func (m *Monitor) handOver(a *attendant, seq uint64, l *lease, w *running) owner {
	m.auditStart("spawn", l, w.child.PID())
	handle, ok := a.adopt(l)
	if !ok {
		l.stop("the front end ended", m.patient())
		return owner{}
	}
	_, until, _ := l.snapshot()
	a.send(outgoing{files: w.handles(), frame: spawn.Spawned{
		Seq: seq, Handle: handle, PID: uint32(w.child.PID()), UID: l.assignment.account.UID,
		Account: string(l.assignment.account.Name), Lease: spawn.UnixMilli(until),
	}})
	return owner{a, handle}
}

// attendWorker waits for a worker's end, clears its tree away and says so. One that is
// no front end's has its pipes closed first, which asks it to end.
func (m *Monitor) attendWorker(to owner, l *lease, w *running) {
	if to.a == nil {
		go closeFiles(w.handles()) // waits while the worker keeps a pipe locked
	}
	<-w.Done()
	if err := w.clear(); err != nil {
		m.log.Error().Err(err).Int("pid", w.child.PID()).Msg("worker was not cleared away")
	}
	l.release()
	st, reason := w.Status(), l.why()
	m.auditExit(l, w.child.PID(), st, reason)
	if to.a == nil {
		return
	}
	to.a.dismiss(to.handle)
	to.a.send(outgoing{frame: spawn.Exited{
		Handle: to.handle, Code: int32(st.Code), Signal: uint32(st.Signal), Reason: shorten(reason, spawn.MaxReason),
	}})
}

// renew serves one RENEW. A refusal is a *spawn.Error.
func (m *Monitor) renew(a *attendant, l *lease, r spawn.RenewRequest) error {
	v, err := m.judged(a.ctx, l.server, r.Token)
	if err != nil {
		return m.refusal(l.server, &v, &l.assignment, err)
	}
	if old, _, _ := l.snapshot(); old.principal != v.principal {
		return m.refusal(l.server, &v, &l.assignment, refuse(spawn.KindRefused, "the token is another principal's"))
	}
	if err := m.recheck(a.ctx, l, &v); err != nil {
		return m.refusal(l.server, &v, &l.assignment, err)
	}
	if err := l.renew(&v, m.until(&v)); err != nil {
		return m.refusal(l.server, &v, &l.assignment, err)
	}
	if m.judge.Generation() != v.generation {
		if _, err := m.judged(a.ctx, l.server, r.Token); err != nil {
			l.stop("key withdrawn", ladder{0, m.cfg.KillGraceHard})
			return m.refusal(l.server, &v, &l.assignment, err)
		}
	}
	_, until, _ := l.snapshot()
	a.send(outgoing{frame: spawn.Renewed{Seq: r.Seq, Lease: spawn.UnixMilli(until)}})
	return nil
}

// recheck assigns the account anew and ends the lease if it is not the same any
// more: locked, expired, unmapped, out of a group.
func (m *Monitor) recheck(ctx context.Context, l *lease, v *verdict) error {
	as, err := m.assign.Assign(ctx, v)
	if err == nil && as.same(&l.assignment) {
		return nil
	}
	if err == nil {
		err = refuse(spawn.KindNoAccount, "account %s is not what it was", l.assignment.account.Name)
	}
	var e *spawn.Error
	if errors.As(err, &e) && e.Kind == spawn.KindUnavailable {
		return err // a fault, and no answer
	}
	l.stop("account changed", ladder{0, m.cfg.KillGraceHard})
	return err
}

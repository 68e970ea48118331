package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/keys"
	"gatehouse/session/accounts"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/monitor/world"
	"gatehouse/session/spawn"
)

const (
	// helloLimit is how long a front end may take until it serves.
	helloLimit = 30 * time.Second
	// maxEarlyEnds is how often in a row a part may end before it was any use.
	maxEarlyEnds = 5
	// settled is how long a part must have run for its next restart to be quick.
	settled = time.Minute

	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Names of the two parts, in logs and in Monitor.children.
const (
	frontName = "front end"
	keysName  = "keykeeper"
)

// pacer spaces restarts.
type pacer struct {
	pause time.Duration
	early int
}

// next takes note of how long a part ran, and whether it was of use, and returns
// how long to wait. ok is false when it makes no sense to go on.
func (p *pacer) next(ran time.Duration, useful bool) (wait time.Duration, ok bool) {
	if useful {
		p.early = 0
	} else {
		p.early++
	}
	if ran >= settled || p.pause == 0 {
		p.pause = firstPause
	} else {
		p.pause = min(2*p.pause, lastPause)
	}
	return p.pause, p.early < maxEarlyEnds
}

// supervise runs a part again and again until the service ends. once runs it one
// time and says whether it was of use.
func (m *Monitor) supervise(name string, once func() (useful bool, err error)) {
	var p pacer
	// A front end that ends while the service stops has done what was asked of it.
	finished := func() bool {
		select {
		case <-m.over:
			return true
		default:
			return m.stopping.Load() && name == frontName
		}
	}
	for !finished() {
		began := time.Now()
		useful, err := once()
		if finished() {
			return
		}
		wait, ok := p.next(time.Since(began), useful)
		if !ok {
			m.fatal <- fmt.Errorf("%s ended %d times before it was ready; the last time: %w", name, maxEarlyEnds, err)
			return
		}
		m.log.Warn().Str("part", name).Str("reason", clean(err.Error())).Dur("restart_in", wait).Msg("part of the service ended")
		select {
		case <-m.over:
			return
		case <-time.After(wait):
		}
	}
}

// partEnv is the environment of our own processes; Config.PartEnv is added to it.
var partEnv = []string{"LANG=" + world.Lang, "PATH=" + world.Path}

// awake keeps the watchdog of Go's runtime from sleeping in an idle process, as a side
// effect of having it trace the scheduler every 2^31-1 ms. To wake it costs the front end
// more than the system call that wakes it (docs/decisions/0013-watchdog.md).
const awake = "GODEBUG=schedtrace=2147483647"

// launch starts one of our own processes. What it prints comes by the relay, and its log,
// which it writes to its stdout, apart from the words of the runtime on its stderr.
func (m *Monitor) launch(name string, argv []string, as *accounts.Account, files []*os.File, env ...string) (*proc.Child, error) {
	log, err := m.output.attach()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	words, err := m.output.attach()
	if err != nil {
		return nil, err
	}
	defer words.Close()
	files = slices.Clone(files)
	files[1], files[2] = log, words
	spec := proc.Spec{
		Path: filepath.Join(m.cfg.BinDir, argv[0]), Argv: append([]string{filepath.Join(m.cfg.BinDir, argv[0])}, argv[1:]...),
		Env: slices.Concat(partEnv, m.cfg.PartEnv, env), Dir: "/", Files: files,
	}
	if as != nil {
		spec.As = &proc.Identity{UID: as.UID, GID: as.GID}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.over: // nothing may start any more
		return nil, errors.New("the service is ending")
	default:
	}
	c, err := m.host.Start(spec)
	if err == nil {
		m.children[name] = c
	}
	return c, err
}

// signalPart signals a part, if it runs.
func (m *Monitor) signalPart(name string, sig syscall.Signal) *proc.Child {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.children[name]
	if c != nil {
		c.Signal(sig)
	}
	return c
}

// runFront runs one incarnation of the front end.
func (m *Monitor) runFront() (useful bool, err error) {
	ours, theirs, err := spawn.Pair()
	if err != nil {
		return false, err
	}
	conn, err := spawn.NewConn(ours, 0)
	if err != nil {
		closeFiles([]*os.File{ours, theirs})
		return false, err
	}
	a := newAttendant(m, conn)
	defer a.orphaned("the front end ended")
	if m.fronts.Add(1) > 1 {
		if err := m.newKeyring(); err != nil {
			theirs.Close()
			return false, err
		}
	}
	m.setAttendant(a) // before it gets its part: whatever is read again from now on is sent to it
	defer m.setAttendant(nil)
	files, done, err := m.frontFiles(theirs)
	if err != nil {
		return false, err
	}
	c, err := m.launch(frontName, []string{"gatehouse", "front"}, m.front, files, awake)
	done()
	if err != nil {
		return false, err
	}
	return m.attendFront(a, c)
}

// attendFront serves a front end until it has ended.
func (m *Monitor) attendFront(a *attendant, c *proc.Child) (useful bool, err error) {
	served := make(chan error, 1)
	go func() { served <- a.serve() }()
	late := time.NewTimer(helloLimit)
	defer late.Stop()
	ready := a.ready
	for {
		select {
		case <-ready:
			ready, useful = nil, true
			late.Stop()
			m.log.Info().Int("pid", c.PID()).Msg("front end serves")
		case <-late.C:
			err = fmt.Errorf("not ready after %v", helloLimit)
			c.Signal(syscall.SIGKILL)
		case err = <-served:
			served = nil
			var f *fault
			reason := "the front end ended"
			if errors.As(err, &f) {
				m.alert(err, "front end is compromised; it is killed and its workers end")
				reason = "the front end is compromised"
			}
			a.orphaned(reason)
			if err == nil { // it hung up, or is ending
				err = errors.New("closed its socket")
				if waitFor(c.Done(), time.Second) {
					err = nil // its status says more
					continue
				}
			}
			c.Signal(syscall.SIGKILL)
		case <-c.Done():
			if err == nil {
				err = errors.New(c.Status().String())
			}
			return useful, err
		}
	}
}

func waitFor(ch <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ch:
		return true
	case <-t.C:
		return false
	}
}

// frontFiles are the descriptors of the front end, by number (cmd/internal/plan).
// done closes those that only it needs, once it has them.
func (m *Monitor) frontFiles(socket *os.File) (files []*os.File, done func(), err error) {
	opened := []*os.File{socket}
	defer func() {
		if err != nil {
			closeFiles(opened)
		}
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	opened = append(opened, null)
	part, err := world.SealedFile("gatehouse-front", m.live.Load().FrontPart)
	if err != nil {
		return nil, nil, err
	}
	opened = append(opened, part)
	files = []*os.File{null, nil, nil, part, socket} // launch fills in the outputs
	if m.cfg.authenticated() {
		m.mu.Lock()
		files = append(files, m.keyring.front)
		m.mu.Unlock()
	}
	if m.cfg.TLSCert != "" {
		cert, key, err := m.openCert()
		if err != nil {
			return nil, nil, err
		}
		opened = append(opened, cert, key)
		files = append(files, cert, key)
	}
	return append(files, m.cfg.Listeners...), func() { closeFiles(opened) }, nil
}

func (m *Monitor) setAttendant(a *attendant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attendant = a
}

// keyring is the socketpair between keykeeper and front end. We hold both ends, so
// that a keykeeper that is started anew goes on with the same one.
type keyring struct{ front, keeper *os.File }

// newKeyring makes a socketpair for a new front end. The keykeeper may have hung up
// on the one before, who knows what for, so it is started anew with the new one; the
// monitor keeps the keys that it has.
func (m *Monitor) newKeyring() error {
	if !m.cfg.authenticated() {
		return nil
	}
	front, keeper, err := spawn.Pair()
	if err != nil {
		return err
	}
	m.mu.Lock()
	old := m.keyring
	m.keyring = keyring{front, keeper}
	m.mu.Unlock()
	if old.front != nil {
		closeFiles([]*os.File{old.front, old.keeper})
		m.signalPart(keysName, syscall.SIGTERM)
	}
	return nil
}

// runKeykeeper runs one incarnation of the keykeeper.
func (m *Monitor) runKeykeeper() (useful bool, err error) {
	ours, theirs, err := spawn.Pair()
	if err != nil {
		return false, err
	}
	defer ours.Close()
	opened := []*os.File{theirs}
	defer func() { closeFiles(opened) }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return false, err
	}
	opened = append(opened, null)
	part, err := world.SealedFile("gatehouse-keykeeper", m.cfg.KeysPart)
	if err != nil {
		return false, err
	}
	opened = append(opened, part)
	ring, copied, err := m.keeperEnd()
	if err != nil {
		return false, err
	}
	opened = append(opened, copied)
	c, err := m.launch(keysName, []string{"gatehouse-keykeeper"}, m.keeper,
		[]*os.File{null, nil, nil, part, theirs, copied})
	closeFiles(opened)
	opened = nil
	if err != nil {
		return false, err
	}
	if !m.isKeyring(ring) { // there is a new front end since
		c.Signal(syscall.SIGTERM)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- m.keys.Serve(ctx, ours) }()
	select {
	case err = <-served:
		var p *keys.ProtocolError
		if errors.As(err, &p) {
			m.alert(err, "keykeeper is compromised; it is killed")
		}
		if !waitFor(c.Done(), time.Second) {
			c.Signal(syscall.SIGKILL)
			<-c.Done()
		}
	case <-c.Done():
	}
	return m.keysHeard(), fmt.Errorf("%v", c.Status())
}

// keeperEnd is the keyring that counts now, and a duplicate of the keykeeper's end.
func (m *Monitor) keeperEnd() (ring keyring, end *os.File, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fds, err := numbers([]*os.File{m.keyring.keeper})
	if err != nil {
		return ring, nil, err
	}
	fd, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return ring, nil, fmt.Errorf("duplicate socket: %w", err)
	}
	return m.keyring, os.NewFile(uintptr(fd), "keyring"), nil
}

// isKeyring reports whether it is still the one that counts.
func (m *Monitor) isKeyring(k keyring) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keyring == k
}

// keysHeard reports whether the keykeeper ever said anything, so that one that
// can't start at all is not started for ever.
func (m *Monitor) keysHeard() bool {
	for _, s := range m.keys.Status() {
		if s.Health != keys.HealthStarting || !s.AttemptedAt.IsZero() {
			return true
		}
	}
	return false
}

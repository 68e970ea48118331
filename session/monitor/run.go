package monitor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"gatehouse/session/accounts"
	"gatehouse/session/monitor/proc"
)

const (
	// recheckEvery is how often the accounts of running workers are looked at unless
	// the configuration says, so that one that was locked, or left a group, does not
	// work on for hours.
	recheckEvery = 5 * time.Minute
	// rechecksAtOnce is how many accounts are looked at at the same time.
	rechecksAtOnce = 16
	// partLimit is how long a part may take to end after SIGTERM.
	partLimit = 2 * time.Second
	// drainSlack is what the front end may take beyond the drain limit, to answer
	// and to see its workers end.
	drainSlack = time.Second
	// sameSignal is how soon after the first a second signal is the same one, which
	// came by two ways: sent to all our processes, and passed on by the guard.
	sameSignal = 500 * time.Millisecond
)

// Run starts the service and returns when nothing of it is left. The first
// SIGTERM or SIGINT drains it, a second one half a second later or more ends it at
// once, SIGHUP reads configuration and accounts file again and hands certificate and
// key to the front end. The error is nil when it was asked to end.
func (m *Monitor) Run(ctx context.Context, signals <-chan os.Signal) error {
	if err := proc.Adopt(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go m.host.ReapOrphans(ctx)
	operators, err := m.openOperators()
	if err != nil {
		return err
	}
	if operators != nil {
		defer closeOperators(operators)
		go m.serveOperators(operators)
	}
	certs := newCertWatch(m) // before the front end opens the files
	if err := m.startParts(); err != nil {
		return err
	}
	go certs.run(ctx, certPoll)
	go m.watchAccounts(ctx, cmp.Or(m.cfg.AccountRecheck, recheckEvery))

	var drained chan struct{}
	var first time.Time
	for {
		select {
		case <-drained:
			return m.finish(nil)
		case err := <-m.fatal:
			m.log.Error().Err(err).Msg("the service can't go on")
			m.abort("the service can't go on")
			return m.finish(err)
		case <-m.guardGone():
			m.abort("the guard is gone")
			return m.finish(errors.New("the process above the monitor is gone"))
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				go m.reload(ctx)
			case drained == nil:
				m.log.Info().Stringer("signal", s).Msg("stopping: running calls may finish")
				drained, first = make(chan struct{}), time.Now()
				go m.drain(drained)
			case time.Since(first) > sameSignal:
				m.abort("second signal")
				return m.finish(nil)
			}
		}
	}
}

// startParts starts keykeeper and front end and keeps them running.
func (m *Monitor) startParts() error {
	if m.cfg.authenticated() {
		if err := m.newKeyring(); err != nil {
			return err
		}
		m.parts.Go(func() { m.supervise(keysName, m.runKeykeeper) })
	}
	m.parts.Go(func() { m.supervise(frontName, m.runFront) })
	return nil
}

// guardGone is closed when the process above us has ended.
func (m *Monitor) guardGone() <-chan struct{} {
	m.guardOnce.Do(func() {
		m.guard = make(chan struct{})
		if m.cfg.Guard == nil {
			return
		}
		go func() {
			io.Copy(io.Discard, m.cfg.Guard)
			close(m.guard)
		}()
	})
	return m.guard
}

// drain lets the front end finish running calls, then ends all workers together.
func (m *Monitor) drain(done chan<- struct{}) {
	defer close(done)
	m.stopping.Store(true)
	m.leases.close()
	m.leases.endWarm("the service is stopping")
	front := m.signalPart(frontName, syscall.SIGTERM)
	if front != nil && !waitFor(front.Done(), m.live.Load().DrainLimit+drainSlack) {
		m.log.Warn().Msg("front end still runs after the drain limit; its workers end now")
	}
	m.leases.each(func(l *lease) { l.stop("the service is stopping", m.patient()) })
	ladderTime := m.cfg.KillGrace + m.cfg.KillGraceHard
	if front != nil && !waitFor(front.Done(), ladderTime+drainSlack) {
		front.Signal(syscall.SIGKILL)
	}
	if !m.leasesGone(ladderTime + treeLimit) {
		m.log.Error().Int("workers", m.leases.count()).Msg("workers do not end")
	}
}

// leasesGone waits for the end of all workers.
func (m *Monitor) leasesGone(limit time.Duration) bool {
	gone := make(chan struct{})
	go func() {
		m.leases.wait()
		close(gone)
	}()
	return waitFor(gone, limit)
}

// abort kills everything at once.
func (m *Monitor) abort(reason string) {
	m.stopping.Store(true)
	m.leases.close()
	m.signalPart(frontName, syscall.SIGKILL)
	m.leases.each(func(l *lease) { l.kill(reason) })
	m.leasesGone(treeLimit)
}

// finish ends what is left when no worker should be.
func (m *Monitor) finish(result error) error {
	m.mu.Lock()
	close(m.over)
	m.mu.Unlock()
	for _, name := range []string{frontName, keysName} {
		if c := m.signalPart(name, syscall.SIGTERM); c != nil && !waitFor(c.Done(), partLimit) {
			c.Signal(syscall.SIGKILL)
			<-c.Done()
		}
	}
	m.parts.Wait()
	m.output.finish(partLimit)
	m.closeGroups()
	if err := m.runner.private.Close(); err != nil {
		m.log.Error().Err(err).Msg("private folders were not cleared away")
	}
	m.log.Info().Msg("stopped")
	return result
}

// closeGroups clears the control groups away; the folder itself is the guard's.
func (m *Monitor) closeGroups() {
	base := m.runner.groups.Load()
	if base == nil {
		return
	}
	end := base.Close
	if m.cfg.Guard != nil {
		end = base.Clear
	}
	if err := end(); err != nil {
		m.log.Error().Err(err).Msg("control groups were not cleared away")
	}
}

// reload reads what can be read again without ending a session. What can't be read
// changes nothing.
func (m *Monitor) reload(ctx context.Context) {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	if err := m.sendCert(); err != nil {
		m.log.Error().Err(err).Msg("new certificate is not used")
	}
	m.reconfigure(ctx)
	m.readAccounts()
	m.rules.Add(1)
	m.recheckAll(ctx)
	m.leases.endWarm("the configuration was read again")
}

func (m *Monitor) readAccounts() {
	if m.byMap == nil {
		return
	}
	list, err := accounts.ReadMap(m.cfg.AccountsFile, os.Geteuid())
	if err != nil {
		m.log.Error().Err(err).Msg("accounts file is not used; the one before stays in force")
		return
	}
	m.byMap.current.Store(list)
	if list.Len() == 0 {
		m.log.Warn().Msg("accounts file read again: it names nobody, so nobody gets in")
		return
	}
	m.log.Info().Int("entries", list.Len()).Msg("accounts file read again")
}

// watchAccounts looks at the accounts of running workers from time to time.
func (m *Monitor) watchAccounts(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.recheckAll(ctx)
		}
	}
}

// recheckAll ends the workers whose account is not what it was. Some are looked at at
// the same time, so that homes that do not answer hold up the look at others less.
func (m *Monitor) recheckAll(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	places := make(chan struct{}, rechecksAtOnce)
	m.leases.each(func(l *lease) {
		v, _, state := l.snapshot()
		if state == leaseStopping { // one that is being started is looked at too
			return
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if err := m.recheck(ctx, l, &v); err != nil {
				m.refusal(l.server, &v, &l.assignment, err)
			}
		})
	})
}

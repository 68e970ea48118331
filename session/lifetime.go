package session

import (
	"errors"
	"time"

	"gatehouse/session/spawn"
)

// expiresAt is when the newest token seen is served no more; zero: never.
func (s *Session) expiresAt() time.Time {
	if n := s.expiry.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// renewalDelay is how long a newer token waits at most before the monitor is shown
// it. A client that brings a new token with each call would otherwise have the
// monitor, which is one process for everybody, verify each of them.
const renewalDelay = time.Second

// renewalTick is the multiple of time at which what waits is shown, so that newer
// tokens of many sessions come together and the monitor wakes up once for them.
const renewalTick = 250 * time.Millisecond

// seen compares the token of a request with the newest one. A newer one moves the
// session's expiry and is shown to the monitor, which owns the worker's lease.
func (s *Session) seen(c Caller) {
	if c.Expiry.IsZero() || c.Expiry.UnixNano() <= s.expiry.Load() {
		return
	}
	s.renewLock.Lock()
	defer s.renewLock.Unlock()
	if c.Expiry.UnixNano() <= s.expiry.Load() {
		return
	}
	s.expiry.Store(c.Expiry.UnixNano())
	s.keyID, s.token = c.KeyID, c.Token
	if s.renewal == nil {
		s.renewal = time.AfterFunc(s.renewalIn(), s.showNewest)
	} else if s.keyID != s.shownKey && s.renewal.Stop() {
		s.renewal.Reset(0)
	}
}

// renewalIn is how long the newest token may wait, s.renewLock held: not until the
// lease ends, and not at all when it has another key, because the monitor ends workers
// whose token has a key that was withdrawn.
func (s *Session) renewalIn() time.Duration {
	if s.keyID != s.shownKey {
		return 0
	}
	now := s.t.now()
	wait := renewalDelay - time.Duration(now.UnixNano())%renewalTick
	if lease := s.worker.Lease(); !lease.IsZero() {
		return max(0, min(wait, lease.Sub(now)/2))
	}
	return wait
}

// showNewest has the monitor shown the newest token.
func (s *Session) showNewest() {
	s.renewLock.Lock()
	token := s.token
	s.token, s.shownKey = "", s.keyID
	s.renewLock.Unlock()
	s.worker.Renew(token, s.renewed)
}

// renewed takes the monitor's answer. A token that came meanwhile is shown next.
func (s *Session) renewed(err error) {
	if err != nil {
		go s.notRenewed(err)
	}
	s.renewLock.Lock()
	defer s.renewLock.Unlock()
	s.renewal = nil
	if s.token != "" {
		s.renewal = time.AfterFunc(s.renewalIn(), s.showNewest)
	}
}

// notRenewed ends the session when its account is gone. A token that the monitor likes
// less than we do ends nothing.
func (s *Session) notRenewed(err error) {
	select {
	case <-s.worker.Exited():
		return
	default:
	}
	if s.t.ctx.Err() == nil {
		s.log().Warn().Err(err).Msg("lease not renewed")
	}
	if why, ok := errors.AsType[*spawn.Error](err); ok && (why.Kind == spawn.KindNoAccount || why.Kind == spawn.KindClientOwn) {
		s.End("no account any more: " + why.Reason)
	}
}

// clocks count how long a session was quiet. They count in passes of the reaper,
// so that a suspended host or a stalled process ends nobody.
type clocks struct {
	age     time.Duration // of the session
	sign    int64         // lastSign at the last pass
	present bool          // there was a stream or a call at the last pass
	quiet   time.Duration // since a sign of the client
	away    time.Duration // since then without a stream and without a call
}

// reap looks at all sessions once an interval. The next interval begins when a pass
// has ended: passes that were missed are not made up for.
func (t *Table) reap() {
	defer close(t.reaped)
	timer := time.NewTimer(t.conf().Lifetime.ReaperInterval)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			for _, s := range t.all() {
				if reason := s.pass(); reason != "" {
					s.End(reason)
				}
			}
			timer.Reset(t.conf().Lifetime.ReaperInterval)
		case <-t.ctx.Done():
			return
		}
	}
}

// pass is one look at the session; it returns why it has to end, if it has.
func (s *Session) pass() string {
	c, now := s.t.conf(), s.t.now()
	l := &c.Lifetime
	s.clocks.age += l.ReaperInterval
	if l.MaxLifetime > 0 && s.clocks.age >= l.MaxLifetime {
		return "max lifetime"
	}
	if at := s.expiresAt(); !at.IsZero() && !now.Before(at.Add(c.CredentialGrace)) {
		return "credential expired"
	}
	calls, attended := s.running()
	o := &s.outbox
	o.mu.Lock()
	stream, had := o.stream, o.had
	open := stream != nil || s.hub.open()
	if s.clocks.count(s.lastSign.Load(), l.ReaperInterval, attended > 0, open || calls > 0) {
		o.probe.forget()
	}
	gone := o.probe.pass(l, stream, s.clocks.quiet)
	s.replay.sweep(stream)
	o.mu.Unlock()
	switch {
	case gone:
		return "the client did not answer two pings on its stream"
	case l.Idle > 0 && s.clocks.quiet >= l.Idle:
		return "idle"
	case open || calls > 0:
	case had && l.StreamLossGrace >= 0:
		if s.clocks.away >= l.StreamLossGrace {
			return "the client closed its stream and did not come back"
		}
	case l.Streamless > 0 && s.clocks.away >= l.Streamless:
		return "quiet without a stream"
	}
	return ""
}

// count lets one interval pass, and reports whether the client has shown itself. A
// client that waits for an answer is not quiet; one that left its call running is,
// but not away.
func (c *clocks) count(sign int64, interval time.Duration, attended, present bool) bool {
	if attended || sign != c.sign {
		*c = clocks{age: c.age, sign: sign, present: present}
		return true
	}
	c.quiet += interval
	c.away += interval
	if present || c.present {
		c.away = 0
	}
	c.present = present
	return false
}

// streamLost ends the session at once when that is the policy.
func (s *Session) streamLost() {
	if s.t.conf().Lifetime.StreamLossGrace != 0 {
		return
	}
	if calls, _ := s.running(); calls == 0 {
		s.End("the client closed its stream")
	}
}

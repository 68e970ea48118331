package conf

import (
	"cmp"
	"net"
	"net/netip"
	"strings"
	"time"

	"gatehouse/cmd/internal/plan"
)

// rules is everything that is checked across settings, in the order in which
// problems are reported. Each rule reports all that it finds.
var rules = []struct {
	ways Ways
	rule func(*loader)
}{
	{Always, (*loader).needed},
	{Always, (*loader).meaningless},
	{Always, (*loader).listening},
	{InAuth, (*loader).running},
	{InLoopback | InShared, (*loader).workerUser},
	{InAccounts, (*loader).accounts},
	{InAuth, (*loader).issuers},
	{InAuth, (*loader).certificate},
	{Always, (*loader).servers},
	{Always, (*loader).workers},
	{Always, (*loader).caps},
	{Always, (*loader).intervals},
	{Always, (*loader).programs},
}

// validate runs the rules that apply. Without a mode nothing else can be judged.
func (l *loader) validate() {
	if l.c.Mode == "" {
		if !l.isSet("mode", 0) {
			l.refuse("", "mode (MCP_MODE, --mode) must be chosen: loopback serves without tokens to every user of this machine and to nobody else; authenticated wants TLS and a token of an issuer")
		}
		return
	}
	way := l.c.Way()
	for _, r := range rules {
		if r.ways.has(way) {
			r.rule(l)
		}
	}
}

// needed refuses what must be set and is not.
func (l *loader) needed() {
	way := l.c.Way()
	if l.c.Authenticated() && len(l.c.Issuers) == 0 {
		l.refuse("", "%s is missing: %s", name("issuers[].issuer", 0), lower(find("issuers[].issuer").Help))
	}
	for _, s := range rows {
		switch {
		case s.Key == "mode", s.Key == "run_as", s.Needed == 0, !s.Needed.has(way) || !l.c.Authenticated():
			continue
		}
		for i := range l.c.count(s.list()) {
			if _, set := l.c.origins[slot{s.Key, i}]; !set {
				l.refuse("", "%s is missing: %s", name(s.Key, i), lower(s.Help))
			}
		}
	}
	if l.c.StateDir == "" {
		l.refuse("", "%s is missing, and neither XDG_STATE_HOME nor HOME says where it could be", name("state_dir", 0))
	}
	for i := range l.c.Servers {
		if _, set := l.c.origins[slot{"servers[].path", i}]; !set {
			l.refuse("", "servers[%d].path is missing: each further server needs a path of its own", i)
		}
	}
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// meaningless refuses what has no meaning in this way of running when it stands
// in the file or among the flags. It only warns about the environment, which is
// often shared with other starts, unless the setting was meant to keep people out.
func (l *loader) meaningless() {
	way := l.c.Way()
	if way == "" {
		return
	}
	where := "run_as " + string(way)
	if way == plan.RunLoopback {
		where = "mode loopback, which asks nobody for a token"
	}
	for _, s := range rows {
		for i := range l.c.count(s.list()) {
			o := l.c.origins[slot{s.Key, i}]
			switch {
			case o.Kind == FromDefault, s.Ways.has(way), l.wrong[slot{s.Key, i}]:
			case way == plan.RunShared && strings.HasPrefix(s.Key, "accounts."):
				l.refuse(o.Where, "%s has no effect with %s, where everybody with a valid token gets in; take it out, or choose same-account or monitor", keyOf(s.Key, i), where)
			case o.Kind == FromEnvironment:
				l.warn("%s has no effect with %s", o.Where, where)
			default:
				l.refuse(o.Where, "%s has no effect with %s; take it out", keyOf(s.Key, i), where)
			}
		}
	}
}

// listening checks the addresses.
func (l *loader) listening() {
	const key = "listen.bind_address"
	var first string
	switch {
	case l.c.Mode == ModeLoopback:
		first = "mode loopback listens on loopback addresses only, since it asks nobody for a token"
	case l.c.Demo:
		first = "a demonstration listens on loopback addresses only, since everybody knows its users' passwords"
	default:
		return
	}
	for _, a := range l.c.Listen.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil && !ip.IsLoopback() {
			l.deny(key, 0, "%s is no loopback address; %s", a, first)
		}
	}
}

// running checks run_as against who started the server.
func (l *loader) running() {
	const key = "run_as"
	c := l.c
	switch {
	case c.RunAs == "" && !l.isSet(key, 0):
		l.refuse("", "%s must be chosen, since the server was not started by root: same-account lets in only principals that map to the account %s; shared-account runs everybody's worker as %s",
			name(key, 0), c.host.Account, c.host.Account)
	case c.RunAs == "monitor" && !c.Root():
		l.deny(key, 0, "monitor needs root, and the server was started by %s; start it as root, or choose same-account or shared-account", c.host.Account)
	case c.RunAs == "same-account" && c.Root():
		l.deny(key, 0, "same-account as root would run workers as root; choose monitor, or shared-account (workers run as gatehouse-worker)")
	}
}

// workerUser checks the account of workers that no token names.
func (l *loader) workerUser() {
	const key = "accounts.worker_user"
	c := l.c
	if !c.Root() {
		if l.isSet(key, 0) {
			l.deny(key, 0, "needs root; started by %s, workers run as %s", c.host.Account, c.host.Account)
		}
		return
	}
	user := c.Accounts.WorkerUser
	if user == FrontUser || user == KeysUser {
		l.deny(key, 0, "%s is the account of another part of the server; workers need one of their own", user)
		return
	}
	if err := isAccountName(user); err != nil {
		l.deny(key, 0, "%q %v", clip(user), err)
		return
	}
	uid, gid, err := c.host.LookupUser(user)
	switch {
	case err != nil:
		l.deny(key, 0, "there is no account %s; as root scripts/setup-oidc-users.sh makes the system users", user)
	case uid == 0 || gid == 0:
		l.deny(key, 0, "%s has uid %d and gid %d; no worker ever runs as root", user, uid, gid)
	}
}

// intervals refuses combinations of times that cannot work.
func (l *loader) intervals() {
	t := &l.c.Lifetime
	l.beyond("lifetime.probe_interval", t.ProbeInterval, "lifetime.idle_timeout", t.Idle, "a session would end before it is ever probed")
	l.beyond("lifetime.probe_timeout", t.ProbeTimeout, "lifetime.probe_interval", t.ProbeInterval, "the next probe would go out before the last one is given up")
	l.beyond("lifetime.reaper_interval", t.ReaperInterval, "lifetime.idle_timeout", t.Idle, "idle sessions would live on until the reaper comes")
	l.beyond("lifetime.reaper_interval", t.ReaperInterval, "lifetime.streamless_timeout", t.Streamless, "streamless sessions would live on until the reaper comes")
	l.beyond("lifetime.reaper_interval", t.ReaperInterval, "lifetime.stream_loss_grace", t.StreamLossGrace, "clients that left would be kept until the reaper comes")
	l.beyond("lifetime.reaper_interval", t.ReaperInterval, "lifetime.probe_interval", t.ProbeInterval, "probes are sent by the reaper")
	l.beyond("lifetime.reaper_interval", t.ReaperInterval, "lifetime.max_lifetime", t.MaxLifetime, "old sessions would live on until the reaper comes")
	if t.ProbeInterval == 0 && t.ReapFailedProbes && l.isSet("lifetime.reap_on_failed_probe", 0) {
		l.refuse(l.where("lifetime.reap_on_failed_probe", 0), "%s is on and %s is none: no probe can fail that is never sent",
			name("lifetime.reap_on_failed_probe", 0), name("lifetime.probe_interval", 0))
	}
	for i, is := range l.c.Issuers {
		if l.c.Authenticated() && is.KeysRefresh >= l.c.Keys.MaxStale {
			l.beyondItem("issuers[].refresh", i, is.KeysRefresh, "keys.max_stale", l.c.Keys.MaxStale, "keys would grow too old between two fetches")
		}
	}
}

// beyond refuses a when it is longer than b; zero is off.
func (l *loader) beyond(keyA string, a time.Duration, keyB string, b time.Duration, why string) {
	if a > 0 && b > 0 && a > b {
		l.beyondItem(keyA, 0, a, keyB, b, why)
	}
}

func (l *loader) beyondItem(keyA string, i int, a time.Duration, keyB string, b time.Duration, why string) {
	where := cmp.Or(l.where(keyA, i), l.where(keyB, 0))
	l.refuse(where, "%s is %s and %s is %s: %s; make the first less or the second more",
		name(keyA, i), FormatDuration(a), name(keyB, 0), FormatDuration(b), why)
}

// caps refuses limits that contradict each other.
func (l *loader) caps() {
	m := &l.c.Limits
	if l.c.Authenticated() && m.MaxSessionsPerPrincipal > m.MaxSessions {
		l.over("limits.max_sessions_per_principal", m.MaxSessionsPerPrincipal, "limits.max_sessions", m.MaxSessions)
	}
	if m.MaxWorkers < m.MaxSessions {
		l.over("limits.max_sessions", m.MaxSessions, "limits.max_workers", m.MaxWorkers)
	}
	if l.c.Authenticated() && l.c.Accounts.MinUID > l.c.Accounts.MaxUID {
		l.over("accounts.min_uid", l.c.Accounts.MinUID, "accounts.max_uid", l.c.Accounts.MaxUID)
	}
}

func (l *loader) over(keyA string, a int, keyB string, b int) {
	where := cmp.Or(l.where(keyA, 0), l.where(keyB, 0))
	l.refuse(where, "%s is %d and %s is %d: the first can't be greater than the second", name(keyA, 0), a, name(keyB, 0), b)
}

// loopbackHost reports whether a URL's host is this machine itself.
func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

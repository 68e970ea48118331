package conf

import (
	"maps"
	"path/filepath"
	"slices"
)

// The system users of a server that root starts.
const (
	FrontUser = "gatehouse"
	KeysUser  = "gatehouse-keys"
)

// programs checks, as root, that the programs and the system users are there,
// and that no one else can change what root is about to run.
func (l *loader) programs() {
	c := l.c
	if !c.Root() {
		return
	}
	users := []string{FrontUser}
	if c.Authenticated() {
		users = append(users, KeysUser)
	}
	for _, u := range users {
		uid, gid, err := c.host.LookupUser(u)
		switch {
		case err != nil:
			l.refuse("", "there is no system user %s; as root scripts/setup-oidc-users.sh makes the system users, and so do scripts/run-server.sh and scripts/run-auth-server.sh", u)
		case uid == 0 || gid == 0:
			l.refuse("", "the system user %s has uid %d and gid %d; it must have no privilege", u, uid, gid)
		}
	}
	for _, p := range c.Programs() {
		file := filepath.Join(c.host.BinDir, p)
		if _, err := c.host.Stat(file); err != nil {
			l.refuse("", "the program %s is missing: %s; scripts/build.sh builds all of them", file, reason(err))
		} else if err := c.host.exposed(file); err != nil {
			l.refuse("", "root would run %s, which others could change: %v; install with scripts/build.sh /usr/local/libexec/gatehouse", file, err)
		} else if dir := c.host.closed(file); dir != "" {
			l.refuse("", "the system users can't run %s, because others may not enter %s; install with scripts/build.sh /usr/local/libexec/gatehouse", file, dir)
		} else {
			continue
		}
		return // what is wrong with one is mostly wrong with all
	}
}

// Programs are the programs that this configuration runs, beside serve itself.
func (c *Config) Programs() []string {
	all := []string{"gatehouse", "gatehouse-monitor"}
	if c.Authenticated() {
		all = append(all, "gatehouse-keykeeper")
	}
	for _, s := range c.Servers {
		if len(s.Worker.Command) == 0 {
			return append(all, "gatehouse-worker")
		}
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

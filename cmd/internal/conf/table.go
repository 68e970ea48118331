package conf

import (
	"strings"
	"time"

	"gatehouse/cmd/internal/plan"
)

// Ways is a set of ways to run, for which a setting has a meaning.
type Ways uint8

// The ways of plan.RunAs as a set.
const (
	InLoopback Ways = 1 << iota
	InMonitor
	InSame
	InShared

	InAccounts = InMonitor | InSame
	InAuth     = InAccounts | InShared
	Always     = InLoopback | InAuth
)

// has reports whether the way is in the set; a way not decided yet always is.
func (w Ways) has(r plan.RunAs) bool {
	switch r {
	case plan.RunLoopback:
		return w&InLoopback != 0
	case plan.RunMonitor:
		return w&InMonitor != 0
	case plan.RunSame:
		return w&InSame != 0
	case plan.RunShared:
		return w&InShared != 0
	}
	return true
}

// String names the set for the reference.
func (w Ways) String() string {
	switch w {
	case Always:
		return "always"
	case InAuth:
		return "authenticated"
	}
	var names []string
	for i, n := range []string{"loopback", "`monitor`", "`same-account`", "`shared-account`"} {
		if w&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// Setting is one row of the table.
type Setting struct {
	Key     string // in the file; "servers[].path" is a member of a list's items
	Env     string // environment variable; sets the first item of a list
	Flag    string // without the dashes
	Type    Type
	Default string // as it would be written; empty: unset, or as Derived says
	Derived string // how the default comes about, for the reference
	Needed  Ways   // where the start is refused without it
	Ways    Ways   // where it has a meaning
	Help    string // one sentence

	// at points to the value in c; i is the item of a list.
	at func(c *Config, i int) any
}

// list names the list that a setting belongs to: "servers", "issuers" or "".
func (s *Setting) list() string {
	name, _, ok := strings.Cut(s.Key, "[].")
	if !ok {
		return ""
	}
	return name
}

// leaf is the last part of the key.
func (s *Setting) leaf() string { return s.Key[strings.LastIndexByte(s.Key, '.')+1:] }

// Table returns every setting, in the order of the reference.
func Table() []*Setting { return rows }

// find returns the setting with that key; the key must exist.
func find(key string) *Setting {
	for _, s := range rows {
		if s.Key == key {
			return s
		}
	}
	panic("conf: no setting " + key)
}

const day = 24 * time.Hour

var rows = func() []*Setting {
	var all []*Setting
	for _, part := range [][]Setting{generalRows, issuerRows, serverRows, accountRows, trafficRows, lifetimeRows} {
		for i := range part {
			all = append(all, &part[i])
		}
	}
	return all
}()

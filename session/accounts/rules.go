package accounts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/auth/identity"
	"gatehouse/auth/printable"
	"gatehouse/session/folder"
)

// MaxName is the longest account name that a token can reach, in bytes.
const MaxName = 31

// ValidName reports whether s has the form of an account name that a token may
// lead to: ^[a-z_][a-z0-9_-]{0,30}$ and nothing that is only similar. Nothing is
// folded, normalized or trimmed.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c == '_'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '-')) {
			return false
		}
	}
	return true
}

// checkName is what must hold before anything is looked up.
func checkName(name string, p Policy) *Refusal {
	switch {
	case !ValidName(name):
		return &Refusal{"grammar", fmt.Sprintf("%s is not the form of an account name", printable.Quoted(name, maxShown))}
	case slices.Contains(p.DenyUsers, name):
		return &Refusal{"deny_users", fmt.Sprintf("%s is denied by name", name)}
	}
	return nil
}

// maxShown is how many bytes of a name that a token brought a refusal shows.
const maxShown = 64

// subject is an account under examination: everything that was read about it.
type subject struct {
	d         *Directory
	policy    Policy
	requested string
	entry     passwd
	again     passwd // by the uid of entry
	groups    []uint32
	denied    map[uint32]string // gid to name of a denied group
	required  uint32            // gid of RequireGroup
	hasGroup  bool              // RequireGroup exists
	shadow    shadow
	hasShadow bool
	fault     error // why a check could not be made
}

// load reads everything about an account. Only ForToken needs the shadow entry.
func (d *Directory) load(ctx context.Context, name string, p Policy, withShadow bool) (*subject, error) {
	s := &subject{d: d, policy: p, requested: name, denied: make(map[uint32]string)}
	v, err := d.look(which{group: true, shadow: withShadow})
	if err != nil {
		return nil, err
	}
	if s.entry, err = v.byName(ctx, name); err != nil {
		if errors.Is(err, ErrNotFound) {
			return nil, &Refusal{"lookup", fmt.Sprintf("there is no account %s", printable.Quoted(name, maxShown))}
		}
		return nil, err
	}
	if s.again, err = v.byUID(ctx, s.entry.uid); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	more, err := v.groupsOf(ctx, s.entry)
	if err != nil {
		return nil, err
	}
	s.groups = append(s.groups, more...)
	for _, g := range p.DeniedGroups {
		gid, ok, err := v.gidOf(ctx, g)
		if err != nil {
			return nil, err
		}
		if ok {
			s.denied[gid] = g
		}
	}
	if p.RequireGroup != "" {
		if s.required, s.hasGroup, err = v.gidOf(ctx, p.RequireGroup); err != nil {
			return nil, err
		}
	}
	if withShadow {
		s.shadow, s.hasShadow = (*v.shadow)[name]
	}
	return s, nil
}

// account is the result.
func (s *subject) account() Account {
	e := s.entry
	a := Account{Name: identity.Account(e.name), UID: e.uid, GID: e.gid, Home: e.home, Shell: e.shell}
	if a.Shell == "" {
		a.Shell = "/bin/sh" // passwd(5)
	}
	rest := slices.Clone(s.groups)
	slices.Sort(rest)
	a.Groups = []uint32{e.gid}
	for _, g := range slices.Compact(rest) {
		if g != e.gid {
			a.Groups = append(a.Groups, g)
		}
	}
	return a
}

// check is one rule: it returns why the account may not be used, or "".
type check struct {
	name string
	why  func(s *subject) string
}

// run applies rules in order. The error is a *Refusal, or what kept a rule from being
// applied, after all those before it.
func (s *subject) run(checks []check) error {
	for _, c := range checks {
		switch why := c.why(s); {
		case s.fault != nil:
			return s.fault
		case why != "":
			return &Refusal{c.name, s.entry.name + ": " + why}
		}
	}
	return nil
}

// The rules for an account that a token leads to, in order.
var tokenChecks = []check{
	{"round_trip", roundTrip},
	{"root", notRoot},
	{"uid_range", uidRange},
	{"gid_range", gidRange},
	{"denied_group", deniedGroup},
	{"required_group", requiredGroup},
	{"locked", locked},
	{"expired", expired},
	{"shell", shell},
	{"nologin", nologin},
	{"home", home},
}

// The rules for an account that the operator chose.
var workerChecks = []check{
	{"round_trip", roundTrip},
	{"root", notRoot},
	{"denied_group", deniedGroup},
}

// The rules for the service's own processes, which get no supplementary groups.
var systemChecks = []check{
	{"round_trip", roundTrip},
	{"root", notRoot},
}

// roundTrip: some sources fold the case of names, and two names may share a uid.
func roundTrip(s *subject) string {
	switch {
	case s.entry.name != s.requested:
		return fmt.Sprintf("asked for %s, got %q", printable.Quoted(s.requested, maxShown), s.entry.name)
	case s.again.name != s.requested || s.again.uid != s.entry.uid:
		return fmt.Sprintf("uid %d is another account's first name: %q", s.entry.uid, s.again.name)
	}
	return ""
}

const (
	nobodyID  = 65534
	invalidID = ^uint32(0) // -1 for setresuid(2)
)

func notRoot(s *subject) string {
	for _, id := range []uint32{s.entry.uid, s.entry.gid} {
		if id == 0 || id == nobodyID || id == invalidID {
			return fmt.Sprintf("uid %d, gid %d: neither may be 0, 65534 or 4294967295", s.entry.uid, s.entry.gid)
		}
	}
	if slices.Contains(s.groups, 0) || slices.Contains(s.groups, invalidID) {
		return "is a member of group 0"
	}
	return ""
}

func uidRange(s *subject) string {
	return inRange("uid", s.entry.uid, s.policy)
}

func gidRange(s *subject) string {
	return inRange("gid", s.entry.gid, s.policy)
}

func inRange(what string, id uint32, p Policy) string {
	if p.MinUID < 1 || int64(id) < int64(p.MinUID) || int64(id) > int64(p.MaxUID) {
		return fmt.Sprintf("%s %d is not between %d and %d", what, id, p.MinUID, p.MaxUID)
	}
	return ""
}

func deniedGroup(s *subject) string {
	for _, g := range append([]uint32{s.entry.gid}, s.groups...) {
		if name, ok := s.denied[g]; ok {
			return "is in the denied group " + name
		}
	}
	return ""
}

func requiredGroup(s *subject) string {
	switch {
	case s.policy.RequireGroup == "":
		return ""
	case !s.hasGroup:
		return fmt.Sprintf("the required group %s does not exist", s.policy.RequireGroup)
	case s.entry.gid == s.required || slices.Contains(s.groups, s.required):
		return ""
	}
	return "is not in the required group " + s.policy.RequireGroup
}

func locked(s *subject) string {
	switch {
	case s.policy.ShadowLock == "ignore":
		return ""
	case s.policy.ShadowLock != "refuse":
		return "no policy for locked accounts"
	}
	p := s.entry.password
	if p == passwordInShadow {
		if !s.hasShadow {
			if !s.entry.local {
				return "" // a directory service's account: its own lock is not shown here
			}
			return "has no shadow entry"
		}
		p = s.shadow.password
	}
	if p == passwordLocked {
		return "is locked"
	}
	return ""
}

func expired(s *subject) string {
	if !s.hasShadow || s.shadow.expire == "" {
		return ""
	}
	days, err := strconv.ParseInt(s.shadow.expire, 10, 64)
	if err != nil {
		return "expiry date can't be read"
	}
	if days >= 0 && s.d.now().Unix()/int64((24*time.Hour).Seconds()) >= days {
		return "has expired"
	}
	return ""
}

func shell(s *subject) string {
	path := s.entry.shell
	if path == "" {
		path = "/bin/sh"
	}
	if s.policy.AllowNologin {
		return ""
	}
	if base := filepath.Base(path); base == "nologin" || base == "false" {
		return fmt.Sprintf("shell %s refuses logins", path)
	}
	st, err := os.Stat(path)
	if err != nil || !filepath.IsAbs(path) || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return fmt.Sprintf("shell %s is no executable file", path)
	}
	return ""
}

// nologin: an administrator keeps everybody out for now (nologin(5)).
func nologin(s *subject) string {
	if s.policy.AllowNologin {
		return ""
	}
	if there, err := exists(filepath.Join(s.d.Etc, "nologin")); there || err != nil {
		return "logins are closed at present (nologin)"
	}
	return ""
}

// toldOfHome reports whether what the system said of a home is an answer. Anything else, such
// as a server that is gone (EIO, ESTALE) or too many open files, is a fault of the moment.
func toldOfHome(err error) bool {
	for _, told := range []error{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.EPERM, unix.ELOOP, unix.ENAMETOOLONG} {
		if errors.Is(err, told) {
			return true
		}
	}
	return false
}

// home: one that does not answer is a fault, which says nothing of the account.
func home(s *subject) string {
	if !filepath.IsAbs(s.entry.home) {
		return fmt.Sprintf("home %q is no absolute path", s.entry.home)
	}
	st, err := s.d.homes.Stat(s.entry.home)
	var foreign *folder.Foreign
	var path *fs.PathError
	switch {
	case errors.As(err, &foreign):
		return fmt.Sprintf("home can't be used: %v", err)
	case errors.As(err, &path) && toldOfHome(path.Err):
		return fmt.Sprintf("home %s can't be used: %v", s.entry.home, path.Err)
	case err != nil:
		s.fault = fmt.Errorf("look at the home of %s: %w", s.entry.name, err)
		return ""
	case s.policy.AllowOpenHome:
		return ""
	case st.Uid != s.entry.uid:
		return fmt.Sprintf("home %s belongs to uid %d", s.entry.home, st.Uid)
	case st.Mode&(unix.S_IWGRP|unix.S_IWOTH) != 0:
		return fmt.Sprintf("home %s may be written by others (mode %04o)", s.entry.home, st.Mode&0o777)
	}
	return ""
}

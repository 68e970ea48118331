// Package accounts decides which operating-system account a principal may use:
// the operator's map from principals to accounts, and the rules that an account
// itself must meet. It looks at the account databases anew for every question, so
// that a user who left a group has left it at the next spawn; what it parsed of a
// file serves until the file changes.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/session/folder"
)

// Account is an operating-system account, as it is at the moment.
type Account struct {
	Name     identity.Account
	UID, GID uint32
	// Groups are the supplementary groups as a login sets them: the account's own
	// group first, then the others in ascending order, none twice.
	Groups []uint32
	Home   string
	Shell  string
}

// Policy is which accounts may be used at all. The zero value refuses all.
type Policy struct {
	MinUID, MaxUID int      // both inclusive; gid likewise
	DeniedGroups   []string // by name
	DenyUsers      []string
	RequireGroup   string // "": none
	ShadowLock     string // "refuse" locked accounts or "ignore" the lock
	AllowNologin   bool   // shells that refuse a login, /etc/nologin
	AllowOpenHome  bool   // homes that others may write, or own
}

// Refusal is why an account can't be used. Reason is for the log alone.
type Refusal struct {
	Check  string // name of the check: see tokenChecks
	Reason string
}

func (r *Refusal) Error() string { return "account refused: " + r.Check + ": " + r.Reason }

// IsRefusal reports whether err is the policy's answer and not a fault.
func IsRefusal(err error) bool {
	var r *Refusal
	return errors.As(err, &r)
}

// Directory is where accounts are looked up. It must not be copied.
type Directory struct {
	// Etc holds passwd, group, shadow, nologin and nsswitch.conf; "/etc".
	Etc string
	// Getent runs getent(1) with these arguments and returns its output, or
	// ErrNotFound when it says that there is no such entry. It is asked only where
	// nsswitch.conf names other sources than files. nil: files alone.
	Getent func(ctx context.Context, args ...string) ([]byte, error)
	// Now is the clock, for account expiry and the age of files; time.Now when nil.
	Now func() time.Time

	kept  databases
	homes folder.Turns
}

// ErrNotFound is what a Getent returns for an entry that does not exist.
var ErrNotFound = errors.New("no such entry")

// getentLimit bounds one question to the account databases.
const getentLimit = 3 * time.Second

// ForToken returns the account that a token's principal maps to, after every rule.
// The name is looked up only if it has the form of an account name.
func (d *Directory) ForToken(ctx context.Context, name identity.Account, p Policy) (Account, error) {
	if r := checkName(string(name), p); r != nil {
		return Account{}, r
	}
	s, err := d.load(ctx, string(name), p, true)
	if err != nil {
		return Account{}, err
	}
	if err := s.run(tokenChecks); err != nil {
		return Account{}, err
	}
	return s.account(), nil
}

// ForWorkers returns the account that an operator chose for workers whose account
// no token names. It may be a system account with no home and no shell, but never
// root, in no denied group, and in no group 0.
func (d *Directory) ForWorkers(ctx context.Context, name identity.Account, p Policy) (Account, error) {
	s, err := d.load(ctx, string(name), p, false)
	if err != nil {
		return Account{}, err
	}
	if err := s.run(workerChecks); err != nil {
		return Account{}, err
	}
	return s.account(), nil
}

// System returns the account of one of the service's own processes: never root,
// and without any group but its own.
func (d *Directory) System(ctx context.Context, name identity.Account) (Account, error) {
	s, err := d.load(ctx, string(name), Policy{}, false)
	if err != nil {
		return Account{}, err
	}
	if err := s.run(systemChecks); err != nil {
		return Account{}, err
	}
	a := s.account()
	a.Groups = nil
	return a, nil
}

// Self returns the account with that uid, ours, without any rule but that it is
// not root. Groups are left out: an unprivileged process can't change them. A uid
// without an entry, as containers have it, gets a name made of the number.
func (d *Directory) Self(ctx context.Context, uid, gid uint32) (Account, error) {
	if uid == 0 {
		return Account{}, &Refusal{"root", "uid 0"}
	}
	v, err := d.look(which{})
	if err != nil {
		return Account{}, err
	}
	e, err := v.byUID(ctx, uid)
	switch {
	case errors.Is(err, ErrNotFound):
		e = passwd{name: fmt.Sprintf("uid-%d", uid), uid: uid, gid: gid, home: "/", shell: "/bin/sh"}
	case err != nil:
		return Account{}, err
	}
	a := Account{Name: identity.Account(e.name), UID: uid, GID: gid, Home: e.home, Shell: e.shell}
	if a.Home == "" {
		a.Home = "/"
	}
	if a.Shell == "" {
		a.Shell = "/bin/sh"
	}
	return a, nil
}

func (d *Directory) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

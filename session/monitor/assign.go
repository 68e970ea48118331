package monitor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"gatehouse/auth/identity"
	"gatehouse/session/accounts"
	"gatehouse/session/spawn"
)

// assignment is the account that a principal's worker runs as.
type assignment struct {
	account     accounts.Account
	as          bool   // take the account's identity; false: keep ours, which is it
	private     bool   // the account is shared: the worker gets a folder of its own
	name, email string // for commits, as the operator mapped them
	rules       uint64 // Monitor.rules before it was decided; of a new lease alone
}

// same reports whether another assignment would make the same process.
func (a *assignment) same(b *assignment) bool {
	return a.account.Name == b.account.Name && a.account.UID == b.account.UID && a.account.GID == b.account.GID &&
		a.account.Home == b.account.Home && slices.Equal(a.account.Groups, b.account.Groups)
}

// assigner maps a verdict to an account. The error is a *spawn.Error.
type assigner interface {
	Assign(ctx context.Context, v *verdict) (assignment, error)
}

// byMap finds the account in the operator's accounts file.
type byMap struct {
	current atomic.Pointer[accounts.Map] // replaced on reload
}

func (m *byMap) find(v *verdict) (accounts.Entry, error) {
	e, ok := m.current.Load().Find(v.principal, v.clientOwn)
	switch {
	case ok:
		return e, nil
	case v.clientOwn:
		return e, refuse(spawn.KindClientOwn, "a client's own token, and no entry of the accounts file names this client")
	}
	return e, refuse(spawn.KindNoAccount, "no entry of the accounts file for this principal")
}

// byClaim takes the name from a claim that the operator trusts.
type byClaim struct{}

func (byClaim) find(v *verdict) (accounts.Entry, error) {
	switch {
	case v.clientOwn:
		return accounts.Entry{}, refuse(spawn.KindClientOwn, "a client's own token; only an accounts file could admit it")
	case v.account == "":
		return accounts.Entry{}, refuse(spawn.KindNoAccount, "the token has no account claim")
	}
	return accounts.Entry{Account: v.account}, nil
}

// namer says which account name belongs to a verdict.
type namer interface {
	find(v *verdict) (accounts.Entry, error)
}

// tokenAccount: the account that the token leads to, after every rule.
type tokenAccount struct {
	namer  namer
	dir    *accounts.Directory
	policy func() accounts.Policy
}

func (t *tokenAccount) Assign(ctx context.Context, v *verdict) (assignment, error) {
	e, err := t.namer.find(v)
	if err != nil {
		return assignment{}, err
	}
	a, err := t.dir.ForToken(ctx, identity.Account(e.Account), t.policy())
	if err != nil {
		return assignment{}, accountError(err)
	}
	return assignment{account: a, as: true, name: e.Name, email: e.Email}, nil
}

// sameAccount: our own account, for principals that map to it.
type sameAccount struct {
	namer namer
	own   accounts.Account
}

func (s *sameAccount) Assign(_ context.Context, v *verdict) (assignment, error) {
	e, err := s.namer.find(v)
	if err != nil {
		return assignment{}, err
	}
	if e.Account != string(s.own.Name) {
		return assignment{}, refuse(spawn.KindNoAccount, "maps to account %.64q, and this server runs as %s", e.Account, s.own.Name)
	}
	return assignment{account: s.own, name: e.Name, email: e.Email}, nil
}

// ownAccount: our own account for everybody, when we are not root.
type ownAccount struct {
	own     accounts.Account
	private bool // several principals share it
}

func (o *ownAccount) Assign(_ context.Context, v *verdict) (assignment, error) {
	if v.clientOwn {
		return assignment{}, refuse(spawn.KindClientOwn, "a client's own token")
	}
	return assignment{account: o.own, private: o.private}, nil
}

// workerAccount: the account that the operator chose, when we are root.
type workerAccount struct {
	name   identity.Account
	dir    *accounts.Directory
	policy func() accounts.Policy
}

func (w *workerAccount) Assign(ctx context.Context, v *verdict) (assignment, error) {
	if v.clientOwn {
		return assignment{}, refuse(spawn.KindClientOwn, "a client's own token")
	}
	a, err := w.dir.ForWorkers(ctx, w.name, w.policy())
	if err != nil {
		return assignment{}, accountError(err)
	}
	return assignment{account: a, as: true, private: true}, nil
}

// accountError tells the policy's answer from a fault.
func accountError(err error) error {
	var r *accounts.Refusal
	if errors.As(err, &r) {
		return refuse(spawn.KindNoAccount, "%v", err)
	}
	return refuse(spawn.KindUnavailable, "%v", err)
}

var (
	_ assigner = (*tokenAccount)(nil)
	_ assigner = (*sameAccount)(nil)
	_ assigner = (*ownAccount)(nil)
	_ assigner = (*workerAccount)(nil)
	_ namer    = (*byMap)(nil)
	_ namer    = byClaim{}
)

package main

import (
	"context"
	"slices"

	"gatehouse/auth/identity"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts"
)

// etc is where the account databases are.
const etc = "/etc"

// accounts looks up every account that a worker may run as.
func (k *checker) accounts(ctx context.Context) {
	switch k.c.Way() {
	case plan.RunMonitor, plan.RunSame:
	default:
		if k.c.Root() {
			k.say(okay, "accounts", "workers run as %s", k.c.Accounts.WorkerUser)
		}
		return
	}
	file := k.c.Accounts.File
	if file == "" {
		if claim := k.c.Accounts.UserIDClaim; claim != "" { // else the configuration was refused for it
			k.say(okay, "accounts", "named by the claim %s", claim)
		}
		return
	}
	m, err := accounts.ReadMap(file, k.c.EUID())
	if err != nil {
		k.say(failed, "accounts", "%v", err)
		return
	}
	lines := map[string][]int{}
	m.Entries(func(e accounts.Entry) { lines[e.Account] = append(lines[e.Account], e.Line) })
	for _, name := range sorted(lines) {
		slices.Sort(lines[name])
		k.mayUse(ctx, name, warned)
	}
}

// mayUse says whether the monitor would run a worker as the account. In
// same-account mode others than the server's own are given the verdict other:
// one file may serve several servers.
func (k *checker) mayUse(ctx context.Context, name string, other verdict) {
	topic := "account " + name
	if k.c.Way() == plan.RunSame {
		if name == k.c.ServerAccount() {
			k.say(okay, topic, "is the server's own")
		} else {
			k.say(other, topic, "is not %s, whom the server runs as: no entry (403)", k.c.ServerAccount())
		}
		return
	}
	dir := &accounts.Directory{Etc: etc}
	a, err := dir.ForToken(ctx, identity.Account(name), k.c.AccountPolicy())
	switch {
	case err == nil:
		k.say(okay, topic, "uid %d, gid %d, groups %v, home %s", a.UID, a.GID, a.Groups, a.Home)
	case accounts.IsRefusal(err):
		k.say(failed, topic, "%v", err)
	default:
		k.say(warned, topic, "could not be looked up: %v", err)
	}
}

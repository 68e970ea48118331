package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"gatehouse/auth/authtest"
)

// people is the policy under which workers run as accounts. Both times are what a
// change of an account, and of the issuer's keys, may take to be noticed.
const people = `run_as: monitor
accounts: {userid_claim: mcp_os_user, recheck: 2s}`

const (
	recheck = 2
	refresh = 60 // seconds; the least there is
)

// person is a trial whose worker runs as an account.
type person struct {
	*trial
	account, group string
}

// administration is what administrators do, which ends sessions within that many
// seconds, and how the next initialize is answered.
var administration = []struct {
	name   string
	do     func(person) error
	within float64
	reason string
	then   int
}{
	{"a locked account", admin("passwd", "-l", "ACCOUNT"), recheck, "account changed", 403},
	{"an expired account", admin("chage", "-E", "1", "ACCOUNT"), recheck, "account changed", 403},
	{"an account whose shell lets nobody in", admin("usermod", "-s", "/usr/sbin/nologin", "ACCOUNT"), recheck, "account changed", 403},
	{"an account out of a group", admin("gpasswd", "-d", "ACCOUNT", "GROUP"), recheck, "account changed", 200},
	{"an account that a reload denies", person.deny, recheck, "account changed", 403},
	{"a key that the issuer withdrew", person.withdraw, refresh, "withdrawn", 401},
}

// realAccounts does what administrators do, and looks when the sessions end. It needs
// root. ACCOUNTS in the environment names an account for each, and GROUP a group that
// all of them are in.
func realAccounts(w *world) error {
	names, group := strings.Fields(os.Getenv("ACCOUNTS")), os.Getenv("GROUP")
	if len(names) == 0 {
		fmt.Println("SKIPPED: accounts that are locked, expired or lose a group (needs root)")
		return w.stop()
	}
	if len(names) != len(administration) || group == "" {
		return fmt.Errorf("%d names are needed in ACCOUNTS, and one in GROUP", len(administration))
	}
	var all sync.WaitGroup
	var list []*trial
	for i, a := range administration {
		t := &trial{client: newClient(w, &tally{counts: map[string]int{}}, 9, i), name: a.name + " ends its sessions"}
		t.user = names[i]
		key := w.issuer.Current()
		if a.then == 401 {
			key = w.spare
		}
		t.token = w.mint(t.user, time.Hour, authtest.Claim("mcp_os_user", names[i]), authtest.SignedBy(key))
		list = append(list, t)
		all.Go(func() {
			person{t, names[i], group}.ends(a.do, a.within, a.reason)
			t.session = ""
			status, body := t.post(initialize)
			t.want(status == a.then, "then %d %s", status, body)
			t.leave()
		})
	}
	all.Wait()
	return firstOf(verdict(list), w.stop())
}

// ends has it done to a person with a session, which has to end in time.
func (p person) ends(do func(person) error, within float64, reason string) {
	if p.want(p.enter(), "no session"); p.err != nil {
		return
	}
	p.want(p.worker() != 0, "no worker")
	if err := do(p); err != nil {
		p.want(false, "%v", err)
		return
	}
	p.trial.ends(0, within)
	p.want(p.w.logged(reason), "the log does not say %q", reason)
}

// shadow is held while a tool of the shadow suite runs: they have one lock.
var shadow sync.Mutex

// admin runs a tool, once somebody else's on this host has let go of that lock.
func admin(tool string, args ...string) func(person) error {
	return func(p person) error {
		shadow.Lock()
		defer shadow.Unlock()
		filled := make([]string, len(args))
		for i, a := range args {
			filled[i] = strings.NewReplacer("ACCOUNT", p.account, "GROUP", p.group).Replace(a)
		}
		for try := 0; ; try++ {
			out, err := exec.Command(tool, filled...).CombinedOutput()
			switch {
			case err == nil:
				return nil
			case try > 50 || !strings.Contains(string(out), "lock"):
				return fmt.Errorf("%s %v: %w: %s", tool, filled, err, out)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (p person) deny() error {
	text := strings.Replace(p.w.text, "recheck: 2s", "recheck: 2s, deny_users: ["+p.account+"]", 1)
	if text == p.w.text {
		return errors.New("nothing to replace in the configuration")
	}
	if err := p.w.configure(text); err != nil {
		return err
	}
	return p.w.cmd.Process.Signal(syscall.SIGHUP)
}

func (p person) withdraw() error {
	p.w.issuer.Withdraw(p.w.spare)
	return p.w.publish()
}

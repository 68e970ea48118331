package monitor

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/accounts/accountstest"
	"gatehouse/session/folder"
	"gatehouse/session/folder/foldertest"
	"gatehouse/session/spawn"
)

// outcome is what became of a SPAWN, and when.
type outcome struct {
	w    spawn.Worker
	err  error
	took time.Duration
}

// spawnLater asks for a worker and does not wait for it.
func (r *rig) spawnLater(c *spawn.Client, sub string) <-chan outcome {
	tok := r.token(sub)
	done := make(chan outcome, 1)
	go func() {
		begin := time.Now()
		w, err := c.Spawn(r.t.Context(), spawn.Request{Token: tok})
		done <- outcome{w, err, time.Since(begin)}
	}()
	return done
}

// await waits for an outcome, far longer than any should take.
func await(t *testing.T, done <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(20 * time.Second):
		t.Fatal("no answer to SPAWN")
		return outcome{}
	}
}

// serves checks that somebody's worker starts, works, ends and is cleared away, while
// something else is still to come.
func (r *rig) serves(c *spawn.Client, sub string, during <-chan outcome) {
	r.t.Helper()
	select {
	case o := <-r.spawnLater(c, sub):
		if o.err != nil {
			r.t.Fatalf("%s: %v", sub, o.err)
		}
		w := o.w
		w.Stop()
		select {
		case <-w.Exited():
		case <-time.After(folder.Limit):
			r.t.Errorf("%s's worker does not end", sub)
		}
		closeFiles([]*os.File{w.Stdin(), w.Stdout(), w.Stderr()})
	case <-time.After(folder.Limit):
		r.t.Fatalf("%s's worker does not start", sub)
	}
	if len(during) > 0 {
		r.t.Errorf("%s was served only when all was over", sub)
	}
}

// servesAtLast is serves for somebody whose folder has just begun to answer.
func (r *rig) servesAtLast(c *spawn.Client, sub string) {
	r.t.Helper()
	for i := 0; ; i++ {
		o := <-r.spawnLater(c, sub)
		if o.err == nil {
			closeFiles([]*os.File{o.w.Stdin(), o.w.Stdout(), o.w.Stderr()})
			o.w.Stop()
			<-o.w.Exited()
			return
		}
		if i > 200 {
			r.t.Fatal(o.err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// footprint is how many descriptors and threads this process has.
func footprint(t *testing.T) (fds, threads int) {
	t.Helper()
	for dir, n := range map[string]*int{"/proc/self/fd": &fds, "/proc/self/task": &threads} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		*n = len(list)
	}
	return fds, threads
}

// TestHomeThatHangsHoldsNobodyUp: root's file system over alice's home, as a dead network
// file system would, answers nothing; or it answers the look at the account and hangs
// when the worker's folder is entered.
func TestHomeThatHangsHoldsNobodyUp(t *testing.T) {
	accountstest.NeedRoot(t)
	for name, op := range map[string]int{"at the look": foldertest.GetAttr, "at the start": foldertest.Access} {
		t.Run(name, func(t *testing.T) {
			f := foldertest.Mount(t, "/home/"+folk.Alice, 0)
			r := newRig(t, `echo ready; read x`).start()
			c := r.front()
			r.servesAtLast(c, "alice")
			r.serves(c, "bob", nil)
			_, threads := footprint(t)
			f.Hang(op)
			hung := r.spawnLater(c, "alice")
			f.Await()
			for range 3 {
				r.serves(c, "bob", hung)
			}
			o := await(t, hung)
			refused(t, o.err, spawn.KindUnavailable, "/home/"+folk.Alice+" does not answer")
			r.log.Await(t, "does not answer")
			for range 20 { // nobody waits a second time, and nothing piles up
				o := await(t, r.spawnLater(c, "alice"))
				refused(t, o.err, spawn.KindUnavailable, "does not answer")
				if o.took > folder.Limit/2 {
					t.Errorf("one more took %v", o.took)
				}
			}
			if _, now := footprint(t); now > threads+8 || f.Waiting() != 1 {
				t.Errorf("%d threads, before %d; %d operations wait", now, threads, f.Waiting())
			}
			if n := r.m.leases.count(); n != 0 {
				t.Errorf("%d leases", n)
			}
			f.Answer()
			r.servesAtLast(c, "alice")
			r.serves(c, "bob", nil)
			f.Unmount()
			r.servesAtLast(c, "alice")
		})
	}
}

// TestHomeThatHangsLeavesNothing: descriptors are as many as before, however often.
func TestHomeThatHangsLeavesNothing(t *testing.T) {
	accountstest.NeedRoot(t)
	f := foldertest.Mount(t, "/home/"+folk.Alice, 0)
	r := newRig(t, `exit 0`).start()
	c := r.front()
	before := -1
	for range 3 {
		f.Hang(foldertest.Access)
		o := await(t, r.spawnLater(c, "alice"))
		refused(t, o.err, spawn.KindUnavailable, "does not answer")
		f.Answer()
		r.servesAtLast(c, "alice")
		r.tidyGroups()
		fds := 0
		for i := 0; ; i++ {
			if fds, _ = footprint(t); before < 0 || fds <= before || i > 200 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if before >= 0 && fds > before {
			t.Errorf("%d descriptors, before %d", fds, before)
		}
		before = fds
	}
}

// TestUsersFileSystemIsNeverAsked: a user mounts one over the home before the look at the
// account, or between it and the start. Nothing is asked of it, so nothing can hang.
func TestUsersFileSystemIsNeverAsked(t *testing.T) {
	accountstest.NeedRoot(t)
	uid, _ := accountstest.IDs(t, folk.Alice)
	r := newRig(t, `echo ready; read x`).start()
	c := r.front()
	home := "/home/" + folk.Alice
	v, err := r.m.judge.Judge(t.Context(), 0, r.token("alice"))
	if err != nil {
		t.Fatal(err)
	}
	as, err := r.m.assign.Assign(t.Context(), &v)
	if err != nil {
		t.Fatal(err)
	}
	f := foldertest.Mount(t, home, uid)
	f.Hang(foldertest.GetAttr, foldertest.Access)
	_, err = r.m.runner.start(job{verdict: &v, assignment: &as}, 1)
	var foreign *folder.Foreign
	if !errors.As(err, &foreign) || foreign.UID != uint32(uid) {
		t.Errorf("at the start: %v", err)
	}
	o := await(t, r.spawnLater(c, "alice"))
	refused(t, o.err, spawn.KindNoAccount, "home can't be used: a file system that uid "+strconv.Itoa(uid)+" mounted (FUSE) is at "+home)
	r.log.Await(t, "mounted (FUSE)")
	r.serves(c, "bob", nil)
	if n := f.Asked(); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
	f.Unmount()
	r.servesAtLast(c, "alice")
}

// TestHomeThatHangsEndsNobody: whose home does not answer keeps the worker, and others
// are looked at; who is locked meanwhile loses it.
func TestHomeThatHangsEndsNobody(t *testing.T) {
	accountstest.NeedRoot(t)
	f := foldertest.Mount(t, "/home/"+folk.Alice, 0)
	r := newRig(t, `echo ready; read x`).start()
	c := r.front()
	a, b := r.spawn(c, r.token("alice")), r.spawn(c, r.token("bob"))
	a.line()
	b.line()
	f.Hang(foldertest.GetAttr)
	lock(t, folk.Bob)
	begin := time.Now()
	r.m.recheckAll(t.Context())
	if d := time.Since(begin); d > 2*folder.Limit {
		t.Errorf("the look took %v", d)
	}
	b.end(5 * time.Second)
	if !alive(a.PID()) {
		t.Error("a home that does not answer ended a worker")
	}
	lock(t, folk.Alice)
	r.m.recheckAll(t.Context())
	a.end(5 * time.Second)
}

// lock locks an account for the rest of the test.
func lock(t *testing.T, account string) {
	t.Helper()
	if err := accountstest.Admin("usermod", "-p", "!x", account); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := accountstest.Admin("usermod", "-p", "*", account); err != nil {
			t.Error(err)
		}
	})
}

// TestFolderErrorsSayNothingOfGroups: what a file system answers when a folder is entered
// is not taken for a kernel without control groups.
func TestFolderErrorsSayNothingOfGroups(t *testing.T) {
	accountstest.NeedRoot(t)
	f := foldertest.Mount(t, "/home/"+folk.Alice, 0)
	r := newRig(t, `exit 0`).start()
	if r.m.runner.groups.Load() == nil {
		t.Skip("SKIPPED: needs control groups")
	}
	f.FailOnce(unix.EPERM)
	o := await(t, r.spawnLater(r.front(), "alice"))
	refused(t, o.err, spawn.KindUnavailable, "enter /home/")
	if r.m.runner.groups.Load() == nil || strings.Contains(r.log.String(), "control group") {
		t.Errorf("control groups were given up:\n%s", r.log)
	}
}

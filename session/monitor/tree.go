package monitor

import (
	"syscall"
	"time"

	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/proc"
)

// treeLimit is how long the last processes of a worker may take to go once they
// were killed.
const treeLimit = 5 * time.Second

// tree is a worker's process tree: everything in its control group or, where
// there is none, its process group and whatever carries its label.
type tree struct {
	child *proc.Child
	group *cgroup.Group // nil: by label
	label uint64
	host  *proc.Host
}

var _ body = (*tree)(nil)

func (t *tree) Done() <-chan struct{} { return t.child.Done() }
func (t *tree) Status() proc.Status   { return t.child.Status() }

func (t *tree) Signal(sig syscall.Signal) {
	if t.group != nil && t.group.Signal(sig) == nil {
		return
	}
	t.child.SignalGroup(sig)
	if t.group == nil {
		proc.SignalLabelled(t.label, sig)
	}
}

func (t *tree) Interrupt() { t.child.Signal(syscall.SIGINT) }

func (t *tree) Kill() {
	if t.group != nil && t.group.Kill() == nil {
		return
	}
	t.child.SignalGroup(syscall.SIGKILL)
	if t.group == nil {
		proc.SignalLabelled(t.label, syscall.SIGKILL)
	}
}

// memory is how many bytes of the tree's processes are resident. What is shared
// counts for each of them. Without a control group it is the first process alone.
func (t *tree) memory() (bytes int64) {
	pids := []int{t.child.PID()}
	if t.group != nil {
		if all, err := t.group.Processes(); err == nil {
			pids = all
		}
	}
	for _, pid := range pids {
		bytes += proc.Resident(pid)
	}
	return bytes
}

// destroy kills what is left after the first process has ended, waits until it is
// gone and gives the group back. Without a group, what is left was handed to us.
func (t *tree) destroy() error {
	if t.group != nil {
		return t.group.Release(treeLimit)
	}
	deadline := time.Now().Add(treeLimit)
	for pause := time.Millisecond; t.host.SignalOrphans(t.label, syscall.SIGKILL) > 0; pause = min(2*pause, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			return errTreeStays
		}
		time.Sleep(pause)
	}
	return nil
}

package proc

import "golang.org/x/sys/unix"

// From linux/sched.h.
const (
	schedNormal = 0
	schedBatch  = 3
)

// batch makes the next children of this thread, and all that descend from them, batch
// processes (sched(7)) and returns what undoes it. They get as much of the processor as
// before, but one that wakes up does not take it from whoever has it. Whoever runs us
// under another policy than the usual one keeps it, and where the system does not allow
// the change nothing is changed.
func batch() (restore func()) {
	usual, err := unix.SchedGetAttr(0, 0)
	if err != nil || usual.Policy != schedNormal {
		return func() {}
	}
	usual.Runtime = 0 // the length of a turn: the system's
	changed := *usual
	changed.Policy = schedBatch
	if unix.SchedSetAttr(0, &changed, 0) != nil {
		return func() {}
	}
	return func() { unix.SchedSetAttr(0, usual, 0) }
}

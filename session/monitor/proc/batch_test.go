package proc

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// policies prints the policy (field 41 of stat) of a process and of one that it starts.
const policies = `cut -d' ' -f41 /proc/self/stat; sh -c "cut -d' ' -f41 /proc/self/stat"`

// TestBatch: a child of that kind and its own are batch processes; the children after it
// are not.
func TestBatch(t *testing.T) {
	ours, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if ours.Policy != schedNormal {
		t.Skip("the test runs under a policy that is kept")
	}
	for i, batch := range []bool{false, true, false} {
		s, out := shell(t, policies)
		s.Batch = batch
		finish(t, start(t, s))
		want := "0\n0\n"
		if batch {
			want = "3\n3\n"
		}
		if got := text(t, out); got != want {
			t.Errorf("child %d: policies %s, want %s", i, strings.Fields(got), strings.Fields(want))
		}
	}
}

// TestBatchKeepsAnotherPolicy: whoever chose one for the service has chosen it for its
// workers.
func TestBatchKeepsAnotherPolicy(t *testing.T) {
	const idle = 5 // SCHED_IDLE, which anybody may choose and not everybody leave
	got := make(chan uint32)
	go func() {
		defer close(got)
		runtime.LockOSThread() // for ever, so that the thread ends
		if unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: idle}, 0) != nil {
			return
		}
		restore := batch()
		defer restore()
		if now, err := unix.SchedGetAttr(0, 0); err == nil {
			got <- now.Policy
		}
	}()
	if policy := <-got; policy != idle {
		t.Errorf("policy %d, want %d", policy, idle)
	}
}

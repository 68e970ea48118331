package spawn

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"
)

// hold keeps a pipe locked by its reading end, as a worker can: it moves bytes to a
// socket that has no room, until release is called.
func hold(t *testing.T, in *os.File) (release func()) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(in.Fd()) // blocks from now on
	for err == nil {
		_, err = syscall.SendmsgN(pair[0], make([]byte, 4096), nil, nil, syscall.MSG_DONTWAIT)
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = syscall.Splice(fd, nil, pair[0], nil, 4096, 0)
	}()
	time.Sleep(50 * time.Millisecond) // until it waits
	return func() {
		syscall.Close(pair[1])
		<-over
		syscall.Close(pair[0])
	}
}

// TestHeldPipeDelaysNoEnd: a worker that keeps its stdin locked is ended like any
// other, and does not hold up who ends it: the reaper, or the reader of what the
// monitor says.
func TestHeldPipeDelaysNoEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*worker)
	}{{"stopped", (*worker).Stop}, {"not wanted any more", (*worker).discard}} {
		t.Run(c.name, func(t *testing.T) {
			cl, m := newFakeMonitor(t, nil)
			w, in, _ := spawnOne(t, cl, m, 1)
			if _, err := w.Stdin().WriteString("x"); err != nil {
				t.Fatal(err)
			}
			release := hold(t, in)
			defer func() { release() }()
			ended := make(chan struct{})
			go func() {
				c.end(w.(*worker))
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Error("who ended the worker waits for it")
				release()
				release = func() {}
			}
			if f, ok := m.next().(KillRequest); !ok || f.Handle != 1 {
				t.Errorf("got %#v, want a KILL", f)
			}
		})
	}
}

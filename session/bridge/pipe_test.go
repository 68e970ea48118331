package bridge

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// holdTime is how long the other process keeps a pipe locked.
const holdTime = 2 * time.Second

// TestHoldPipe is no test but the other process of the one below: it keeps its stdin
// or its stdout locked for holdTime, by moving bytes between it and a socket that has
// none, or no room.
func TestHoldPipe(t *testing.T) {
	which := os.Getenv("GATEHOUSE_HOLD_PIPE")
	if which == "" {
		t.Skip("for the test below")
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	hold := func() { syscall.Splice(pair[0], nil, 1, nil, 4096, 0) }
	if which == "stdin" {
		full := make([]byte, 64<<10)
		for {
			if _, err := syscall.SendmsgN(pair[0], full, nil, nil, syscall.MSG_DONTWAIT); err != nil {
				break
			}
		}
		hold = func() { syscall.Splice(0, nil, pair[0], nil, 4096, 0) }
	}
	go hold()
	time.Sleep(100 * time.Millisecond)
	os.Stderr.WriteString("held\n")
	time.Sleep(holdTime)
	os.Exit(0) // which ends the splice
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestHeldPipeHoldsNobodyUp: a worker that keeps its pipe locked holds up who reads
// or writes it, and no other goroutine, the collector included.
func TestHeldPipeHoldsNobodyUp(t *testing.T) {
	for _, which := range []string{"stdin", "stdout"} {
		t.Run(which, func(t *testing.T) {
			inR, inW := pipe(t)
			outR, outW := pipe(t)
			if which == "stdin" {
				io.WriteString(inW, "x")
			} else {
				io.WriteString(outW, "x\n")
			}
			worker := exec.Command(os.Args[0], "-test.run=^TestHoldPipe$")
			worker.Env = append(os.Environ(), "GATEHOUSE_HOLD_PIPE="+which)
			worker.Stdin, worker.Stdout = inR, outW
			says, err := worker.StderrPipe()
			if err == nil {
				err = worker.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer worker.Wait()
			io.ReadFull(says, make([]byte, len("held\n")))
			began := time.Now()
			moved := make(chan error, 1)
			go func() {
				var err error
				if which == "stdin" {
					_, err = newWriter(inW, time.Second).write([]byte("line\n"))
				} else {
					err = newSource(outR, 100).lines(func([]byte) error { return nil })
				}
				moved <- err
			}()
			time.Sleep(100 * time.Millisecond)
			for range 3 {
				runtime.GC() // has to stop all others
			}
			if took := time.Since(began); took > holdTime/2 {
				t.Fatalf("the process stood still for %v", took)
			}
			select {
			case err := <-moved:
				t.Skipf("this kernel lets no other process keep a pipe locked (%v)", err)
			default:
			}
			<-moved // its worker is gone
		})
	}
}

// TestStopWaitsForNoPipe: who stops a worker that keeps its stdin locked is not held up.
func TestStopWaitsForNoPipe(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = syscall.SendmsgN(pair[0], make([]byte, 4096), nil, nil, syscall.MSG_DONTWAIT)
	}
	sp := &sessiontest.Spawner{Grace: 100 * time.Millisecond, Worker: func(p *sessiontest.Process) int {
		fd := int(p.In.(*os.File).Fd()) // blocks from now on
		_, _ = syscall.Splice(fd, nil, pair[0], nil, 4096, 0)
		return 0
	}}
	w, err := sp.Spawn(context.Background(), spawn.Request{})
	if err != nil {
		t.Fatal(err)
	}
	b := New(w, Config{}, &upstream{}, noLog)
	b.Start()
	if err := b.forward(context.Background(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // until it waits
	stopped := make(chan struct{})
	go func() {
		b.Stop("test")
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(5 * time.Second):
		t.Error("Stop waits for the worker")
	}
	syscall.Close(pair[1]) // as the monitor's kill would end the splice
	<-b.Finished()
	syscall.Close(pair[0])
}

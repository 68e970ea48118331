// Package guard is the process above the monitor. It takes no input but signals
// and the end of the process below it, and it is the one to which everything the
// monitor leaves behind is handed: whatever way the monitor ends, the guard ends
// the rest, and starts it anew unless it was asked to end. When the guard itself
// is killed, the monitor sees a socket close and ends everything by itself.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/privdrop"
)

// Exit codes of a monitor that must not be started again.
const (
	// ExitAsked: it was asked to end.
	ExitAsked = 0
	// ExitRefused: it refused to start or to go on, and said why.
	ExitRefused = 1
)

// Keep are the capabilities that a guard needs beside those of the monitor, as root.
var Keep = []privdrop.Capability{privdrop.SetPCap, privdrop.DACOverride}

const (
	endLimit   = 5 * time.Second
	settled    = time.Minute
	firstPause = 200 * time.Millisecond
	maxCrashes = 5
	// readyLimit is how long signals wait for a monitor that does not say that it takes
	// them.
	readyLimit = 5 * time.Second
)

// SayReady tells the guard, on the descriptor that also tells of the guard's end, that
// the monitor takes signals from now on.
func SayReady(guard *os.File) error {
	_, err := guard.Write([]byte{1})
	return err
}

// Guard is how to start the monitor.
type Guard struct {
	// Path, Argv and Env are the monitor's program. The number of the descriptor that
	// tells it of the guard's end, and is there for SayReady, is added to Argv.
	Path string
	Argv []string
	Env  []string
	// Inherited are the descriptors from 3 on, which the monitor gets under the same
	// numbers.
	Inherited []*os.File
	// Groups is where the monitor's control groups lie; nil: there are none.
	Groups *cgroup.Base
	Log    zerolog.Logger

	host *proc.Host
	// reload says that SIGHUP came once: each further monitor gets one as well, because
	// what it is started with are the settings of the first start.
	reload bool
}

// Run starts the monitor, passes SIGTERM, SIGINT and SIGHUP on to it, and starts
// it again when it crashed, with a SIGHUP when there was one before. It returns the exit code when nothing is left.
func (g *Guard) Run(signals <-chan os.Signal) (code int, err error) {
	if err := proc.Adopt(); err != nil {
		return ExitRefused, err
	}
	if g.Groups != nil {
		defer func() { err = errors.Join(err, g.Groups.Close()) }()
	}
	g.host = proc.NewHost()
	pause := firstPause
	for crashes := 0; ; {
		began := time.Now()
		st, asked, err := g.once(signals)
		left := g.endAll()
		switch {
		case err != nil:
			return ExitRefused, errors.Join(err, left)
		case asked, st.Code == ExitAsked, st.Code == ExitRefused:
			return max(st.Code, 0), left
		}
		if time.Since(began) >= settled {
			crashes, pause = 0, firstPause
		}
		g.Log.Error().Bool("alert", true).Stringer("status", st).Dur("restart_in", pause).
			Msg("the monitor crashed or was killed; everything below it was ended")
		if crashes++; crashes >= maxCrashes {
			return ExitRefused, fmt.Errorf("the monitor crashed %d times in a row; the last time: %v", crashes, st)
		}
		select {
		case s := <-signals:
			if s != syscall.SIGHUP {
				return ExitAsked, nil
			}
			g.reload = true
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// endAll ends what a monitor left behind.
func (g *Guard) endAll() error {
	err := proc.EndAll(endLimit)
	if g.Groups != nil {
		err = errors.Join(err, g.Groups.Clear())
	}
	return err
}

// once runs one monitor. asked says that a signal to end was passed on. Signals wait
// until it takes them: a program is ended by one that comes in its first milliseconds.
func (g *Guard) once(signals <-chan os.Signal) (st proc.Status, asked bool, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return st, false, fmt.Errorf("make socket: %w", err)
	}
	theirs, ours := os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "guard")
	defer ours.Close()
	files := append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, g.Inherited...)
	c, err := g.host.Start(proc.Spec{
		Path: g.Path, Argv: append(slices.Clone(g.Argv), strconv.Itoa(len(files))), Env: g.Env, Dir: "/", Files: append(files, theirs),
		SameSession: true, RunsAsRootOnPurpose: true, OutlivesUs: true,
	})
	theirs.Close()
	if err != nil {
		return st, false, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reaper sync.WaitGroup
	reaper.Go(func() { g.host.ReapOrphans(ctx) })
	defer reaper.Wait() // it knows the children of this host alone
	defer cancel()
	ready := make(chan struct{})
	go func() {
		ours.SetReadDeadline(time.Now().Add(readyLimit))
		ours.Read(make([]byte, 1))
		close(ready)
	}()
	takes := (<-chan os.Signal)(nil)
	for {
		select {
		case <-ready:
			ready, takes = nil, signals
			if g.reload {
				c.Signal(syscall.SIGHUP)
			}
		case s := <-takes:
			sig, ok := s.(syscall.Signal)
			if !ok {
				continue
			}
			if sig == syscall.SIGINT { // from a terminal: only we are in its foreground
				sig = syscall.SIGTERM
			}
			asked = asked || sig == syscall.SIGTERM
			g.reload = g.reload || sig == syscall.SIGHUP
			c.Signal(sig)
		case <-c.Done():
			return c.Status(), asked, nil
		}
	}
}

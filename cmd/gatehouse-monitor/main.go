// Command gatehouse-monitor is the parent of all other processes of the service,
// and with root rights the only one that has any. "gatehouse serve" becomes it,
// with the plan on descriptor 3 and the listeners from 4 on. It runs twice: as the
// guard, which only watches, and below that as the monitor.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gatehouse/session/monitor"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/guard"
	"gatehouse/session/privdrop"
)

// version is set by the linker.
var version = "dev"

// guarded is the argument with which the guard starts the monitor; the descriptor
// of its socket follows.
const guarded = "guarded"

// smallHeap has the guard collect what little it allocates, now and then, at 1 MiB;
// by default 4 MiB of it would come together first.
const smallHeap = 25

const help = `gatehouse-monitor: the parent process of a Gatehouse server

"gatehouse serve" starts it, with the configuration on descriptor 3; it can't be
run by hand. See "gatehouse serve --help".

  --version   print the version
  --help      print this
`

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	// Who reads the log may go before us. Caught and not ignored, so that no child
	// ignores it.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	code, err := run(os.Args[1:], signals)
	if err != nil {
		fmt.Fprintf(os.Stderr, "gatehouse-monitor: %v\n", err)
	}
	os.Exit(code)
}

func run(args []string, signals <-chan os.Signal) (int, error) {
	switch {
	case len(args) == 0:
		return runGuard(signals)
	case len(args) == 2 && args[0] == guarded:
		return runMonitor(args[1], signals)
	case len(args) == 1 && args[0] == "--version":
		fmt.Println("gatehouse-monitor", version)
		return guard.ExitAsked, nil
	case len(args) == 1 && args[0] == "--help":
		fmt.Print(help)
		return guard.ExitAsked, nil
	}
	fmt.Fprint(os.Stderr, help)
	return guard.ExitRefused, fmt.Errorf("unknown argument %q", args[0])
}

// runGuard keeps the descriptors for the monitor and does nothing else with them.
func runGuard(signals <-chan os.Signal) (int, error) {
	debug.SetGCPercent(smallHeap)
	plan, err := openPlan()
	if err != nil {
		fmt.Fprint(os.Stderr, help)
		return guard.ExitRefused, err
	}
	inherited, err := inheritedFiles(plan)
	if err != nil {
		return guard.ExitRefused, err
	}
	if err := privdrop.Guard(slices.Concat(guard.Keep, monitor.Keep)...); err != nil {
		return guard.ExitRefused, err
	}
	groups, _ := cgroup.OpenFor(os.Getpid()) // the monitor finds out as well, and says it
	self, err := os.Executable()
	if err != nil {
		return guard.ExitRefused, err
	}
	g := guard.Guard{
		Path: self, Argv: []string{self, guarded}, Env: os.Environ(), Inherited: inherited, Groups: groups,
		Log: logger(zerolog.InfoLevel, "guard"),
	}
	return g.Run(signals)
}

// processors is how many the monitor uses at most. It waits for the kernel most of the
// time, and on a large machine the runtime would wake idle ones at each step of a spawn:
// half as much CPU again with four of them.
const processors = 2

// runMonitor locks itself down before it reads anything.
func runMonitor(socket string, signals <-chan os.Signal) (int, error) {
	above, err := guardSocket(socket)
	if err != nil {
		return guard.ExitRefused, err
	}
	if err := guard.SayReady(above); err != nil {
		return guard.ExitRefused, fmt.Errorf("tell the guard: %w", err)
	}
	if runtime.GOMAXPROCS(0) > processors {
		runtime.GOMAXPROCS(processors)
	}
	for _, step := range []func() error{
		func() error { return privdrop.CloseOnExec(planFD) },
		func() error { return privdrop.Monitor(monitor.Keep...) },
		func() error { return privdrop.ProveMonitor(monitor.Keep...) },
	} {
		if err := step(); err != nil {
			return guard.ExitRefused, err
		}
	}
	p, err := readPlan()
	if err != nil {
		return guard.ExitRefused, err
	}
	cfg, err := config(p, above)
	if err != nil {
		return guard.ExitRefused, err
	}
	m, err := monitor.New(context.Background(), cfg)
	if err == nil {
		err = m.Run(context.Background(), signals)
	}
	if err != nil {
		return guard.ExitRefused, err
	}
	return guard.ExitAsked, nil
}

// Command gatehouse-keykeeper fetches the issuers' keys, so that neither the
// monitor nor the front end needs a way out to the network for them. The monitor
// starts it with its part of the plan on descriptor 3 and a socket to each of the
// two on 4 and 5; nothing else comes in but the issuers' answers and one byte.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gatehouse/auth/issuer"
	"gatehouse/session/privdrop"
)

const notByHand = "gatehouse-monitor starts gatehouse-keykeeper; it can't be run by hand"

const help = `gatehouse-keykeeper: the process of a Gatehouse server that fetches the issuers' keys

The monitor starts it, with its part of the configuration on descriptor 3; it
can't be run by hand. See "gatehouse serve --help".
`

// receivers are who gets keys, from descriptor 4 on.
var receivers = []string{"monitor", "front end"}

func main() {
	if args := os.Args[1:]; len(args) > 0 {
		os.Exit(byHand(args[0]))
	}
	unix.Umask(0o077)
	debug.SetGCPercent(25)                  // what it allocates is little: let it lie up to 1 MiB, not 4
	signal.Ignore(unix.SIGINT, unix.SIGHUP) // the monitor's business
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "gatehouse-keykeeper: %v\n", err)
		os.Exit(1)
	}
}

// byHand answers somebody who starts it with an argument; the monitor gives none.
func byHand(arg string) (code int) {
	if arg == "--help" || arg == "-h" {
		fmt.Print(help)
		return 0
	}
	fmt.Fprintf(os.Stderr, "%sgatehouse-keykeeper: unknown argument %q\n", help, arg)
	return 1
}

// run keeps keys until ctx ends or both receivers are gone.
func run(ctx context.Context) error {
	// Who could attach to us could put in keys: workers of our own account, where there is
	// no root, and what getent(1) loads, which runs as our account where there is.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set not dumpable: %w", err)
	}
	p, err := readPlan()
	if err != nil {
		return fmt.Errorf("read the plan on descriptor 3: %w; %s", err, notByHand)
	}
	if err := privdrop.ProveNone(); err != nil {
		return err
	}
	level, err := zerolog.ParseLevel(p.LogLevel)
	if err != nil {
		return fmt.Errorf("read the plan: log level: %w", err)
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Str("process", "keykeeper").Logger()
	engine, err := issuer.New(issuer.Config{
		Sources: sources(p), StateDir: p.StateDir, MaxStale: p.MaxStale, Log: log,
	})
	if err != nil {
		return err
	}
	conns := make([]net.Conn, len(receivers))
	for i, name := range receivers {
		if conns[i], err = socket(planFD + 1 + i); err != nil {
			return fmt.Errorf("take the socket to the %s on descriptor %d: %w; %s", name, planFD+1+i, err, notByHand)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving, running sync.WaitGroup
	for i, name := range receivers {
		serving.Go(func() {
			if err := engine.Serve(ctx, conns[i]); ctx.Err() == nil {
				log.WithLevel(severity(err)).Err(err).Str("receiver", name).Msg("receiver is gone")
			}
		})
	}
	running.Go(func() { engine.Run(ctx) })
	log.Info().Int("issuers", len(p.Issuers)).Msg("keykeeper is ready")
	serving.Wait()
	cancel()
	running.Wait()
	log.Info().Msg("keykeeper ends")
	return nil
}

// severity of a receiver's end: a closed socket is none, a broken rule is.
func severity(err error) zerolog.Level {
	if err == nil {
		return zerolog.InfoLevel
	}
	return zerolog.ErrorLevel
}

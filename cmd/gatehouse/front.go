package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gatehouse/auth/audit"
	"gatehouse/auth/keys"
	"gatehouse/cmd/internal/plan"
	"gatehouse/router"
	"gatehouse/session"
	"gatehouse/session/spawn"
)

// planFD is where the front end finds its part of the plan; the other
// descriptors follow in the order of the plan package.
const planFD = 3

// maxPlan is the longest plan that is read, in bytes.
const maxPlan = 1 << 20

// lastWord is how long answers may take to leave once the sessions are closed.
const lastWord = 2 * time.Second

// front is the front-end process: everything it needs, the monitor opened for
// it. It returns the exit status: 0 after a drain, which the end of ctx begins.
func front(ctx context.Context, stdout io.Writer) int {
	signal.Ignore(syscall.SIGHUP) // a reload comes through the monitor
	tuneCollector()
	out := audit.NewWriter(stdout)
	defer out.Close()
	logger := zerolog.New(out).With().Timestamp().Str("process", "front").Logger()
	p, err := readPlan(os.NewFile(planFD, "plan"))
	if err == nil {
		err = shut(p)
	}
	if err == nil {
		if level, bad := zerolog.ParseLevel(p.LogLevel); bad == nil && p.LogLevel != "" {
			logger = logger.Level(level)
		}
		err = serveFront(ctx, p, openFront(p), logger, out)
	}
	if err != nil {
		logger.Error().Err(err).Msg("front end ends")
		return 1
	}
	logger.Info().Msg("front end ends")
	return 0
}

// shut keeps workers that run as our own account, which the modes without root have,
// from our memory with everybody's tokens in it: no ptrace, no files of ours in /proc, no
// core. Without tokens a server can stay visible to whoever started it.
func shut(p plan.Front) error {
	if !p.Auth {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set not dumpable: %w", err)
	}
	return nil
}

// readPlan reads the front end's part strictly: a field that this version does
// not know is a fault of the installation.
func readPlan(f *os.File) (plan.Front, error) {
	defer f.Close()
	var p plan.Front
	b, err := io.ReadAll(io.LimitReader(f, maxPlan+1))
	if err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	if len(b) > maxPlan {
		return p, errors.New("read the plan: larger than 1 MiB")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	if d.More() {
		return p, errors.New("read the plan: data after it")
	}
	return p, nil
}

// frontFiles are the descriptors that the monitor left open.
type frontFiles struct {
	monitor, keys *os.File // keys only in the authenticated modes
	cert, key     *os.File // only with TLS
	listeners     []*os.File
}

func openFront(p plan.Front) frontFiles {
	next := uintptr(planFD)
	open := func(name string) *os.File {
		next++
		syscall.SetNonblock(int(next), true) // so that os.File can be closed while it is read
		return os.NewFile(next, name)
	}
	f := frontFiles{monitor: open("monitor")}
	if p.Auth {
		f.keys = open("keykeeper")
	}
	if p.TLS {
		f.cert, f.key = open("certificate"), open("key")
	}
	for _, addr := range p.Listeners {
		f.listeners = append(f.listeners, open(addr))
	}
	return f
}

// serveFront wires the parts together, serves until ctx ends or something that
// it can't do without is gone, and drains.
func serveFront(ctx context.Context, p plan.Front, f frontFiles, logger zerolog.Logger, lines io.Writer) error {
	certificates, err := frontCertificates(f)
	if err != nil {
		return err
	}
	monitor, err := spawn.NewClient(f.monitor, func(cert, key *os.File) { certificates.renew(cert, key, logger) })
	if err != nil {
		return err
	}
	defer monitor.Close()
	table := session.New(sessionConfig(p), monitor, logger)
	defer table.Close()
	monitor.Events.Sessions = func() []spawn.SessionStatus { return statuses(table, time.Now()) }
	store := keys.NewStore(issuersOf(p), p.MaxStale, time.Now, func(gone []keys.Removed) { endWithdrawn(table, gone) })
	door := &doors{table: table, store: store, lines: lines, log: logger}
	if err := door.open(p); err != nil {
		return err
	}
	monitor.Events.Plan = func(f *os.File) { go door.reload(f) }
	fault := make(chan error, len(f.listeners)+1)
	if p.Auth {
		go func() { fault <- fmt.Errorf("receive key sets: %w", store.Serve(ctx, f.keys)) }()
	}
	server := router.NewServer(door, certificates.certificate(), log.New(quiet{logger}, "", 0))
	defer server.Close()
	for _, l := range f.listeners {
		ln, err := net.FileListener(l)
		l.Close()
		if err != nil {
			return fmt.Errorf("take over the listener %s: %w", l.Name(), err)
		}
		ln = router.Limit(ln, connections()/len(f.listeners))
		go func() { fault <- serveListener(server, ln, p.TLS) }()
	}
	if err := monitor.Ready(); err != nil {
		return fmt.Errorf("tell the monitor that the front end is ready: %w", err)
	}
	logger.Info().Strs("listeners", p.Listeners).Bool("tls", p.TLS).Bool("auth", p.Auth).Bool("trace", p.Trace).Msg("front end is ready")
	select {
	case <-ctx.Done():
	case <-monitor.Done():
		return fmt.Errorf("speak with the monitor: %w", monitor.Err())
	case err := <-fault:
		if ctx.Err() == nil {
			return err
		}
	}
	drain(door, table, server, p.DrainLimit, logger)
	return nil
}

// drain ends the service in order: no new sessions, no idle streams, running
// calls for as long as the limit allows. A second signal is not waited for.
func drain(door *doors, table *session.Table, server *http.Server, limit time.Duration, logger zerolog.Logger) {
	signal.Reset(syscall.SIGTERM, syscall.SIGINT)
	logger.Info().Dur("limit", limit).Msg("draining")
	door.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	table.Drain(ctx)
	ctx, cancel = context.WithTimeout(context.Background(), lastWord)
	defer cancel()
	server.Shutdown(ctx) // what does not leave in time is closed with the process
}

// connections is how many may be open at once: half of the descriptors, so that
// there are enough for the workers' pipes.
func connections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 512
	}
	return int(min(max(limit.Cur/2, 64), 1<<15))
}

func serveListener(server *http.Server, ln net.Listener, tls bool) error {
	err := error(nil)
	if tls {
		err = server.ServeTLS(ln, "", "")
	} else {
		err = server.Serve(ln)
	}
	return fmt.Errorf("serve %s: %w", ln.Addr(), err)
}

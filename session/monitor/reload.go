package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"gatehouse/session/monitor/proc"
	"gatehouse/session/monitor/world"
	"gatehouse/session/spawn"
)

// What finding the configuration anew may take, and write.
const (
	resolveLimit = 20 * time.Second
	resolveDelay = time.Second // for output that something else holds open, once the program has ended
	maxResolved  = 8 << 20
	maxComplaint = 8 << 10
)

// Recipe is a program that writes the configuration to its stdout. The zero Recipe is
// none: there is no reload of the configuration.
type Recipe struct {
	Argv []string // the program's absolute path first
	Env  []string
	Dir  string
}

// reconfigure finds the configuration anew and has those parts of it hold that can
// change while sessions live. If anything is wrong with it, or it would change
// anything else, nothing changes.
func (m *Monitor) reconfigure(ctx context.Context) {
	if len(m.cfg.Reload.Argv) == 0 {
		return
	}
	next, err := m.resolve(ctx)
	if err != nil {
		m.log.Error().Str("reason", complaint(err)).Msg("the configuration was not read again; the one before stays in force")
		return
	}
	m.live.Store(next)
	m.leases.limit(next.limits())
	m.log.Info().Msg("limits, lifetimes, account rules and scopes read again")
	m.sendPlan(next)
}

// resolve runs the recipe and reads what it says.
func (m *Monitor) resolve(ctx context.Context) (*Config, error) {
	out, warnings, err := m.runRecipe(ctx)
	if err != nil {
		return nil, err
	}
	next, err := m.cfg.Decode(out)
	if err != nil {
		return nil, err
	}
	var changed []string
	for key, was := range m.cfg.Fixed {
		if next.Fixed[key] != was {
			changed = append(changed, key)
		}
	}
	for key := range next.Fixed {
		if _, known := m.cfg.Fixed[key]; !known {
			changed = append(changed, key)
		}
	}
	if len(changed) > 0 {
		slices.Sort(changed)
		return nil, fmt.Errorf("these need a restart, and nothing was changed: %s", strings.Join(changed, ", "))
	}
	for line := range strings.Lines(warnings) {
		m.log.Warn().Str("warning", clean(strings.TrimSpace(line))).Msg("the configuration that was read again has a warning")
	}
	return next, nil
}

// runRecipe returns what the recipe writes to stdout and, if it succeeds, to stderr. As root it runs as root, for
// configurations are root's to read; it has no capability, lives for a moment, and
// reads nothing that came over a network. What it started and left behind may hold its
// output open: that is not waited for.
func (m *Monitor) runRecipe(ctx context.Context) (doc []byte, warnings string, err error) {
	r := m.cfg.Reload
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, "", err
	}
	defer null.Close()
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer out.Close()
	complaint, complaintW, err := os.Pipe()
	if err != nil {
		outW.Close()
		return nil, "", err
	}
	defer complaint.Close()
	c, err := m.host.Start(proc.Spec{
		Path: r.Argv[0], Argv: r.Argv, Env: r.Env, Dir: r.Dir,
		Files: []*os.File{null, outW, complaintW}, RunsAsRootOnPurpose: os.Geteuid() == 0,
	})
	outW.Close()
	complaintW.Close()
	if err != nil {
		return nil, "", fmt.Errorf("read the configuration again: %w", err)
	}
	text := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(complaint, maxComplaint))
		io.Copy(io.Discard, complaint)
		text <- b
	}()
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	context.AfterFunc(ctx, func() { c.Signal(syscall.SIGKILL) }) // of no effect once it has ended
	go func() {
		<-c.Done()
		late := time.Now().Add(resolveDelay)
		out.SetReadDeadline(late)
		complaint.SetReadDeadline(late)
	}()
	doc, err = io.ReadAll(io.LimitReader(out, maxResolved+1))
	switch {
	case len(doc) > maxResolved:
		err = errors.New("the configuration is larger than 8 MiB")
		c.Signal(syscall.SIGKILL)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = nil // it had its say
	}
	<-c.Done()
	said := string(bytes.TrimSpace(<-text))
	if st := c.Status(); err == nil && (st.Code != 0 || st.Signal != 0) {
		err = fmt.Errorf("%v: %s", st, said)
	}
	if err != nil {
		return nil, "", err
	}
	return doc, said, nil
}

// sendPlan hands the front end its part of the configuration.
func (m *Monitor) sendPlan(c *Config) {
	m.mu.Lock()
	a := m.attendant
	m.mu.Unlock()
	if a == nil {
		return // the next one starts with it
	}
	select {
	case <-a.ready: // one that is starting may have the part before
	case <-a.over:
		return
	}
	f, err := world.SealedFile("gatehouse-front", c.FrontPart)
	if err != nil {
		m.log.Error().Err(err).Msg("the front end was not told of the new configuration")
		return
	}
	a.send(outgoing{frame: spawn.Plan{}, files: []*os.File{f}})
}

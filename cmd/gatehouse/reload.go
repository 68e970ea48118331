package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"encoding/json"

	"github.com/rs/zerolog"

	"gatehouse/auth/audit"
	"gatehouse/auth/keys"
	"gatehouse/cmd/internal/conf"
	"gatehouse/cmd/internal/plan"
	"gatehouse/router"
	"gatehouse/session"
)

// doors is the front end's handler: a reload puts a new door in the place of the one
// before, through which requests under way still go.
type doors struct {
	table *session.Table
	store *keys.Store
	lines io.Writer
	log   zerolog.Logger

	current  atomic.Pointer[router.Door]
	mu       sync.Mutex // one reload at a time
	draining bool
}

// ServeHTTP implements http.Handler.
func (d *doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.current.Load().ServeHTTP(w, r)
}

// open makes the door of a plan and has it serve from now on.
func (d *doors) open(p plan.Front) error {
	cfg, err := doorConfig(p, d.table, d.store)
	if err != nil {
		return err
	}
	cfg.Audit = audit.New(d.lines)
	if p.Trace {
		cfg.Trace = audit.NewTrace(d.lines, p.TraceLimit)
	}
	door, err := router.New(cfg)
	if err != nil {
		return err
	}
	d.current.Store(door)
	return nil
}

// reload takes over the plan that the monitor found at a reload. One that is not good
// changes nothing.
func (d *doors) reload(f *os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := readPlan(f)
	if err == nil && !d.draining {
		err = d.open(p)
	}
	if err != nil {
		d.log.Error().Err(err).Msg("the new configuration is not used")
		return
	}
	d.table.Reconfigure(sessionConfig(p))
	d.log.Info().Bool("trace", p.Trace).Msg("limits, lifetimes and scopes taken over")
}

// Drain has the door refuse new sessions.
func (d *doors) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draining = true
	d.current.Load().Drain()
}

// resolveCmd finds the configuration anew for a running server.
type resolveCmd struct {
	settingFlags
	Addresses []string `help:"Where the running server listens."`
}

// Run prints the plan and, on stderr, warnings, one a line; or there what is wrong with the
// configuration.
func (cmd *resolveCmd) Run(s streams) error {
	c, warnings, err := cmd.load(s)
	if problems := asProblems(err); len(problems) > 0 {
		refuse(s.err, problems)
		return exitStatus(exitFailed)
	}
	if err != nil {
		return err
	}
	if problems := checkToolsets(c); len(problems) > 0 {
		refuse(s.err, problems)
		return exitStatus(exitFailed)
	}
	p, err := c.Plan(cmd.Addresses)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintln(s.err, w)
	}
	return json.NewEncoder(s.out).Encode(p)
}

func asProblems(err error) conf.Problems {
	problems, _ := err.(conf.Problems) // Load returns no other kind
	return problems
}

// recipe is how the monitor finds the configuration anew: as this command has.
func (f *settingFlags) recipe(addresses, environ []string) (plan.Recipe, error) {
	dir, err := os.Getwd()
	if err != nil {
		return plan.Recipe{}, fmt.Errorf("find the working directory: %w", err)
	}
	r := plan.Recipe{Dir: dir, Args: []string{"resolve", "--addresses=" + strings.Join(addresses, ",")}}
	if f.Config != "" {
		file, err := filepath.Abs(f.Config)
		if err != nil {
			return r, err
		}
		r.Args = append(r.Args, "--config="+file)
	}
	for _, name := range f.names {
		if v, ok := f.given()[name]; ok {
			r.Args = append(r.Args, "--"+name+"="+v)
		}
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "MCP_") || slices.Contains([]string{"HOME", "PATH", "LANG", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}, name) {
			r.Env = append(r.Env, kv)
		}
	}
	return r, nil
}

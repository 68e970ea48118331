// Command gatehouse-worker is the stdio MCP server that serves the built-in
// toolsets to one principal. The monitor starts it with its settings in a sealed
// memory file on descriptor 3; without one it runs alone, from its flags.
package main

import (
	"context"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
	"gatehouse/toolsets/browsing"
	"gatehouse/toolsets/execution"
	"gatehouse/toolsets/listing"
	"gatehouse/toolsets/mutation"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/search"
	"gatehouse/toolsets/session"
	"gatehouse/toolsets/testing"
	"gatehouse/toolsets/view"
	"gatehouse/toolsets/worker"
	"gatehouse/toolsets/workspace"
)

// version is set by the linker.
var version = "dev"

func main() {
	unix.Umask(0o077)
	// What a tool's processes leave behind becomes our child, and ends with us.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	// Programs are looked up in our own PATH.
	_ = os.Setenv("PATH", path())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	p := worker.Program{Name: "gatehouse-worker", Version: version, Build: build}
	os.Exit(p.Run(context.Background(), worker.World{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SettingsFD: settings.FD, StateDir: stateDir(), Account: account(),
		Signals:     signals,
		IsInterrupt: func(s os.Signal) bool { return s == unix.SIGINT },
	}))
}

// builtin lists the built-in toolsets by name.
func builtin(id session.Identity, ws *workspace.Workspace) []toolsets.Toolset {
	return []toolsets.Toolset{
		session.New(id, ws, time.Now),
		listing.New(ws),
		browsing.New(ws),
		search.New(ws),
		mutation.New(ws),
		testing.New(ws),
		execution.New(ws),
	}
}

// build makes what one session serves.
func build(in worker.Input) (*worker.Set, error) {
	groups, err := os.Getgroups()
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	cfg := view.Config{StateDir: in.StateDir, Account: account(), Name: in.Settings.Name, Email: in.Settings.Email,
		Env: run.Env(inherited()), IdleEnd: in.Settings.IdleEnd, Now: time.Now}
	if in.Log != nil {
		cfg.Log = in.Log.Warn
	}
	if w := in.Settings.Workspace; w != nil {
		if cfg.Repository, err = filepath.Abs(w.Repository); err != nil {
			return nil, err
		}
		cfg.Branch = w.Branch
	}
	views := view.NewSet(cfg)
	ws := workspace.New(views, goEnv(in.StateDir))
	id := session.NewIdentity(in.Settings, account(), os.Getuid(), os.Getgid(), os.Getpid(), groups, cwd)
	set := &worker.Set{
		Available: builtin(id, ws),
		Footer:    views.Footer,
		Close: func(reason string) {
			run.EndChildren()
			views.Close(reason)
		},
	}
	for _, ts := range set.Available {
		set.Default = append(set.Default, ts.Name)
	}
	return set, nil
}

// account is the name of the account that the process really runs as.
func account() string {
	uid := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return "uid " + uid
}

// stateDir is the account's private folder for views and lost work.
func stateDir() string {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "gatehouse-worker")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "gatehouse-worker")
	}
	return ""
}

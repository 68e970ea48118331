// Package worker serves toolsets over stdio on the official MCP SDK: the one
// MCP server of a session. cmd/gatehouse-worker is this package with the
// built-in toolsets; a third party's program is the same with others beside.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
)

// MaxInstructions is how many characters the operator's instructions may have.
const MaxInstructions = 32_768

// drainLimit is how long running calls may take to notice that the session ends.
const drainLimit = 3 * time.Second

// Program is one worker program: its name and what it can serve.
type Program struct {
	Name, Version string
	// Build makes the toolsets for one session. Its errors stop the start. When
	// in.Catalogue is set nothing of the outside may be touched.
	Build func(in Input) (*Set, error)
}

// Input is what a session is made from.
type Input struct {
	Settings  settings.Settings
	StateDir  string // the account's private folder for us; made when needed
	Catalogue bool   // only the declarations are wanted
	Log       *slog.Logger
}

// Set is what Build returns.
type Set struct {
	Available []toolsets.Toolset
	// Default are the toolsets served when the operator names none.
	Default []string
	// Footer ends the results of a view; see toolsets.Config.
	Footer func(ctx context.Context, view string) []string
	// Close ends the session: why it ended is for the log. Nil for nothing to do.
	Close func(reason string)
}

// World is where a worker runs.
type World struct {
	Args           []string // without the program's name
	Stdin          io.ReadCloser
	Stdout, Stderr io.Writer
	SettingsFD     int // where sealed settings may be; negative for nowhere
	// StateDir and Account are the defaults of a worker that runs alone.
	StateDir, Account string
	// Signals delivers SIGINT (give the running calls up) and SIGTERM (end).
	Signals <-chan os.Signal
	// IsInterrupt tells the two apart.
	IsInterrupt func(os.Signal) bool
}

// flags is the command line of a worker that runs alone.
type flags struct {
	Workspace    string           `placeholder:"DIR" help:"Git repository (bare or not) of the Go code to work on."`
	Branch       string           `help:"Shared branch; default: what the repository's HEAD names."`
	Toolsets     []string         `placeholder:"NAME" help:"Toolsets to serve; default: all built-in ones."`
	Options      string           `placeholder:"JSON" help:"Options of the toolsets, a JSON object keyed by toolset. With --check, - reads them from the standard input."`
	Title        string           `help:"Name of this instance, shown by clients."`
	Instructions string           `name:"instructions-file" placeholder:"FILE" help:"File that replaces the built-in instructions; an empty one sends none."`
	AuthorName   string           `placeholder:"NAME" help:"Author of commits; default: the account."`
	AuthorEmail  string           `placeholder:"ADDR" help:"E-mail address of the author."`
	State        string           `placeholder:"DIR" help:"Private folder for views and lost work."`
	Check        bool             `help:"Check toolsets, options and instructions, say what is wrong, and exit."`
	ListToolsets bool             `help:"Print toolsets, tools and options as JSON and exit."`
	Version      kong.VersionFlag `help:"Print the version and exit."`
}

// Run runs the program to its end and returns the exit code: 0 for a clean end,
// 1 when the session failed, 2 for a refused start.
func (p Program) Run(ctx context.Context, w World) int {
	var fl flags
	code, done := p.parse(&fl, w)
	if done {
		return code
	}
	refuse := func(err error) int {
		fmt.Fprintf(w.Stderr, "%s: %v\n", p.Name, err)
		return 2
	}
	log := slog.New(slog.NewJSONHandler(w.Stderr, nil))
	if fl.ListToolsets {
		if err := p.list(w.Stdout); err != nil {
			return refuse(err)
		}
		return 0
	}
	s, err := p.settings(fl, w)
	if err != nil {
		return refuse(err)
	}
	if fl.Check {
		if err := p.check(*s); err != nil {
			return refuse(err)
		}
		return 0
	}
	state := fl.State
	if state == "" {
		state = w.StateDir
	}
	set, err := p.Build(Input{Settings: *s, StateDir: state, Log: log})
	if err != nil {
		return refuse(err)
	}
	return p.serve(ctx, *s, set, w, log)
}

// parse reads the flags. done reports that there is nothing more to do.
func (p Program) parse(fl *flags, w World) (code int, done bool) {
	parser, err := kong.New(fl, kong.Name(p.Name), kong.Description(
		"MCP server over stdio that serves the workspace toolsets. Under the monitor its settings come on descriptor 3; alone they come from these flags."),
		kong.Writers(w.Stdout, w.Stderr), kong.Vars{"version": p.Name + " " + p.Version},
		kong.Exit(func(c int) { code, done = c, true }))
	if err != nil {
		panic("worker: flags: " + err.Error())
	}
	if _, err = parser.Parse(w.Args); done {
		return code, true
	}
	if err != nil {
		fmt.Fprintf(w.Stderr, "%s: %v\nTry --help.\n", p.Name, err)
		return 2, true
	}
	return 0, false
}

// settings returns the handed-over settings or those that the flags make.
func (p Program) settings(fl flags, w World) (*settings.Settings, error) {
	if w.SettingsFD >= 0 {
		s, err := ReadSettings(w.SettingsFD)
		if err != nil {
			return nil, err
		}
		if s != nil {
			if len(w.Args) > 0 {
				return nil, errors.New("settings came on a descriptor: flags are not accepted beside them")
			}
			return s, nil
		}
	}
	s := &settings.Settings{Account: w.Account, Server: "stdio", Title: fl.Title,
		Name: fl.AuthorName, Email: fl.AuthorEmail, Toolsets: fl.Toolsets}
	if fl.Workspace != "" {
		s.Workspace = &settings.Workspace{Repository: fl.Workspace, Branch: fl.Branch}
	} else if fl.Branch != "" {
		return nil, errors.New("--branch needs --workspace")
	}
	options := []byte(fl.Options)
	if fl.Options == "-" && fl.Check {
		var err error
		if options, err = io.ReadAll(io.LimitReader(w.Stdin, maxSettings)); err != nil {
			return nil, fmt.Errorf("--options: %w", err)
		}
	}
	if len(options) > 0 {
		if err := json.Unmarshal(options, &s.Options); err != nil {
			return nil, fmt.Errorf("--options must be a JSON object keyed by toolset: %w", err)
		}
	}
	if fl.Instructions != "" {
		b, err := os.ReadFile(fl.Instructions)
		if err != nil {
			return nil, fmt.Errorf("--instructions-file: %w", err)
		}
		text := string(b)
		s.Instructions = &text
	}
	return s, nil
}

// check looks whether a session with these settings would start, and touches
// nothing: it is for an operator's start.
func (p Program) check(s settings.Settings) error {
	set, err := p.Build(Input{Catalogue: true, Settings: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	names := s.Toolsets
	if names == nil {
		names = set.Default
	}
	if _, err := toolsets.New(set.Available, toolsets.Config{Names: names, Options: s.Options}); err != nil {
		return err
	}
	return checkInstructions(s.Instructions)
}

func (p Program) list(out io.Writer) error {
	set, err := p.Build(Input{Catalogue: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(toolsets.List(set.Available, func(n string) bool { return slices.Contains(set.Default, n) }))
}

func (p Program) serve(ctx context.Context, s settings.Settings, set *Set, w World, log *slog.Logger) int {
	closeSet := func(reason string) {
		if set.Close != nil {
			set.Close(reason)
		}
	}
	names := s.Toolsets
	if names == nil {
		names = set.Default
	}
	reg, err := toolsets.New(set.Available, toolsets.Config{Names: names, Options: s.Options, Footer: set.Footer,
		OnBug: func(tool string, fault any, stack []byte) {
			log.Error("a tool panicked", "tool", tool, "fault", fmt.Sprint(fault), "stack", string(stack))
		}})
	if err == nil {
		err = checkInstructions(s.Instructions)
	}
	if err != nil {
		fmt.Fprintf(w.Stderr, "%s: %v\n", p.Name, err)
		closeSet("refused start")
		return 2
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case sig := <-w.Signals:
				if w.IsInterrupt(sig) {
					log.Info("interrupted", "calls", reg.Interrupt())
					continue
				}
				end(fmt.Errorf("signal: %v", sig))
			}
		}
	}()
	err = Serve(ctx, Server{Name: p.Name, Version: p.Version, Title: s.Title,
		Instructions: instructions(s.Instructions, reg), Log: quiet(ctx, log)}, reg, w.Stdin, w.Stdout)
	reg.Interrupt()
	drain, stop := context.WithTimeout(context.Background(), drainLimit)
	defer stop()
	if !reg.Drain(drain) {
		log.Warn("a call did not end in time")
	}
	reason := "the client's end of the connection was closed"
	switch {
	case err != nil:
		reason = err.Error()
	case ctx.Err() != nil:
		reason = context.Cause(ctx).Error()
	}
	closeSet(reason)
	if err != nil {
		log.Error("session failed", "error", err.Error())
		return 1
	}
	return 0
}

func checkInstructions(text *string) error {
	if text == nil {
		return nil
	}
	if !utf8.ValidString(*text) {
		return errors.New("the instructions are not valid UTF-8")
	}
	if n := utf8.RuneCountInString(*text); n > MaxInstructions {
		return fmt.Errorf("the instructions have %d characters; at most %d are accepted", n, MaxInstructions)
	}
	return nil
}

// instructions are the operator's, or the guides of the served toolsets.
func instructions(own *string, reg *toolsets.Registry) string {
	if own != nil {
		return *own
	}
	var parts []string
	for _, ts := range reg.Toolsets() {
		if ts.Guide != "" {
			parts = append(parts, ts.Guide)
		}
	}
	return strings.Join(parts, "\n\n")
}

// quiet drops what the SDK says about its ordinary course, to which an end that a
// signal has asked for belongs: it would call that an error.
func quiet(serving context.Context, log *slog.Logger) *slog.Logger {
	return slog.New(warnings{log.Handler(), serving})
}

type warnings struct {
	slog.Handler
	serving context.Context
}

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.serving.Err() == nil && w.Handler.Enabled(ctx, l)
}

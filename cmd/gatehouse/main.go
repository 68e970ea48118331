// Command gatehouse is the operator's command. "serve" validates the
// configuration, binds the listeners and becomes the monitor; "check" explains
// the configuration and tests the outside; "login", "token" and "logout" are the
// client's side of signing in; the hidden "front" is the front-end
// process, which only the monitor starts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"gatehouse/cmd/internal/conf"
)

// Exit codes: 0 done, 1 refused or failed, 2 wrong usage; of token also 3, see there.
const (
	exitDone = iota
	exitFailed
	exitUsage
)

// streams are a command's surroundings.
type streams struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
}

func main() {
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, os.Environ()}))
}

// commands is the command line.
type commands struct {
	Serve      serveCmd      `cmd:"" help:"Start the server."`
	Check      checkCmd      `cmd:"" help:"Print the effective configuration and test what it depends on."`
	Login      loginCmd      `cmd:"" help:"Sign in at a server, for tokens that stay fresh."`
	Token      tokenCmd      `cmd:"" help:"Print a fresh access token for a server."`
	Logout     logoutCmd     `cmd:"" help:"Sign out at a server."`
	Sessions   sessionsCmd   `cmd:"" help:"List the sessions of a running server, or end some."`
	Toolsets   toolsetsCmd   `cmd:"" help:"Print what the worker can serve: toolsets, tools and options."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Front      frontCmd      `cmd:"" hidden:"" help:"The front-end process; only the monitor starts it."`
	Resolve    resolveCmd    `cmd:"" hidden:"" help:"Print the plan; only the monitor asks for it, at a reload."`
	Accounts   accountsCmd   `cmd:"" hidden:"" help:"Print the entries of an accounts file."`
	ConfigDocs configDocsCmd `cmd:"" hidden:"" help:"Print docs/config.md."`
}

// run parses the arguments and runs one command.
func run(args []string, s streams) int {
	c := commands{}
	c.Serve.addFlags()
	c.Check.addFlags()
	c.Resolve.addFlags()
	code, done := exitDone, false
	parser, err := kong.New(&c, kong.Name("gatehouse"),
		kong.Description("Front door for MCP: TLS, bearer tokens of an OIDC issuer, and a worker process for each user that runs as the user's account."),
		kong.Writers(s.out, s.err), kong.Exit(func(c int) { code, done = c, true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}))
	if err != nil {
		panic("gatehouse: command line: " + err.Error())
	}
	if len(args) == 1 && args[0] == "--version" { // as most programs have it
		args = []string{"version"}
	}
	ctx, err := parser.Parse(args)
	if done { // --help
		return code
	}
	if err != nil {
		return usage(err, s)
	}
	if err := ctx.Run(s); err != nil {
		var status exitStatus
		if errors.As(err, &status) {
			return int(status)
		}
		fmt.Fprintf(s.err, "gatehouse: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// usage says what is wrong with the arguments.
func usage(err error, s streams) int {
	fmt.Fprintf(s.err, "gatehouse: %v\n", err)
	hint := "gatehouse --help"
	if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil && pe.Context.Command() != "" {
		hint = "gatehouse " + pe.Context.Command() + " --help"
	}
	fmt.Fprintf(s.err, "Try: %s\n", hint)
	return exitUsage
}

// exitStatus ends the program without a further word.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

type frontCmd struct{}

// Run is the front-end process.
func (frontCmd) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if code := front(ctx, s.out); code != 0 {
		return exitStatus(code)
	}
	return nil
}

type configDocsCmd struct{}

// Run prints the reference of all settings.
func (configDocsCmd) Run(s streams) error {
	_, err := io.WriteString(s.out, conf.Reference())
	return err
}

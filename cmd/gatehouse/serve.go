package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"syscall"

	"gatehouse/cmd/internal/conf"
	"gatehouse/cmd/internal/plan"
)

type serveCmd struct{ settingFlags }

// Help is shown by "gatehouse serve --help".
func (serveCmd) Help() string {
	return `Validates the whole configuration, binds the listeners, prints where they are, and becomes the monitor, which starts everything else. SIGTERM ends it in good order; SIGHUP reads certificate, accounts file and what of the configuration can change while sessions live again (docs/operations.md).

A flag wins over an environment variable, a variable over the file, the file over the default. docs/config.md describes every setting.

Examples:

	gatehouse serve --mode loopback
	gatehouse serve --config /etc/gatehouse/gatehouse.yaml
	gatehouse serve --mode authenticated --run-as same-account --issuer https://id.example.com --audience https://mcp.example.com:8443/mcp --tls-cert server.pem --tls-key server.key --accounts-file accounts.yaml`
}

// Run starts the server. It returns only when the start is refused.
func (cmd *serveCmd) Run(s streams) error {
	signal.Ignore(syscall.SIGHUP) // all is read just now; the monitor begins so, and then takes it
	if err := reserve(); err != nil {
		return err
	}
	c, warnings, err := cmd.load(s)
	for _, w := range warnings {
		fmt.Fprintf(s.err, "gatehouse: warning: %s\n", w)
	}
	if problems, ok := errors.AsType[conf.Problems](err); ok {
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
	ends, err := endpoints(c.Listen.Addresses)
	if err != nil {
		return err
	}
	lns, err := listen(ends, c.Listen.Port)
	if err != nil {
		return err
	}
	defer closeAll(lns)
	p, err := c.Plan(addressesOf(lns))
	if err != nil {
		return err
	}
	operators, err := bindOperators(c, lns[0].Addr().(*net.TCPAddr).Port)
	if err != nil {
		return err
	}
	if operators != nil {
		p.Monitor.Operators = true
		defer func() { // the start was refused: nobody will ever listen there
			operators.SetUnlinkOnClose(true)
			operators.Close()
		}()
	}
	if p.Monitor.Reload, err = cmd.recipe(addressesOf(lns), s.environ); err != nil {
		return err
	}
	announce(s.err, c, lns)
	return handOver(p.Monitor.BinDir, p, lns, operators, s.environ)
}

// refuse lists what is wrong with the configuration.
func refuse(w io.Writer, problems conf.Problems) {
	fmt.Fprintln(w, "gatehouse: the configuration is not accepted:")
	for _, p := range problems {
		fmt.Fprintf(w, "  %s\n", p)
	}
}

// announce says how the server runs and where.
func announce(w io.Writer, c *conf.Config, lns []*net.TCPListener) {
	say := func(format string, a ...any) { fmt.Fprintf(w, "gatehouse: "+format+"\n", a...) }
	say("%s", wayInWords(c))
	if c.Log.Trace {
		say("trace is on: the log holds the messages that users and workers exchange")
	}
	for i := range c.Servers {
		if lack := noCode(c.Servers[i]); lack != "" {
			say("warning: worker of %s: %s", c.Servers[i].Path, lack)
		}
	}
	for _, url := range urls(c, lns) {
		say("listening on %s", url)
	}
	if !c.Authenticated() {
		return
	}
	for i := range c.Servers {
		say("%s is the resource %s", c.Servers[i].Path, c.Servers[i].Resource)
	}
	if onlyLoopback(lns) && !c.Demo {
		say("only this machine can connect; to open it to the network: MCP_BIND_ADDRESS=0.0.0.0")
	}
}

// wayInWords says who may call and as whom workers run.
func wayInWords(c *conf.Config) string {
	as := c.ServerAccount()
	if c.Root() {
		as = c.Accounts.WorkerUser
	}
	switch c.Way() {
	case plan.RunLoopback:
		return "loopback mode: no token is asked for, every user of this machine can call; workers run as " + as
	case plan.RunMonitor:
		return "authenticated mode, monitor: each worker runs as the account of its token"
	case plan.RunSame:
		return "authenticated mode, same-account: only principals that map to " + as + " get in"
	case plan.RunShared:
		return "authenticated mode, shared-account: everybody's worker runs as " + as
	}
	return "no way to run"
}

// urls lists every URL that answers.
func urls(c *conf.Config, lns []*net.TCPListener) []string {
	scheme := "http://"
	if c.Authenticated() {
		scheme = "https://"
	}
	var out []string
	for _, s := range c.Servers {
		for _, a := range addressesOf(lns) {
			out = append(out, scheme+a+s.Path)
		}
	}
	return out
}

func onlyLoopback(lns []*net.TCPListener) bool {
	for _, ln := range lns {
		if !ln.Addr().(*net.TCPAddr).IP.IsLoopback() {
			return false
		}
	}
	return true
}

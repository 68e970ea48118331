package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// nobodyID is the account as which root asks, because no worker ever runs as root.
const nobodyID = 65534

// toolsetsCmd prints what a worker program can serve.
type toolsetsCmd struct {
	Worker string `placeholder:"FILE" help:"The worker program; without it the gatehouse-worker beside this program."`
}

// Help shows how to use what is printed.
func (toolsetsCmd) Help() string {
	return `Prints every toolset with its tools and options.

  MCP_TOOLSETS=session,listing,search scripts/run-server.sh
  MCP_TOOLSET_OPTIONS='{"session":{"run_hooks":true}}' scripts/run-server.sh`
}

// Run prints the catalogue.
func (cmd toolsetsCmd) Run(s streams) error {
	program := cmd.Worker
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the worker program: %w", err)
		}
		program = filepath.Join(filepath.Dir(self), "gatehouse-worker")
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return fmt.Errorf("find the worker program: %w", err)
	}
	var as *syscall.Credential
	if os.Geteuid() == 0 {
		as = &syscall.Credential{Uid: nobodyID, Gid: nobodyID, Groups: []uint32{}}
	}
	cat, err := readCatalogue(program, as)
	if err != nil && as != nil {
		return fmt.Errorf("%w (root asks as uid %d, which must be able to execute %s; /usr/local/libexec/gatehouse has an installed one)", err, nobodyID, program)
	}
	if err != nil {
		return err
	}
	cat.print(s.out)
	return nil
}

func (c catalogue) print(w io.Writer) {
	for i, t := range c.Toolsets {
		if i > 0 {
			fmt.Fprintln(w)
		}
		served := ""
		if !t.Default {
			served = " (only when named)"
		}
		fmt.Fprintf(w, "%s%s: %s\n", t.Name, served, t.Summary)
		for _, tool := range t.Tools {
			fmt.Fprintf(w, "  %-24s %s\n", tool.Name, tool.Title)
		}
		for _, o := range t.Options {
			fmt.Fprintf(w, "  option %s (%s, default %s): %s\n", o.Name, o.Type, o.Default, o.Meaning)
		}
	}
}

// Command hello serves the session toolset's neighbour: one tool of its own.
package main

import (
	"context"
	"os"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
	"gatehouse/toolsets/worker"
)

func greet(_ context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	if c.String("name") == "nobody" {
		return nil, toolsets.Failf(toolsets.NotFound, "there is nobody here; name somebody else")
	}
	return &toolsets.Result{Text: "Hello, " + c.String("name") + "."}, nil
}

func build(worker.Input) (*worker.Set, error) {
	hello := toolsets.Toolset{Name: "hello", Summary: "Greets.", Tools: []toolsets.Tool{{
		Name: "greet", Title: "Greet", Description: "Greets somebody by name.", ReadOnly: true, Idempotent: true, Call: greet,
		Params: []toolsets.Param{{Name: "name", Type: toolsets.String, Required: true, Meaning: "Whom to greet."}},
	}}}
	return &worker.Set{Available: []toolsets.Toolset{hello}, Default: []string{"hello"}}, nil
}

func main() {
	p := worker.Program{Name: "hello", Version: "1", Build: build}
	os.Exit(p.Run(context.Background(), worker.World{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SettingsFD: settings.FD, Account: os.Getenv("USER"), IsInterrupt: func(s os.Signal) bool { return s == os.Interrupt }}))
}

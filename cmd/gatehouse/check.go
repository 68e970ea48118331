package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse/cmd/internal/conf"
)

type checkCmd struct {
	settingFlags
	TokenStdin bool `help:"Read an access token from standard input and explain each check that it passes or fails."`
	Server     int  `default:"0" placeholder:"N" help:"With --token-stdin: for which configured server, counted from 0."`
	keycloakFlags
	Offline bool `help:"Leave out what needs the network."`
}

// Help is shown by "gatehouse check --help".
func (checkCmd) Help() string {
	return `Prints the effective configuration, each value with its origin and no secret among them, then tests the outside: certificate, programs, accounts, ports, the issuer's metadata and keys, clocks. Each test's line begins with ok, warn or FAIL; the exit code is 1 when one failed.

Examples:

	gatehouse check --config /etc/gatehouse/gatehouse.yaml
	sudo MCP_MODE=authenticated MCP_ISSUER=https://id.example.com gatehouse check
	gatehouse check --config gatehouse.yaml --token-stdin < token.txt
	MCP_AUDIENCE=https://mcp.example.com/mcp gatehouse check --keycloak https://id.example.com --realm staff`
}

// verdict is the outcome of one test.
type verdict string

// The verdicts. Only failed makes the exit code 1.
const (
	okay   verdict = "ok"
	warned verdict = "warn"
	failed verdict = "FAIL"
)

// checker prints verdicts and counts the failures.
type checker struct {
	c       *conf.Config
	out     io.Writer
	now     time.Time
	offline bool
	fails   int
	warns   int
}

// say prints one verdict: what was tested, what came of it, what to do.
func (k *checker) say(v verdict, topic, format string, a ...any) {
	switch v {
	case failed:
		k.fails++
	case warned:
		k.warns++
	}
	if text := strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", "\n      "); text != "" {
		topic += ": " + text
	}
	fmt.Fprintf(k.out, "%-4s  %s\n", v, topic)
}

// count words a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// outside is every test of what the configuration depends on, in this order.
var outside = []struct {
	name string
	run  func(*checker, context.Context)
}{
	{"certificate", (*checker).certificate},
	{"programs", (*checker).programs},
	{"workers", (*checker).workers},
	{"state", (*checker).state},
	{"accounts", (*checker).accounts},
	{"ports", (*checker).ports},
	{"issuers", (*checker).issuers},
}

// Run prints the configuration and the verdicts.
func (cmd *checkCmd) Run(s streams) error {
	c, warnings, err := cmd.load(s)
	problems, refused := errors.AsType[conf.Problems](err)
	if err != nil && !refused {
		return err
	}
	k := &checker{c: c, out: s.out, now: time.Now(), offline: cmd.Offline}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if cmd.Keycloak != "" {
		return cmd.checkKeycloak(ctx, k, s)
	}
	if cmd.TokenStdin {
		if refused {
			refuse(s.err, problems)
			return exitStatus(exitFailed)
		}
		return k.explain(ctx, s.in, cmd.Server)
	}
	fmt.Fprintln(s.out, "Effective configuration:")
	if err := c.Show(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	for _, p := range problems {
		k.say(failed, "configuration", "%s", p)
	}
	for _, w := range warnings {
		if !strings.HasPrefix(w, "tls.cert: ") { // judged below, where an expired certificate fails
			k.say(warned, "configuration", "%s", w)
		}
	}
	if !refused {
		k.say(okay, "configuration", "accepted")
	}
	if c.Mode != "" && !slices.ContainsFunc(problems, func(p conf.Problem) bool { return p.Where != "" }) {
		for _, t := range outside { // what is only missing does not keep the rest from being tested
			t.run(k, ctx)
		}
	}
	return k.closing(s)
}

// closing counts the verdicts and makes the exit status of them.
func (k *checker) closing(s streams) error {
	if k.fails > 0 {
		fmt.Fprintf(s.out, "\n%d failed, %s\n", k.fails, count(k.warns, "warning"))
		return exitStatus(exitFailed)
	}
	fmt.Fprintf(s.out, "\nall passed, %s\n", count(k.warns, "warning"))
	return nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

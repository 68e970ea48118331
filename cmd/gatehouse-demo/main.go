// Command gatehouse-demo is the embedded OpenID issuer for the first five
// minutes: two users, loopback only. It also makes development certificates.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"gatehouse/auth/demoissuer"
	"gatehouse/certs"
)

type cli struct {
	Serve    serveCmd    `cmd:"" help:"Serve the demo issuer on https://localhost:PORT."`
	Token    tokenCmd    `cmd:"" help:"Print an access token of the running demo issuer."`
	Accounts accountsCmd `cmd:"" help:"Print the accounts file that maps the demo's users."`
	Cert     certCmd     `cmd:"" help:"Make or renew a development certificate and print the paths of CA, certificate and key."`
	Probe    probeCmd    `cmd:"" help:"Ask a server whether it answers."`
}

func main() { os.Exit(run(os.Args[1:])) }

// run parses the arguments and runs one command. Exit codes: 0 done, 1 failed, 2
// wrong usage.
func run(args []string) int {
	var c cli
	code, done := 0, false
	parser, err := kong.New(&c, kong.Name("gatehouse-demo"), kong.Exit(func(c int) { code, done = c, true }),
		kong.Description("The embedded OpenID issuer of Gatehouse's demo. It has two users, alice and bob, and serves loopback only."))
	if err != nil {
		panic("gatehouse-demo: command line: " + err.Error())
	}
	k, err := parser.Parse(args)
	if done { // --help
		return code
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "gatehouse-demo: %v\nTry: gatehouse-demo --help\n", err)
		return 2
	}
	if err := k.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "gatehouse-demo: %v\n", err)
		return 1
	}
	return 0
}

type tokenCmd struct {
	State    string        `help:"State folder of the running demo issuer." required:""`
	User     string        `help:"alice or bob." required:""`
	Audience string        `help:"Another audience, to see it refused."`
	Scope    *string       `help:"Other scopes; an empty string for none."`
	Client   string        `help:"Another client_id."`
	Life     time.Duration `help:"Another life; a negative one gives an expired token."`
}

func (t *tokenCmd) Run() error {
	token, err := demoissuer.AskToken(t.State, demoissuer.Mint{
		User: t.User, Audience: t.Audience, Scope: t.Scope, Client: t.Client, Life: t.Life})
	if err != nil {
		return err
	}
	_, err = fmt.Println(token)
	return err
}

type accountsCmd struct {
	Issuer string `help:"The issuer's URL." required:""`
	Prefix string `help:"Put before the user's name to make the account's." default:"gatehouse-"`
}

func (a *accountsCmd) Run() error {
	return demoissuer.WriteAccounts(os.Stdout, strings.TrimSuffix(a.Issuer, "/"), a.Prefix)
}

type certCmd struct {
	Dir  string `help:"Folder of the development CA." required:""`
	Name string `help:"Name of the certificate." default:"server"`
}

func (c *certCmd) Run() error {
	f, err := certs.Dev{Dir: c.Dir}.Leaf(c.Name)
	if err != nil {
		return err
	}
	if f.MadeCA {
		fmt.Fprintf(os.Stderr, "made a development CA: %s\n", f.CA)
	}
	_, err = fmt.Printf("%s\n%s\n%s\n", f.CA, f.Cert, f.Key)
	return err
}

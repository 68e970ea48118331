package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"gatehouse/auth/login"
)

// serverFlags are common to login, token and logout.
type serverFlags struct {
	URL string `arg:"" help:"The server's URL, such as https://mcp.example.com/mcp."`
	CA  string `placeholder:"FILE" help:"PEM file of a private authority that signed the server's or the issuer's certificate ($MCP_CA, else $NODE_EXTRA_CA_CERTS)."`
}

// client makes the client of one command.
func (f *serverFlags) client(s streams) (*login.Client, error) {
	ca := f.CA
	for _, name := range []string{"MCP_CA", "NODE_EXTRA_CA_CERTS"} {
		if ca == "" {
			ca = getenv(s, name)
		}
	}
	hc, err := login.NewHTTP(ca)
	if err != nil {
		return nil, err
	}
	store, err := login.DefaultStore(func(name string) string { return getenv(s, name) })
	if err != nil {
		return nil, err
	}
	return &login.Client{Server: f.URL, Store: store, HTTP: hc,
		Say: func(line string) { fmt.Fprintln(s.err, line) }}, nil
}

// getenv reads a variable of the command's surroundings.
func getenv(s streams, name string) string {
	value := ""
	for _, kv := range s.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// interruptible ends with the limit, and with Ctrl-C.
func interruptible(limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, limit)
	return ctx, func() { cancel(); stop() }
}

type loginCmd struct {
	serverFlags
	Device    bool   `help:"Sign in with a code on another device; for machines without a browser."`
	ClientID  string `name:"client-id" placeholder:"ID" help:"A public client that the issuer knows. Default: registration where the issuer allows it, else mcp-cli."`
	Issuer    string `placeholder:"URL" help:"Which issuer, where the server accepts several."`
	Online    bool   `help:"Ask for no offline_access: the sign-in ends with the browser's session at the issuer."`
	NoBrowser bool   `help:"Print the address instead of opening a browser."`
}

// Help is shown by "gatehouse login --help".
func (loginCmd) Help() string {
	return `Signs you in at the server's issuer and keeps the sign-in in $XDG_STATE_HOME/gatehouse/tokens (~/.local/state by default), readable by you alone. The server's URL is enough: it names its issuer.

Examples:

	gatehouse login https://mcp.example.com/mcp
	gatehouse login --device https://mcp.example.com/mcp
	gatehouse token https://mcp.example.com/mcp`
}

// Run signs in.
func (cmd *loginCmd) Run(s streams) error {
	c, err := cmd.client(s)
	if err != nil {
		return err
	}
	c.ClientID, c.Issuer, c.Online = cmd.ClientID, cmd.Issuer, cmd.Online
	if !cmd.NoBrowser {
		c.Open = openBrowser
	}
	ctx, cancel := interruptible(10 * time.Minute)
	defer cancel()
	if err := c.SignIn(ctx, cmd.Device); err != nil {
		return fmt.Errorf("login: %w", err)
	}
	fmt.Fprintf(s.err, "Signed in. A token, whenever one is needed: gatehouse token %s\n", cmd.URL)
	return nil
}

// openBrowser shows an address in the person's browser.
func openBrowser(address string) error {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" && os.Getenv("BROWSER") == "" {
		return errors.New("no display")
	}
	name := os.Getenv("BROWSER")
	if name == "" {
		name = "xdg-open"
	}
	cmd := exec.Command(name, address)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	go cmd.Wait()
	return nil
}

type tokenCmd struct {
	serverFlags
	MinLife time.Duration `name:"min-life" default:"1m" placeholder:"DURATION" help:"How long the token must live at least; half its life where that is less."`
	Renew   bool          `help:"Get a new token even if the last one is good; after a change of roles, say."`
	Headers bool          `help:"Print {\"Authorization\":\"Bearer …\"}, as headers helpers of clients do."`
}

// Help is shown by "gatehouse token --help".
func (tokenCmd) Help() string {
	return `Prints an access token for the server, and nothing else; it gets a new one from the issuer when the last one nears its end. Exit code 3 says that a new sign-in is needed (gatehouse login).

Examples:

	curl -H "Authorization: Bearer $(gatehouse token https://mcp.example.com/mcp)" …
	gatehouse token --headers https://mcp.example.com/mcp`
}

// exitSignIn is the exit status of token when a person has to sign in.
const exitSignIn = 3

// Run prints a token.
func (cmd *tokenCmd) Run(s streams) error {
	c, err := cmd.client(s)
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(time.Minute)
	defer cancel()
	c.Renew = cmd.Renew
	token, err := c.Token(ctx, cmd.MinLife)
	if errors.Is(err, login.ErrSignIn) {
		fmt.Fprintf(s.err, "gatehouse: token: %v: gatehouse login %s\n", err, cmd.URL)
		return exitStatus(exitSignIn)
	}
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if cmd.Headers {
		return json.NewEncoder(s.out).Encode(map[string]string{"Authorization": "Bearer " + token})
	}
	_, err = fmt.Fprintln(s.out, token)
	return err
}

type logoutCmd struct {
	serverFlags
	Forget bool `help:"Drop the sign-in even if the issuer cannot be told."`
}

// Run signs out.
func (cmd *logoutCmd) Run(s streams) error {
	c, err := cmd.client(s)
	if err != nil {
		return err
	}
	ctx, cancel := interruptible(time.Minute)
	defer cancel()
	if err := c.SignOut(ctx, cmd.Forget); err != nil {
		return fmt.Errorf("logout: %w", err)
	}
	fmt.Fprintln(s.err, "Signed out. An access token that was handed out lives to its end.")
	return nil
}

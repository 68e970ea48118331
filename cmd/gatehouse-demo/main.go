// Command gatehouse-demo is the embedded OpenID issuer for the first five
// minutes: two users, loopback only. It also makes development certificates.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"gatehouse/auth/demoissuer"
	"gatehouse/certs"
)

type cli struct {
	Serve    serveCmd    `cmd:"" help:"Serve the demo issuer on https://localhost:PORT."`
	Token    tokenCmd    `cmd:"" help:"Print an access token of the running demo issuer."`
	Accounts accountsCmd `cmd:"" help:"Print the accounts file that maps the demo's users."`
	Cert     certCmd     `cmd:"" help:"Make or renew a development certificate and print the paths of CA, certificate and key."`
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("gatehouse-demo"),
		kong.Description("The embedded OpenID issuer of Gatehouse's demo. It has two users, alice and bob, and serves loopback only."),
		kong.UsageOnError())
	if err := k.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "gatehouse-demo: %v\n", err)
		os.Exit(1)
	}
}

type serveCmd struct {
	Port      int           `help:"TCP port on 127.0.0.1 and ::1." required:""`
	Resource  []string      `help:"Resource identifier that tokens are for; the first is the default." required:""`
	Scope     []string      `help:"Scopes beside the OpenID ones." default:"mcp:use"`
	State     string        `help:"Folder of keys, password and the control socket." required:""`
	Cert      string        `help:"TLS certificate (PEM)." required:""`
	Key       string        `help:"TLS private key (PEM)." required:""`
	TokenLife time.Duration `help:"Life of access tokens." default:"12h"`
}

func (s *serveCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zerolog.New(os.Stderr).With().Timestamp().Str("part", "demo").Logger()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))

	pair, err := certs.Load(s.Cert, s.Key)
	if err != nil {
		return err
	}
	listeners, err := listenLoopback(s.Port)
	if err != nil {
		return err
	}
	port := listeners[0].Addr().(*net.TCPAddr).Port
	issuer, err := demoissuer.New(demoissuer.Config{
		Issuer: fmt.Sprintf("https://localhost:%d", port), Resources: s.Resource, Scopes: s.Scope,
		StateDir: s.State, AccessLife: s.TokenLife, Log: log,
	})
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:           issuer.Handler(),
		TLSConfig:         &tls.Config{GetCertificate: certs.NewStore(pair, time.Now).GetCertificate},
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1+len(listeners))
	go func() { ended <- issuer.ServeControl(ctx) }()
	for _, ln := range listeners {
		log.Info().Str("address", ln.Addr().String()).Msg("demo issuer listens")
		go func() { ended <- srv.ServeTLS(ln, "", "") }()
	}
	select {
	case err = <-ended:
		stop()
	case <-ctx.Done():
		err = nil
	}
	shut, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return errors.Join(err, srv.Shutdown(shut))
}

// listenLoopback binds both loopback addresses on one port; the second one is
// left out where the host has no IPv6.
func listenLoopback(port int) ([]net.Listener, error) {
	v4, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	v6, err := net.Listen("tcp6", fmt.Sprintf("[::1]:%d", v4.Addr().(*net.TCPAddr).Port))
	switch {
	case err == nil:
		return []net.Listener{v4, v6}, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT):
		return []net.Listener{v4}, nil
	}
	v4.Close()
	return nil, err
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

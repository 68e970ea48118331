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
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/demoissuer"
	"gatehouse/certs"
)

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

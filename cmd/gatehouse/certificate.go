package main

import (
	"context"
	"crypto/tls"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/certs"
)

// certPause lies between two attempts to take over a new certificate.
const certPause = 10 * time.Second

// pair is the certificate in use; without TLS there is none.
type pair struct {
	store *certs.Store

	mu     sync.Mutex         // guards what follows; held while a pair is taken over
	giveUp context.CancelFunc // ends the attempts at the pair that came last
}

func frontCertificates(f frontFiles) (*pair, error) {
	if f.cert == nil {
		return &pair{}, nil
	}
	defer f.cert.Close()
	defer f.key.Close()
	store, err := certs.FromFiles(f.cert, f.key)
	return &pair{store: store}, err
}

// certificate is the callback of a TLS configuration; nil without TLS.
func (p *pair) certificate() func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p.store == nil {
		return nil
	}
	return p.store.GetCertificate
}

// renew takes over the pair that the monitor opened, in the place of any that came
// before it, and returns at once. A pair that is not good, or not valid yet, is tried
// again until it is or another one comes; the one in use stays meanwhile.
func (p *pair) renew(cert, key *os.File, logger zerolog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	p.mu.Lock()
	if p.giveUp != nil {
		p.giveUp()
	}
	p.giveUp = cancel
	p.mu.Unlock()
	go func() {
		defer cancel()
		defer cert.Close()
		defer key.Close()
		p.follow(ctx, cert, key, logger)
	}()
}

// follow tries a pair until it is taken over or given up. Each failure is logged once
// for as long as it stays the same.
func (p *pair) follow(ctx context.Context, cert, key *os.File, logger zerolog.Logger) {
	if p.store == nil {
		logger.Error().Msg("a certificate came, and this front end speaks no TLS")
		return
	}
	again := time.NewTicker(certPause)
	defer again.Stop()
	for told := ""; ; {
		err := p.replace(ctx, cert, key)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			logger.Info().Time("until", p.store.Leaf().NotAfter).Msg("certificate replaced")
			return
		case err.Error() != told:
			told = err.Error()
			logger.Error().Err(err).Dur("again_in", certPause).Msg("certificate not replaced")
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// replace takes a pair over, unless it was given up.
func (p *pair) replace(ctx context.Context, cert, key *os.File) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.store.Replace(cert, key)
}

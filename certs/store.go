package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Store holds the pair that new connections get. It may be replaced at any
// time; open connections keep what they began with. The zero Store has no
// pair and refuses every handshake.
type Store struct {
	pair atomic.Pointer[tls.Certificate]
	now  func() time.Time
}

var errNoPair = errors.New("certs: no certificate is loaded")

// FromFiles reads the first pair from two open files, which it does not close.
// An expired certificate is taken (see Store.Validity): a server that says
// what is wrong is worth more than one that is not there.
func FromFiles(cert, key *os.File) (*Store, error) {
	pair, err := parseFiles(cert, key)
	if err != nil {
		return nil, err
	}
	return NewStore(pair, time.Now), nil
}

// NewStore returns a store of one pair, whose Leaf must be set, and a clock.
func NewStore(pair *tls.Certificate, now func() time.Time) *Store {
	s := &Store{now: now}
	s.pair.Store(pair)
	return s
}

// GetCertificate is for tls.Config.GetCertificate.
func (s *Store) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := s.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, errNoPair
}

// Leaf returns the certificate in use, or nil.
func (s *Store) Leaf() *x509.Certificate {
	if pair := s.pair.Load(); pair != nil {
		return pair.Leaf
	}
	return nil
}

// Validity judges the dates of the certificate in use; see the function Validity.
func (s *Store) Validity() error {
	leaf := s.Leaf()
	if leaf == nil {
		return errNoPair
	}
	return Validity(leaf, s.now())
}

// Replace reads a new pair from two open files, which it does not close, and
// gives it to new connections. When the new pair is unreadable, does not match
// or is outside its dates, the old one stays in use and the error says why.
func (s *Store) Replace(cert, key *os.File) error {
	pair, err := parseFiles(cert, key)
	if err == nil && s.Validity() == nil {
		err = Validity(pair.Leaf, s.now())
	}
	if err != nil {
		return fmt.Errorf("replace certificate: %w (the previous one stays in use)", err)
	}
	s.pair.Store(pair)
	return nil
}

func parseFiles(cert, key *os.File) (*tls.Certificate, error) {
	certPEM, err := readFile(cert)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	keyPEM, err := readFile(key)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	return Parse(certPEM, keyPEM)
}

// Package certs is the TLS side of Gatehouse: reading a certificate and its
// key, replacing them while connections are open, and a development authority
// for the first five minutes. No key is ever part of the tree.
//
// An error of this package says which of the two files is wrong and what to do
// about it; none holds a byte of a private key.
package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// maxPEM bounds a certificate or key file, in bytes.
const maxPEM = 1 << 20

// Load reads and checks a certificate chain (leaf first) and its private key,
// both PEM. It does not judge the dates: see Validity.
func Load(certFile, keyFile string) (*tls.Certificate, error) {
	certPEM, err := readPath(certFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	keyPEM, err := readPath(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	pair, err := Parse(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// Parse checks a certificate chain (leaf first) and its private key, both PEM.
// The result's Leaf is set. It does not judge the dates: see Validity.
func Parse(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	chain, err := parseChain(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if err := matchKey(chain, key); err != nil {
		return nil, err
	}
	pair := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, c := range chain {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return pair, nil
}

// LoadLeaf reads the first certificate of a file.
func LoadLeaf(certFile string) (*x509.Certificate, error) {
	b, err := readPath(certFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	chain, err := parseChain(b)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", certFile, err)
	}
	return chain[0], nil
}

// Validity reports whether the leaf may be used at the time now, and if not,
// since when and what to do. A nil error means that it may.
func Validity(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("certificate expired on %s: clients will refuse it; renew it and put the new file in its place",
			leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("certificate is valid only from %s on: check this machine's clock, or wait",
			leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func parseChain(b []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	other := ""
	for rest := b; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			other = block.Type
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d of the certificate file: %w", len(chain)+1, err)
		}
		chain = append(chain, c)
	}
	switch {
	case len(chain) > 0:
		return chain, nil
	case strings.HasSuffix(other, "PRIVATE KEY"):
		return nil, errors.New("the certificate file holds a private key and no certificate: are the two paths swapped?")
	case other != "":
		return nil, fmt.Errorf("the certificate file holds a %q block and no CERTIFICATE block", other)
	}
	return nil, errors.New("the certificate file holds no PEM CERTIFICATE block (a DER file is converted by: openssl x509 -inform der -in FILE -out FILE.pem)")
}

func parseKey(b []byte) (crypto.Signer, error) {
	other := ""
	for rest := b; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, errors.New("the private key is encrypted, and a server has nobody to ask for the passphrase: decrypt it once with: openssl pkey -in FILE -out FILE.plain, and keep the result 0600")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			other = block.Type // certificates and EC PARAMETERS may stand beside a key
			continue
		}
		return decodeKey(block)
	}
	if other == "CERTIFICATE" {
		return nil, errors.New("the key file holds a certificate and no private key: are the two paths swapped?")
	}
	return nil, errors.New("the key file holds no PEM PRIVATE KEY block")
}

func decodeKey(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("parse the private key (%s): %w", block.Type, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the private key is a %T, which cannot sign", key)
	}
	return signer, nil
}

// matchKey checks that key belongs to the first certificate of the chain.
func matchKey(chain []*x509.Certificate, key crypto.Signer) error {
	pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return fmt.Errorf("the private key is a %T, which TLS cannot use", key)
	}
	if pub.Equal(chain[0].PublicKey) {
		return nil
	}
	for i, c := range chain[1:] {
		if pub.Equal(c.PublicKey) {
			return fmt.Errorf("the private key belongs to certificate %d of the certificate file (%s): the server's own certificate must stand first",
				i+2, c.Subject)
		}
	}
	return fmt.Errorf("the private key does not match the certificate (%s): give the key that the certificate was requested with",
		chain[0].Subject)
}

func readPath(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFile(f)
}

// readFile reads the whole of f from its start, wherever its offset stands:
// a descriptor that came over a socket shares its offset with the sender's.
func readFile(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var r io.Reader = f
	if info.Mode().IsRegular() {
		r = io.NewSectionReader(f, 0, maxPEM+1)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxPEM+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxPEM {
		return nil, fmt.Errorf("%s is larger than %d bytes, which no certificate file is", f.Name(), maxPEM)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, fmt.Errorf("%s is empty", f.Name())
	}
	return b, nil
}

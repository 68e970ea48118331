package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

const (
	devCALife   = 10 * 365 * 24 * time.Hour
	devLeafLife = 90 * 24 * time.Hour
	devRenew    = 30 * 24 * time.Hour // a leaf with less life than this is made anew
	devBackdate = time.Hour           // for clocks that are a little behind
)

// Dev is a development authority in a directory: the CA in dev-ca.pem (0644)
// and dev-ca.key (0600), leaves in NAME.pem and NAME.key. All leaves are for
// localhost, 127.0.0.1 and ::1, and the CA may vouch for no other host name, so
// that trusting it cannot endanger another site.
type Dev struct {
	Dir string
	Now func() time.Time // nil: time.Now
}

// DevFiles are the paths of one leaf, its key and the CA that clients trust.
type DevFiles struct {
	CA, Cert, Key string
	MadeCA        bool // the CA is new: clients must trust it (again)
	MadeLeaf      bool
}

var devName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Leaf returns the leaf of the given name, made or renewed when it is missing,
// unusable or within 30 days of its end. Several processes may call it at once.
func (d Dev) Leaf(name string) (DevFiles, error) {
	if !devName.MatchString(name) || name == "dev-ca" {
		return DevFiles{}, fmt.Errorf("development certificate name %q: want lower case letters, digits and dashes", name)
	}
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return DevFiles{}, fmt.Errorf("make certificate directory: %w", err)
	}
	unlock, err := lockDir(d.Dir)
	if err != nil {
		return DevFiles{}, err
	}
	defer unlock()

	f := DevFiles{CA: d.path("dev-ca.pem"), Cert: d.path(name + ".pem"), Key: d.path(name + ".key")}
	ca, made, err := d.authority()
	if err != nil {
		return DevFiles{}, err
	}
	f.MadeCA = made
	if d.usable(f, ca.Leaf) {
		return f, nil
	}
	if err := d.makeLeaf(f, ca); err != nil {
		return DevFiles{}, fmt.Errorf("make development certificate: %w", err)
	}
	f.MadeLeaf = true
	return f, nil
}

type authority struct {
	Leaf *x509.Certificate
	Key  crypto.Signer
}

// authority loads the CA, or makes one when there is none, when it is broken,
// or when it would end before a new leaf does.
func (d Dev) authority() (authority, bool, error) {
	certFile, keyFile := d.path("dev-ca.pem"), d.path("dev-ca.key")
	pair, err := Load(certFile, keyFile)
	if err == nil && pair.Leaf.IsCA && d.now().Add(devLeafLife).Before(pair.Leaf.NotAfter) {
		return authority{pair.Leaf, pair.PrivateKey.(crypto.Signer)}, false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return authority{}, false, fmt.Errorf("development authority: %w", err)
	}
	ca, err := d.makeAuthority(certFile, keyFile)
	if err != nil {
		return authority{}, false, fmt.Errorf("make development authority: %w", err)
	}
	return ca, true, nil
}

func (d Dev) makeAuthority(certFile, keyFile string) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, err
	}
	tmpl := d.template("Gatehouse development CA "+d.now().UTC().Format("2006-01-02"), devCALife)
	tmpl.IsCA = true
	tmpl.MaxPathLenZero = true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	// No constraint on addresses: clients built on BoringSSL, Claude Code among
	// them, refuse a chain that has one.
	tmpl.PermittedDNSDomainsCritical = true
	tmpl.PermittedDNSDomains = []string{"localhost"}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return authority{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, err
	}
	return authority{leaf, key}, writePair(certFile, keyFile, key, der)
}

func (d Dev) makeLeaf(f DevFiles, ca authority) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl := d.template("localhost", devLeafLife)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	tmpl.DNSNames = []string{"localhost"}
	tmpl.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.Leaf, key.Public(), ca.Key)
	if err != nil {
		return err
	}
	return writePair(f.Cert, f.Key, key, der)
}

func (d Dev) template(cn string, life time.Duration) *x509.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial)
	serial[0] = serial[0]&0x7f | 0x40 // positive and of constant length (RFC 5280 section 4.1.2.2)
	return &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial),
		Subject:               pkix.Name{CommonName: cn, Organization: []string{"Gatehouse development"}},
		NotBefore:             d.now().Add(-devBackdate),
		NotAfter:              d.now().Add(life),
		BasicConstraintsValid: true,
	}
}

// usable reports whether the leaf on disk is the CA's, for localhost, and has
// enough life left.
func (d Dev) usable(f DevFiles, ca *x509.Certificate) bool {
	pair, err := Load(f.Cert, f.Key)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", CurrentTime: d.now().Add(devRenew)})
	return err == nil
}

func (d Dev) path(name string) string { return filepath.Join(d.Dir, name) }

func (d Dev) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}

// writePair writes the key, then the certificate, each by an atomic rename.
func writePair(certFile, keyFile string, key crypto.Signer, der []byte) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	if err := writeAtomic(keyFile, keyPEM, 0o600); err != nil {
		return err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return writeAtomic(certFile, certPEM, 0o644)
}

func writeAtomic(path string, b []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lockDir takes the directory's lock, waiting for it.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock certificate directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock certificate directory: %w", err)
	}
	return func() { f.Close() }, nil
}

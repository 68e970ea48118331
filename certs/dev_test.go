package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestDevFilesAndModes(t *testing.T) {
	d := Dev{Dir: filepath.Join(t.TempDir(), "tls")}
	f, err := d.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	if !f.MadeCA || !f.MadeLeaf {
		t.Errorf("first call: %+v", f)
	}
	for path, want := range map[string]os.FileMode{
		f.CA: 0o644, f.Cert: 0o644, f.Key: 0o600, d.path("dev-ca.key"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
	}
	pair, err := Load(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := pair.Leaf.PublicKey.(*ecdsa.PublicKey); !ok {
		t.Errorf("leaf key is a %T", pair.Leaf.PublicKey)
	}
	verify(t, f, pair.Leaf)
}

func verify(t *testing.T, f DevFiles, leaf *x509.Certificate) {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(read(t, f.CA)) {
		t.Fatal("no CA in the CA file")
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDevReuseAndRenewal(t *testing.T) {
	now := time.Now()
	d := Dev{Dir: t.TempDir(), Now: func() time.Time { return now }}
	first, err := d.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	ca := string(read(t, first.CA))
	for _, step := range []struct {
		name           string
		after          time.Duration
		damage         func()
		madeCA, madeLf bool
	}{
		{"at once", 0, nil, false, false},
		{"59 days later", 59 * 24 * time.Hour, nil, false, false},
		{"31 days before its end is long enough, 29 is not", 2 * 24 * time.Hour, nil, false, true},
		{"key lost", 0, func() { os.Remove(first.Key) }, false, true},
		{"key of nobody", 0, func() { os.WriteFile(first.Key, []byte("x"), 0o600) }, false, true},
		{"authority lost", 0, func() { os.Remove(first.CA) }, true, true},
		{"ten years later", 10 * 365 * 24 * time.Hour, nil, true, true},
	} {
		now = now.Add(step.after)
		if step.damage != nil {
			step.damage()
		}
		f, err := d.Leaf("server")
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if f.MadeCA != step.madeCA || f.MadeLeaf != step.madeLf {
			t.Errorf("%s: made CA %v, leaf %v", step.name, f.MadeCA, f.MadeLeaf)
		}
		if same := ca == string(read(t, f.CA)); same == step.madeCA {
			t.Errorf("%s: CA file unchanged = %v", step.name, same)
		}
		ca = string(read(t, f.CA))
	}
}

// TestDevAuthorityCannotVouchForOthers: a client that trusts the development
// CA is not at risk elsewhere, even when the CA's key leaks.
func TestDevAuthorityCannotVouchForOthers(t *testing.T) {
	d := Dev{Dir: t.TempDir()}
	f, err := d.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	ca, _, err := d.authority()
	if err != nil {
		t.Fatal(err)
	}
	if len(ca.Leaf.PermittedIPRanges)+len(ca.Leaf.ExcludedIPRanges) > 0 {
		t.Error("the CA has a constraint on addresses, which BoringSSL refuses")
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	for _, name := range []string{"login.example.com", "xlocalhost", "localhost.example.com"} {
		tmpl := d.template("x", time.Hour)
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		tmpl.DNSNames = []string{name}
		pair, err := Load(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(nil, tmpl, ca.Leaf, pair.Leaf.PublicKey, ca.Key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err == nil {
			t.Errorf("a certificate for %s was accepted", name)
		}
	}
}

func TestDevAtOnceFromManyProcesses(t *testing.T) {
	d := Dev{Dir: t.TempDir()}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			f, err := d.Leaf([]string{"server", "issuer"}[i%2])
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := Load(f.Cert, f.Key); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestDevNames(t *testing.T) {
	d := Dev{Dir: t.TempDir()}
	for _, name := range []string{"", "dev-ca", "../x", "a/b", "A", ".lock", "a.pem"} {
		if _, err := d.Leaf(name); err == nil {
			t.Errorf("Leaf(%q) was made", name)
		}
	}
}

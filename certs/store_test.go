package certs

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func file(t *testing.T, b []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestZeroStoreRefuses(t *testing.T) {
	var s Store
	if _, err := s.GetCertificate(nil); err == nil {
		t.Error("the zero Store gave a certificate")
	}
	if s.Leaf() != nil || s.Validity() == nil {
		t.Error("the zero Store says that it has a certificate")
	}
}

func TestReplaceKeepsTheOldPairAndSaysWhy(t *testing.T) {
	now := time.Now()
	cert, key := pairPEM(t, now)
	s, err := FromFiles(file(t, cert), file(t, key))
	if err != nil {
		t.Fatal(err)
	}
	old := s.Leaf()
	newCert, newKey := pairPEM(t, now)
	lateCert, lateKey := pairPEM(t, now.Add(-100*24*time.Hour))
	soonCert, soonKey := pairPEM(t, now.Add(24*time.Hour))

	for name, c := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"half written":  {newCert[:100], newKey, "no PEM CERTIFICATE"},
		"key came late": {newCert, key, "does not match"},
		"expired":       {lateCert, lateKey, "expired on"},
		"not yet valid": {soonCert, soonKey, "valid only from"},
		"empty":         {nil, newKey, "is empty"},
	} {
		err := s.Replace(file(t, c.cert), file(t, c.key))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "previous one stays") {
			t.Errorf("%s: Replace = %v, want %q", name, err, c.want)
		}
		if s.Leaf() != old {
			t.Fatalf("%s: the old certificate is gone", name)
		}
	}
	if err := s.Replace(file(t, newCert), file(t, newKey)); err != nil {
		t.Fatal(err)
	}
	if s.Leaf().Equal(old) {
		t.Error("Replace succeeded, and the old certificate is still in use")
	}
}

func TestExpiredFirstPairIsServedAndReplaceable(t *testing.T) {
	now := time.Now()
	cert, key := pairPEM(t, now.Add(-100*24*time.Hour))
	s, err := FromFiles(file(t, cert), file(t, key))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validity(); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("Validity = %v", err)
	}
	newer, newerKey := pairPEM(t, now)
	if err := s.Replace(file(t, newer), file(t, newerKey)); err != nil {
		t.Error(err)
	}
}

func TestSharedOffsetDoesNotMatter(t *testing.T) {
	cert, key := pairPEM(t, time.Now())
	cf, kf := file(t, cert), file(t, key)
	if _, err := cf.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if _, err := FromFiles(cf, kf); err != nil {
		t.Fatal(err)
	}
	if _, err := FromFiles(cf, kf); err != nil {
		t.Errorf("second read of the same descriptors: %v", err)
	}
}

// TestOpenConnectionSurvivesReplace shakes hands, replaces, and shakes again:
// the first connection goes on, the second sees the new certificate.
func TestOpenConnectionSurvivesReplace(t *testing.T) {
	dir := t.TempDir()
	d := Dev{Dir: dir}
	f, err := d.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	s, err := FromFiles(open(t, f.Cert), open(t, f.Key))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, f.CA))
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: s.GetCertificate})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	dial := func() *tls.Conn {
		c, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := dial()
	echo(t, first)

	os.Remove(f.Cert)
	f, err = d.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(open(t, f.Cert), open(t, f.Key)); err != nil {
		t.Fatal(err)
	}
	echo(t, first)
	second := dial()
	if second.ConnectionState().PeerCertificates[0].Equal(first.ConnectionState().PeerCertificates[0]) {
		t.Error("the new connection got the old certificate")
	}
}

func echo(t *testing.T, c net.Conn) {
	t.Helper()
	b := []byte("ping")
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

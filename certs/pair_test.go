package certs

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pairPEM returns the bytes of a development pair of its own authority.
func pairPEM(t *testing.T, now time.Time) (cert, key []byte) {
	t.Helper()
	f, err := Dev{Dir: t.TempDir(), Now: func() time.Time { return now }}.Leaf("server")
	if err != nil {
		t.Fatal(err)
	}
	return read(t, f.Cert), read(t, f.Key)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func block(kind string, b []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})
}

func TestParseRefusesWithRemedy(t *testing.T) {
	now := time.Now()
	cert, key := pairPEM(t, now)
	otherCert, otherKey := pairPEM(t, now)
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: []byte{1}})
	pub := block("PUBLIC KEY", []byte{1})

	for name, c := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"key of another certificate":       {cert, otherKey, "does not match the certificate"},
		"paths swapped":                    {key, cert, "swapped"},
		"certificate given twice":          {cert, cert, "swapped"},
		"authority or other cert in front": {append(append([]byte{}, otherCert...), cert...), key, "must stand first"},
		"no PEM at all":                    {[]byte{0x30, 0x82, 1, 2}, key, "openssl x509 -inform der"},
		"public key for certificate":       {pub, key, `"PUBLIC KEY" block`},
		"broken certificate":               {block("CERTIFICATE", []byte{0x30, 0}), key, "parse certificate 1"},
		"encrypted PKCS #8 key":            {cert, block("ENCRYPTED PRIVATE KEY", []byte{1}), "openssl pkey"},
		"encrypted traditional key":        {cert, encrypted, "openssl pkey"},
		"broken key":                       {cert, block("PRIVATE KEY", []byte{0x30, 0}), "parse the private key"},
		"no key":                           {cert, pub, "no PEM PRIVATE KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.cert, c.key)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse = %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestParseTakesEveryUsualKeyForm(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	rk, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edDER, err := x509.MarshalPKCS8PrivateKey(ed)
	if err != nil {
		t.Fatal(err)
	}
	params := block("EC PARAMETERS", []byte{6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7})

	d := Dev{Dir: t.TempDir()}
	for name, c := range map[string]struct {
		public any
		signer any
		pem    []byte
	}{
		"SEC 1 with parameters": {ec.Public(), ec, append(params, block("EC PRIVATE KEY", sec1)...)},
		"PKCS #1":               {rk.Public(), rk, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rk))},
		"Ed25519":               {ed.Public(), ed, block("PRIVATE KEY", edDER)},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := d.template("localhost", time.Hour)
			der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, c.public, c.signer)
			if err != nil {
				t.Fatal(err)
			}
			pair, err := Parse(block("CERTIFICATE", der), c.pem)
			if err != nil {
				t.Fatal(err)
			}
			if pair.Leaf == nil || pair.Leaf.Subject.CommonName != "localhost" {
				t.Errorf("Leaf = %v", pair.Leaf)
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	big := filepath.Join(dir, "big.pem")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, make([]byte, maxPEM+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		empty:                            "is empty",
		big:                              "larger than",
		filepath.Join(dir, "absent.pem"): "no such file",
	} {
		_, err := Load(path, path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("Load(%s) = %v, want the path and %q", path, err, want)
		}
	}
}

func TestValidity(t *testing.T) {
	now := time.Now()
	cert, key := pairPEM(t, now)
	pair, err := Parse(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]string{
		0:                "",
		-2 * time.Hour:   "clock",
		91 * 24 * 3600e9: "expired on",
	} {
		err := Validity(pair.Leaf, now.Add(at))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Validity(%v) = %v, want %q", at, err, want)
		}
	}
}

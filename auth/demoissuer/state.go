package demoissuer

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// loadKey reads the signing key, or makes it at the first start.
func loadKey(dir string) (*signingKey, error) {
	path := filepath.Join(dir, "signing.key")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read demo signing key: %w", err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("demo signing key %s is no PEM file: remove it, a new one is made", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("demo signing key %s: %w: remove it, a new one is made", path, err)
	}
	rsaKey, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("demo signing key %s is a %T and no RSA key: remove it, a new one is made", path, key)
	}
	return newSigningKey(rsaKey)
}

func makeKey(path string) (*signingKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make demo signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make demo signing key: %w", err)
	}
	if err := writePrivate(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, fmt.Errorf("keep demo signing key: %w", err)
	}
	return newSigningKey(key)
}

// loadPassword reads the password of the login page, or makes it at the first start.
func loadPassword(dir string) (string, error) {
	path := filepath.Join(dir, "password")
	b, err := os.ReadFile(path)
	if err == nil {
		if p := strings.TrimSpace(string(b)); len(p) >= 12 {
			return p, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read demo password: %w", err)
	}
	text := strings.ToLower(rand.Text()) // 130 random bits in base 32
	p := text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:16]
	if err := writePrivate(path, []byte(p+"\n")); err != nil {
		return "", fmt.Errorf("keep demo password: %w", err)
	}
	return p, nil
}

// saved is what outlives a restart, beside the key and the password. Refresh
// tokens are kept as hashes.
type saved struct {
	Clients map[string]*client `json:"clients"`
	Grants  map[string]*grant  `json:"grants"`
}

func loadSaved(dir string) (saved, error) {
	s := saved{Clients: map[string]*client{}, Grants: map[string]*grant{}}
	path := filepath.Join(dir, "state.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read demo state %s: %w: remove it, registered clients and refresh tokens are then forgotten", path, err)
	}
	return s, nil
}

func (s saved) write(dir string) error {
	b, err := json.Marshal(s)
	if err == nil {
		err = writePrivate(filepath.Join(dir, "state.json"), b)
	}
	if err != nil {
		return fmt.Errorf("keep demo state: %w", err)
	}
	return nil
}

// writePrivate writes a 0600 file by an atomic rename.
func writePrivate(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // made 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

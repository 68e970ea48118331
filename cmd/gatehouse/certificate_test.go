package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"gatehouse/auth/logtest"
	"gatehouse/certs"
)

// devPair makes a pair that is valid from a time on, and returns the names of its files.
func devPair(t *testing.T, from time.Time) (cert, key string) {
	t.Helper()
	const backdate = time.Hour // of the development authority
	f, err := certs.Dev{Dir: t.TempDir(), Now: func() time.Time { return from.Add(backdate) }}.Leaf("front")
	if err != nil {
		t.Fatal(err)
	}
	return f.Cert, f.Key
}

func opened(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// copyOf has a second file of the same content.
func copyOf(t *testing.T, name string) (path string, content []byte) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// TestCertificateIsTriedAgain: what can't be used when it comes is used when it can,
// also when the monitor sees no further change of the files.
func TestCertificateIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		cert, key := devPair(t, began.Add(-time.Minute))
		p, err := frontCertificates(frontFiles{cert: opened(t, cert), key: opened(t, key)})
		if err != nil {
			t.Fatal(err)
		}
		first := p.store.Leaf()
		log := new(logtest.Log)
		logger := zerolog.New(log)

		cert, key = devPair(t, began.Add(25*time.Second))
		p.renew(opened(t, cert), opened(t, key), logger)
		time.Sleep(24 * time.Second)
		synctest.Wait()
		if p.store.Leaf() != first || strings.Count(log.String(), "valid only from") != 1 {
			t.Errorf("not valid yet: the first is in use: %v\n%s", p.store.Leaf() == first, log)
		}
		time.Sleep(certPause)
		synctest.Wait()
		second := p.store.Leaf()
		if second.Equal(first) || strings.Count(log.String(), "certificate replaced") != 1 {
			t.Errorf("not used once it is valid\n%s", log)
		}

		cert, key = devPair(t, began)
		half, whole := copyOf(t, key)
		if err := os.Truncate(half, 100); err != nil {
			t.Fatal(err)
		}
		p.renew(opened(t, cert), opened(t, half), logger)
		time.Sleep(3*certPause + time.Second)
		synctest.Wait()
		if p.store.Leaf() != second || strings.Count(log.String(), "no PEM PRIVATE KEY") != 1 {
			t.Errorf("a half written key: the second is in use: %v\n%s", p.store.Leaf() == second, log)
		}
		if err := os.WriteFile(half, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(certPause)
		synctest.Wait()
		if p.store.Leaf() == second {
			t.Errorf("not used once it is whole\n%s", log)
		}
	})
}

// TestNewestCertificateWins: one that waits is given up for the next that comes.
func TestNewestCertificateWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		cert, key := devPair(t, began.Add(-time.Minute))
		p, err := frontCertificates(frontFiles{cert: opened(t, cert), key: opened(t, key)})
		if err != nil {
			t.Fatal(err)
		}
		cert, key = devPair(t, began.Add(time.Minute))
		p.renew(opened(t, cert), opened(t, key), zerolog.Nop())
		synctest.Wait()
		cert, key = devPair(t, began.Add(-time.Second))
		p.renew(opened(t, cert), opened(t, key), zerolog.Nop())
		time.Sleep(time.Hour)
		want, err := certs.LoadLeaf(cert)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.store.Leaf(); !got.Equal(want) {
			t.Errorf("in use is one that is valid from %v, want %v", got.NotBefore, want.NotBefore)
		}
	})
}

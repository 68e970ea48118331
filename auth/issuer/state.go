package issuer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/auth/keys"
)

// clockSlack is how far in the future a saved set may have been fetched.
const clockSlack = time.Minute

// stateFile is where the last good set of one source is kept, in the form of a
// key message: mode 0600, replaced as a whole, named after the source's settings.
type stateFile struct {
	dir, name string // dir is empty: nothing is kept
	issuer    identity.Issuer
}

func newStateFile(dir string, s Source) *stateFile {
	if s.JWKSFile != "" {
		dir = ""
	}
	return &stateFile{dir: dir, name: filepath.Join(dir, "keys-"+s.fingerprint()+".json"), issuer: s.Issuer}
}

// load returns the saved set as of now, with health restored; nil when there is
// none.
func (f *stateFile) load(now time.Time, maxStale time.Duration) (*keys.Update, error) {
	if f.dir == "" {
		return nil, nil
	}
	b, err := f.read()
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read saved keys: %w", err)
	}
	u, err := f.parse(b, now, maxStale)
	if err != nil {
		return nil, fmt.Errorf("read saved keys: %w", err)
	}
	return &u, nil
}

// read returns the file's bytes, if nobody but us can have written them.
func (f *stateFile) read() ([]byte, error) {
	file, err := os.OpenFile(f.name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.Mode().IsRegular() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o077 != 0 {
		return nil, errors.New("not a regular file of our own with mode 0600")
	}
	b, err := io.ReadAll(io.LimitReader(file, keys.MaxMessage+1))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// parse reads what save wrote.
func (f *stateFile) parse(b []byte, now time.Time, maxStale time.Duration) (keys.Update, error) {
	u, err := keys.Parse(b)
	switch {
	case err != nil:
		return keys.Update{}, err
	case u.Issuer != f.issuer:
		return keys.Update{}, errors.New("they are another issuer's")
	case len(u.Keys) == 0 || u.Health != keys.HealthOK:
		return keys.Update{}, errors.New("they are not from a good fetch")
	case u.FetchedAt.After(now.Add(clockSlack)):
		return keys.Update{}, errors.New("they were fetched in the future")
	case now.Sub(u.FetchedAt) >= maxStale:
		return keys.Update{}, errors.New("they are too old")
	}
	u.Health = keys.HealthRestored
	u.AttemptedAt = time.Time{}
	return u, nil
}

// save replaces the file. A crash leaves the old one or the new one.
func (f *stateFile) save(u keys.Update) error {
	if f.dir == "" {
		return nil
	}
	b, err := u.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	tmp := f.name + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeNew(tmp, b); err != nil {
		return err
	}
	if err := os.Rename(tmp, f.name); err != nil {
		return err
	}
	return syncDir(f.dir)
}

func writeNew(name string, b []byte) error {
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return errors.Join(err, w.Sync(), w.Close())
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

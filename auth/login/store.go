package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Store is the folder that keeps the sign-ins: one file a server, readable by its
// owner alone, and a lock file beside it. The lock is flock(2)'s: it holds between
// processes of one machine and ends with its process.
type Store struct{ Dir string }

// DefaultStore is $XDG_STATE_HOME/gatehouse/tokens, ~/.local/state by default.
func DefaultStore(getenv func(string) string) (Store, error) {
	base := getenv("XDG_STATE_HOME")
	if base == "" {
		home := getenv("HOME")
		if home == "" {
			return Store{}, errors.New("find the folder of sign-ins: neither XDG_STATE_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return Store{filepath.Join(base, "gatehouse", "tokens")}, nil
}

// entry is one sign-in, as it is kept.
type entry struct {
	Server        string    `json:"server"`
	Issuer        string    `json:"issuer"`
	ClientID      string    `json:"client_id"`
	Redirect      string    `json:"redirect,omitempty"` // what the client was registered with; empty for one that exists without us
	TokenURL      string    `json:"token_endpoint"`
	RevocationURL string    `json:"revocation_endpoint,omitempty"`
	Scopes        []string  `json:"scopes"`
	RefreshToken  string    `json:"refresh_token,omitempty"`
	AccessToken   string    `json:"access_token,omitempty"`
	Taken         time.Time `json:"taken"` // when the access token came
	Expiry        time.Time `json:"expiry"`
}

// errNone says that no sign-in is kept.
var errNone = errors.New("no sign-in is kept")

// maxEntry bounds a file, in bytes.
const maxEntry = 256 << 10

// path names the file of a server: readable, and different for different URLs.
func (s Store) path(server string) string {
	name := "server"
	if u, err := url.Parse(server); err == nil {
		name = strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
				return r
			}
			return '_'
		}, u.Host+u.Path)
	}
	sum := sha256.Sum256([]byte(server))
	return filepath.Join(s.Dir, fmt.Sprintf("%.80s.%s.json", name, hex.EncodeToString(sum[:4])))
}

// lock takes the server's lock and returns what gives it back. It waits for
// another process until ctx ends.
func (s Store) lock(ctx context.Context, server string) (func(), error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of sign-ins: %w", err)
	}
	if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm()&0o022 != 0 || !ours(info) {
		return nil, fmt.Errorf("use the folder of sign-ins: others may change %s: it has to be yours, with mode 0700", s.Dir)
	}
	f, err := os.OpenFile(s.path(server)+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the sign-in: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock the sign-in: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for another process that has the sign-in locked: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ours reports whether a file belongs to the account that we run as.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// read returns the sign-in at a server, or errNone.
func (s Store) read(server string) (*entry, error) {
	f, err := os.OpenFile(s.path(server), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the sign-in: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the sign-in: %w", err)
	case info.Mode().Perm()&0o077 != 0 || !ours(info):
		return nil, fmt.Errorf("read the sign-in: others may read or change %s: chmod 600 it, or sign out and in again", f.Name())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxEntry))
	if err != nil {
		return nil, fmt.Errorf("read the sign-in: %w", err)
	}
	e := &entry{}
	if err := json.Unmarshal(b, e); err != nil || e.Server != server {
		return nil, fmt.Errorf("read the sign-in: %s is damaged: remove it and sign in again", f.Name())
	}
	return e, nil
}

// write replaces the sign-in at a server, whole or not at all.
func (s Store) write(e *entry) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	f, err := os.CreateTemp(s.Dir, ".new-") // 0600
	if err != nil {
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	if err := os.Rename(f.Name(), s.path(e.Server)); err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("keep the sign-in: %w", err)
	}
	return nil
}

// remove forgets the sign-in at a server. The lock file stays: another process may
// wait for it.
func (s Store) remove(server string) error {
	if err := os.Remove(s.path(server)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the sign-in: %w", err)
	}
	return nil
}

package demoissuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketName is the control socket in the state directory. Who may open it is
// who may act as the demo's users: its owner and root, by the file's mode, by
// the directory's, and by the kernel's word about the peer.
const socketName = "control.sock"

// answer is the socket's one answer.
type answer struct {
	Token string `json:"token,omitempty"`
	Error string `json:"error,omitempty"`
}

// ServeControl answers requests for tokens on the control socket until ctx
// ends. A socket that a dead process left behind is replaced; a live one is an error.
func (i *Issuer) ServeControl(ctx context.Context) error {
	dir, err := os.Open(i.cfg.StateDir)
	if err != nil {
		return fmt.Errorf("open demo state directory: %w", err)
	}
	defer dir.Close()
	path := shortPath(dir)
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return fmt.Errorf("another demo issuer runs with %s", i.cfg.StateDir)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace control socket: %w", err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("open control socket: %w", err)
	}
	defer os.Remove(filepath.Join(i.cfg.StateDir, socketName))
	defer ln.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("close control socket to others: %w", err)
	}
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on control socket: %w", err)
		}
		go i.control(c.(*net.UnixConn))
	}
}

// shortPath names the socket through an open directory, because the address of
// a socket holds 107 bytes and a state directory may be deeper than that.
func shortPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName)
}

func (i *Issuer) control(c *net.UnixConn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	var a answer
	if err := checkPeer(c); err != nil {
		i.cfg.Log.Warn().Err(err).Msg("control socket")
		a.Error = "not for you"
	} else {
		a = i.answer(c)
	}
	if err := json.NewEncoder(c).Encode(a); err != nil {
		i.cfg.Log.Debug().Err(err).Msg("answer on control socket")
	}
}

func (i *Issuer) answer(r io.Reader) answer {
	var m Mint
	dec := json.NewDecoder(io.LimitReader(r, 16<<10))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return answer{Error: "read request: " + err.Error()}
	}
	token, err := i.Mint(m)
	if err != nil {
		return answer{Error: err.Error()}
	}
	i.cfg.Log.Info().Str("user", m.User).Msg("token handed out on the control socket")
	return answer{Token: token}
}

// checkPeer asks the kernel who is at the other end.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("ask who the peer is: %w", credErr)
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d asked for a token", cred.Uid)
	}
	return nil
}

// AskToken asks the demo issuer that runs with a state directory for a token.
func AskToken(stateDir string, m Mint) (string, error) {
	dir, err := os.Open(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNotRunning
	}
	if err != nil {
		return "", fmt.Errorf("ask the demo issuer: %w (its owner and root may)", err)
	}
	defer dir.Close()
	c, err := net.DialTimeout("unix", shortPath(dir), 5*time.Second)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return "", errNotRunning
	}
	if err != nil {
		return "", fmt.Errorf("ask the demo issuer: %w", err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := json.NewEncoder(c).Encode(m); err != nil {
		return "", fmt.Errorf("ask the demo issuer: %w", err)
	}
	var a answer
	if err := json.NewDecoder(io.LimitReader(c, 64<<10)).Decode(&a); err != nil {
		return "", fmt.Errorf("read the demo issuer's answer: %w", err)
	}
	if a.Error != "" {
		return "", errors.New(a.Error)
	}
	return a.Token, nil
}

var errNotRunning = errors.New("no demo issuer is running: start one with scripts/run-auth-server.sh --demo")

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"gatehouse/cmd/internal/conf"
)

// bindOperators makes the socket by which operators list and end sessions, for the
// monitor; nil when the configuration wants none. Only whoever started the server can
// connect, and the operators' group when root did.
func bindOperators(c *conf.Config, port int) (*net.UnixListener, error) {
	path := c.OperatorsSocket(port)
	if path == "" {
		return nil, nil
	}
	doing := func(err error) error { return fmt.Errorf("make the operators' socket %s: %w", path, err) }
	mode := os.FileMode(0o700)
	if c.Root() {
		mode = 0o755 // members of the group have to get there
	}
	if err := os.MkdirAll(filepath.Dir(path), mode); err != nil {
		return nil, doing(err)
	}
	if err := removeStale(path); err != nil {
		return nil, doing(err)
	}
	old := syscall.Umask(0o177) // it is never open to others, not even for a moment
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(old)
	if err != nil {
		return nil, doing(err)
	}
	ln.SetUnlinkOnClose(false)
	if err := openToGroup(c, path); err != nil {
		ln.Close()
		os.Remove(path)
		return nil, doing(err)
	}
	return ln, nil
}

// openToGroup lets the operators' group in, where there is one.
func openToGroup(c *conf.Config, path string) error {
	if !c.Root() {
		return nil
	}
	g, err := user.LookupGroup(c.Operators.Group)
	if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
		return nil
	}
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(g.Gid)
	if err == nil && gid == 0 {
		return nil
	}
	if err == nil {
		err = os.Chown(path, 0, gid)
	}
	if err == nil {
		err = os.Chmod(path, 0o660)
	}
	return err
}

// removeStale takes away what a server that ended badly left, and nothing else.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != os.ModeSocket:
		return errors.New("something that is no socket lies there")
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return errors.New("another server listens on it")
	}
	return os.Remove(path)
}

package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"gatehouse/session/accounts"
	"gatehouse/session/monitor/proc"
)

// getentPath is where libc's own tool lies.
const getentPath = "/usr/bin/getent"

// maxGetent is the longest answer of getent that is read, in bytes.
const maxGetent = 64 << 10

// getent asks the account databases of this host, as the keykeeper's account,
// because the answer comes from modules that we do not know.
func (m *Monitor) getent(ctx context.Context, args ...string) ([]byte, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	fds := make([]int, 2)
	if err := unix.Pipe2(fds, unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	unix.SetNonblock(fds[0], true)
	out, in := os.NewFile(uintptr(fds[0]), "getent"), os.NewFile(uintptr(fds[1]), "getent")
	defer out.Close()
	spec := proc.Spec{
		Path: getentPath, Argv: append([]string{"getent"}, args...), Env: partEnv, Dir: "/",
		Files: []*os.File{null, in, null},
	}
	if as := m.helper(); as != nil {
		spec.As = &proc.Identity{UID: as.UID, GID: as.GID}
	}
	c, err := m.host.Start(spec)
	in.Close()
	if err != nil {
		return nil, err
	}
	if t, ok := ctx.Deadline(); ok {
		out.SetReadDeadline(t)
	}
	answer, err := io.ReadAll(io.LimitReader(out, maxGetent))
	if err != nil {
		c.Signal(syscall.SIGKILL)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		c.Signal(syscall.SIGKILL)
		<-c.Done()
		err = errors.Join(err, ctx.Err())
	}
	switch st := c.Status(); {
	case err != nil:
		return nil, fmt.Errorf("run getent: %w", err)
	case st.Code == 2: // getent(1): one or more keys could not be found
		return nil, accounts.ErrNotFound
	case st.Code != 0:
		return nil, fmt.Errorf("run getent: %v", st)
	}
	return answer, nil
}

// helper is the account under which getent runs; nil: our own.
func (m *Monitor) helper() *accounts.Account {
	if m.keeper != nil {
		return m.keeper
	}
	return m.front
}

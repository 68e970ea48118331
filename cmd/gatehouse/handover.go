package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gatehouse/cmd/internal/plan"
)

// firstFD is where the monitor finds the plan; the listeners follow it.
const firstFD = 3

// reserve keeps the descriptors free that the monitor's contract gives a meaning
// to. It runs before anything else: were Go's poller to get one of them, putting
// a listener there in the last moment before exec would pull the poller's ground
// away. What whoever started us left open ends at exec as well, so that the
// monitor finds what the plan says and nothing behind it.
func reserve() error {
	if err := unix.CloseRange(firstFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark descriptors close-on-exec: %w", err)
	}
	const last = firstFD + maxListeners + 1 // plan, listeners, operators' socket
	for fd := firstFD; fd <= last; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			continue
		}
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("keep descriptors free: %w; raise the limit of open files (ulimit -n, LimitNOFILE= in a unit)", err)
		}
		if null > last {
			return unix.Close(null)
		}
	}
	return nil
}

// sealed puts the plan into a memory file that nobody can change any more.
func sealed(p plan.Plan) (fd int, err error) {
	doc, err := json.Marshal(p)
	if err != nil {
		return -1, fmt.Errorf("encode plan: %w", err)
	}
	fd, err = unix.MemfdCreate("gatehouse-plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, fmt.Errorf("make memory file for the plan: %w", err)
	}
	for rest, at := doc, int64(0); len(rest) > 0; {
		n, err := unix.Pwrite(fd, rest, at)
		if err != nil {
			return -1, fmt.Errorf("write plan: %w", err)
		}
		rest, at = rest[n:], at+int64(n)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return -1, fmt.Errorf("seal plan: %w", err)
	}
	return fd, nil
}

// handOver becomes the monitor, in this very process, with the plan, the listeners and
// the operators' socket, which may be nil, as its descriptors. It returns only when
// that fails.
func handOver(binDir string, p plan.Plan, lns []*net.TCPListener, operators *net.UnixListener, environ []string) error {
	program := filepath.Join(binDir, "gatehouse-monitor")
	if err := unix.Access(program, unix.X_OK); err != nil {
		return fmt.Errorf("start %s: %w; scripts/build.sh builds it", program, err)
	}
	planFD, err := sealed(p)
	if err != nil {
		return err
	}
	fds := []int{planFD}
	handed := make([]syscall.Conn, 0, len(lns)+1)
	for _, ln := range lns {
		handed = append(handed, ln)
	}
	if operators != nil {
		handed = append(handed, operators)
	}
	for _, ln := range handed {
		raw, err := ln.SyscallConn()
		if err != nil {
			return fmt.Errorf("hand over listener: %w", err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return fmt.Errorf("hand over listener: %w", err)
		}
	}
	for i, fd := range fds { // all of them above the reserved ones, by reserve
		if err := unix.Dup3(fd, firstFD+i, 0); err != nil {
			return fmt.Errorf("hand over descriptor: %w", err)
		}
	}
	err = unix.Exec(program, []string{program}, monitorEnviron(environ, lns[0].Addr().(*net.TCPAddr).Port))
	return fmt.Errorf("start %s: %w", program, &os.PathError{Op: "exec", Path: program, Err: err})
}

// passed are the variables that the processes of the service get from whoever
// starts it. Everything else they are told by the plan.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR", // which authorities the keykeeper trusts
	"NOTIFY_SOCKET", "INVOCATION_ID", // systemd
	"GOCOVERDIR", "GOTRACEBACK",
}

// monitorEnviron is the monitor's environment. The port is in it so that people
// and scripts can tell two servers apart.
func monitorEnviron(environ []string, port int) []string {
	out := []string{fmt.Sprintf("MCP_PORT=%d", port)}
	for _, name := range passed {
		for _, kv := range environ {
			if strings.HasPrefix(kv, name+"=") {
				out = append(out, kv)
				break
			}
		}
	}
	return out
}

// Command probe drops privilege as its arguments say and prints what is left, for
// the tests of package privdrop.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gatehouse/session/privdrop"
)

var keep = []privdrop.Capability{privdrop.Kill, privdrop.SetUID, privdrop.SetGID}

func main() {
	// Threads that exist before the drop must be reached too.
	var wg sync.WaitGroup
	hold := make(chan struct{})
	for range 4 {
		wg.Add(1)
		go func() {
			runtime.LockOSThread()
			wg.Done()
			<-hold
		}()
	}
	wg.Wait()
	for _, arg := range os.Args[1:] {
		if err := step(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	out := map[string]any{"threads": threads(), "umask": unix.Umask(0)}
	var core unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_CORE, &core)
	out["core"] = core
	out["dumpable"], _ = unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	out["securebits"], _ = unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	out["mayKill"] = privdrop.Has(privdrop.Kill)
	json.NewEncoder(os.Stdout).Encode(out)
}

func step(arg string) error {
	switch arg {
	case "monitor":
		return privdrop.Monitor(keep...)
	case "guard":
		return privdrop.Guard(append(keep, privdrop.SetPCap)...)
	case "monitor-with-optional":
		return privdrop.Monitor(append(keep, privdrop.DACReadSearch)...)
	case "prove-with-optional":
		return privdrop.ProveMonitor(append(keep, privdrop.DACReadSearch)...)
	case "monitor-with-more":
		return privdrop.Monitor(append(keep, privdrop.Chown)...)
	case "lose-some": // a container that has only what keep holds, and may set it
		return privdrop.Guard(append(keep, privdrop.SetPCap)...)
	case "prove-monitor":
		return privdrop.ProveMonitor(keep...)
	case "prove-none":
		return privdrop.ProveNone()
	case "exec-status": // become a program that shows what an exec leaves
		return unix.Exec("/bin/cat", []string{"cat", "/proc/self/status"}, nil)
	case "exec-self": // a root program started by a locked root process
		return unix.Exec("/proc/self/exe", []string{"probe"}, nil)
	case "nobody":
		return syscall.Setuid(65534)
	case "close-on-exec":
		fd, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		if err := privdrop.CloseOnExec(3); err != nil {
			return err
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			return fmt.Errorf("descriptor %d has flags %d (%v)", fd, flags, err)
		}
		return nil
	}
	return fmt.Errorf("unknown step %q", arg)
}

// threads returns the privilege lines of every thread's status.
func threads() []map[string]string {
	names, _ := os.ReadDir("/proc/self/task")
	var all []map[string]string
	for _, n := range names {
		b, err := os.ReadFile("/proc/self/task/" + n.Name() + "/status")
		if err != nil {
			continue
		}
		m := map[string]string{}
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && (strings.HasPrefix(k, "Cap") || k == "NoNewPrivs" || k == "Uid") {
				m[k] = strings.TrimSpace(v)
			}
		}
		all = append(all, m)
	}
	return all
}

package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/certs"
	"gatehouse/cmd/internal/conf"
	"gatehouse/cmd/internal/plan"
)

// certificate judges the certificate as a client will.
func (k *checker) certificate(context.Context) {
	const topic = "certificate"
	if k.c.TLS.Cert == "" || k.c.TLS.Key == "" || !k.c.Authenticated() {
		return
	}
	pair, err := certs.Load(k.c.TLS.Cert, k.c.TLS.Key)
	if err != nil {
		k.say(failed, topic, "%v", err)
		return
	}
	k.say(okay, topic, "%s belongs to the key %s", k.c.TLS.Cert, k.c.TLS.Key)
	for _, note := range k.c.CertificateNotes(pair.Leaf) {
		v := failed
		if strings.Contains(note, "expires in") {
			v = warned
		}
		k.say(v, topic, "%s", note)
	}
	if certs.Validity(pair.Leaf, k.now) == nil {
		k.say(okay, topic, "valid until %s, for %s", pair.Leaf.NotAfter.Format(time.DateOnly), strings.Join(names(pair.Leaf), ", "))
	}
	between := x509.NewCertPool()
	for _, raw := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(raw); err == nil {
			between.AddCert(c)
		}
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Intermediates: between, CurrentTime: k.now})
	switch unknown := (x509.UnknownAuthorityError{}); {
	case err == nil:
		k.say(okay, topic, "the chain leads to an authority that this machine trusts")
	case errors.As(err, &unknown):
		k.say(warned, topic, "the chain leads to no authority that this machine trusts; clients must be told the authority's file (Node: NODE_EXTRA_CA_CERTS), or %s lacks an intermediate certificate", k.c.TLS.Cert)
	default:
		k.say(warned, topic, "this machine would not trust the chain: %v", err)
	}
}

func names(c *x509.Certificate) []string {
	out := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	if len(out) == 0 {
		out = []string{"no name"}
	}
	return out
}

// programs looks for the programs of the service. As root the configuration was
// refused already if others could change them.
func (k *checker) programs(context.Context) {
	missing := 0
	for _, p := range k.c.Programs() {
		file := filepath.Join(k.c.BinDir(), p)
		if err := unix.Access(file, unix.X_OK); err != nil {
			missing++
			k.say(failed, "programs", "%s: %v; scripts/build.sh builds it", file, err)
		}
	}
	if missing == 0 {
		k.say(okay, "programs", "%s in %s", strings.Join(k.c.Programs(), ", "), k.c.BinDir())
	}
	if k.c.Root() {
		k.say(okay, "privilege", "started by root; the front end runs as %s", conf.FrontUser)
	} else {
		k.say(okay, "privilege", "started by %s, without privilege", k.c.ServerAccount())
	}
	k.say(okay, "way", "%s", wayInWords(k.c))
}

// workers looks at what each server runs.
func (k *checker) workers(context.Context) {
	for _, p := range checkToolsets(k.c) {
		k.say(failed, "worker", "%s", p)
	}
	for _, s := range k.c.Servers {
		topic := "worker of " + s.Path
		k.folders(topic, s)
		if len(s.Worker.Command) == 0 {
			cat, err := askWorker(k.c)
			if err != nil {
				k.say(failed, topic, "%v", err)
				continue
			}
			k.say(okay, topic, "the built-in one, which has the toolsets %s", strings.Join(cat.names(), ", "))
			continue
		}
		if err := unix.Access(s.Worker.Command[0], unix.X_OK); err != nil {
			k.say(failed, topic, "%s: %v", s.Worker.Command[0], err)
			continue
		}
		k.say(okay, topic, "%s is there", s.Worker.Command[0])
	}
}

// folders looks for those that a worker needs. One that only its account may look at
// is left to it.
func (k *checker) folders(topic string, s conf.Server) {
	if s.Worker.Cwd != "" && noFolder(s.Worker.Cwd) {
		k.say(failed, topic, "the working folder %s is not there", s.Worker.Cwd)
	}
	if lack := noCode(s); lack != "" && s.Workspace != "" {
		k.say(failed, topic, "%s", lack)
	} else if lack != "" {
		k.say(warned, topic, "%s", lack)
	}
	k.workspace("workspace of "+s.Path, s.Workspace)
}

// noCode says why the built-in tools would find no code to work on; nothing when they
// may, which the worker's account alone can tell.
func noCode(s conf.Server) string {
	switch {
	case len(s.Worker.Command) > 0 || slices.Equal(s.Toolsets, []string{"session"}):
		return "" // no tool asks for it
	case s.Workspace == "":
		return "no workspace is configured, so the tools have no code to work on: MCP_WORKSPACE names a Git repository, scripts/setup-workspace.sh makes one"
	case noFolder(s.Workspace):
		return fmt.Sprintf("there is no repository %s; scripts/setup-workspace.sh makes one", s.Workspace)
	}
	return ""
}

// noFolder reports whether path is certainly no folder.
func noFolder(path string) bool {
	st, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir()
}

// workspace looks whether dir is a Git repository and, where a group writes it,
// whether what one member commits can be read and continued by the others.
// scripts/setup-workspace.sh looks at everything.
func (k *checker) workspace(topic, dir string) {
	st, err := os.Stat(dir)
	if dir == "" || err != nil || !st.IsDir() {
		return // said already, or for its account alone
	}
	if inner := filepath.Join(dir, ".git"); unix.Access(inner, unix.F_OK) == nil {
		dir = inner
	}
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if errors.Is(err, fs.ErrPermission) {
		return
	}
	if err != nil || unix.Access(filepath.Join(dir, "HEAD"), unix.F_OK) != nil {
		k.say(failed, topic, "%s is no Git repository; scripts/setup-workspace.sh makes one", dir)
		return
	}
	var wrong []string
	if objects, err := os.Stat(filepath.Join(dir, "objects")); err == nil && objects.Mode().Perm()&0o020 != 0 {
		if objects.Mode()&fs.ModeSetgid == 0 {
			wrong = append(wrong, "its folders do not pass on their group")
		}
		if !sharedReadable.Match(config) {
			wrong = append(wrong, "core.sharedRepository is not 0664, so that others can't read what somebody commits")
		}
	}
	if wrong != nil {
		k.say(warned, topic, "%s: %s; scripts/setup-workspace.sh %s mends it, and with --check says more", dir, strings.Join(wrong, "; "), dir)
		return
	}
	k.say(okay, topic, "%s; scripts/setup-workspace.sh %s --check looks at its rights", dir, dir)
}

// sharedReadable is the setting under which committed objects are readable to
// all who may enter the repository.
var sharedReadable = regexp.MustCompile(`(?mi)^\s*sharedrepository\s*=\s*(0664|0666|2|all|world|everybody)\s*$`)

// state looks whether the state folder can be used.
func (k *checker) state(context.Context) {
	dir := k.c.StateDir
	for dir != "" {
		st, err := os.Stat(dir)
		switch {
		case errors.Is(err, os.ErrNotExist) && dir != "/":
			dir = filepath.Dir(dir)
			continue
		case err != nil:
			k.say(failed, "state", "%s: %v", dir, err)
		case !st.IsDir():
			k.say(failed, "state", "%s is no folder; MCP_STATE_DIR names another", dir)
		case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
			k.say(failed, "state", "%s can't write to %s; MCP_STATE_DIR names another folder", k.c.ServerAccount(), dir)
		default:
			k.say(okay, "state", "%s can be used", k.c.StateDir)
		}
		return
	}
}

// resourcePorts warns of resource identifiers under which clients would call another
// port than the one that is listened on.
func (k *checker) resourcePorts() {
	for _, s := range k.c.Servers {
		u, err := url.Parse(s.Resource)
		if err != nil || s.Resource == "" || k.c.Listen.Port == 0 {
			continue
		}
		if want := cmp.Or(u.Port(), "443"); want != strconv.Itoa(k.c.Listen.Port) {
			k.say(warned, "port", "clients of %s call port %s, and this server listens on %d: right only if something passes it on; else MCP_PORT=%s", s.Resource, want, k.c.Listen.Port, want)
		}
	}
}

// ports tries to listen, and lets go again.
func (k *checker) ports(context.Context) {
	k.resourcePorts()
	ends, err := endpoints(k.c.Listen.Addresses)
	if err != nil {
		k.say(failed, "port", "%v", err)
		return
	}
	lns, err := listen(ends, k.c.Listen.Port)
	if err == nil {
		k.say(okay, "port", "can listen on %s", strings.Join(addressesOf(lns), ", "))
		if onlyLoopback(lns) && k.c.Way() != plan.RunLoopback {
			k.say(okay, "port", "only this machine can connect; MCP_BIND_ADDRESS=0.0.0.0 opens it to the network")
		}
		closeAll(lns)
		return
	}
	if errors.Is(err, syscall.EADDRINUSE) && k.ours(ends) {
		k.say(okay, "port", "%d is in use by a server of this kind, most likely this one, running", k.c.Listen.Port)
		return
	}
	k.say(failed, "port", "%v", err)
}

// ours reports whether a process of this service has the port.
func (k *checker) ours(ends []endpoint) bool {
	for _, e := range ends {
		for _, pid := range owners("/proc", sockets("/proc", e.addr, k.c.Listen.Port)) {
			switch processName("/proc", pid) {
			case "gatehouse", "gatehouse-monitor", "gatehouse-monit": // the kernel keeps 15 letters
				return true
			}
		}
	}
	return false
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"gatehouse/auth/identity"
	"gatehouse/auth/token"
	"gatehouse/cmd/internal/plan"
	"gatehouse/session/accounts"
	"gatehouse/session/monitor"
	"gatehouse/session/monitor/world"
	"gatehouse/session/privdrop"
)

const (
	planFD  = 3
	maxPlan = 8 << 20 // bytes
	// maxInherited is how many listeners a plan may name.
	maxInherited = 64
)

func logger(level zerolog.Level, process string) zerolog.Logger {
	return zerolog.New(os.Stderr).Level(level).With().Timestamp().Str("process", process).Logger()
}

// openPlan takes over the plan's descriptor, which must be a sealed memory file:
// what is read twice must be the same. The caller keeps the result, since a file
// that is collected is closed.
func openPlan() (*os.File, error) {
	if _, err := unix.FcntlInt(planFD, unix.F_GET_SEALS, 0); err != nil {
		return nil, errors.New("there is no plan on descriptor 3")
	}
	f := os.NewFile(planFD, "plan")
	if !world.IsSealed(f) {
		return nil, errors.New("the plan on descriptor 3 is not a sealed memory file")
	}
	return f, nil
}

// inheritedFiles are the descriptors from 3 on that were left open for us, in a
// row, and are marked so that none leaks any further.
func inheritedFiles(plan *os.File) ([]*os.File, error) {
	files := []*os.File{plan}
	for fd := planFD + 1; fd <= planFD+maxInherited; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			break // the runtime's own files are close-on-exec
		}
		files = append(files, os.NewFile(uintptr(fd), "inherited"))
	}
	return files, privdrop.CloseOnExec(planFD)
}

// readPlan reads the whole plan strictly, whatever the offset of the descriptor
// is: a monitor that is started anew gets the same one.
func readPlan() (*plan.Plan, error) {
	f, err := openPlan()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxPlan+1))
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	f.Close()
	return decodePlan(b)
}

// decodePlan refuses unknown members and trailing data.
func decodePlan(b []byte) (*plan.Plan, error) {
	if len(b) > maxPlan {
		return nil, errors.New("read plan: larger than 8 MiB")
	}
	var p plan.Plan
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read plan: data after it")
	}
	return &p, nil
}

// settingsOf says the plan in the monitor's terms.
func settingsOf(p *plan.Plan) (monitor.Config, error) {
	m := &p.Monitor
	level, err := zerolog.ParseLevel(m.LogLevel)
	if err != nil {
		return monitor.Config{}, fmt.Errorf("read plan: log level: %w", err)
	}
	if m.Listeners < 1 || m.Listeners > maxInherited {
		return monitor.Config{}, fmt.Errorf("read plan: %d listeners", m.Listeners)
	}
	c := monitor.Config{
		Mode: monitor.Mode(m.RunAs), BinDir: m.BinDir, StateDir: m.StateDir,
		TLSCert: m.TLSCert, TLSKey: m.TLSKey,
		AccountsFile: m.AccountsFile, AccountClaim: m.UserIDClaim,
		WorkerUser: m.WorkerUser, FrontUser: m.FrontUser, KeysUser: m.KeysUser,
		Accounts:   accounts.Policy(m.Accounts),
		MaxWorkers: m.MaxWorkers, MaxPerPrincipal: m.MaxPerPrincipal, MaxPerToken: m.MaxPerToken,
		SpawnRate: m.SpawnRate, SpawnBurst: m.SpawnBurst, WarmWorkers: m.WarmWorkers,
		CredentialGrace: m.CredentialGrace, MaxStale: m.MaxStale, DrainLimit: m.DrainLimit,
		KillGrace: m.KillGrace, KillGraceHard: m.KillGraceHard, AccountRecheck: m.AccountRecheck,
		FrontPart: p.Front, KeysPart: p.Keykeeper,
		TZ: os.Getenv("TZ"), Log: logger(level, "monitor"),
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "GOCOVERDIR", "GOTRACEBACK"} {
		if v := os.Getenv(name); v != "" {
			c.PartEnv = append(c.PartEnv, name+"="+v)
		}
	}
	for _, i := range m.Tokens {
		c.Policies = append(c.Policies, token.Policy{
			Issuer: identity.Issuer(i.Issuer), Profile: token.Profile(i.Profile), Algorithms: i.Algorithms,
			Leeway: i.Leeway, MaxLifetime: i.MaxLifetime, AllowMissingKeyID: i.AllowMissingKid, AccountClaim: i.AccountClaimName,
		})
	}
	for _, s := range m.Servers {
		c.Servers = append(c.Servers, monitor.Server{
			Path: s.Path, Audiences: s.Audiences, Scopes: identity.ScopesOf(s.Scopes), Command: s.Worker.Command, Env: s.Worker.Env,
			EnvFile: s.Worker.EnvFile, Cwd: s.Worker.Cwd, Settings: s.Worker.Settings,
		})
	}
	if len(m.Reload.Args) > 0 {
		c.Reload = monitor.Recipe{Argv: append([]string{filepath.Join(m.BinDir, "gatehouse")}, m.Reload.Args...), Env: m.Reload.Env, Dir: m.Reload.Dir}
		c.Decode = decodeReload
	}
	c.Fixed = m.Fixed
	return c, nil
}

// decodeReload reads a newer plan. Of descriptors it says nothing.
func decodeReload(b []byte) (*monitor.Config, error) {
	p, err := decodePlan(b)
	if err != nil {
		return nil, err
	}
	c, err := settingsOf(p)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// config says the plan in the monitor's terms and takes its descriptors, and the
// guard's.
func config(p *plan.Plan, guard *os.File) (monitor.Config, error) {
	m := &p.Monitor
	c, err := settingsOf(p)
	if err != nil {
		return c, err
	}
	for i := range m.Listeners {
		c.Listeners = append(c.Listeners, os.NewFile(uintptr(planFD+1+i), "listener"))
	}
	if m.Operators {
		c.Operators = os.NewFile(uintptr(planFD+1+m.Listeners), "operators")
	}
	c.Guard = guard
	return c, nil
}

// guardSocket is the descriptor on which the guard's end shows.
func guardSocket(number string) (*os.File, error) {
	var st unix.Stat_t
	fd, err := strconv.Atoi(number)
	if err != nil || fd <= planFD || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("started without a guard; gatehouse-monitor starts it by itself")
	}
	return os.NewFile(uintptr(fd), "guard"), nil
}

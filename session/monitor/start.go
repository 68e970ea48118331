package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"gatehouse/session/accounts"
	"gatehouse/session/filestate"
	"gatehouse/session/folder"
	"gatehouse/session/monitor/cgroup"
	"gatehouse/session/monitor/proc"
	"gatehouse/session/monitor/world"
	"gatehouse/session/settings"
)

var errTreeStays = errors.New("some processes do not end")

// runner starts workers: everything between an assignment and a process.
type runner struct {
	host    *proc.Host
	groups  atomic.Pointer[cgroup.Base] // nil: no control groups
	workers []workerKind                // by server
	private *world.Privates             // nil: nobody needs one
	homes   folder.Turns
	tz      string
	// uncontained is told when control groups turn out not to work.
	uncontained func(error)
}

// workerKind is what a server's workers are.
type workerKind struct {
	command  world.Command
	path     string // of the server
	builtIn  bool
	settings settings.Settings
}

// newWorkerKind reads a server's worker and checks what can be checked now.
func newWorkerKind(s *Server, binDir string, strict bool, uid int) (workerKind, error) {
	k := workerKind{path: s.Path, command: world.Command{
		Argv: s.Command, Env: s.Env, EnvFile: s.EnvFile, Cwd: s.Cwd, Strict: strict, UID: uid,
	}}
	if len(s.Command) == 0 {
		k.builtIn = true
		k.command.Argv = []string{filepath.Join(binDir, "gatehouse-worker")}
		if len(s.Settings) > 0 {
			if err := json.Unmarshal(s.Settings, &k.settings); err != nil {
				return k, fmt.Errorf("server %s: read worker settings: %w", s.Path, err)
			}
		}
	}
	if err := k.command.Check(); err != nil {
		return k, fmt.Errorf("server %s: %w", s.Path, err)
	}
	return k, nil
}

// job is one worker to start.
type job struct {
	server     uint16
	verdict    *verdict
	assignment *assignment
}

// running is a started worker and what has to be given back after it.
type running struct {
	*tree
	stdio   *world.Stdio // the front end's ends are open until handed over
	private *world.Private

	// What it was started with, to tell whether that has changed since.
	job     job
	env     []string
	dir     string
	program filestate.State
}

// start starts a worker under a number that no other one has. Everything is given
// back when it fails.
func (r *runner) start(j job, number uint64) (_ *running, err error) {
	k := &r.workers[j.server]
	if err := k.command.Check(); err != nil { // the files may have changed
		return nil, err
	}
	a := &j.assignment.account
	w := &running{tree: &tree{label: proc.NewLabel(number), host: r.host}, job: j}
	defer func() {
		if err != nil {
			w.abandon()
		}
	}()
	if j.assignment.private {
		if w.private, err = r.private.New(a.UID, a.GID); err != nil {
			return nil, err
		}
	}
	w.program, _ = filestate.Of(k.command.Argv[0]) // without one it does not start
	place := r.place(j.assignment, w.private)
	if w.env, err = k.command.Environ(place); err != nil {
		return nil, err
	}
	w.dir = k.command.Dir(place)
	spec := proc.Spec{Path: k.command.Argv[0], Argv: k.command.Argv, Dir: w.dir, Env: w.env, KeepPIDFD: true, Batch: true}
	if w.stdio, err = world.NewStdio(a.UID, a.GID); err != nil {
		return nil, err
	}
	defer w.stdio.CloseWorkers()
	spec.Files = []*os.File{w.stdio.In, w.stdio.Out, w.stdio.Err}
	if k.builtIn {
		f, err := world.SettingsFile(k.settingsFor(j))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		spec.Files = append(spec.Files, f) // settings.FD
	}
	if j.assignment.as {
		spec.As = &proc.Identity{UID: a.UID, GID: a.GID, Groups: a.Groups}
	}
	if w.child, err = r.launch(&spec, w.tree); err != nil {
		return nil, fmt.Errorf("start worker %q in %s as %s: %w", k.command.Argv[0], spec.Dir, a.Name, cause(err))
	}
	return w, nil
}

// place is where and as whom a worker runs that may have a private folder.
func (r *runner) place(a *assignment, private *world.Private) world.Place {
	p := world.Place{Account: a.account, TZ: r.tz, TmpDir: private.Path()}
	if private != nil && !r.usableHome(&a.account) {
		p.Account.Home = p.TmpDir
	}
	return p
}

// launch starts the process in a control group of its own, or with a label.
func (r *runner) launch(spec *proc.Spec, t *tree) (*proc.Child, error) {
	base := r.groups.Load()
	if base == nil {
		spec.Label = t.label
		return r.host.Start(*spec)
	}
	g, err := base.New()
	if err != nil {
		return nil, err
	}
	t.group = g
	spec.Cgroup = g.Dir()
	c, err := r.host.Start(*spec)
	var notEntered *proc.FolderError
	if errors.As(err, &notEntered) { // whatever its file system says: it was never tried
		return nil, err
	}
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.ENOSYS) {
		return c, err
	}
	// A kernel or container in which groups can be made but not be started in.
	plain := *spec
	plain.Cgroup, plain.Label = nil, t.label
	c, again := r.host.Start(plain)
	if again != nil {
		return nil, err
	}
	g.Release(treeLimit)
	t.group = nil
	r.groups.Store(nil)
	r.uncontained(err)
	return c, nil
}

// cause is the errno of a start that failed, with a word on what it may mean.
func cause(err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w (the program, its interpreter or the working folder is missing)", syscall.ENOENT)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w (the account may not execute the program or enter the working folder)", syscall.EACCES)
	}
	return err
}

// settingsFor is what a built-in worker is told: never the token.
func (k *workerKind) settingsFor(j job) *settings.Settings {
	s := k.settings
	v := j.verdict
	s.Issuer, s.Subject, s.ClientID = string(v.principal.Issuer), string(v.principal.Subject), string(v.principal.Client)
	s.Scopes = []string{}
	for _, x := range v.scopes {
		s.Scopes = append(s.Scopes, string(x))
	}
	s.Account = string(j.assignment.account.Name)
	s.Name, s.Email = j.assignment.name, j.assignment.email
	s.Server = k.path
	return &s
}

// usableHome reports whether a worker account has a home to work in; system
// accounts mostly have none.
func (r *runner) usableHome(a *accounts.Account) bool {
	if !filepath.IsAbs(a.Home) || a.Home == "/" {
		return false
	}
	st, err := r.homes.Stat(a.Home)
	return err == nil && st.Uid == a.UID
}

// abandon gives back what a failed start had taken.
func (w *running) abandon() {
	if w.stdio != nil {
		w.stdio.Close()
	}
	if w.group != nil {
		w.group.Release(treeLimit)
	}
	w.private.Remove()
}

// clear gives back what an ended worker had taken.
func (w *running) clear() error {
	return errors.Join(w.destroy(), w.private.Remove())
}

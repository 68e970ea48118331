// Package workspace is what the workspace toolsets are handed: the session's
// views, and the Go program of each. It takes the view's lock for a call and
// brings the program up to date.
package workspace

import (
	"context"
	"path/filepath"
	"sync"

	"gatehouse/toolsets"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/view"
)

// Workspace is the views of a session and their programs.
type Workspace struct {
	Views *view.Set

	mu       sync.Mutex // guards what follows
	env      []string   // of the go command
	programs map[*view.View]*program.Program
}

// New returns the workspace of a set of views. env is the whole environment of
// the go command and of what is built and run.
func New(views *view.Set, env []string) *Workspace {
	w := &Workspace{Views: views, env: env, programs: map[*view.View]*program.Program{}}
	views.SetChecker(w.check)
	return w
}

// GoEnv returns the environment of the go command.
func (w *Workspace) GoEnv() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.env
}

// SetGoEnv replaces it; for views that are opened afterwards.
func (w *Workspace) SetGoEnv(env []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.env = env
}

func (w *Workspace) program(v *view.View) *program.Program {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.programs[v]
	if p == nil {
		p = program.New(v.Dir, w.env)
		p.KeepIn(filepath.Join(w.Views.StateDir(), "index"))
		w.programs[v] = p
	}
	return p
}

// Session is one call's hold on a view.
type Session struct {
	View   *view.View
	Prog   *program.Program
	GoEnv  []string // the environment of the go command
	unlock func()   // nil after Release
	settle func()   // nil unless something runs in the view
}

// Close lets the view go.
func (s *Session) Close() {
	s.Release()
	if s.settle != nil {
		s.settle()
	}
}

// Release lets others edit files, while what was opened by Run goes on.
func (s *Session) Release() {
	if s.unlock != nil {
		s.unlock()
		s.unlock = nil
	}
}

// Open opens the view of a call and holds it.
func (w *Workspace) Open(ctx context.Context, c *toolsets.Call, access view.Access) (*Session, error) {
	v, err := w.Views.Open(ctx, c.View)
	if err != nil {
		return nil, err
	}
	unlock, err := v.Lock(ctx, access)
	if err != nil {
		return nil, err
	}
	return &Session{View: v, Prog: w.program(v), GoEnv: w.GoEnv(), unlock: unlock}, nil
}

// Load brings the program of the session's view up to date.
func (s *Session) Load(ctx context.Context, c *toolsets.Call) (*program.Snapshot, error) {
	return s.Prog.Load(ctx, c.Progress)
}

// Read opens the view for reading and loads its program.
func (w *Workspace) Read(ctx context.Context, c *toolsets.Call) (*Session, *program.Snapshot, error) {
	s, err := w.Open(ctx, c, view.Read)
	if err != nil {
		return nil, nil, err
	}
	snap, err := s.Load(ctx, c)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, snap, nil
}

// Run is Read for what runs in the view: after Release files may be edited, but
// nothing moves the view before Close.
func (w *Workspace) Run(ctx context.Context, c *toolsets.Call) (*Session, *program.Snapshot, error) {
	v, err := w.Views.Open(ctx, c.View)
	if err != nil {
		return nil, nil, err
	}
	settle, err := v.Hold(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, snap, err := w.Read(ctx, c)
	if err != nil {
		settle()
		return nil, nil, err
	}
	s.settle = settle
	return s, snap, nil
}

// MarkRead notes that the session has seen a declaration.
func (s *Session) MarkRead(d *program.Decl) {
	s.View.MarkRead(d.Pkg.Dir, d.Name, d.Text())
}

// check is the view.Checker: all errors of the view's packages.
func (w *Workspace) check(ctx context.Context, v *view.View) ([]string, error) {
	snap, err := w.program(v).Load(ctx, nil)
	if err != nil {
		// A tree that can't be loaded has this one error.
		if ctx.Err() != nil {
			return nil, err
		}
		return []string{"go: 0:0: " + err.Error()}, nil
	}
	if err := snap.IndexAll(ctx, nil); err != nil {
		return nil, err
	}
	var out []string
	for _, q := range snap.Broken() {
		out = append(out, q.Errors()...)
	}
	return out, nil
}

// Package program keeps the Go packages of one working copy parsed and
// type-checked. It is loaded once and then brought up to date by what changed:
// files that changed are parsed again, their packages and those that depend on
// them are checked again when somebody asks, and nothing else.
//
// Loading and checking run no code of the working copy: no cgo, no generators,
// no build. Packages of other modules and of the standard library are checked
// from source without function bodies.
//
// What a package refers to can be kept from one session to the next (KeepIn),
// under a key of everything that it depends on. Then a package need not even be
// parsed before somebody asks for its types.
package program

import (
	"context"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"

	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
)

// Program is the packages of one working copy.
type Program struct {
	*ground
	env []string

	mu   sync.Mutex // guards snap; held while it is brought up to date
	snap *Snapshot
}

// ground is what all snapshots of a program share.
type ground struct {
	Root  string
	Fset  *token.FileSet
	sizes types.Sizes
	ids   identities
	keep  *keeper // nil keeps nothing

	mu       sync.Mutex             // guards reserved
	reserved map[string]*token.File // files of dependencies
}

// New returns the program below the absolute folder root. env is the whole
// environment of the go command. Nothing is loaded yet.
func New(root string, env []string) *Program {
	return &Program{env: env, ground: &ground{Root: root, Fset: token.NewFileSet(), sizes: types.SizesFor("gc", runtime.GOARCH)}}
}

// KeepIn has the program keep what it finds out about packages in a private
// folder, from one session to the next. It is to be called before Load.
func (p *Program) KeepIn(dir string) { p.keep = &keeper{dir: dir} }

// Snapshot is the program at one moment. Its packages do not change; checking
// them adds to what is known.
type Snapshot struct {
	*ground

	files map[string]*File // by absolute path; those of the working copy
	tree  map[string]stamp // every file that decides about loading
	byID  map[string]*Package
	order []*Package // in build order: imports first
}

// Load brings the program up to date and returns it as it is now. progress may
// be nil.
func (p *Program) Load(ctx context.Context, progress func(done, total int, message string)) (*Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tree, err := scan(p.Root)
	if err != nil {
		return nil, fmt.Errorf("look for Go files: %w", err)
	}
	switch {
	case p.snap == nil:
	case p.snap.upToDate(tree):
		return p.snap, nil
	default:
		if s, ok := p.snap.revise(tree); ok {
			p.snap = s
			return s, nil
		}
	}
	if progress != nil {
		progress(0, 0, "loading packages")
	}
	s, err := p.list(ctx, tree)
	if err != nil {
		return nil, err
	}
	if p.snap != nil {
		s.adopt(p.snap)
	}
	p.snap = s
	return s, nil
}

// list asks the go command for the packages and parses those of the working copy.
func (p *Program) list(ctx context.Context, tree map[string]stamp) (*Snapshot, error) {
	if !exists(filepath.Join(p.Root, "go.mod")) && !exists(filepath.Join(p.Root, "go.work")) {
		return nil, toolsets.Failf(toolsets.Refused, "the workspace holds neither go.mod nor go.work at its top, so there are no Go packages to work on")
	}
	s := &Snapshot{ground: p.ground, files: map[string]*File{}, tree: tree, byID: map[string]*Package{}}
	if p.snap != nil {
		s.files = p.snap.liveFiles(tree)
	}
	patterns, err := p.patterns(ctx)
	if err != nil {
		return nil, err
	}
	roots, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedForTest,
		Dir:  p.Root, Env: p.env, Tests: true, Context: ctx,
	}, patterns...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, goFailure(err)
	}
	packages.Visit(roots, nil, func(lp *packages.Package) { s.add(lp) })
	if len(s.order) == 0 {
		for _, r := range roots {
			for _, e := range r.Errors {
				return nil, goFailure(errors.New(e.Msg))
			}
		}
		return nil, toolsets.Failf(toolsets.NotFound, "the workspace holds no Go packages")
	}
	s.choosePrimary()
	return s, nil
}

// patterns names all packages of the working copy to the go command: with a
// go.work, "./..." at its top would be those of a module there and no others.
func (p *Program) patterns(ctx context.Context) ([]string, error) {
	if !exists(filepath.Join(p.Root, "go.work")) {
		return []string{"./..."}, nil
	}
	out, err := run.Run(ctx, run.Cmd{Args: []string{"go", "list", "-m", "-f", "{{.Dir}}"}, Dir: p.Root, Env: p.env})
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, goFailure(errors.New(string(out.Stderr)))
	}
	var all []string
	for dir := range strings.Lines(string(out.Stdout)) {
		if rel, err := filepath.Rel(p.Root, strings.TrimRight(dir, "\n")); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			all = append(all, "./"+filepath.ToSlash(filepath.Join(rel, "...")))
		}
	}
	return all, nil
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

// goFailure words what the go command said about the module as a whole.
func goFailure(err error) *toolsets.Failure {
	text := err.Error()
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(text, "executable file not found") {
		return toolsets.Failf(toolsets.Other, "there is no go command in this worker's PATH, and the workspace tools need one; the operator installs Go or sets PATH")
	}
	if strings.Contains(text, "GOTOOLCHAIN=local") || strings.Contains(text, "toolchain not available") {
		return toolsets.Failf(toolsets.CompileError, "the module asks for a newer Go than this host has, and none is downloaded: %s", oneLine(text))
	}
	return toolsets.Failf(toolsets.CompileError, "the go command could not load the workspace: %s", oneLine(text))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// add turns one listed package into ours. Packages come imports first.
func (s *Snapshot) add(lp *packages.Package) {
	if strings.HasSuffix(lp.ID, ".test") && lp.Name == "main" && lp.ForTest == "" || lp.PkgPath == "unsafe" {
		return // a generated test main, or the package without source
	}
	q := &Package{ID: lp.ID, Path: lp.PkgPath, Name: lp.Name, ForTest: lp.ForTest, Imports: map[string]*Package{}, ground: s.ground, face: &face{}}
	if lp.Module != nil {
		q.goVersion = lp.Module.GoVersion
		q.Module = lp.Module.Path
	}
	for _, e := range lp.Errors {
		q.ListErrors = append(q.ListErrors, s.relativeText(e.Error()))
	}
	for path, im := range lp.Imports {
		if d := s.byID[im.ID]; d != nil {
			q.Imports[path] = d
		}
	}
	q.paths = lp.GoFiles
	if len(lp.GoFiles) > 0 {
		q.setDir(filepath.Dir(lp.GoFiles[0]))
	} else if len(lp.IgnoredFiles) > 0 {
		q.setDir(filepath.Dir(lp.IgnoredFiles[0]))
	}
	if q.Name == "" {
		q.Name = filepath.Base(q.Path)
	}
	if q.Workspace {
		for _, name := range q.paths {
			if f := s.file(name); f != nil {
				q.Files = append(q.Files, f)
			}
		}
	}
	s.byID[q.ID] = q
	s.order = append(s.order, q)
}

// setDir decides whether the package is one of the working copy: below its root
// and not vendored.
func (q *Package) setDir(dir string) {
	q.abs = dir
	rel, err := filepath.Rel(q.Root, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return
	}
	rel = filepath.ToSlash(rel)
	if rel == "vendor" || strings.HasPrefix(rel, "vendor/") || strings.Contains(rel, "/vendor/") {
		return
	}
	q.Dir, q.Workspace = rel, true
}

// choosePrimary picks, of the variants of a package, the one that tools show:
// the one that has the in-package tests, too.
func (s *Snapshot) choosePrimary() {
	widest := map[string]*Package{}
	for _, q := range s.order {
		if !q.Workspace || q.ForTest != "" && q.ForTest != q.Path && q.ForTest+"_test" != q.Path {
			continue // a dependency rebuilt for somebody else's test
		}
		if w := widest[q.Path]; w == nil || len(q.paths) > len(w.paths) || len(q.paths) == len(w.paths) && q.ForTest == "" {
			widest[q.Path] = q
		}
	}
	for _, q := range widest {
		if !q.Primary { // shared ones are left alone
			q.Primary = true
		}
	}
}

// Packages returns the packages of the working copy in build order. External
// test packages are among them.
func (s *Snapshot) Packages() []*Package {
	var out []*Package
	for _, q := range s.order {
		if q.Primary {
			out = append(out, q)
		}
	}
	return out
}

// All returns every package, dependencies and variants included.
func (s *Snapshot) All() []*Package { return s.order }

// Plain returns the package of that import path as importers see it, nil if
// there is none.
func (s *Snapshot) Plain(path string) *Package {
	return s.byID[path]
}

// Position words a position as file:line:column, relative to the root.
func (s *ground) Position(pos token.Pos) string {
	p := s.Fset.Position(s.ids.place(pos))
	return fmt.Sprintf("%s:%d:%d", s.Rel(p.Filename), p.Line, p.Column)
}

// Rel makes a file name relative to the root where it is below it.
func (s *ground) Rel(name string) string {
	if rel, err := filepath.Rel(s.Root, name); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel)
	}
	return name
}

// relativeText takes the root's path out of what the go command says.
func (s *ground) relativeText(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, s.Root+"/", ""), s.Root, ".")
}

// Broken lists the packages with errors of loading, parsing or checking. It
// knows checking errors of the packages that have been checked.
func (s *Snapshot) Broken() []*Package {
	var out []*Package
	for _, q := range s.Packages() {
		if len(q.Errors()) > 0 {
			out = append(out, q)
		}
	}
	return out
}

// BrokenNote is a line that says which packages have errors, so that answers
// about the whole program may be incomplete; empty when none has.
func (s *Snapshot) BrokenNote() string {
	var names []string
	for _, q := range s.Broken() {
		names = append(names, q.Path)
	}
	if names == nil {
		return ""
	}
	const most = 10
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return "\n(these packages have errors, so that something may be missing: " + strings.Join(names, ", ") + more + ")"
}

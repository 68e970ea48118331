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
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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
	g := &ground{Root: root, Fset: token.NewFileSet(), sizes: types.SizesFor("gc", runtime.GOARCH)}
	g.ids.universe = g.Fset.AddFile(universeFile, -1, 1)
	return &Program{env: env, ground: g}
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

// Plain returns the package of that import path as importers see it, nil if
// there is none.
func (s *Snapshot) Plain(path string) *Package {
	return s.byID[path]
}

// Identity is the position by which an object is known to Index.Of: where it is
// declared, or a place of its own for the predeclared error's method.
func (s *ground) Identity(obj types.Object) token.Pos { return s.ids.object(obj) }

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

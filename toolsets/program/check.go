package program

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/types"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Package is one package in one variant.
type Package struct {
	ID      string // unique; the import path, with the test it was built for
	Path    string // import path
	Name    string
	Dir     string // relative to the root, "." for the root; workspace packages only
	Module  string // path of its module
	ForTest string // the package for whose test the variant is, empty for the plain one
	// Workspace packages belong to the working copy; the others are dependencies.
	Workspace bool
	// Primary is set for the variant that tools show.
	Primary    bool
	Files      []*File // of workspace packages
	Imports    map[string]*Package
	ListErrors []string // of the go command

	abs       string
	paths     []string // files, absolute
	goVersion string
	*ground
	face *face // shared by versions that look the same to importers

	once  sync.Once
	mu    sync.Mutex // guards what follows
	types *types.Package
	errs  []string
	index *Index
	clean bool // has no errors, which was known before it was parsed

	keyOnce sync.Once
	keySum  string
}

// IsTest reports whether the package consists of tests of another one.
func (q *Package) IsTest() bool { return strings.HasSuffix(q.Path, "_test") && q.ForTest != "" }

// Types returns the checked package, nil before it was checked.
func (q *Package) Types() *types.Package {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.types
}

// lacks reports whether there is something to find out about the package: its
// types, or what it refers to.
func (q *Package) lacks(types, index bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return types && q.types == nil || index && q.Primary && q.index == nil
}

// Index returns the references of the package, nil before it was checked and
// for packages that are no Primary ones.
func (q *Package) Index() *Index {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index
}

// Errors returns what is wrong with the package: loading, parsing and, once it
// was checked, types.
func (q *Package) Errors() []string {
	q.mu.Lock()
	clean := q.clean
	q.mu.Unlock()
	if clean {
		return nil
	}
	out := slices.Clone(q.ListErrors)
	for _, f := range q.Files {
		out = append(out, q.parseErrors(f)...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.errs {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

func (s *ground) parseErrors(f *File) []string {
	var list scanner.ErrorList
	if !errors.As(f.Err(), &list) {
		return nil
	}
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s:%d:%d: %s", s.Rel(e.Pos.Filename), e.Pos.Line, e.Pos.Column, e.Msg))
	}
	return out
}

// IndexAll finds out what every package of the working copy refers to and what is
// wrong with it. Types are known afterwards of what had to be checked for that;
// the rest is known from before.
func (s *Snapshot) IndexAll(ctx context.Context, progress func(done, total int, message string)) error {
	s.recallAll()
	return s.complete(ctx, progress, s.missing(s.Packages(), false))
}

// CheckAll type-checks every package of the working copy, and finds out what
// IndexAll does.
func (s *Snapshot) CheckAll(ctx context.Context, progress func(done, total int, message string)) error {
	s.recallAll()
	want := s.Packages()
	for _, q := range s.Packages() {
		// As importers see it, for questions across packages.
		if plain := s.byID[q.Path]; plain != nil && plain != q {
			want = append(want, plain)
		}
	}
	return s.Check(ctx, progress, want...)
}

// Check type-checks the given packages and what they import, in parallel, and
// skips what is checked already. It fails when ctx ends; errors in the code are
// the packages' own.
func (s *Snapshot) Check(ctx context.Context, progress func(done, total int, message string), want ...*Package) error {
	return s.complete(ctx, progress, s.missing(want, true))
}

// complete checks the packages of todo, imports first.
func (s *Snapshot) complete(ctx context.Context, progress func(done, total int, message string), todo map[*Package]bool) error {
	if len(todo) == 0 {
		return nil
	}
	waits := map[*Package]int{}
	blocks := map[*Package][]*Package{}
	for q := range todo {
		for _, im := range q.Imports {
			if todo[im] {
				waits[q]++
				blocks[im] = append(blocks[im], q)
			}
		}
	}
	ready := make(chan *Package, len(todo))
	for _, q := range s.order {
		if todo[q] && waits[q] == 0 {
			ready <- q
		}
	}
	var mu sync.Mutex // guards waits, done
	done := 0
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for q := range ready {
				if ctx.Err() == nil {
					q.once.Do(q.check)
				}
				mu.Lock()
				done++
				if progress != nil && (done%25 == 0 || done == len(todo)) {
					progress(done, len(todo), "type-checked "+q.Path)
				}
				for _, b := range blocks[q] {
					if waits[b]--; waits[b] == 0 {
						ready <- b
					}
				}
				if done == len(todo) {
					close(ready)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// recallAll takes the indexes of the working copy's packages from what was kept.
func (s *Snapshot) recallAll() {
	if s.keep == nil {
		return
	}
	todo := make(chan *Package, len(s.order))
	for _, q := range s.Packages() {
		if q.lacks(false, true) {
			todo <- q
		}
	}
	close(todo)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for q := range todo {
				s.recall(q)
			}
		})
	}
	wg.Wait()
}

// missing returns the packages to check so that the index of each of want is
// known and, if types is set, their types are. What a package imports must have
// types when it is checked.
func (s *Snapshot) missing(want []*Package, types bool) map[*Package]bool {
	todo := map[*Package]bool{}
	seen := map[*Package]bool{}
	var below func(q *Package)
	below = func(q *Package) {
		for _, im := range q.Imports {
			if seen[im] {
				continue
			}
			seen[im] = true
			if im.lacks(true, false) { // else everything below has types, too
				todo[im] = true
				below(im)
			}
		}
	}
	for _, q := range want {
		if !todo[q] && q.lacks(types, true) {
			todo[q] = true
			below(q)
		}
	}
	return todo
}

// importer resolves the imports of one package.
type importer struct{ q *Package }

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	im := i.q.Imports[path]
	if im == nil {
		return nil, fmt.Errorf("package %s is not available", path)
	}
	if len(im.paths) == 0 && !im.Workspace { // the go command has not found it
		if len(im.ListErrors) > 0 {
			return nil, errors.New(oneLine(im.ListErrors[0]))
		}
		return nil, fmt.Errorf("package %s has no files here", path)
	}
	if t := im.Types(); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("package %s could not be checked", path)
}

// maxErrors bounds the type errors that are kept of one package.
const maxErrors = 100

// check type-checks the package, whose imports have types. Only Primary packages
// whose index is not known are looked into: of the others declarations are enough.
func (q *Package) check() {
	var errs []string
	whole := q.lacks(false, true)
	cfg := types.Config{
		Importer: importer{q}, Sizes: q.sizes, FakeImportC: true, IgnoreFuncBodies: !whole,
		Error: func(err error) {
			var te types.Error
			if q.Workspace && errors.As(err, &te) && len(errs) < maxErrors {
				errs = append(errs, q.Position(te.Pos)+": "+te.Msg)
			}
		},
	}
	if q.goVersion != "" && q.Workspace {
		cfg.GoVersion = "go" + q.goVersion
	}
	info := &types.Info{}
	if whole {
		info.Defs, info.Uses = map[*ast.Ident]types.Object{}, map[*ast.Ident]types.Object{}
	}
	files := q.syntax()
	pkg := types.NewPackage(q.Path, q.Name)
	// The error is among those that were reported one by one.
	_ = types.NewChecker(&cfg, q.Fset, pkg, info).Files(files)
	q.mu.Lock()
	if q.types == nil {
		q.types = pkg // else importers have seen the older, which looks the same
	}
	if whole || !q.Primary {
		q.errs = errs
	}
	if whole {
		q.index = newIndex(files, info, &q.ids)
	}
	q.mu.Unlock()
	if whole {
		q.retain()
	}
}

// syntax returns the package's files; those of dependencies are parsed for the
// moment and not kept.
func (q *Package) syntax() []*ast.File {
	var out []*ast.File
	if q.Workspace {
		for _, f := range q.Files {
			if af := f.AST(); af != nil {
				out = append(out, af)
			}
		}
		return out
	}
	for _, name := range q.paths {
		src, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		tok := q.reserve(name, len(src))
		tok.SetLinesForContent(src)
		if f, _ := parse(tok, src, parser.SkipObjectResolution); f != nil {
			out = append(out, f)
		}
	}
	return out
}

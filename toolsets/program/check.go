package program

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
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
}

// IsTest reports whether the package consists of tests of another one.
func (q *Package) IsTest() bool { return strings.HasSuffix(q.Path, "_test") && q.ForTest != "" }

// Types returns the checked package, nil before it was checked.
func (q *Package) Types() *types.Package {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.types
}

// checked reports whether there is nothing to find out about the package.
func (q *Package) checked() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.types != nil && (!q.Primary || q.index != nil)
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
	if !errors.As(f.Err, &list) {
		return nil
	}
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s:%d:%d: %s", s.Rel(e.Pos.Filename), e.Pos.Line, e.Pos.Column, e.Msg))
	}
	return out
}

// CheckAll type-checks every package of the working copy.
func (s *Snapshot) CheckAll(ctx context.Context, progress func(done, total int, message string)) error {
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
	todo := s.missing(want)
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

// missing returns the packages among want and below that are not checked.
func (s *Snapshot) missing(want []*Package) map[*Package]bool {
	todo := map[*Package]bool{}
	seen := map[*Package]bool{}
	var visit func(q *Package)
	visit = func(q *Package) {
		if seen[q] {
			return
		}
		seen[q] = true
		if q.checked() {
			return // then everything below is checked, too
		}
		todo[q] = true
		for _, im := range q.Imports {
			visit(im)
		}
	}
	for _, q := range want {
		visit(q)
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

// check type-checks the package, whose imports are checked. Only Primary
// packages are looked into: of the others declarations are enough.
func (q *Package) check() {
	var errs []string
	cfg := types.Config{
		Importer: importer{q}, Sizes: q.sizes, FakeImportC: true, IgnoreFuncBodies: !q.Primary,
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
	if q.Primary {
		info.Defs, info.Uses = map[*ast.Ident]types.Object{}, map[*ast.Ident]types.Object{}
	}
	files := q.syntax()
	pkg := types.NewPackage(q.Path, q.Name)
	// The error is among those that were reported one by one.
	_ = types.NewChecker(&cfg, q.Fset, pkg, info).Files(files)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.errs = errs
	if q.types == nil {
		q.types = pkg // else importers have seen the older, which looks the same
	}
	if q.Primary {
		q.index = newIndex(files, info, &q.ids)
	}
}

// syntax returns the package's files; those of dependencies are parsed for the
// moment and not kept.
func (q *Package) syntax() []*ast.File {
	var out []*ast.File
	if q.Workspace {
		for _, f := range q.Files {
			if f.AST != nil {
				out = append(out, f.AST)
			}
		}
		return out
	}
	for _, name := range q.paths {
		src, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if f, _ := parser.ParseFile(q.Fset, name, src, parser.SkipObjectResolution); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// Ref is one use of a package-level object, a field or a method.
type Ref struct {
	Object token.Pos // where the object is declared: its identity
	Pos    token.Pos // where it is used
	Func   string    // the declaration around the use: "F", "T.M", a variable's name
	Call   bool      // the object is called there
}

// Index is what a package refers to, sorted by Object, then Pos.
type Index struct {
	refs []Ref
	ids  *identities
}

// Of returns the uses of the object declared at pos.
func (x *Index) Of(pos token.Pos) []Ref {
	pos = x.ids.of(pos)
	from, _ := slices.BinarySearchFunc(x.refs, pos, func(r Ref, p token.Pos) int { return int(r.Object) - int(p) })
	to := from
	for to < len(x.refs) && x.refs[to].Object == pos {
		to++
	}
	return x.refs[from:to]
}

// newIndex keeps of the type information what the search tools need.
func newIndex(files []*ast.File, info *types.Info, ids *identities) *Index {
	x := &Index{ids: ids}
	for _, f := range files {
		for _, d := range f.Decls {
			x.decl(d, info)
		}
	}
	slices.SortFunc(x.refs, func(a, b Ref) int {
		if a.Object != b.Object {
			return int(a.Object) - int(b.Object)
		}
		return int(a.Pos) - int(b.Pos)
	})
	return x
}

func (x *Index) decl(d ast.Decl, info *types.Info) {
	if g, ok := d.(*ast.GenDecl); ok {
		for _, spec := range g.Specs {
			x.walk(spec, specName(spec), info)
		}
		return
	}
	if fd, ok := d.(*ast.FuncDecl); ok {
		x.walk(fd, funcName(fd), info)
	}
}

func (x *Index) walk(n ast.Node, around string, info *types.Info) {
	called := map[*ast.Ident]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id := calledIdent(n.Fun); id != nil {
				called[id] = true
			}
		case *ast.Ident:
			if obj := info.Uses[n]; obj != nil && lasting(obj) {
				x.refs = append(x.refs, Ref{Object: x.ids.of(obj.Pos()), Pos: n.Pos(), Func: around, Call: called[n]})
			}
		}
		return true
	})
}

// calledIdent is the identifier that names what a call calls.
func calledIdent(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.SelectorExpr:
		return e.Sel
	case *ast.ParenExpr:
		return calledIdent(e.X)
	case *ast.IndexExpr:
		return calledIdent(e.X)
	case *ast.IndexListExpr:
		return calledIdent(e.X)
	}
	return nil
}

// lasting reports whether an object can be named from outside of a function.
func lasting(obj types.Object) bool {
	switch o := obj.(type) {
	case *types.Var:
		if o.IsField() {
			return o.Pos().IsValid()
		}
	case *types.Func:
		if sig, ok := o.Type().(*types.Signature); ok && sig.Recv() != nil {
			return o.Pos().IsValid()
		}
	case *types.PkgName, *types.Label, *types.Nil, *types.Builtin:
		return false
	}
	return obj.Pos().IsValid() && obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope()
}

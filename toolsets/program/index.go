package program

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

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

// Of returns the uses of the object whose identity is pos (see Snapshot.Identity).
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
	x.sort()
	return x
}

func (x *Index) sort() {
	slices.SortFunc(x.refs, func(a, b Ref) int {
		if a.Object != b.Object {
			return int(a.Object) - int(b.Object)
		}
		return int(a.Pos) - int(b.Pos)
	})
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
				x.refs = append(x.refs, Ref{Object: x.ids.object(obj), Pos: n.Pos(), Func: around, Call: called[n]})
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
		if o.Signature().Recv() != nil {
			return o.Pos().IsValid() || o.Pkg() == nil
		}
	case *types.PkgName, *types.Label, *types.Nil, *types.Builtin:
		return false
	}
	return obj.Pos().IsValid() && obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope()
}

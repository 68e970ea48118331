package program

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"sync"
)

// identities tell that a declaration is still the same one after the file that
// holds it was parsed again. An object is known by where it was declared first;
// what depends on a package whose function bodies alone changed need then not be
// checked again, because nothing that it can see has changed.
type identities struct {
	universe *token.File // one position, for the predeclared error's method

	mu    sync.Mutex              // guards what follows
	first map[token.Pos]token.Pos // of every later position of a declaration
	now   map[token.Pos]token.Pos // of first positions that are not where the declaration is now
}

// universeFile names the part of the file set that the universe scope has.
const universeFile = "universe"

// object returns the position by which an object is known. The method of the
// predeclared error is the only one that is declared nowhere and can be named.
func (x *identities) object(obj types.Object) token.Pos {
	if f, ok := obj.(*types.Func); ok && f.Pkg() == nil {
		return x.universe.Pos(0)
	}
	return x.of(obj.Pos())
}

// of returns the position by which the object declared at pos is known.
func (x *identities) of(pos token.Pos) token.Pos {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f, ok := x.first[pos]; ok {
		return f
	}
	return pos
}

// place returns where the object known by pos is declared now.
func (x *identities) place(pos token.Pos) token.Pos {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := pos
	if f, ok := x.first[pos]; ok {
		first = f
	}
	if n, ok := x.now[first]; ok {
		return n
	}
	return pos
}

// carry notes that the declarations of a file are those of an older version.
func (x *identities) carry(before, after []*ast.Ident) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.first == nil {
		x.first, x.now = map[token.Pos]token.Pos{}, map[token.Pos]token.Pos{}
	}
	for i, id := range before {
		first, ok := x.first[id.Pos()]
		if !ok {
			first = id.Pos()
		}
		x.first[after[i].Pos()] = first
		x.now[first] = after[i].Pos()
	}
}

// skeleton is what other declarations can see of a file: everything but the
// bodies of its functions, with the identifiers in it.
func skeleton(f *File, fset *token.FileSet) (texts [][]byte, idents []*ast.Ident) {
	tf := fset.File(f.AST().Package)
	take := func(from, to token.Pos, nodes ...ast.Node) {
		texts = append(texts, f.Src[tf.Offset(from):tf.Offset(to)])
		for _, n := range nodes {
			ast.Inspect(n, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					idents = append(idents, id)
				}
				return true
			})
		}
	}
	for _, d := range f.AST().Decls {
		fd, ok := d.(*ast.FuncDecl)
		if !ok {
			take(d.Pos(), d.End(), d)
			continue
		}
		nodes := []ast.Node{fd.Name, fd.Type}
		if fd.Recv != nil {
			nodes = append(nodes, fd.Recv)
		}
		take(fd.Pos(), fd.Type.End(), nodes...)
	}
	return texts, idents
}

// bodiesOnly reports whether two versions of a file differ inside of function
// bodies alone (or between declarations). Then the newer one's declarations take
// over the identity of the older one's.
func (g *ground) bodiesOnly(before, after *File) bool {
	if before.Err() != nil || after.Err() != nil {
		return false
	}
	a, oldIdents := skeleton(before, g.Fset)
	b, newIdents := skeleton(after, g.Fset)
	if len(a) != len(b) || len(oldIdents) != len(newIdents) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	g.ids.carry(oldIdents, newIdents)
	return true
}

// face is what the importers of a package see. Versions of a package that have
// it in common look the same to them.
type face struct{ _ byte }

// sameFace reports whether importers may take one package for the other.
func sameFace(a, b *Package) bool { return a == b || a != nil && b != nil && a.face == b.face }

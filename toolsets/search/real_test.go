package search

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"gatehouse/toolsets/program"
	"gatehouse/toolsets/toolsettest"
)

// TestReferencesOfRealCode compares the references of every package-level name
// with those that the ordinary loader finds, package by package.
func TestReferencesOfRealCode(t *testing.T) {
	for name, snap := range toolsettest.Real(t, "github.com/go-chi/chi/v5", "golang.org/x/tools") {
		want := oracle(t, snap.Root)
		checked, refs := 0, 0
		for _, q := range snap.Plains() {
			for _, obj := range objects(q) {
				found := map[token.Pos]place{}
				collect(snap, obj.Pos(), false, "", found)
				var got []string
				for pos := range found {
					got = append(got, snap.Position(pos))
				}
				slices.Sort(got)
				decl := snap.Position(obj.Pos())
				if !slices.Equal(got, want[decl]) {
					t.Errorf("%s: %s at %s: %d references, the loader finds %d: %v", name, obj.Name(), decl, len(got), len(want[decl]), differ(got, want[decl]))
				}
				checked++
				refs += len(got)
			}
		}
		t.Logf("%s: %d names, %d references", name, checked, refs)
	}
}

// objects are the package-level names of a package and the methods of its types.
func objects(q *program.Package) []types.Object {
	var out []types.Object
	scope := q.Types().Scope()
	for _, n := range scope.Names() {
		obj := scope.Lookup(n)
		out = append(out, obj)
		if tn, ok := obj.(*types.TypeName); ok && !tn.IsAlias() {
			if named, ok := tn.Type().(*types.Named); ok {
				for m := range named.Methods() {
					out = append(out, m)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(o types.Object) bool { return !o.Pos().IsValid() })
}

// oracle maps the position of each declaration to the positions of its uses, as
// go/packages loads and checks everything by itself.
func oracle(t *testing.T, dir string) map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir, Env: toolsettest.RealEnv(t), Tests: true, Fset: fset}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	rel := func(pos token.Pos) string {
		p := fset.Position(pos)
		return fmt.Sprintf("%s:%d:%d", strings.TrimPrefix(p.Filename, dir+"/"), p.Line, p.Column)
	}
	out := map[string][]string{}
	for _, p := range pkgs {
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					use := rel(id.Pos())
					if obj := p.TypesInfo.Uses[id]; obj != nil && obj.Pos().IsValid() && !strings.HasPrefix(use, "/") { // no generated test mains
						decl := rel(obj.Pos())
						out[decl] = append(out[decl], use)
					}
				}
				return true
			})
		}
	}
	for k, v := range out {
		slices.Sort(v)
		out[k] = slices.Compact(v)
	}
	return out
}

func differ(a, b []string) (out []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, "+"+x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			out = append(out, "-"+x)
		}
	}
	return out[:min(len(out), 5)]
}

package browsing

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/toolsettest"
)

type imports map[string]*program.Package

func (m imports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := m[path]; p != nil && p.Types() != nil {
		return p.Types(), nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// most bounds the types with methods that are tried of a package;
// GATEHOUSE_REAL_MODULES set lifts it.
var most = func() int {
	if os.Getenv("GATEHOUSE_REAL_MODULES") != "" {
		return 1 << 30
	}
	return 1
}()

// TestExportsOfRealCodeCompile exports every type of whole modules and checks
// its package with the exported file in place of the originals.
func TestExportsOfRealCodeCompile(t *testing.T) {
	for name, snap := range toolsettest.Real(t, "github.com/go-chi/chi/v5") {
		n := 0
		for _, q := range snap.Plains() {
			full := 0
			for _, d := range q.Decls() {
				if _, spec := d.TypeSpec(); spec == nil {
					continue
				}
				src, _, parts, err := exportType(d)
				if err != nil {
					t.Errorf("%s: %v", d.Qualified(), err)
					continue
				}
				// Function bodies matter only where there are methods, and cost a check
				// of the whole package.
				if bodies := len(parts) > 1; bodies {
					if full++; full > most {
						continue
					}
				}
				n++
				if errs := compile(snap, q, d, src, len(parts) > 1); len(errs) > 0 {
					t.Errorf("%s: %s\n%s", d.Qualified(), strings.Join(errs, "; "), src)
				}
			}
		}
		t.Logf("%s: %d types", name, n)
		if n == 0 {
			t.Errorf("%s: no types", name)
		}
	}
}

// compile checks the package without the type and its methods, and with the
// exported file. Imports that the originals do not need any more are no errors.
func compile(snap *program.Snapshot, q *program.Package, d *program.Decl, src string, bodies bool) []string {
	exported, err := parser.ParseFile(snap.Fset, "exported.go", src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	files := []*ast.File{exported}
	for _, f := range q.Files {
		c := *f.AST()
		c.Decls = nil
		for _, x := range f.AST().Decls {
			if receiverOf(x, decl.Receiver) == d.Name {
				continue
			}
			if g, ok := x.(*ast.GenDecl); ok && f == d.File {
				h := *g
				h.Specs = nil
				for _, s := range g.Specs {
					if ts, ok := s.(*ast.TypeSpec); !ok || ts.Name.Name != d.Name {
						h.Specs = append(h.Specs, s)
					}
				}
				if x = &h; h.Specs == nil {
					continue
				}
			}
			c.Decls = append(c.Decls, x)
		}
		files = append(files, &c)
	}
	var errs []string
	cfg := types.Config{Importer: imports(q.Imports), FakeImportC: true, Sizes: types.SizesFor("gc", runtime.GOARCH), IgnoreFuncBodies: !bodies,
		Error: func(err error) {
			te, ok := err.(types.Error)
			own := ok && snap.Fset.Position(te.Pos).Filename == "exported.go"
			if ok && !own && slices.ContainsFunc(q.Errors(), func(e string) bool { return strings.HasSuffix(e, te.Msg) }) {
				return // it does not compile with the originals either
			}
			if ok && !own && strings.Contains(te.Msg, "imported and not used") || ok && !own && strings.Contains(te.Msg, "imported as") {
				return
			}
			errs = append(errs, err.Error())
		}}
	_, _ = cfg.Check(q.Path, snap.Fset, files, nil)
	return errs
}

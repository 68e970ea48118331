package program

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/imports"

	"gatehouse/toolsets/decl"
)

// Qualifiers are the names X of all X.Y in a file that are declared nowhere in
// it: packages, or names of other files of the package. The parser's own
// resolution tells local variables from packages. Nil source has none.
func Qualifiers(src []byte) map[string]bool {
	out := map[string]bool{}
	if src == nil {
		return out
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	if err != nil {
		return out
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil {
				out[id.Name] = true
			}
		}
		return true
	})
	return out
}

// LocalName is the name by which a file of the package refers to an import; sure
// is false when the imported package's own name is not known.
func (q *Package) LocalName(im decl.Imported) (name string, sure bool) {
	if im.Name != "" {
		return im.Name, im.Name != "_" && im.Name != "."
	}
	if p := q.Imports[im.Path]; p != nil {
		return p.Name, true
	}
	return im.LocalName(), false
}

func (q *Package) declares(name string) bool {
	t := q.Types()
	return t != nil && t.Scope().Lookup(name) != nil || q.Lookup(name) != nil
}

// MissingImports finds the imports that a file of package q lacks: of the
// packages that are loaded, else by x/tools/imports. What is not found stays
// missing. filename is where the file is or would be; env the environment of the
// go command.
func (s *Snapshot) MissingImports(ctx context.Context, q *Package, env []string, filename string, src []byte) ([]decl.Imported, error) {
	now, err := decl.Split(src)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, im := range now.Imports {
		local, _ := q.LocalName(im)
		known[local] = true
	}
	var add []decl.Imported
	missing := false
	for name := range Qualifiers(src) {
		if known[name] || q.declares(name) {
			continue
		}
		im, ok, err := s.provider(ctx, q, name, members(src, name))
		if err != nil {
			return nil, err
		}
		if ok {
			add = append(add, im)
		}
		missing = missing || !ok
	}
	if missing {
		add = append(add, guess(env, filename, src, now, add)...)
	}
	slices.SortFunc(add, func(a, b decl.Imported) int { return strings.Compare(a.Path, b.Path) })
	return add, nil
}

// members are the names Y of all X.Y for one X.
func members(src []byte, x string) []string {
	var out []string
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == x {
				out = append(out, sel.Sel.Name)
			}
		}
		return true
	})
	return out
}

// provider finds the one package of the program that can be meant by a name:
// one of the workspace first, then one of those that are loaded anyhow.
func (s *Snapshot) provider(ctx context.Context, q *Package, name string, uses []string) (decl.Imported, bool, error) {
	var best []*Package
	rank := -1
	for _, p := range s.order {
		if p.Name != name || p.ForTest != "" || p.Path == q.Path || p.IsTest() || !visible(q.Path, p.Path) || dependsOn(p, q.Path) {
			continue
		}
		if err := s.Check(ctx, nil, p); err != nil {
			return decl.Imported{}, false, err
		}
		scope := p.Types().Scope()
		if slices.ContainsFunc(uses, func(u string) bool { return !token.IsExported(u) || scope.Lookup(u) == nil }) {
			continue
		}
		r := 0
		if p.Workspace {
			r = 1
		}
		if r > rank {
			best, rank = nil, r
		}
		if r == rank {
			best = append(best, p)
		}
	}
	if len(best) != 1 {
		return decl.Imported{}, false, nil
	}
	im := decl.Imported{Path: best[0].Path}
	if im.LocalName() != name {
		im.Name = name
	}
	return im, true, nil
}

// visible reports whether a package may import path, which may be internal.
func visible(from, path string) bool {
	if strings.HasPrefix(path, "vendor/") {
		return false
	}
	i := strings.LastIndex("/"+path+"/", "/internal/")
	if i < 0 {
		return true
	}
	parent := strings.TrimSuffix(path[:max(0, i-1)], "/")
	return parent != "" && (from == parent || strings.HasPrefix(from, parent+"/"))
}

// dependsOn reports whether p imports path, directly or not.
func dependsOn(p *Package, path string) bool {
	seen := map[*Package]bool{}
	var visit func(p *Package) bool
	visit = func(p *Package) bool {
		if seen[p] || !p.Workspace {
			return false
		}
		seen[p] = true
		for _, im := range p.Imports {
			if im.Path == path || visit(im) {
				return true
			}
		}
		return false
	}
	return visit(p)
}

// guess asks x/tools/imports which imports are missing. What it can't find is
// left to the type errors that the result lists.
func guess(env []string, filename string, src []byte, now *decl.File, have []decl.Imported) []decl.Imported {
	applyEnv(env)
	if with, err := decl.SetImports(src, have, nil); err == nil {
		src = with
	}
	out, err := imports.Process(filename, src, &imports.Options{Comments: true, TabIndent: true, TabWidth: 8})
	if err != nil {
		return nil
	}
	f, err := decl.Split(out)
	if err != nil {
		return nil
	}
	var add []decl.Imported
	for _, im := range f.Imports {
		if !slices.ContainsFunc(now.Imports, func(x decl.Imported) bool { return x.Path == im.Path }) &&
			!slices.ContainsFunc(have, func(x decl.Imported) bool { return x.Path == im.Path }) {
			if im.Name == (decl.Imported{Path: im.Path}).LocalName() {
				im.Name = ""
			}
			add = append(add, im)
		}
	}
	return add
}

// applyEnv sets the go command's environment for x/tools/imports, which takes
// its own from the process.
func applyEnv(env []string) {
	for _, kv := range env {
		name, v, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GO") && os.Getenv(name) != v {
			_ = os.Setenv(name, v)
		}
	}
}

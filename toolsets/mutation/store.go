package mutation

import (
	"bytes"
	"context"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/imports"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
)

// store brings the imports of an edited file in order, writes it and finishes
// the edit. old is nil for a new file.
func (s *session) store(ctx context.Context, e *Edit, q *program.Package, rel string, old, src []byte, known ...string) (*toolsets.Result, error) {
	src, err := s.arrange(e, q, rel, old, src)
	if err != nil {
		return nil, err
	}
	if err := s.write(ctx, q, rel, src, known...); err != nil {
		return nil, err
	}
	return s.finish(ctx, e), nil
}

// arrange adds the imports that the edit needs, removes those that it made
// superfluous, and leaves a file formatted that was.
func (s *session) arrange(e *Edit, q *program.Package, rel string, old, src []byte) ([]byte, error) {
	add, remove, err := s.importChanges(q, rel, old, src)
	if err != nil {
		return nil, err
	}
	if src, err = decl.SetImports(src, add, remove); err != nil {
		return nil, toolsets.Failf(toolsets.CompileError, "%s would not parse after the edit, so nothing was changed: %v", rel, err)
	}
	for _, im := range add {
		e.Added = append(e.Added, strconv.Quote(im.Path))
	}
	for _, im := range remove {
		e.Removed = append(e.Removed, strconv.Quote(im.Path))
	}
	if old != nil {
		if f, err := format.Source(old); err != nil || !bytes.Equal(f, old) {
			return src, nil // it was not formatted before: its bytes are left alone
		}
	}
	if f, err := format.Source(src); err == nil {
		src = f
	}
	return src, nil
}

// importChanges finds what an edit does to a file's imports. Imports that were
// unused before the edit are not its business.
func (s *session) importChanges(q *program.Package, rel string, old, src []byte) (add, remove []decl.Imported, err error) {
	now, err := decl.Split(src)
	if err != nil {
		return nil, nil, toolsets.Failf(toolsets.CompileError, "%s would not parse after the edit, so nothing was changed: %v", rel, err)
	}
	used, known := s.qualifiers(src), map[string]bool{}
	var before map[string]bool
	if old != nil {
		before = s.qualifiers(old)
	}
	for _, im := range now.Imports {
		local, sure := s.localName(q, im)
		known[local] = true
		if sure && !used[local] && before[local] && im.Path != "C" {
			remove = append(remove, im)
		}
	}
	missing := false
	for name := range used {
		if known[name] || s.declares(q, name) {
			continue
		}
		if im, ok := s.provider(q, name, members(src, name)); ok {
			add = append(add, im)
			continue
		}
		missing = true
	}
	if missing {
		add = append(add, s.guess(rel, src, now, add)...)
	}
	slices.SortFunc(add, func(a, b decl.Imported) int { return strings.Compare(a.Path, b.Path) })
	return add, remove, nil
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
func (s *session) provider(q *program.Package, name string, uses []string) (decl.Imported, bool) {
	var best []*program.Package
	rank := -1
	for _, p := range s.snap.All() {
		if p.Name != name || p.ForTest != "" || p.Path == q.Path || p.Types() == nil || !visible(q.Path, p.Path) || dependsOn(p, q.Path) {
			continue
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
		return decl.Imported{}, false
	}
	im := decl.Imported{Path: best[0].Path}
	if im.LocalName() != name {
		im.Name = name
	}
	return im, true
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
func dependsOn(p *program.Package, path string) bool {
	seen := map[*program.Package]bool{}
	var visit func(p *program.Package) bool
	visit = func(p *program.Package) bool {
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

// qualifiers are the names X of all X.Y in a file that are declared nowhere in
// it: packages, or names of other files of the package.
func (s *session) qualifiers(src []byte) map[string]bool {
	out := map[string]bool{}
	// The parser's own resolution tells local variables from packages.
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

// localName is the name by which the file refers to an import; sure is false
// when the package's own name is not known.
func (s *session) localName(q *program.Package, im decl.Imported) (name string, sure bool) {
	if im.Name != "" {
		return im.Name, im.Name != "_" && im.Name != "."
	}
	if p := q.Imports[im.Path]; p != nil {
		return p.Name, true
	}
	return im.LocalName(), false
}

func (s *session) declares(q *program.Package, name string) bool {
	t := q.Types()
	return t != nil && t.Scope().Lookup(name) != nil || q.Lookup(name) != nil
}

// guess asks x/tools/imports which imports are missing. What it can't find is
// left to the type errors that the result lists.
func (s *session) guess(rel string, src []byte, now *decl.File, have []decl.Imported) []decl.Imported {
	s.applyEnv()
	if with, err := decl.SetImports(src, have, nil); err == nil {
		src = with
	}
	out, err := imports.Process(filepath.Join(s.View.Dir, filepath.FromSlash(rel)), src, &imports.Options{Comments: true, TabIndent: true, TabWidth: 8})
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
func (s *session) applyEnv() {
	for _, kv := range s.GoEnv {
		name, v, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GO") && os.Getenv(name) != v {
			_ = os.Setenv(name, v)
		}
	}
}

package realcode

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gatehouse/toolsets/search"
)

// compareSearch: references, callers and implementors are those of gopls, lines
// those of grep.
func (w *world) compareSearch() {
	greps := 0
	for _, d := range w.decls {
		if !d.picked || d.tag == "func" && d.local == "init" {
			continue
		}
		switch {
		case d.tag == "method" || d.iface && d.tag == "member":
			w.compareMethod(d)
		default:
			w.same("find_references_to", d.full(), w.references(d.full()), w.g.References(d.Pos))
			if d.tag == "func" {
				w.same("find_callers", d.full(), w.callers(d.full(), true), w.calls(w.g.Incoming(d.Pos)))
			}
		}
		if d.iface {
			w.same("find_implementors", d.full(), w.implementors(d.full()), w.ownTypes(w.g.Implementations(d.Pos)))
		}
		if d.tag != "member" && greps < 40 {
			greps++
			w.compareGrep(d.local[strings.LastIndexByte(d.local, '.')+1:])
		}
	}
	w.compareNamed()
}

// compareMethod: gopls counts as uses of a method those of all methods that
// correspond to it; ours are asked for one by one. Uses by way of a dependency's
// method it looks for in some packages only: they may be missing there. So it is
// with uses by way of the predeclared error, which ours has among the callers.
func (w *world) compareMethod(d *declared) {
	refs, may := slices.Clone(w.references(d.full())), []string{}
	direct := slices.Clone(w.callers(d.full(), false))
	for _, name := range w.corresponding(d) {
		if !w.own(name) {
			may = append(may, w.references(name)...)
			continue
		}
		refs = append(refs, w.references(name)...)
		direct = append(direct, w.callers(name, false)...)
	}
	theirs := w.g.References(d.Pos)
	if strings.HasSuffix(d.local, ".Error") {
		may = append(may, w.minus(theirs, refs)...)
		may = append(may, w.minus(w.callers(d.full(), true), direct)...)
	}
	got, want := w.without(refs, may, theirs)
	w.same("find_references_to", d.full(), got, want)
	if !d.iface {
		direct = w.callers(d.full(), true)
	}
	got, want = w.without(direct, may, w.calls(w.g.Incoming(d.Pos)))
	w.same("find_callers", d.full(), got, want)
}

// corresponding are the methods that implement a method or that it implements.
func (w *world) corresponding(d *declared) (names []string) {
	for _, pos := range w.g.Implementations(d.Pos) {
		// Else it is of a type inside of a function, or that of the predeclared error.
		if name := w.nameAt(pos); name != "" && !strings.HasPrefix(name, "builtin.") {
			names = append(names, name)
		}
	}
	if !d.iface {
		return names
	}
	for _, pos := range w.g.Supertypes(w.ownerOf(d).Pos) {
		if name := w.nameAt(pos); name != "" && !strings.HasPrefix(name, "builtin.") {
			name += "." + d.Name
			if refs, ok := w.tryReferences(name); ok {
				w.refs[name] = refs
				names = append(names, name)
			}
		}
	}
	return names
}

// own reports whether a name is one of the module.
func (w *world) own(name string) bool {
	return slices.ContainsFunc(w.pkgs, func(p *goPackage) bool {
		return strings.HasPrefix(name, p.ImportPath+".") || strings.HasPrefix(name, p.ImportPath+"_test.")
	})
}

// minus is what a has and b has not.
func (w *world) minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(p string) bool { return slices.Contains(b, p) })
}

// without takes out of two sets what may be missing in one.
func (w *world) without(got, may, want []string) (a, b []string) {
	cut := func(all []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(may, p) })
	}
	return cut(got), cut(want)
}

// ownerOf is the type that a member belongs to.
func (w *world) ownerOf(d *declared) *declared {
	owner, _, _ := strings.Cut(d.local, ".")
	for _, o := range w.decls {
		if o.pkg == d.pkg && o.local == owner && o.tag == "type" {
			return o
		}
	}
	w.Fatalf("%s has no type", d.full())
	return nil
}

func positions(hits []search.Hit) []string {
	out := []string{}
	for _, h := range hits {
		out = append(out, h.Position)
	}
	return out
}

func (w *world) references(name string) []string {
	if _, ok := w.refs[name]; !ok {
		w.refs[name] = positions(items[search.Hit](w, "find_references_to", map[string]any{"name": name}))
	}
	return w.refs[name]
}

// tryReferences is for names that need not exist.
func (w *world) tryReferences(name string) ([]string, bool) {
	hits, fail := tryItems[search.Hit](w, "find_references_to", map[string]any{"name": name})
	return positions(hits), fail == ""
}

// callers are the places of calls, with through those by way of interfaces, too.
func (w *world) callers(name string, through bool) []string {
	hits := items[search.Hit](w, "find_callers", map[string]any{"name": name})
	if !through {
		hits = slices.DeleteFunc(hits, func(h search.Hit) bool { return h.Through != "" })
	}
	return positions(hits)
}

func (w *world) implementors(name string) []string {
	out := []string{}
	for _, i := range items[search.Implementor](w, "find_implementors", map[string]any{"name": name}) {
		out = append(out, i.Position)
	}
	return out
}

// ownTypes leaves of positions those of declarations of the module that have a
// name: types inside of functions have none, and dependencies are not asked for.
func (w *world) ownTypes(pos []string) []string {
	return slices.DeleteFunc(pos, func(p string) bool { return w.at[p] == nil })
}

// calls leaves of the uses of a function those where it is called.
func (w *world) calls(pos []string) []string {
	return slices.DeleteFunc(pos, func(p string) bool {
		file, at, _ := strings.Cut(p, ":")
		return !w.callsIn(file)[at]
	})
}

// callsIn finds what is called in a file, by its syntax alone.
func (w *world) callsIn(file string) map[string]bool {
	if c, ok := w.called[file]; ok {
		return c
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(w.dir, file), nil, parser.SkipObjectResolution)
	if err != nil {
		w.Errorf("parse %s: %v", file, err)
	}
	out := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			fun := ast.Unparen(call.Fun)
			switch x := fun.(type) {
			case *ast.IndexExpr:
				fun = x.X
			case *ast.IndexListExpr:
				fun = x.X
			}
			if sel, ok := fun.(*ast.SelectorExpr); ok {
				fun = sel.Sel
			}
			p := fset.PositionFor(fun.Pos(), false)
			out[strconv.Itoa(p.Line)+":"+strconv.Itoa(p.Column)] = true
		}
		return true
	})
	w.called[file] = out
	return out
}

// nameAt is the qualified name of the type or method that is declared at a
// position, of a dependency, too; empty for one inside of a function.
func (w *world) nameAt(pos string) string {
	if d := w.at[pos]; d != nil {
		return d.full()
	}
	f := strings.Split(pos, ":")
	if !filepath.IsAbs(f[0]) {
		return ""
	}
	return w.outside(f[0], f[1]+":"+f[2])
}

// outside finds a top-level type, a method or a method of an interface in a file
// of a dependency.
func (w *world) outside(file, at string) string {
	names, ok := w.outer[file]
	if !ok {
		names = map[string]string{}
		w.outer[file] = names
		pkg := w.folders[filepath.Dir(file)]
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil || pkg == "" {
			return ""
		}
		note := func(id *ast.Ident, local string) {
			p := fset.PositionFor(id.Pos(), false)
			names[strconv.Itoa(p.Line)+":"+strconv.Itoa(p.Column)] = pkg + "." + local
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && len(d.Recv.List) == 1 {
					note(d.Name, receiver(d.Recv.List[0].Type)+"."+d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					note(ts.Name, ts.Name.Name)
					if it, ok := ts.Type.(*ast.InterfaceType); ok {
						for _, m := range it.Methods.List {
							for _, id := range m.Names {
								note(id, ts.Name.Name+"."+id.Name)
							}
						}
					}
				}
			}
		}
	}
	return names[at]
}

func receiver(e ast.Expr) string {
	switch x := ast.Unparen(e).(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// compareNamed: all methods of a name.
func (w *world) compareNamed() {
	want := map[string][]string{}
	asked := map[string]bool{}
	for _, d := range w.decls {
		if d.tag == "method" || d.iface && d.tag == "member" {
			name := d.local[strings.LastIndexByte(d.local, '.')+1:]
			want[name] = append(want[name], d.Pos)
			asked[name] = asked[name] || d.picked
		}
	}
	for name, pos := range want {
		if asked[name] {
			w.same("find_implementors", name, w.implementors(name), pos)
		}
	}
}

var grepLine = regexp.MustCompile(`^\./([^\x00]*)\x00(\d+):`)

// compareGrep: lines with a text, and with a word.
func (w *world) compareGrep(word string) {
	for _, c := range []struct{ option, grep, pattern string }{
		{"-F", word, word}, {"-w", word, `/\b` + word + `\b/`},
	} {
		want := []string{}
		for line := range strings.Lines(string(w.command("sh", "-c", `LC_ALL=C grep -rnaZ --include='*.go' "$0" -e "$1" . || true`, c.option, c.grep))) {
			if m := grepLine.FindStringSubmatch(line); m != nil {
				want = append(want, m[1]+":"+m[2])
			}
		}
		got := []string{}
		for _, h := range items[search.Hit](w, "search_source", map[string]any{"pattern": c.pattern}) {
			got = append(got, h.Position[:strings.LastIndexByte(h.Position, ':')])
		}
		w.same("search_source", c.pattern, got, want)
	}
}

package program

import (
	"context"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
)

func specName(spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name
	case *ast.ValueSpec:
		return spec.Names[0].Name
	}
	return ""
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv != nil && len(d.Recv.List) > 0 {
		return decl.Receiver(d.Recv.List[0].Type) + "." + d.Name.Name
	}
	return d.Name.Name
}

// Package finds one package of the working copy by import path, by its folder,
// or by its last element or name where that is unambiguous.
func (s *Snapshot) Package(name string) (*Package, error) {
	all := s.Packages()
	var found []*Package
	for _, q := range all {
		if q.Path == name {
			return q, nil
		}
		if path.Base(q.Path) == name || q.Name == name && !q.IsTest() || q.Dir == strings.TrimPrefix(name, "./") && !q.IsTest() {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		for _, q := range all {
			if q.IsTest() && (q.Folder() == name || path.Base(q.Folder()) == name || q.Dir == strings.TrimPrefix(name, "./")) {
				found = append(found, q)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		return nil, toolsets.Failf(toolsets.NotFound, "there is no package %q in the workspace; list_packages shows those there are%s", name, near(name, paths(all)))
	}
	return nil, ambiguous("package", name, paths(found))
}

func paths(all []*Package) []string {
	var out []string
	for _, q := range all {
		out = append(out, q.Path)
	}
	return out
}

func ambiguous(what, name string, candidates []string) *toolsets.Failure {
	return &toolsets.Failure{Kind: toolsets.NotFound, Data: candidates,
		Text: what + " " + name + " is ambiguous; it may be " + strings.Join(candidates, ", ") + "; give the full import path"}
}

// near suggests names that look alike.
func near(name string, all []string) string {
	var out []string
	low := strings.ToLower(path.Base(name))
	for _, a := range all {
		if b := strings.ToLower(path.Base(a)); low != "" && (strings.Contains(b, low) || strings.Contains(low, b)) && len(out) < 5 {
			out = append(out, a)
		}
	}
	if out == nil {
		return ""
	}
	return "; similar: " + strings.Join(out, ", ")
}

// pointers takes the parentheses out of pkg.(*T).M, which is how Go's own tools
// write a method with a pointer receiver.
var pointers = strings.NewReplacer("(*", "", "(", "", ")", "")

// split finds the ways in which a qualified name can be read: a package of pkgs
// and what is named in it.
func split(pkgs []*Package, name string) (out []Qualified) {
	name = pointers.Replace(name)
	for _, q := range pkgs {
		for _, prefix := range []string{q.Path, path.Base(q.Path), q.Name} {
			rest, ok := strings.CutPrefix(name, prefix+".")
			if !ok || rest == "" {
				continue
			}
			first, member, _ := strings.Cut(rest, ".")
			if !token.IsIdentifier(first) || member != "" && !token.IsIdentifier(member) || strings.HasSuffix(rest, ".") {
				continue
			}
			out = append(out, Qualified{q, first, member, prefix == q.Path})
			break
		}
	}
	return out
}

// Qualified is a name with its package: "pkg.First" or "pkg.First.Member".
type Qualified struct {
	Pkg           *Package
	First, Member string
	exact         bool // the package was given by its import path
}

// Local is the name within the package.
func (n Qualified) Local() string {
	if n.Member == "" {
		return n.First
	}
	return n.First + "." + n.Member
}

func (n Qualified) String() string { return n.Pkg.Path + "." + n.Local() }

// Decl is a top-level declaration of the working copy.
type Decl struct {
	Pkg  *Package
	File *File
	Name string // "F", "T", "T.M"
	Unit decl.Unit
	// Split is the file cut up; Unit is one of its units.
	Split *decl.File
}

// Qualified is the declaration's full name.
func (d *Decl) Qualified() string { return d.Pkg.Path + "." + d.Name }

// Text is the declaration's source with its doc comment. Of a group it is the
// whole group.
func (d *Decl) Text() []byte { return d.Split.Text(d.Unit) }

// Lookup finds a declaration inside a package by its local name, nil if there is
// none. It needs no type-checking.
func (q *Package) Lookup(local string) *Decl {
	for _, f := range q.Files {
		sp, err := f.Decls()
		if err != nil {
			continue
		}
		if u, ok := sp.Find(local); ok {
			return &Decl{Pkg: q, File: f, Name: local, Unit: u, Split: sp}
		}
	}
	return nil
}

// ident is the identifier that declares the name.
func (d *Decl) ident() (id *ast.Ident) {
	take := func(name *ast.Ident, local string) {
		if local == d.Name {
			id = name
		}
	}
	for _, x := range d.File.AST().Decls {
		switch x := x.(type) {
		case *ast.FuncDecl:
			take(x.Name, funcName(x))
		case *ast.GenDecl:
			for _, spec := range x.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					take(spec.Name, spec.Name.Name)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						take(n, n.Name)
					}
				}
			}
		}
	}
	return id
}

// Decls lists the package's declarations that have a name of their own, file by
// file.
func (q *Package) Decls() []*Decl {
	var out []*Decl
	for _, f := range q.Files {
		sp, err := f.Decls()
		if err != nil {
			continue
		}
		for _, u := range sp.Units {
			for _, n := range u.Names {
				if !strings.Contains(n, "#") && !strings.HasPrefix(n, "_ ") {
					out = append(out, &Decl{Pkg: q, File: f, Name: n, Unit: u, Split: sp})
				}
			}
		}
	}
	return out
}

// Find finds a declaration of the working copy by its qualified name, from the
// syntax alone.
func (s *Snapshot) Find(name string) (*Decl, error) {
	ways := split(s.Packages(), name)
	var found []*Decl
	for _, w := range ways {
		if d := w.Pkg.Lookup(w.Local()); d != nil {
			if w.exact {
				return d, nil
			}
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var c []string
		for _, d := range found {
			c = append(c, d.Qualified())
		}
		return nil, ambiguous("the name", name, c)
	}
	return nil, s.noSuch(name, ways)
}

// noSuch words why a name was not found, with candidates.
func (s *Snapshot) noSuch(name string, ways []Qualified) *toolsets.Failure {
	var c []string
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, q := range s.Packages() {
		for _, d := range q.Decls() {
			if l := d.Name[strings.LastIndexByte(d.Name, '.')+1:]; strings.EqualFold(l, last) && len(c) < 20 {
				c = append(c, d.Qualified())
			}
		}
	}
	text := "there is no declaration " + name
	switch {
	case !strings.Contains(name, "."):
		text = name + " names no package; give it as pkg.Name or pkg.Type.Method"
	case len(ways) == 0:
		text = "no package of the workspace fits the name " + name
	}
	if c != nil {
		text += "; there is " + strings.Join(c, ", ")
	} else {
		text += "; list_package_entries shows what a package declares"
	}
	return &toolsets.Failure{Kind: toolsets.NotFound, Text: text, Data: c}
}

// Object finds a type-checked object by its qualified name: of the working copy
// or, when it has none of that name, of a dependency. It checks what it needs.
func (s *Snapshot) Object(ctx context.Context, name string, progress func(done, total int, message string)) (types.Object, *Package, error) {
	ways := split(s.Packages(), name)
	obj, q, err := s.objectAmong(ctx, ways, name, progress)
	if obj != nil || err != nil {
		return obj, q, err
	}
	var deps []*Package
	for _, q := range s.order {
		if !q.Workspace && q.ForTest == "" {
			deps = append(deps, q)
		}
	}
	obj, q, err = s.objectAmong(ctx, split(deps, name), name, progress)
	if obj != nil || err != nil {
		return obj, q, err
	}
	return nil, nil, s.noSuch(name, ways)
}

// Declared finds where a top-level name or a method of the working copy is
// declared, from the syntax alone: its identity to Index.Of. ok is false when it
// takes types to tell, or when there are several.
func (s *Snapshot) Declared(name string) (pos token.Pos, ok bool) {
	var found []token.Pos
	for _, w := range split(s.Packages(), name) {
		d := w.Pkg.Lookup(w.Local())
		if d == nil {
			continue
		}
		id := d.ident()
		if id == nil {
			return token.NoPos, false
		}
		if w.exact {
			return id.Pos(), true
		}
		found = append(found, id.Pos())
	}
	if len(found) != 1 {
		return token.NoPos, false
	}
	return found[0], true
}

func (s *Snapshot) objectAmong(ctx context.Context, ways []Qualified, name string, progress func(done, total int, message string)) (types.Object, *Package, error) {
	type hit struct {
		obj types.Object
		n   Qualified
	}
	var found []hit
	for _, w := range ways {
		if err := s.Check(ctx, progress, w.Pkg); err != nil {
			return nil, nil, err
		}
		if obj := w.object(); obj != nil {
			found = append(found, hit{obj, w})
		}
	}
	if i := slices.IndexFunc(found, func(h hit) bool { return h.n.exact }); i >= 0 {
		return found[i].obj, found[i].n.Pkg, nil
	}
	switch len(found) {
	case 0:
		return nil, nil, nil
	case 1:
		return found[0].obj, found[0].n.Pkg, nil
	}
	var c []string
	for _, h := range found {
		c = append(c, h.n.String())
	}
	return nil, nil, ambiguous("the name", name, c)
}

func (n Qualified) object() types.Object {
	t := n.Pkg.Types()
	if t == nil {
		return nil
	}
	obj := t.Scope().Lookup(n.First)
	if obj == nil || n.Member == "" {
		return obj
	}
	if _, ok := obj.(*types.TypeName); !ok {
		return nil
	}
	m, _, _ := types.LookupFieldOrMethod(obj.Type(), true, t, n.Member)
	return m
}

// wrongKind says that a name is something else than asked for.
func wrongKind(name, want string, obj types.Object) *toolsets.Failure {
	what := "a variable"
	switch o := obj.(type) {
	case *types.TypeName:
		what = "a type"
	case *types.Const:
		what = "a constant"
	case *types.Func:
		what = "a function"
		if o.Signature().Recv() != nil {
			what = "a method"
		}
	case *types.Var:
		if o.IsField() {
			what = "a field"
		}
	}
	return toolsets.Failf(toolsets.NotFound, "%s is %s and not %s", name, what, want)
}

package program

import (
	"context"
	"go/types"
	"slices"
	"strings"
)

// Seen returns the package of that import path as the package q sees it: the
// variant that q was built with, or the plain one.
func (s *Snapshot) Seen(q *Package, path string) *Package {
	if q.Path == path {
		return q
	}
	seen := map[*Package]bool{}
	var find func(*Package) *Package
	find = func(p *Package) *Package {
		if seen[p] {
			return nil
		}
		seen[p] = true
		for _, im := range p.Imports {
			if im.Path == path {
				return im
			}
		}
		for _, im := range p.Imports {
			if !im.Workspace && s.byID[path] != nil && s.byID[path].Workspace {
				continue // a dependency does not import the workspace
			}
			if r := find(im); r != nil {
				return r
			}
		}
		return nil
	}
	if r := find(q); r != nil {
		return r
	}
	return s.byID[path]
}

// TypeNames returns the named types that a package declares at its top level.
func (q *Package) TypeNames() []*types.TypeName {
	t := q.Types()
	if t == nil {
		return nil
	}
	var out []*types.TypeName
	for _, n := range t.Scope().Names() {
		if tn, ok := t.Scope().Lookup(n).(*types.TypeName); ok {
			out = append(out, tn)
		}
	}
	return out
}

// Implements reports whether T or *T implements iface; pointer is set when only
// *T does.
func Implements(t types.Type, iface *types.Interface) (yes, pointer bool) {
	if types.Implements(t, iface) {
		return true, false
	}
	if _, isIface := t.Underlying().(*types.Interface); isIface {
		return false, false
	}
	if types.Implements(types.NewPointer(t), iface) {
		return true, true
	}
	return false, false
}

// Relation is a type that stands in some relation to another.
type Relation struct {
	Type    *types.TypeName
	Pointer bool // only the pointer to the type implements
}

// Implementors finds the types of the working copy that implement the interface
// type iface, which is declared in package home. Interfaces that do are among
// them; iface itself is not.
func (s *Snapshot) Implementors(ctx context.Context, iface *types.TypeName, progress func(done, total int, message string)) ([]Relation, error) {
	if err := s.CheckAll(ctx, progress); err != nil {
		return nil, err
	}
	var out []Relation
	for _, q := range s.Packages() {
		it := s.asSeen(q, iface)
		if it == nil {
			continue
		}
		for _, tn := range q.TypeNames() {
			if tn.IsAlias() || tn.Pos() == iface.Pos() || generic(tn) && hollow(tn) {
				continue
			}
			if yes, ptr := Implements(tn.Type(), it); yes {
				out = append(out, Relation{tn, ptr})
			}
		}
	}
	return out, nil
}

func generic(tn *types.TypeName) bool {
	n, ok := tn.Type().(*types.Named)
	return ok && n.TypeParams().Len() > 0
}

// hollow reports whether a type has no methods at all.
func hollow(tn *types.TypeName) bool {
	return types.NewMethodSet(types.NewPointer(tn.Type())).Len() == 0
}

// asSeen returns the interface as the package q sees it, nil if it is none there.
func (s *Snapshot) asSeen(q *Package, tn *types.TypeName) *types.Interface {
	obj := types.Object(tn)
	if tn.Pkg() != nil {
		home := s.Seen(q, tn.Pkg().Path())
		if home == nil || home.Types() == nil {
			return nil
		}
		obj = home.Types().Scope().Lookup(tn.Name())
	}
	if obj == nil || obj.Pos() != tn.Pos() {
		return nil
	}
	it, _ := obj.Type().Underlying().(*types.Interface)
	return it
}

// Interfaces finds the interfaces that the type tn of package q implements:
// those of the working copy and the exported ones of what it imports. Interfaces
// that every type implements are left out.
func (s *Snapshot) Interfaces(tn *types.TypeName, q *Package) []Relation {
	var out []Relation
	try := func(it *types.TypeName) {
		iface, ok := it.Type().Underlying().(*types.Interface)
		if !ok || it.IsAlias() || it.Pos() == tn.Pos() && tn.Pos().IsValid() || iface.NumMethods() == 0 || generic(it) || !iface.IsMethodSet() {
			return
		}
		if yes, ptr := Implements(tn.Type(), iface); yes {
			out = append(out, Relation{it, ptr})
		}
	}
	try(types.Universe.Lookup("error").(*types.TypeName))
	visited := map[string]bool{}
	consider := func(p *Package) {
		seen := s.Seen(q, p.Path)
		if seen == nil || visited[seen.Path] {
			return
		}
		visited[seen.Path] = true
		for _, it := range seen.TypeNames() {
			if seen.Workspace || it.Exported() {
				try(it)
			}
		}
	}
	consider(q)
	for _, p := range s.Plains() {
		consider(p)
	}
	for _, p := range s.Plains() {
		for _, im := range p.Imports {
			if !im.Workspace && !strings.Contains(im.Path, "internal/") {
				consider(im)
			}
		}
	}
	slices.SortFunc(out, func(a, b Relation) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// Name is the type's qualified name.
func (r Relation) Name() string { return TypeName(r.Type) }

// TypeName is the qualified name of a type, "error" for the predeclared one.
func TypeName(tn *types.TypeName) string {
	if tn.Pkg() == nil {
		return tn.Name()
	}
	return tn.Pkg().Path() + "." + tn.Name()
}

// Type finds a type by its qualified name and checks the package that declares it.
func (s *Snapshot) Type(ctx context.Context, name string, progress func(done, total int, message string)) (*types.TypeName, *Package, error) {
	obj, q, err := s.Object(ctx, name, progress)
	if err != nil {
		return nil, nil, err
	}
	tn, ok := obj.(*types.TypeName)
	if !ok {
		return nil, nil, wrongKind(name, "a type", obj)
	}
	return tn, q, nil
}

package program

import (
	"go/ast"
	"go/doc"
	"strings"

	"gatehouse/toolsets/decl"
)

// Entry is a top-level name of a package, from the syntax alone.
type Entry struct {
	Name     string `json:"name"`
	Tag      string `json:"tag" jsonschema:"type, func, const or var"`
	Kind     string `json:"kind,omitempty" jsonschema:"of types: struct, interface, alias and so on"`
	Position string `json:"position"`
	Synopsis string `json:"synopsis,omitempty"`
	Package  string `json:"package"`
}

// Synopsis is the first sentence of a doc comment.
func Synopsis(text string) string { return new(doc.Package).Synopsis(text) }

// Synopsis is the first sentence of the package's documentation.
func (q *Package) Synopsis() string {
	for _, f := range q.Files {
		if f.AST() != nil && f.AST().Doc != nil && !f.Test() {
			if s := Synopsis(f.AST().Doc.Text()); s != "" {
				return s
			}
		}
	}
	return ""
}

// Test reports whether the file holds tests.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Entries lists the top-level names of the package in the order of its files.
// Names that test files declare are left out, except of packages of tests.
func (q *Package) Entries() []Entry {
	var out []Entry
	for _, f := range q.Files {
		if f.AST() == nil || f.Test() && !q.IsTest() {
			continue
		}
		for _, d := range f.AST().Decls {
			out = append(out, q.entries(d)...)
		}
	}
	return out
}

func (q *Package) entries(d ast.Decl) []Entry {
	one := func(id *ast.Ident, tag, kind string, docs ...*ast.CommentGroup) Entry {
		e := Entry{Name: id.Name, Tag: tag, Kind: kind, Position: q.Position(id.Pos()), Package: q.Path}
		for _, g := range docs {
			if s := Synopsis(g.Text()); s != "" {
				e.Synopsis = s
				break
			}
		}
		return e
	}
	var out []Entry
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name != "_" && d.Name.Name != "init" {
			out = append(out, one(d.Name, "func", "", d.Doc))
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.Name != "_" {
					out = append(out, one(spec.Name, "type", TypeKind(spec), spec.Doc, d.Doc))
				}
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					if id.Name != "_" {
						out = append(out, one(id, d.Tok.String(), "", spec.Doc, d.Doc, spec.Comment))
					}
				}
			}
		}
	}
	return out
}

// TypeKind says in a word what a type declaration declares.
func TypeKind(spec *ast.TypeSpec) string {
	if spec.Assign.IsValid() {
		return "alias"
	}
	switch t := spec.Type.(type) {
	case *ast.StructType:
		return "struct"
	case *ast.InterfaceType:
		return "interface"
	case *ast.FuncType:
		return "func"
	case *ast.MapType:
		return "map"
	case *ast.ChanType:
		return "chan"
	case *ast.StarExpr:
		return "pointer"
	case *ast.ArrayType:
		if t.Len == nil {
			return "slice"
		}
		return "array"
	}
	return "named"
}

// TypeSpec returns the declaration's type, with the group it stands in; nil when
// the declaration is none of a type.
func (d *Decl) TypeSpec() (*ast.GenDecl, *ast.TypeSpec) {
	if d.Unit.Kind != decl.Type || d.File.AST() == nil {
		return nil, nil
	}
	for _, x := range d.File.AST().Decls {
		g, ok := x.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.Name == d.Name {
				return g, ts
			}
		}
	}
	return nil, nil
}

// Line is the 1-based line and column of an offset in the declaration's file.
func (d *Decl) Position() string {
	tf := d.Pkg.Fset.File(d.File.AST().Package)
	return d.Pkg.Position(tf.Pos(d.Unit.Decl))
}

// Folder is the import path of the package's folder: that of the package under
// test for external tests.
func (q *Package) Folder() string {
	if q.IsTest() {
		return strings.TrimSuffix(q.Path, "_test")
	}
	return q.Path
}

// Plains returns the packages of the working copy as they are built, in build
// order. External tests are among them only where a folder holds nothing else.
func (s *Snapshot) Plains() []*Package {
	primary := map[string]*Package{}
	for _, q := range s.Packages() {
		primary[q.Path] = q
	}
	var out []*Package
	seen := map[string]bool{}
	for _, q := range s.order {
		p := primary[q.Path]
		// A folder that holds nothing but tests has no plain package.
		plain := s.byID[q.Folder()]
		only := p == q && q.ForTest != "" && (plain == nil || len(plain.paths) == 0) && (q.Path == q.ForTest || primary[q.Folder()] == nil)
		if q.Workspace && p != nil && (q.ForTest == "" || only) && !seen[q.Path] {
			seen[q.Path] = true
			out = append(out, p)
		}
	}
	return out
}

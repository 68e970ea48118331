// Package decl cuts a Go source file into its top-level declarations without
// losing a byte, so that declarations can be compared, replaced and merged while
// everything between them stays as it was.
package decl

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Kind says what a unit holds.
type Kind uint8

// The kinds of units. A file is one Header, then Imports and declarations, then
// one Trailer (which may be empty).
const (
	Header  Kind = iota // everything up to the line of the package clause
	Import              // one import declaration
	Func                // a function or method
	Type                // a type declaration, grouped or not
	Const               // a constant declaration, grouped or not
	Var                 // a variable declaration, grouped or not
	Trailer             // what follows the last declaration
)

// Unit is a stretch of a file. The units of a file follow each other without a
// gap: the blank lines and free comments before a declaration belong to it.
type Unit struct {
	Kind Kind
	// Names are what the unit declares: "F", "T", "T.Method"; several for a
	// group. Functions named init and the blank identifier get a suffix that
	// tells them apart.
	Names []string
	// Start and End are the whole stretch; Doc is where the doc comment (or the
	// declaration, without one) begins, Decl where the declaration itself does.
	Start, Doc, Decl, End int
	// Grouped is set for declarations in parentheses.
	Grouped bool
	// Iota is set for constant groups whose values depend on their order.
	Iota bool
}

// File is a parsed file.
type File struct {
	Src     []byte
	Package string
	Units   []Unit
	Imports []Imported

	first map[declared]int // the first unit that declares a name
}

// declared is a name with the kind of unit that declares it.
type declared struct {
	kind Kind
	name string
}

// Imported is one import of a file.
type Imported struct {
	Name string // the local name as written, empty when it is not
	Path string
}

// Text is the declaration with its doc comment, without what precedes it.
func (f *File) Text(u Unit) []byte { return f.Src[u.Doc:u.End] }

// Gap is what precedes the declaration: blank lines and free comments.
func (f *File) Gap(u Unit) []byte { return f.Src[u.Start:u.Doc] }

// Find returns the unit that declares name.
func (f *File) Find(name string) (Unit, bool) {
	at := len(f.Units)
	for _, k := range []Kind{Func, Type, Const, Var} {
		if i, ok := f.first[declared{k, name}]; ok {
			at = min(at, i)
		}
	}
	if at == len(f.Units) {
		return Unit{}, false
	}
	return f.Units[at], true
}

// Split parses src and cuts it up. A file that does not parse is an error.
func Split(src []byte) (*File, error) {
	fset := token.NewFileSet()
	af, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	tf := fset.File(af.Package)
	s := splitter{src: src, tf: tf, af: af, out: &File{Src: src, Package: af.Name.Name, first: map[declared]int{}}}
	s.imports()
	s.add(Unit{Kind: Header, End: s.lineEnd(s.off(af.Name.End()), s.firstDecl(0))})
	for i, d := range af.Decls {
		s.decl(d, s.firstDecl(i+1))
	}
	s.add(Unit{Kind: Trailer, Doc: len(src), Decl: len(src), End: len(src)})
	return s.out, nil
}

type splitter struct {
	src   []byte
	tf    *token.File
	af    *ast.File
	out   *File
	inits int
}

func (s *splitter) off(p token.Pos) int { return s.tf.Offset(p) }

// firstDecl is the offset at which declaration i (with its doc) begins.
func (s *splitter) firstDecl(i int) int {
	if i >= len(s.af.Decls) {
		return len(s.src)
	}
	d := s.af.Decls[i]
	if doc := docOf(d); doc != nil {
		return s.off(doc.Pos())
	}
	return s.off(d.Pos())
}

func docOf(d ast.Decl) *ast.CommentGroup {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// add appends u behind the previous unit.
func (s *splitter) add(u Unit) {
	if n := len(s.out.Units); n > 0 {
		u.Start = s.out.Units[n-1].End
	}
	for _, n := range u.Names {
		if _, ok := s.out.first[declared{u.Kind, n}]; !ok {
			s.out.first[declared{u.Kind, n}] = len(s.out.Units)
		}
	}
	s.out.Units = append(s.out.Units, u)
}

// lineEnd extends end over what belongs to the same line: a semicolon, a
// comment, the newline. It stops at next, where the following declaration is.
func (s *splitter) lineEnd(end, next int) int {
	for {
		for end < next && (s.src[end] == ' ' || s.src[end] == '\t' || s.src[end] == '\r' || s.src[end] == ';') {
			end++
		}
		switch {
		case end >= next:
			return next
		case s.src[end] == '\n':
			return end + 1
		case bytes.HasPrefix(s.src[end:], []byte("//")):
			i := bytes.IndexByte(s.src[end:next], '\n')
			if i < 0 {
				return next
			}
			return end + i + 1
		case bytes.HasPrefix(s.src[end:], []byte("/*")):
			i := bytes.Index(s.src[end:next], []byte("*/"))
			if i < 0 {
				return next
			}
			end += i + 2
		default:
			return end
		}
	}
}

func (s *splitter) decl(d ast.Decl, next int) {
	u := Unit{Decl: s.off(d.Pos()), End: s.lineEnd(s.off(d.End()), next)}
	u.Doc = u.Decl
	if doc := docOf(d); doc != nil {
		u.Doc = s.off(doc.Pos())
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		u.Kind = Func
		u.Names = []string{s.funcName(d, u)}
	case *ast.GenDecl:
		u.Grouped = d.Lparen.IsValid()
		s.genDecl(d, &u)
	default:
		panic(fmt.Sprintf("decl: %T in a file that parsed", d))
	}
	s.add(u)
}

func (s *splitter) genDecl(d *ast.GenDecl, u *Unit) {
	switch d.Tok {
	case token.IMPORT:
		u.Kind = Import
		return
	case token.TYPE:
		u.Kind = Type
	case token.CONST:
		u.Kind = Const
	default:
		u.Kind = Var
	}
	blank := false
	take := func(id *ast.Ident) {
		if id.Name != "_" || !blank { // one says all of it
			u.Names = append(u.Names, s.blank(id.Name, *u))
		}
		blank = blank || id.Name == "_"
	}
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			take(spec.Name)
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				take(n)
			}
			if d.Tok == token.CONST && (len(spec.Values) == 0 || usesIota(spec)) {
				u.Iota = true
			}
		}
	}
}

func usesIota(spec *ast.ValueSpec) bool {
	found := false
	for _, v := range spec.Values {
		ast.Inspect(v, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == "iota" {
				found = true
			}
			return !found
		})
	}
	return found
}

// funcName is "F" or "T.M"; the n-th init of a file is "init#n".
func (s *splitter) funcName(d *ast.FuncDecl, u Unit) string {
	if d.Recv != nil && len(d.Recv.List) > 0 {
		return Receiver(d.Recv.List[0].Type) + "." + d.Name.Name
	}
	if d.Name.Name == "init" {
		s.inits++
		return fmt.Sprintf("init#%d", s.inits)
	}
	return s.blank(d.Name.Name, u)
}

// blank tells declarations of the blank identifier apart by their text, so that
// a changed one counts as one deleted and one added.
func (s *splitter) blank(name string, u Unit) string {
	if name != "_" {
		return name
	}
	return "_ " + strings.Join(strings.Fields(string(s.src[u.Decl:u.End])), " ")
}

// Receiver returns the name of the type that a receiver expression names.
func Receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return Receiver(e.X)
	case *ast.ParenExpr:
		return Receiver(e.X)
	case *ast.IndexExpr:
		return Receiver(e.X)
	case *ast.IndexListExpr:
		return Receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

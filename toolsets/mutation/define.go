package mutation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
)

func parse(src []byte) (*decl.File, error) { return decl.Split(src) }

// prefix precedes a given declaration to make it a file. It is a line of its own:
// a comment behind the package clause would not be a doc comment.
const prefix = "package p\n"

// given is a declaration as a caller gave it.
type given struct {
	text   string // formatted, with its doc comment, without a final newline
	raw    string // as given, trimmed
	hasDoc bool
	name   string
	fn     *ast.FuncDecl
	spec   *ast.TypeSpec
	// body is a type's spec alone, without "type" and comments before it; doc is
	// the comment before it.
	body, doc string
}

// parseGiven reads exactly one declaration of the wanted kind.
func parseGiven(source string, wantFunc bool) (*given, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	want := "one type declaration"
	if wantFunc {
		want = "one function or method declaration"
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "source", prefix+source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, parseFailure(err)
	}
	if len(f.Decls) != 1 {
		return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"source\" must hold %s and nothing else; it holds %d declarations (imports are managed, leave them out)", want, len(f.Decls))
	}
	g := &given{raw: strings.TrimSpace(source)}
	switch d := f.Decls[0].(type) {
	case *ast.FuncDecl:
		if wantFunc {
			g.fn, g.hasDoc, g.name = d, d.Doc != nil, localName(d)
		}
	case *ast.GenDecl:
		if !wantFunc && d.Tok == token.TYPE && len(d.Specs) == 1 {
			g.spec = d.Specs[0].(*ast.TypeSpec)
			g.hasDoc, g.name = d.Doc != nil || g.spec.Doc != nil, g.spec.Name.Name
		}
	}
	if g.name == "" {
		return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"source\" must hold %s", want)
	}
	out, err := format.Source([]byte("package p\n\n" + strings.TrimSpace(source) + "\n"))
	if err != nil {
		return nil, parseFailure(err)
	}
	g.text = strings.TrimSpace(strings.TrimPrefix(string(out), "package p\n"))
	return g, g.cutBody()
}

// cutBody finds the spec of a formatted type declaration.
func (g *given) cutBody() error {
	if g.spec == nil {
		return nil
	}
	src := "package p\n\n" + g.text
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return parseFailure(err)
	}
	gen := f.Decls[0].(*ast.GenDecl)
	spec := gen.Specs[0].(*ast.TypeSpec)
	g.doc = strings.TrimPrefix(src[:fset.Position(gen.Pos()).Offset], "package p\n\n")
	end := spec.End()
	if spec.Comment != nil {
		end = spec.Comment.End()
	}
	g.body = src[fset.Position(spec.Pos()).Offset:fset.Position(end).Offset]
	return nil
}

func localName(d *ast.FuncDecl) string {
	if d.Recv != nil && len(d.Recv.List) > 0 {
		return decl.Receiver(d.Recv.List[0].Type) + "." + d.Name.Name
	}
	if d.Name.Name == "init" {
		return "init#1"
	}
	return d.Name.Name
}

// parseFailure words syntax errors with positions in the given source.
func parseFailure(err error) error {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return toolsets.Failf(toolsets.CompileError, "the source does not parse, so nothing was changed: %v", err)
	}
	var lines []string
	for _, e := range list {
		lines = append(lines, fmt.Sprintf("source:%d:%d: %s", max(1, e.Pos.Line-1), e.Pos.Column, e.Msg))
	}
	return &toolsets.Failure{Kind: toolsets.CompileError, Data: lines, Text: "the source does not parse, so nothing was changed:\n" + strings.Join(lines, "\n")}
}

func (m mutation) defineFunction(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	return m.define(ctx, c, true)
}

func (m mutation) defineType(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	return m.define(ctx, c, false)
}

func (m mutation) define(ctx context.Context, c *toolsets.Call, fn bool) (*toolsets.Result, error) {
	g, err := parseGiven(c.String("source"), fn)
	if err != nil {
		return nil, err
	}
	s, err := m.open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	q, err := s.snap.Package(c.String("package"))
	if err != nil {
		return nil, err
	}
	if g.name == "init#1" && q.Lookup("init#2") != nil {
		return nil, toolsets.Failf(toolsets.Refused, "%s has several functions init, and which is meant can't be told; give the code a function with a name", q.Path)
	}
	if d := q.Lookup(g.name); d != nil && g.name != "_" {
		if (d.Unit.Kind == decl.Func) != fn || !fn && d.Unit.Kind != decl.Type {
			return nil, toolsets.Failf(toolsets.Refused, "%s is declared as something else at %s; delete that first", d.Qualified(), d.Position())
		}
		return s.replace(ctx, d, g)
	}
	return s.insert(ctx, q, g)
}

// replace puts the given declaration where the present one stands.
func (s *session) replace(ctx context.Context, d *program.Decl, g *given) (*toolsets.Result, error) {
	e := &Edit{Action: "replaced", Names: []string{d.Qualified()}, Files: []string{d.File.Rel}, note: generatedNote(d.File)}
	old := string(d.Text())
	_, spec := d.TypeSpec()
	inGroup := spec != nil && d.Unit.Grouped
	if !inGroup && sameText(old, g.raw) {
		e.Action = "unchanged"
		return e.result(), nil
	}
	if err := s.guard(d); err != nil {
		return nil, err
	}
	var text string
	if inGroup {
		var err error
		if text, err = replaceInGroup(d, spec, g); err != nil {
			return nil, err
		}
	} else {
		text = g.text
		if !g.hasDoc && d.Unit.Doc < d.Unit.Decl {
			text = strings.TrimRight(string(d.Split.Src[d.Unit.Doc:d.Unit.Decl]), "\r\n\t ") + "\n" + text
		}
	}
	src := decl.Splice(d.Split.Src, d.Unit.Doc, d.Unit.End, []byte(lineEnds(d.Split.Src, text+"\n")))
	if bytes.Equal(src, d.Split.Src) {
		e.Action = "unchanged"
		return e.result(), nil
	}
	return s.store(ctx, e, d.Pkg, d.File.Rel, d.Split.Src, src, s.fresh(d)...)
}

func sameText(a, b string) bool {
	norm := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return norm(a) == norm(b)
}

func generatedNote(f *program.File) string {
	if f.Generated() {
		return "The file is generated: the edit is lost when it is made again."
	}
	return ""
}

// replaceInGroup returns the group with one type replaced.
func replaceInGroup(d *program.Decl, spec *ast.TypeSpec, g *given) (string, error) {
	tf := d.Pkg.Fset.File(d.File.AST().Package)
	from, to := tf.Offset(spec.Pos()), tf.Offset(spec.End())
	if spec.Comment != nil {
		to = tf.Offset(spec.Comment.End())
	}
	body := g.body
	if g.hasDoc {
		if spec.Doc != nil {
			from = tf.Offset(spec.Doc.Pos())
		}
		if g.spec.Doc != nil || g.doc == "" {
			return "", toolsets.Failf(toolsets.InvalidParams, "give the type outside of a group, its comment before \"type\"")
		}
		body = strings.TrimRight(g.doc, "\n") + "\n" + body
	}
	group := string(decl.Splice(d.Split.Src[:d.Unit.End], from, to, []byte(body))[d.Unit.Doc:])
	out, err := format.Source([]byte("package p\n\n" + strings.ReplaceAll(group, "\r\n", "\n")))
	if err != nil {
		return "", parseFailure(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "package p\n")), nil
}

// lineEnds gives text the line ends of the file.
func lineEnds(src []byte, text string) string {
	if bytes.Contains(src, []byte("\r\n")) {
		return strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// insert adds a new declaration.
func (s *session) insert(ctx context.Context, q *program.Package, g *given) (*toolsets.Result, error) {
	rel, f, err := s.fileFor(q, g)
	if err != nil {
		return nil, err
	}
	e := &Edit{Action: "added", Names: []string{q.Path + "." + strings.TrimSuffix(g.name, "#1")}, Files: []string{rel}}
	if f == nil {
		src := []byte("package " + q.Name + "\n\n" + g.text + "\n")
		if !builtHere(path.Base(rel), src) {
			e.note = "The file's name is one of another system: it is not built here, and no tool but search_source sees what is in it."
		}
		return s.store(ctx, e, q, rel, nil, src, g.name)
	}
	sp, err := f.Decls()
	if err != nil {
		return nil, toolsets.Failf(toolsets.CompileError, "%s does not parse, so nothing can be added to it: %v", rel, err)
	}
	e.note = generatedNote(f)
	at := sp.Units[len(sp.Units)-2].End
	if owner, _, ok := strings.Cut(g.name, "."); ok {
		for _, u := range sp.Units {
			if slices.ContainsFunc(u.Names, func(n string) bool { return n == owner || strings.HasPrefix(n, owner+".") }) {
				at = u.End
			}
		}
	}
	text := "\n" + g.text + "\n"
	if at > 0 && sp.Src[at-1] != '\n' {
		text = "\n" + text
	}
	if rest := bytes.TrimLeft(sp.Src[at:], " \t\r"); len(rest) > 0 && rest[0] != '\n' {
		text += "\n"
	}
	src := decl.Splice(sp.Src, at, at, []byte(lineEnds(sp.Src, text)))
	return s.store(ctx, e, q, rel, sp.Src, src, g.name)
}

// fileFor chooses the file of a new declaration: the given one, for a method the
// type's, for a test a test file, else the package's main file. f is nil when
// the file is to be made.
func (s *session) fileFor(q *program.Package, g *given) (rel string, f *program.File, err error) {
	if name := s.c.String("file"); name != "" {
		return s.namedFile(q, name)
	}
	if owner, _, ok := strings.Cut(g.name, "."); ok {
		if d := q.Lookup(owner); d != nil {
			return d.File.Rel, d.File, nil
		}
	}
	test := q.IsTest() || g.fn != nil && isTestName(g.name)
	score := func(f *program.File) int {
		base := path.Base(f.Rel)
		n := 0
		if f.Test() == test {
			n += 8
		}
		if !f.Generated() {
			n += 4
		}
		if base == q.Name+".go" || base == q.Name+"_test.go" || base == path.Base(q.Path)+".go" {
			n += 2
		}
		if base != "doc.go" {
			n++
		}
		return n
	}
	for _, x := range q.Files {
		if x.Err() == nil && (f == nil || score(x) > score(f)) {
			f = x
		}
	}
	if f == nil || f.Test() != test {
		name := q.Name + ".go"
		if test {
			name = strings.TrimSuffix(q.Name, "_test") + "_test.go"
		}
		return s.namedFile(q, name)
	}
	return f.Rel, f, nil
}

func isTestName(name string) bool {
	for _, p := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(name, p); ok && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return true
		}
	}
	return false
}

// builtHere reports whether a new file is built on this system, by its name.
func builtHere(name string, src []byte) bool {
	c := build.Default
	c.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(src)), nil }
	ok, err := c.MatchFile(".", name)
	return ok || err != nil
}

// fileName is a name that the go command takes for that of a Go file.
var fileName = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N} ._+~@=,-]*\.go$`)

func (s *session) namedFile(q *program.Package, name string) (string, *program.File, error) {
	base := path.Base(name)
	if dir := path.Dir(name); dir != "." && dir != q.Dir || !fileName.MatchString(base) {
		return "", nil, toolsets.Failf(toolsets.InvalidParams, "argument \"file\" must be the name of a Go file in the package's folder, such as util.go")
	}
	rel := path.Join(q.Dir, base)
	for _, f := range q.Files {
		if f.Rel == rel {
			return rel, f, nil
		}
	}
	if _, err := s.View.ReadFile(rel); err == nil {
		return "", nil, toolsets.Failf(toolsets.Refused, "%s exists and does not belong to %s as it is built here (a build constraint, or another package); choose another file", rel, q.Path)
	}
	return rel, nil, nil
}

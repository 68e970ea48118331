package browsing

import (
	"context"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
)

// Export is the answer of export_type_source.
type Export struct {
	Name   string   `json:"name"`
	Files  []string `json:"files" jsonschema:"where the parts come from"`
	Source string   `json:"source"`
}

func (b browsing) export(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, d, err := b.found(ctx, c, "type")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, spec := d.TypeSpec(); spec == nil {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is not a type", d.Qualified())
	}
	src, files, parts, err := exportType(d)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		s.MarkRead(p)
	}
	e := Export{d.Qualified(), files, toolsets.Cut(src)}
	return &toolsets.Result{Text: e.Source, Data: e}, nil
}

// exportType writes the type and its methods as one file.
func exportType(d *program.Decl) (src string, files []string, parts []*program.Decl, err error) {
	g, spec := d.TypeSpec()
	first := strings.TrimRight(string(d.Text()), "\r\n")
	if d.Unit.Grouped && len(g.Specs) > 1 {
		first = specText(d, spec)
	}
	parts, files = []*program.Decl{d}, []string{d.File.Rel}
	body := []string{first}
	im := importSet{pkg: d.Pkg}
	im.use(d.File, spec)
	for _, f := range d.Pkg.Files {
		if f.AST() == nil {
			continue
		}
		for _, x := range f.AST().Decls {
			if receiverOf(x, decl.Receiver) != d.Name {
				continue
			}
			fd := x.(*ast.FuncDecl)
			m := &program.Decl{Pkg: d.Pkg, File: f, Name: d.Name + "." + fd.Name.Name}
			if m.Split, err = f.Decls(); err != nil {
				return "", nil, nil, toolsets.Failf(toolsets.CompileError, "%s does not parse: %v", f.Rel, err)
			}
			var ok bool
			if m.Unit, ok = m.Split.Find(m.Name); !ok {
				continue // of the blank name
			}
			parts = append(parts, m)
			body = append(body, strings.TrimRight(string(m.Text()), "\r\n"))
			if !slices.Contains(files, f.Rel) {
				files = append(files, f.Rel)
			}
			im.use(f, fd)
		}
	}
	if im.clash != "" {
		return "", nil, nil, toolsets.Failf(toolsets.Other, "the files of %s import different packages as %s, so that they do not fit into one", d.Qualified(), im.clash)
	}
	text := "package " + d.Split.Package + "\n\n" + im.text() + strings.Join(body, "\n\n") + "\n"
	out, err := format.Source([]byte(text))
	if err != nil {
		return "", nil, nil, toolsets.Failf(toolsets.Other, "put %s into one file: %v", d.Qualified(), err)
	}
	return string(out), files, parts, nil
}

// importSet collects the imports that declarations of several files need.
type importSet struct {
	pkg   *program.Package
	specs map[string]string // local name -> the import's text
	clash string
	cgo   string
}

// use notes what node of file f refers to. Names that are local variables are
// no packages: the parser's own resolution tells them apart.
func (s *importSet) use(f *program.File, node ast.Node) {
	if s.specs == nil {
		s.specs = map[string]string{}
	}
	fset := token.NewFileSet()
	resolved, err := parser.ParseFile(fset, "", f.Src, parser.ParseComments)
	if err != nil {
		return
	}
	local := map[string]string{}
	for _, spec := range resolved.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := decl.Imported{Path: p}.LocalName()
		if q := s.pkg.Imports[p]; q != nil {
			name = q.Name
		}
		text := spec.Path.Value
		switch {
		case p == "C":
			s.preamble(f, resolved, fset)
			continue
		case spec.Name != nil && spec.Name.Name == ".":
			s.specs[". "+p] = ". " + text // what it brings can't be told from the syntax
			continue
		case spec.Name != nil:
			name, text = spec.Name.Name, spec.Name.Name+" "+text
		}
		local[name] = text
	}
	own := s.pkg.Fset.File(f.AST().Package)
	tf := fset.File(resolved.Package)
	from, to := own.Offset(node.Pos()), own.Offset(node.End())
	ast.Inspect(resolved, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || id.Obj != nil {
			return true
		}
		if at := tf.Offset(id.Pos()); at < from || at >= to {
			return true
		}
		if text := local[id.Name]; text != "" {
			if old := s.specs[id.Name]; old != "" && old[strings.IndexByte(old, '"'):] != text[strings.IndexByte(text, '"'):] {
				s.clash = id.Name
			}
			s.specs[id.Name] = text
		}
		return true
	})
}

// preamble takes over the C code of a file that uses cgo.
func (s *importSet) preamble(f *program.File, parsed *ast.File, fset *token.FileSet) {
	for _, d := range parsed.Decls {
		if g, ok := d.(*ast.GenDecl); ok && len(g.Specs) == 1 {
			if spec, ok := g.Specs[0].(*ast.ImportSpec); ok && spec.Path.Value == `"C"` {
				from := g.Pos()
				if g.Doc != nil {
					from = g.Doc.Pos()
				}
				text := string(f.Src[fset.Position(from).Offset:fset.Position(g.End()).Offset]) + "\n\n"
				if !strings.Contains(s.cgo, text) {
					s.cgo += text
				}
			}
		}
	}
}

func (s *importSet) text() string {
	if len(s.specs) == 0 {
		return s.cgo
	}
	var std, other []string
	for _, t := range s.specs {
		first, _, _ := strings.Cut(t[strings.IndexByte(t, '"')+1:], "/")
		if strings.Contains(first, ".") {
			other = append(other, "\t"+t)
		} else {
			std = append(std, "\t"+t)
		}
	}
	byPath := func(a, b string) int {
		return strings.Compare(a[strings.IndexByte(a, '"'):], b[strings.IndexByte(b, '"'):])
	}
	slices.SortFunc(std, byPath)
	slices.SortFunc(other, byPath)
	var groups []string
	for _, g := range [][]string{std, other} {
		if len(g) > 0 {
			groups = append(groups, strings.Join(g, "\n"))
		}
	}
	return s.cgo + "import (\n" + strings.Join(groups, "\n\n") + "\n)\n\n"
}

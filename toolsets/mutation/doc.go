package mutation

import (
	"bytes"
	"context"
	"go/ast"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
)

func (m mutation) setDoc(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, d, err := m.found(ctx, c, "name")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.guard(d); err != nil {
		return nil, err
	}
	node, doc := docOf(d)
	if node == nil {
		return nil, toolsets.Failf(toolsets.Other, "the declaration of %s could not be found in %s", d.Qualified(), d.File.Rel)
	}
	tf := d.Pkg.Fset.File(d.File.AST().Package)
	at := tf.Offset(node.Pos())
	from := at
	if doc != nil {
		from = tf.Offset(doc.Pos())
	}
	indent := indentation(d.File.Src, at)
	text, err := comment(c.String("comment"), directives(doc), indent)
	if err != nil {
		return nil, err
	}
	e := &Edit{Action: "replaced", Names: []string{d.Qualified()}, Files: []string{d.File.Rel}, note: generatedNote(d.File)}
	src := decl.Splice(d.File.Src, from, at, []byte(lineEnds(d.File.Src, text)))
	if bytes.Equal(src, d.File.Src) {
		e.Action = "unchanged"
		return e.result(), nil
	}
	return s.store(ctx, e, d.Pkg, d.File.Rel, d.File.Src, src, s.fresh(d)...)
}

// docOf finds the node before which a declaration's doc comment stands, and the
// comment. In a group that is the one line of the group.
func docOf(d *program.Decl) (node ast.Node, doc *ast.CommentGroup) {
	tf := d.Pkg.Fset.File(d.File.AST().Package)
	for _, x := range d.File.AST().Decls {
		if tf.Offset(x.Pos()) != d.Unit.Decl {
			continue
		}
		switch x := x.(type) {
		case *ast.FuncDecl:
			return x, x.Doc
		case *ast.GenDecl:
			if !x.Lparen.IsValid() {
				return x, x.Doc
			}
			for _, spec := range x.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.Name == d.Name {
						return spec, spec.Doc
					}
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if n.Name == d.Name {
							return spec, spec.Doc
						}
					}
				}
			}
		}
	}
	return nil, nil
}

// indentation is the white space before the node on its line.
func indentation(src []byte, at int) string {
	from := at
	for from > 0 && (src[from-1] == ' ' || src[from-1] == '\t') {
		from--
	}
	return string(src[from:at])
}

// directives are the lines of a doc comment that are meant for tools, such as
// //go:noinline. They are no text and survive.
func directives(doc *ast.CommentGroup) []string {
	var out []string
	if doc == nil {
		return nil
	}
	for _, c := range doc.List {
		if isDirective(c.Text) {
			out = append(out, strings.TrimRight(c.Text, "\r"))
		}
	}
	return out
}

func isDirective(line string) bool {
	rest, ok := strings.CutPrefix(line, "//")
	if !ok || rest == "" {
		return false
	}
	if strings.HasPrefix(rest, "export ") || strings.HasPrefix(rest, "line ") || strings.HasPrefix(rest, "nolint") {
		return true
	}
	tool, arg, ok := strings.Cut(rest, ":")
	if !ok || tool == "" || arg == "" {
		return false
	}
	for _, r := range tool {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return arg[0] >= 'a' && arg[0] <= 'z' || arg[0] >= '0' && arg[0] <= '9'
}

// comment makes a doc comment that ends with the indentation of what follows it.
// Text that has its comment marks is taken as it is.
func comment(text string, keep []string, indent string) (string, error) {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), " \t\n")
	var lines []string
	switch {
	case text == "":
	case strings.HasPrefix(text, "/*"):
		if !strings.HasSuffix(text, "*/") || strings.Count(text, "*/") != 1 {
			return "", toolsets.Failf(toolsets.InvalidParams, "argument \"comment\": a comment that begins with /* must end with */ and hold no other")
		}
		lines = append(lines, text)
	default:
		raw := strings.HasPrefix(text, "//")
		for _, line := range strings.Split(text, "\n") {
			line = strings.TrimRight(line, " \t\r")
			switch trimmed := strings.TrimLeft(line, " \t"); {
			case raw && !strings.HasPrefix(trimmed, "//"):
				return "", toolsets.Failf(toolsets.InvalidParams, "argument \"comment\": give every line its comment mark, or none")
			case raw:
				lines = append(lines, trimmed)
			case line == "":
				lines = append(lines, "//")
			default:
				lines = append(lines, "// "+line)
			}
		}
	}
	for _, k := range keep {
		present := false
		for _, l := range lines {
			present = present || l == k
		}
		if !present {
			if len(lines) > 0 && !isDirective(lines[len(lines)-1]) {
				lines = append(lines, "//")
			}
			lines = append(lines, k)
		}
	}
	if len(lines) == 0 {
		return "", nil
	}
	return strings.Join(lines, "\n"+indent) + "\n" + indent, nil
}

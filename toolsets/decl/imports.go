package decl

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

func (s *splitter) imports() {
	for _, spec := range s.af.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		im := Imported{Path: p}
		if spec.Name != nil {
			im.Name = spec.Name.Name
		}
		s.out.Imports = append(s.out.Imports, im)
	}
}

// majorVersion is the last element of an import path that is no package name.
var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// LocalName is the identifier by which code most likely refers to the import.
func (im Imported) LocalName() string {
	if im.Name != "" {
		return im.Name
	}
	base := path.Base(im.Path)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(im.Path))
	}
	base, _, _ = strings.Cut(base, ".")
	if i := strings.LastIndexByte(base, '-'); i >= 0 {
		base = base[i+1:]
	}
	return base
}

func (im Imported) line() string {
	if im.Name != "" {
		return im.Name + " " + strconv.Quote(im.Path)
	}
	return strconv.Quote(im.Path)
}

// Uses reports whether the file refers to the local name of an import anywhere.
// A dot or blank import always counts as used.
func Uses(src []byte, im Imported) bool {
	local := im.LocalName()
	if local == "." || local == "_" || im.Path == "C" {
		return true
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return true
	}
	used := false
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				used = true
			}
		}
		return !used
	})
	return used
}

// SetImports returns src with the imports of add added and those of remove
// removed, every other byte as it was. Imports that are there (or are not)
// already are left alone.
func SetImports(src []byte, add, remove []Imported) ([]byte, error) {
	for _, im := range remove {
		out, err := removeImport(src, im)
		if err != nil {
			return nil, err
		}
		src = out
	}
	for _, im := range add {
		out, err := addImport(src, im)
		if err != nil {
			return nil, err
		}
		src = out
	}
	return src, nil
}

type parsed struct {
	f  *ast.File
	tf *token.File
}

func parseImports(src []byte) (parsed, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.ImportsOnly)
	if err != nil {
		return parsed{}, err
	}
	return parsed{f, fset.File(f.Package)}, nil
}

func same(spec *ast.ImportSpec, im Imported) bool {
	p, err := strconv.Unquote(spec.Path.Value)
	name := ""
	if spec.Name != nil {
		name = spec.Name.Name
	}
	return err == nil && p == im.Path && name == im.Name
}

func newline(src []byte) string {
	if bytes.Contains(src, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func addImport(src []byte, im Imported) ([]byte, error) {
	p, err := parseImports(src)
	if err != nil {
		return nil, err
	}
	nl := newline(src)
	var block, single *ast.GenDecl
	for _, d := range p.f.Decls {
		g := d.(*ast.GenDecl)
		for _, s := range g.Specs {
			if same(s.(*ast.ImportSpec), im) {
				return src, nil
			}
		}
		switch {
		case len(g.Specs) > 0 && g.Specs[0].(*ast.ImportSpec).Path.Value == `"C"`:
		case g.Lparen.IsValid() && block == nil:
			block = g
		case !g.Lparen.IsValid() && single == nil:
			single = g
		}
	}
	switch {
	case block != nil:
		at, lead, trail := insertionPoint(src, p, block, im)
		return splice(src, at, at, lead+"\t"+im.line()+nl+trail), nil
	case single != nil && single.Doc == nil && single.Specs[0].(*ast.ImportSpec).Comment == nil:
		spec := single.Specs[0].(*ast.ImportSpec)
		old := string(src[p.tf.Offset(spec.Pos()):p.tf.Offset(spec.End())])
		body := []string{old, im.line()}
		sep := nl
		first, _ := strconv.Unquote(spec.Path.Value)
		if class(first) != class(im.Path) {
			sep = nl + nl
		}
		if class(first) > class(im.Path) || class(first) == class(im.Path) && first > im.Path {
			body[0], body[1] = body[1], body[0]
		}
		text := "import (" + nl + "\t" + body[0] + sep + "\t" + body[1] + nl + ")"
		return splice(src, p.tf.Offset(single.Pos()), p.tf.Offset(single.End()), text), nil
	}
	at := p.tf.Offset(p.f.Name.End())
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		at += i + 1
		return splice(src, at, at, nl+"import "+im.line()+nl), nil
	}
	return splice(src, at, at, nl+nl+"import "+im.line()+nl), nil
}

// class orders groups of imports: the standard library first.
func class(p string) int {
	first, _, _ := strings.Cut(p, "/")
	if strings.Contains(first, ".") {
		return 1
	}
	return 0
}

// insertionPoint finds the line of the block before which im belongs: inside the
// group of its class, in order. lead and trail are what must surround its line.
func insertionPoint(src []byte, p parsed, block *ast.GenDecl, im Imported) (at int, lead, trail string) {
	lineStart := func(pos token.Pos) int { return p.tf.Offset(p.tf.LineStart(p.tf.Line(pos))) }
	after := -1
	for _, s := range block.Specs {
		spec := s.(*ast.ImportSpec)
		q, err := strconv.Unquote(spec.Path.Value)
		if err != nil || class(q) != class(im.Path) {
			continue
		}
		if q > im.Path {
			pos := spec.Pos()
			if spec.Doc != nil {
				pos = spec.Doc.Pos()
			}
			if after < 0 || after == lineStart(pos) {
				return lineStart(pos), "", ""
			}
			break
		}
		end := p.tf.Offset(spec.End())
		if i := bytes.IndexByte(src[end:], '\n'); i >= 0 {
			after = end + i + 1
		}
	}
	if after >= 0 {
		return after, "", ""
	}
	at = lineStart(block.Rparen)
	if p.tf.Line(block.Rparen) == p.tf.Line(block.Lparen) {
		return p.tf.Offset(block.Rparen), newline(src), ""
	}
	if len(block.Specs) > 0 {
		if class(im.Path) == 0 {
			return lineStart(block.Specs[0].Pos()), "", newline(src)
		}
		return at, newline(src), ""
	}
	return at, "", ""
}

func removeImport(src []byte, im Imported) ([]byte, error) {
	p, err := parseImports(src)
	if err != nil {
		return nil, err
	}
	for _, d := range p.f.Decls {
		g := d.(*ast.GenDecl)
		for _, s := range g.Specs {
			spec := s.(*ast.ImportSpec)
			if !same(spec, im) {
				continue
			}
			from, to := spec.Pos(), spec.End()
			if spec.Doc != nil {
				from = spec.Doc.Pos()
			}
			if len(g.Specs) == 1 {
				from, to = g.Pos(), g.End()
				if g.Doc != nil {
					from = g.Doc.Pos()
				}
			}
			return cutLines(src, p.tf.Offset(from), p.tf.Offset(to)), nil
		}
	}
	return src, nil
}

// cutLines removes src[from:to] together with the rest of its lines, and one of
// two blank lines that would then meet. Where something else stands on the same
// line, that stays.
func cutLines(src []byte, from, to int) []byte {
	start, end := from, len(src)
	for start > 0 && (src[start-1] == ' ' || src[start-1] == '\t') {
		start--
	}
	if i := bytes.IndexByte(src[to:], '\n'); i >= 0 {
		end = to + i + 1
	}
	if behind := bytes.TrimLeft(src[to:end], "; \t\r\n"); start > 0 && src[start-1] != '\n' || len(behind) > 0 && !bytes.HasPrefix(behind, []byte("//")) {
		for to < end && (src[to] == ';' || src[to] == ' ' || src[to] == '\t') {
			to++
		}
		return splice(src, from, to, "")
	}
	from, to = start, end
	blankBefore := from == 0 || blankLineEndsAt(src, from) || bytes.HasSuffix(bytes.TrimRight(src[:from], "\r\n\t "), []byte("("))
	rest := src[to:]
	if i := bytes.IndexByte(rest, '\n'); blankBefore && i >= 0 && len(bytes.TrimSpace(rest[:i])) == 0 {
		to += i + 1
	} else if blankLineEndsAt(src, from) && bytes.HasPrefix(bytes.TrimLeft(rest, "\t "), []byte(")")) {
		for blankLineEndsAt(src, from) {
			from = bytes.LastIndexByte(src[:from-1], '\n') + 1
		}
	}
	return splice(src, from, to, "")
}

// blankLineEndsAt reports whether the line that ends just before i is blank.
func blankLineEndsAt(src []byte, i int) bool {
	if i == 0 || src[i-1] != '\n' {
		return false
	}
	line := src[bytes.LastIndexByte(src[:i-1], '\n')+1 : i-1]
	return len(bytes.TrimSpace(line)) == 0
}

func splice(src []byte, from, to int, text string) []byte {
	out := make([]byte, 0, len(src)-(to-from)+len(text))
	out = append(out, src[:from]...)
	out = append(out, text...)
	return append(out, src[to:]...)
}

// Splice returns src with src[from:to] replaced by text.
func Splice(src []byte, from, to int, text []byte) []byte { return splice(src, from, to, string(text)) }

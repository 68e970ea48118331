package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reference matches `path/file.go#Symbol` and `path/file.go#Type.Method` in
// backquotes.
var reference = regexp.MustCompile("`([A-Za-z0-9_/-]+\\.go)#([A-Za-z0-9_.]+)`")

// TestReferences checks that every symbol the documents point at exists, so
// that a rename breaks the build and not the reader.
func TestReferences(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob("decisions/*.md")
	files = append(append(files, more...), "../README.md")
	found := 0
	for _, doc := range files {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range reference.FindAllStringSubmatch(line, -1) {
				found++
				f, err := parser.ParseFile(token.NewFileSet(), "../"+m[1], nil, 0)
				if err != nil {
					t.Errorf("%s:%d: %v", doc, i+1, err)
				} else if !declares(f, m[2]) {
					t.Errorf("%s:%d: %s declares no %s", doc, i+1, m[1], m[2])
				}
			}
		}
	}
	if found == 0 {
		t.Error("the documents point at no symbol at all")
	}
}

// link matches a relative Markdown link.
var link = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)

// TestLinkedFiles checks that every relative link of the documents leads to a file.
func TestLinkedFiles(t *testing.T) {
	files, _ := filepath.Glob("*.md")
	more, _ := filepath.Glob("decisions/*.md")
	for _, doc := range append(append(files, more...), "../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}

// declares reports whether f declares name, a top-level name or Type.Method.
func declares(f *ast.File, name string) bool {
	typ, method, isMethod := strings.Cut(name, ".")
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				if !isMethod && d.Name.Name == name {
					return true
				}
				continue
			}
			if isMethod && receiver(d) == typ && d.Name.Name == method {
				return true
			}
		case *ast.GenDecl:
			if !isMethod && declaresSpec(d, name) {
				return true
			}
		}
	}
	return false
}

func receiver(fn *ast.FuncDecl) string {
	x := fn.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func declaresSpec(d *ast.GenDecl, name string) bool {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.Name == name {
				return true
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.Name == name {
					return true
				}
			}
		}
	}
	return false
}

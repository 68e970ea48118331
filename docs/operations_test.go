package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// enders are the functions that end a session or its worker; their reason is a text.
var enders = map[string]bool{"End": true, "end": true, "stop": true, "kill": true, "Stop": true}

// TestReasonsAreInTheTable: every reason for which a session or a worker is ended stands
// in operations.md, up to its colon.
func TestReasonsAreInTheTable(t *testing.T) {
	page, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, dir := range []string{"session", "session/bridge", "session/monitor", "router", "cmd/gatehouse"} {
		files, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, reason := range reasons(f) {
				found++
				start, _, more := strings.Cut(reason, ": ")
				if want := "`" + start + map[bool]string{true: ": ", false: "`"}[more]; !strings.Contains(string(page), want) {
					t.Errorf("%s: no %q in operations.md", file, want)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d reasons were found: the functions have other names now", found)
	}
}

// TestAuditEventsAreInThePage: so are the events of the monitor's audit lines.
func TestAuditEventsAreInThePage(t *testing.T) {
	page, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	files, err := filepath.Glob("../session/monitor/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range auditEvent.FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
	}
	if len(found) < 4 {
		t.Errorf("events %v: they are written in another way now", found)
	}
	for event := range found {
		if !strings.Contains(string(page), "`\"audit\":\""+event+"\"`") && !strings.Contains(string(page), "`"+event+"`: ") {
			t.Errorf("no %q in operations.md", event)
		}
	}
}

// auditEvent is how the monitor names one.
var auditEvent = regexp.MustCompile(`(?:Str\("audit", |auditStart\()"([a-z]+)"`)

// reasons are the texts with which a file ends things: arguments of enders, and results
// of functions called pass and endReason, the reaper's and the reader's.
func reasons(f *ast.File) (out []string) {
	text := func(e ast.Expr) {
		if b, ok := e.(*ast.BinaryExpr); ok {
			e = b.X
		}
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && s != "" {
				out = append(out, s)
			}
		}
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		returns := fn.Name.Name == "pass" || fn.Name.Name == "endReason"
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && enders[sel.Sel.Name] && len(n.Args) > 0 {
					text(n.Args[0])
				}
			case *ast.ReturnStmt:
				for _, r := range n.Results {
					if returns {
						text(r)
					}
				}
			}
			return true
		})
	}
	return out
}

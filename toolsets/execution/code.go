package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/workspace"
)

// code is the given code on its way to a program.
type code struct {
	text    string
	last    int // offset of a final expression statement, -1 for none
	end     int // its end
	line    int // where it stands in the given code
	col     int
	imports []decl.Imported

	moduleDir string // folder of the module, relative to the view
	dir       string // folder of the program, relative to the view; it exists in an overlay only
}

// codeFile stands for the given code in positions.
const codeFile = "gatehouse-code.go"

const bodyPrefix = "package p\nfunc _() {\n"

// parseCode reads the code as the body of a function.
func parseCode(text string, imports []string) (*code, error) {
	p := &code{text: strings.ReplaceAll(text, "\r\n", "\n"), last: -1}
	if strings.TrimSpace(p.text) == "" {
		return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"code\" must not be empty")
	}
	for _, im := range imports {
		d, err := parseImport(im)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(p.imports, d) {
			p.imports = append(p.imports, d)
		}
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", bodyPrefix+p.text+"\n}", parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, p.syntaxError(err)
	}
	if len(f.Decls) != 1 {
		return nil, toolsets.Failf(toolsets.CompileError, "the code closes the function that it stands in; give the statements of a function's body")
	}
	body := f.Decls[0].(*ast.FuncDecl).Body.List
	if len(body) == 0 {
		return p, nil
	}
	if x, ok := body[len(body)-1].(*ast.ExprStmt); ok {
		pos := fset.Position(x.Pos())
		p.last, p.end = pos.Offset-len(bodyPrefix), fset.Position(x.End()).Offset-len(bodyPrefix)
		p.line, p.col = pos.Line-2, pos.Column
	}
	return p, nil
}

func parseImport(s string) (decl.Imported, error) {
	bad := toolsets.Failf(toolsets.InvalidParams, "argument \"imports\": %q is no import path, optionally with a name before it", s)
	name, p, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok {
		name, p = "", name
	}
	p = strings.TrimSpace(p)
	if q, err := strconv.Unquote(p); err == nil {
		p = q
	}
	if p == "" || p == "C" || strings.ContainsAny(p, " \t\n\r\"`\\") || strings.HasPrefix(p, ".") || strings.HasPrefix(p, "/") || strings.HasPrefix(p, "-") ||
		name != "" && name != "." && !token.IsIdentifier(name) {
		return decl.Imported{}, bad
	}
	return decl.Imported{Name: name, Path: p}, nil
}

func (p *code) syntaxError(err error) error {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return toolsets.Failf(toolsets.CompileError, "the code does not parse: %v", err)
	}
	var lines []string
	total := strings.Count(p.text, "\n") + 1
	for _, e := range list {
		line := min(max(1, e.Pos.Line-2), total)
		lines = append(lines, fmt.Sprintf("code:%d:%d: %s", line, e.Pos.Column, e.Msg))
	}
	return &toolsets.Failure{Kind: toolsets.CompileError, Data: lines, Text: "the code does not parse:\n" + strings.Join(lines, "\n")}
}

// place chooses the folder of the program, so that internal packages can be
// imported, and finds the imports that are missing.
func (p *code) place(ctx context.Context, snap *program.Snapshot, s *workspace.Session) error {
	at := snap.Plains()[0]
	for _, q := range snap.Plains() {
		if slices.ContainsFunc(p.imports, func(im decl.Imported) bool { return im.Path == q.Path }) {
			at = q
			break
		}
	}
	p.moduleDir = moduleDir(at)
	stand := &program.Package{Path: at.Module + "/" + programDir, Name: "main"}
	file := p.file(false)
	filename := filepath.Join(s.View.Dir, filepath.FromSlash(p.moduleDir), programDir, codeFile)
	// Internal packages further down are found only when the call names them.
	add, err := snap.MissingImports(ctx, stand, s.GoEnv, filename, []byte(file))
	if err != nil {
		return toolsets.Failf(toolsets.CompileError, "the code does not parse: %v", err)
	}
	p.imports = append(p.imports, add...)
	parent := p.moduleDir
	for _, im := range p.imports {
		q := snap.Plain(im.Path)
		if q == nil || !q.Workspace {
			continue
		}
		i := strings.LastIndex("/"+q.Dir+"/", "/internal/")
		if i < 0 {
			continue
		}
		dir := path.Clean("./" + strings.TrimSuffix(q.Dir[:max(0, i-1)], "/"))
		switch {
		case within(dir, parent):
			parent = dir
		case !within(parent, dir):
			return toolsets.Failf(toolsets.InvalidParams, "the internal packages that the code imports are of different folders (%s and %s), so that no one place may import both", parent, dir)
		}
	}
	p.dir = path.Join(parent, programDir)
	return nil
}

// within reports whether folder a is b or below it.
func within(a, b string) bool { return b == "." || a == b || strings.HasPrefix(a, b+"/") }

const programDir = "gatehouse_exec"

// moduleDir is the folder of a package's module, relative to the view.
func moduleDir(q *program.Package) string {
	if sub, ok := strings.CutPrefix(q.Path, q.Module+"/"); ok {
		if root := strings.TrimSuffix(strings.TrimSuffix(q.Dir, sub), "/"); root != "" {
			return root
		}
		return "."
	}
	return q.Dir
}

// file is the program's main file. show wraps a final expression, so that its
// value is reported. Line directives make positions those of the given code.
func (p *code) file(show bool) string {
	used := map[string]bool{}
	body := p.text
	if show && p.last >= 0 {
		body = p.text[:p.last] + "gatehouse_show(/*line " + codeFile + ":" + strconv.Itoa(p.line) + ":" + strconv.Itoa(p.col) + "*/" + p.text[p.last:p.end] + ")" + p.text[p.end:]
	}
	main := "package main\n\nfunc main() {\n//line " + codeFile + ":1:1\n" + body + "\n}\n"
	for name := range program.Qualifiers([]byte(main)) {
		used[name] = true
	}
	var b strings.Builder
	b.WriteString("package main\n\n")
	for _, im := range p.imports {
		name := im.Name
		if name == "" && !used[im.LocalName()] && strings.TrimSpace(p.text) != "" && !p.mayBe(im, used) {
			name = "_" // not used: imported for what it does
		}
		b.WriteString("import " + name + " " + strconv.Quote(im.Path) + "\n")
	}
	b.WriteString(strings.TrimPrefix(main, "package main\n"))
	return b.String()
}

// mayBe reports whether a used name may be that of an import whose package is
// named unlike its path.
func (p *code) mayBe(im decl.Imported, used map[string]bool) bool {
	for name := range used {
		taken := slices.ContainsFunc(p.imports, func(o decl.Imported) bool { return o != im && o.LocalName() == name })
		if !taken && (strings.Contains(im.Path, name) || strings.Contains(name, im.LocalName())) {
			return true
		}
	}
	return false
}

// helper reports values over descriptor 3.
const helper = `package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func gatehouse_show(values ...any) {
	out := json.NewEncoder(os.NewFile(3, "values"))
	for _, v := range values {
		text := fmt.Sprintf("%#v", v)
		switch x := v.(type) {
		case nil:
			text = "nil"
		case error:
			text = fmt.Sprintf("%T: %v", v, x)
		case fmt.Stringer:
			text = fmt.Sprintf("%#v (%v)", v, x)
		}
		if len(text) > 1<<18 {
			text = text[:1<<18]
		}
		out.Encode(text)
	}
}
`

// build compiles the program in an overlay: the view's folder is not touched.
func (p *code) build(ctx context.Context, s *workspace.Session, tmp string, show bool) error {
	virtual := filepath.Join(s.View.Dir, filepath.FromSlash(p.dir))
	replace := map[string]string{}
	for name, text := range map[string]string{"main.go": p.file(show), "show.go": helper} {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(virtual, name)] = filepath.Join(tmp, name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "overlay.json"), overlay, 0o600); err != nil {
		return err
	}
	bctx, cancel := context.WithTimeoutCause(ctx, buildTimeout, errTimeout)
	defer cancel()
	out, err := run.Run(bctx, run.Cmd{Dir: filepath.Join(s.View.Dir, filepath.FromSlash(p.moduleDir)), Env: s.GoEnv, Sweep: true,
		Args: []string{"go", "build", "-overlay=" + filepath.Join(tmp, "overlay.json"), "-o", filepath.Join(tmp, "program"), "./" + relative(p.moduleDir, p.dir)}})
	if err != nil {
		return err
	}
	if out.Code == 0 {
		return nil
	}
	text := string(out.Stderr)
	if show && strings.Contains(text, "(no value) used as value") {
		return p.build(ctx, s, tmp, false) // the final call answers nothing
	}
	return compileFailure(text)
}

func relative(base, dir string) string {
	if base == "." {
		return dir
	}
	return strings.TrimPrefix(dir, base+"/")
}

// position finds the place of an error, in the given code or in our files.
var position = regexp.MustCompile(`(?m)^\S*` + regexp.QuoteMeta(codeFile) + `:`)

func compileFailure(text string) error {
	text = position.ReplaceAllString(text, "code:")
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "# ") {
			lines = append(lines, line)
		}
	}
	return &toolsets.Failure{Kind: toolsets.CompileError, Data: lines, Text: toolsets.Cut("the code does not compile:\n" + strings.Join(lines, "\n"))}
}

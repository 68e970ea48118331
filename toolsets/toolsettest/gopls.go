package toolsettest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// Gopls is a running gopls, to compare answers with. It speaks the Language Server
// Protocol 3.17 over its standard streams. Positions are as our tools give them:
// file:line:column, the file relative to the folder or else absolute, the column
// counted in bytes.
type Gopls struct {
	t   testing.TB
	dir string
	in  io.Writer
	out *bufio.Reader

	mu      sync.Mutex // guards what follows, and writing
	next    int
	waiting map[int]chan answer
	lines   map[string][]string
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// StartGopls starts the program on the module in dir and has it load the module.
func StartGopls(t testing.TB, program, dir string, env []string) *Gopls {
	t.Helper()
	cmd := exec.Command(program, "serve")
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &Gopls{t: t, dir: dir, in: in, out: bufio.NewReader(out), waiting: map[int]chan answer{}, lines: map[string][]string{}}
	read := make(chan struct{})
	go func() { defer close(read); g.read() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	g.call("initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": uri(dir),
		"capabilities": map[string]any{"textDocument": map[string]any{"documentSymbol": map[string]any{"hierarchicalDocumentSymbolSupport": true}},
			"workspace": map[string]any{"configuration": true}},
		// Nobody asks for diagnostics here.
		"initializationOptions": map[string]any{"diagnosticsTrigger": "Save"},
	}, nil)
	g.write(map[string]any{"jsonrpc": "2.0", "method": "initialized", "params": map[string]any{}})
	return g
}

func uri(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func (g *Gopls) write(message map[string]any) {
	b, err := json.Marshal(message)
	if err != nil {
		g.t.Error(err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := fmt.Fprintf(g.in, "Content-Length: %d\r\n\r\n%s", len(b), b); err != nil {
		g.t.Errorf("write to gopls: %v", err)
	}
}

// read hands out answers until gopls ends, and answers what gopls asks.
func (g *Gopls) read() {
	for {
		size := 0
		for {
			line, err := g.out.ReadString('\n')
			if err != nil {
				g.mu.Lock()
				for _, w := range g.waiting {
					close(w)
				}
				g.waiting = nil
				g.mu.Unlock()
				return
			}
			if line = strings.TrimSpace(line); line == "" {
				break
			}
			if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				size, _ = strconv.Atoi(n)
			}
		}
		body := make([]byte, size)
		var m struct {
			ID     *int
			Method string
			Params struct{ Items []any }
			answer
		}
		if _, err := io.ReadFull(g.out, body); err != nil || json.Unmarshal(body, &m) != nil || m.ID == nil {
			continue // a notification, or one with params of another shape
		}
		if m.Method == "" {
			g.mu.Lock()
			w := g.waiting[*m.ID]
			delete(g.waiting, *m.ID)
			g.mu.Unlock()
			if w != nil {
				w <- m.answer
			}
			continue
		}
		var result any
		if m.Method == "workspace/configuration" {
			result = make([]any, len(m.Params.Items))
		}
		g.write(map[string]any{"jsonrpc": "2.0", "id": *m.ID, "result": result})
	}
}

// call asks and waits. An error is one of the test.
func (g *Gopls) call(method string, params, result any) {
	g.t.Helper()
	w := make(chan answer, 1)
	g.mu.Lock()
	if g.waiting == nil {
		g.mu.Unlock()
		g.t.Fatalf("gopls has ended")
	}
	g.next++
	id := g.next
	g.waiting[id] = w
	g.mu.Unlock()
	g.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	a, ok := <-w
	switch {
	case !ok:
		g.t.Fatalf("gopls ended over %s", method)
	case a.Error != nil:
		g.t.Errorf("gopls: %s %v: %s", method, params, a.Error.Message)
	case result != nil:
		if err := json.Unmarshal(a.Result, result); err != nil {
			g.t.Errorf("gopls: %s: %v", method, err)
		}
	}
}

type lspPosition struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type lspRange struct {
	Start lspPosition `json:"start"`
	End   lspPosition `json:"end"`
}

type lspLocation struct {
	URI   string   `json:"uri"`
	Range lspRange `json:"range"`
}

// text returns the lines of a file, with their ends.
func (g *Gopls) text(file string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l, ok := g.lines[file]; ok {
		return l
	}
	b, err := os.ReadFile(file)
	if err != nil {
		g.t.Errorf("read what gopls names: %v", err)
	}
	l := slices.Collect(strings.Lines(string(b)))
	g.lines[file] = l
	return l
}

// place words a location of gopls. The protocol counts columns in UTF-16 units.
func (g *Gopls) place(l lspLocation) string {
	u, err := url.Parse(l.URI)
	if err != nil {
		g.t.Fatalf("gopls names %q: %v", l.URI, err)
	}
	name := u.Path
	if rel, ok := strings.CutPrefix(name, g.dir+"/"); ok {
		name = rel
	}
	return fmt.Sprintf("%s:%d:%d", name, l.Range.Start.Line+1, g.offset(u.Path, l.Range.Start)+1)
}

// offset is a position's byte within its line.
func (g *Gopls) offset(file string, p lspPosition) int {
	lines := g.text(file)
	if p.Line >= len(lines) {
		return 0
	}
	units := 0
	for i, r := range lines[p.Line] {
		if units >= p.Character {
			return i
		}
		units += max(1, utf16Len(r))
	}
	return len(lines[p.Line])
}

func utf16Len(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// at is a position of ours as the protocol wants it.
func (g *Gopls) at(pos string) map[string]any {
	f := strings.Split(pos, ":")
	line, err := strconv.Atoi(f[1])
	col, err2 := strconv.Atoi(f[2])
	if err != nil || err2 != nil {
		g.t.Fatalf("%q is no position", pos)
	}
	file := f[0]
	if !filepath.IsAbs(file) {
		file = filepath.Join(g.dir, file)
	}
	units := 0
	text := g.text(file)[line-1]
	for rest := text[:col-1]; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		units += utf16Len(r)
		rest = rest[n:]
	}
	return map[string]any{"textDocument": map[string]any{"uri": uri(file)}, "position": lspPosition{line - 1, units}}
}

func (g *Gopls) places(ls []lspLocation) []string {
	out := make([]string, 0, len(ls))
	for _, l := range ls {
		out = append(out, g.place(l))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// References are the uses of what is named at a position. Of a method they
// include those of all methods that correspond to it.
func (g *Gopls) References(pos string) []string {
	g.t.Helper()
	params := g.at(pos)
	params["context"] = map[string]any{"includeDeclaration": false}
	var ls []lspLocation
	g.call("textDocument/references", params, &ls)
	return g.places(ls)
}

// Implementations are the types that implement an interface, the interfaces that
// a type implements, or the methods that correspond to a method.
func (g *Gopls) Implementations(pos string) []string {
	g.t.Helper()
	var ls []lspLocation
	g.call("textDocument/implementation", g.at(pos), &ls)
	return g.places(ls)
}

// Supertypes are the interfaces that a type implements or an interface includes.
func (g *Gopls) Supertypes(pos string) []string {
	g.t.Helper()
	var items []struct {
		Name string
		lspItem
	}
	g.call("textDocument/prepareTypeHierarchy", g.at(pos), &items)
	var ls []lspLocation
	for _, item := range items {
		var super []lspItem
		g.call("typeHierarchy/supertypes", map[string]any{"item": map[string]any{"name": item.Name, "kind": 5, "uri": item.URI, "range": item.Range, "selectionRange": item.SelectionRange}}, &super)
		for _, s := range super {
			ls = append(ls, lspLocation{s.URI, s.SelectionRange})
		}
	}
	return g.places(ls)
}

type lspItem struct {
	URI                   string
	Range, SelectionRange lspRange
}

// Incoming are the uses in functions of a function or method.
func (g *Gopls) Incoming(pos string) []string {
	g.t.Helper()
	var items []json.RawMessage
	g.call("textDocument/prepareCallHierarchy", g.at(pos), &items)
	var ls []lspLocation
	for _, item := range items {
		var calls []struct {
			From       struct{ URI string }
			FromRanges []lspRange
		}
		g.call("callHierarchy/incomingCalls", map[string]any{"item": item}, &calls)
		for _, c := range calls {
			for _, r := range c.FromRanges {
				ls = append(ls, lspLocation{c.From.URI, r})
			}
		}
	}
	return g.places(ls)
}

// Symbol is a declaration as gopls sees it. Methods are named (T).M or (*T).M.
type Symbol struct {
	Name, Detail string
	Kind         int // SymbolKind of the protocol
	Pos          string
	Text         string // its source, without a doc comment
	Children     []Symbol
}

// Symbols are the declarations of a file.
func (g *Gopls) Symbols(file string) []Symbol {
	g.t.Helper()
	type symbol struct {
		Name, Detail          string
		Kind                  int
		Range, SelectionRange lspRange
		Children              []json.RawMessage
	}
	name := filepath.Join(g.dir, file)
	var convert func([]json.RawMessage) []Symbol
	convert = func(raw []json.RawMessage) (out []Symbol) {
		for _, r := range raw {
			var s symbol
			if err := json.Unmarshal(r, &s); err != nil {
				g.t.Fatal(err)
			}
			out = append(out, Symbol{s.Name, s.Detail, s.Kind, g.place(lspLocation{uri(name), s.SelectionRange}), g.between(name, s.Range), convert(s.Children)})
		}
		return out
	}
	var raw []json.RawMessage
	g.call("textDocument/documentSymbol", map[string]any{"textDocument": map[string]any{"uri": uri(name)}}, &raw)
	return convert(raw)
}

// between is the source of a range.
func (g *Gopls) between(file string, r lspRange) string {
	lines := g.text(file)
	if r.End.Line >= len(lines) {
		r.End = lspPosition{len(lines) - 1, 1 << 30}
	}
	from, to := g.offset(file, r.Start), g.offset(file, r.End)
	if r.Start.Line == r.End.Line {
		return lines[r.Start.Line][from:to]
	}
	return lines[r.Start.Line][from:] + strings.Join(lines[r.Start.Line+1:r.End.Line], "") + lines[r.End.Line][:to]
}

// Hover is what gopls says of a position, in Markdown.
func (g *Gopls) Hover(pos string) string {
	g.t.Helper()
	var h struct{ Contents struct{ Value string } }
	g.call("textDocument/hover", g.at(pos), &h)
	return h.Contents.Value
}

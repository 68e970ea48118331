// Package realcode compares the tools with other programs (the go command, go doc,
// gopls and grep) on modules that nobody here wrote. scripts/test-realcode.sh runs
// it: it fetches gopls and the modules.
package realcode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/browsing"
	"gatehouse/toolsets/listing"
	"gatehouse/toolsets/mutation"
	"gatehouse/toolsets/search"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/workspace"
)

// modules are what is looked at. Of each, every so-and-so-many-th name is asked
// for; GATEHOUSE_REAL_EVERY=1 asks for all, which takes gopls hours.
var modules = []struct {
	name  string
	every int
}{
	{"github.com/go-chi/chi/v5@v5.5.0", 3},
	{"github.com/coreos/go-oidc/v3@v3.21.0", 2},
	{"github.com/rs/zerolog@v1.35.1", 12},
	{"github.com/prometheus/client_golang@v1.20.5", 20},
	{"github.com/modelcontextprotocol/go-sdk@v1.8.0", 50},
	{"golang.org/x/tools@v0.52.0", 300},
	{"k8s.io/client-go@v0.34.1", 2000}, // 385 packages
}

// world is one module, with our tools and gopls at work on it.
type world struct {
	*testing.T
	name    string
	dir     string // the module as gopls sees it; ours is a view of a repository
	env     []string
	b       *toolsettest.Bench
	g       *toolsettest.Gopls
	diffs   *differences
	pkgs    []*goPackage
	folders map[string]string // folder -> import path, dependencies included
	decls   []*declared
	at      map[string]*declared // by position
	count   map[string]int       // of what was compared
	refs    map[string][]string  // our answers, by name
	called  map[string]map[string]bool
	outer   map[string]map[string]string // of dependencies' files: position -> name
}

// goPackage is what "go list" says of a package.
type goPackage struct {
	ImportPath, Name, Doc, Dir, ForTest                   string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles, Imports []string
}

// declared is a declaration as gopls sees it.
type declared struct {
	toolsettest.Symbol
	pkg    string // import path, with _test for an external test
	local  string // "F", "T.M", "T.Field"
	tag    string // type, func, method, const, var, member
	test   bool   // in a test file
	iface  bool   // an interface, or a method of one
	picked bool   // one of those that gopls is asked about
	cheap  bool   // one of the more whose source alone is compared
}

func (d *declared) full() string { return d.pkg + "." + d.local }

func sets(ws *workspace.Workspace) []toolsets.Toolset {
	return []toolsets.Toolset{listing.New(ws), browsing.New(ws), search.New(ws), mutation.New(ws)}
}

// TestRealCode looks at every module. GATEHOUSE_REAL_ONLY is a part of the name of
// those that are to be looked at.
func TestRealCode(t *testing.T) {
	gopls := os.Getenv("GATEHOUSE_GOPLS")
	if gopls == "" {
		t.Skip("scripts/test-realcode.sh runs it")
	}
	diffs := readDifferences(t)
	for _, m := range modules {
		if !strings.Contains(m.name, os.Getenv("GATEHOUSE_REAL_ONLY")) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			every := m.every
			if s := os.Getenv("GATEHOUSE_REAL_EVERY"); s != "" {
				if _, err := fmt.Sscan(s, &every); err != nil || every < 1 {
					t.Fatalf("GATEHOUSE_REAL_EVERY=%s is no number", s)
				}
			}
			w := newWorld(t, m.name, gopls, every, diffs)
			w.compareListings()
			w.compareBrowsing()
			w.compareSearch()
			w.compareEdits()
			diffs.finish(t, m.name, every == 1)
			var words []string
			for what, n := range w.count {
				words = append(words, fmt.Sprintf("%d %s", n, what))
			}
			slices.Sort(words)
			t.Logf("compared: %s", strings.Join(words, ", "))
		})
	}
}

func newWorld(t *testing.T, name, gopls string, every int, diffs *differences) *world {
	w := &world{T: t, name: name, env: toolsettest.RealEnv(t), diffs: diffs, at: map[string]*declared{}, folders: map[string]string{},
		count: map[string]int{}, refs: map[string][]string{},
		called: map[string]map[string]bool{}, outer: map[string]map[string]string{}}
	w.dir = filepath.Join(t.TempDir(), "module")
	if err := os.CopyFS(w.dir, os.DirFS(toolsettest.ModuleDir(t, name))); err != nil {
		t.Fatal(err)
	}
	w.command("go", "mod", "download")
	w.b = toolsettest.Join(t, toolsettest.Seed(t, w.dir), "alice", sets)
	w.g = toolsettest.StartGopls(t, gopls, w.dir, append(w.env, "GOPLSCACHE="+os.Getenv("GATEHOUSE_GOPLS_CACHE"), "GOGC=off", "GOMEMLIMIT=3GiB"))
	w.listPackages()
	w.listDeclarations(every)
	return w
}

// command runs a program in the module and returns what it prints.
func (w *world) command(name string, args ...string) []byte {
	w.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%s %v: %v\n%s", name, args, err, errs.Bytes())
	}
	return out
}

func (w *world) goList(args ...string) (out []*goPackage) {
	w.Helper()
	dec := json.NewDecoder(bytes.NewReader(w.command("go", append([]string{"list", "-e",
		"-json=ImportPath,Name,Doc,Dir,ForTest,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports"}, args...)...)))
	for {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, &p)
	}
}

func (w *world) listPackages() {
	w.pkgs = w.goList("./...")
	w.folders[filepath.Join(strings.TrimSpace(string(w.command("go", "env", "GOROOT"))), "src", "builtin")] = "builtin"
	for _, p := range w.goList("-deps", "-test", "./...") {
		if p.ForTest == "" && !strings.HasSuffix(p.ImportPath, ".test") {
			w.folders[p.Dir] = p.ImportPath
		}
	}
}

// rel is a file of a package as positions name it.
func (w *world) rel(p *goPackage, file string) string {
	r, err := filepath.Rel(w.dir, filepath.Join(p.Dir, file))
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// listDeclarations asks gopls for the declarations of all files, and picks every
// so-and-so-many-th.
func (w *world) listDeclarations(every int) {
	n := 0
	for _, p := range w.pkgs {
		for i, files := range [][]string{slices.Concat(p.GoFiles, p.CgoFiles), p.TestGoFiles, p.XTestGoFiles} {
			pkg := p.ImportPath
			if i == 2 {
				pkg += "_test"
			}
			for _, file := range files {
				for _, s := range w.g.Symbols(w.rel(p, file)) {
					n++
					w.add(&declared{Symbol: s, pkg: pkg, test: i > 0, picked: n%every == 0, cheap: n%max(1, every/20) == 0})
				}
			}
		}
	}
}

// Kinds of the protocol.
const (
	kindMethod, kindField, kindInterface, kindFunction, kindVar, kindConst = 6, 8, 11, 12, 13, 14
)

func (w *world) add(d *declared) {
	d.local = d.Name
	switch {
	case d.Kind == kindMethod && strings.HasPrefix(d.Text, "func"):
		d.tag = "method"
		recv, name, _ := strings.Cut(strings.TrimLeft(d.Name, "(*"), ").")
		recv, _, _ = strings.Cut(recv, "[")
		d.local = recv + "." + name
	case strings.HasPrefix(d.Text, "func") && d.Kind == kindFunction && !strings.HasPrefix(d.Text, d.Name):
		d.tag = "func"
	case d.Kind == kindConst:
		d.tag = "const"
	case d.Kind == kindVar:
		d.tag = "var"
	default:
		d.tag, d.iface = "type", d.Kind == kindInterface
		for _, c := range d.Children {
			if next := strings.TrimPrefix(c.Text, c.Name); next == c.Text || next == "" || next[0] != ' ' && next[0] != '(' && next[0] != ',' {
				continue // embedded, or a union
			}
			m := &declared{Symbol: c, pkg: d.pkg, local: d.local + "." + c.Name, tag: "member", test: d.test, picked: d.picked, iface: d.iface && c.Kind == kindMethod}
			w.decls, w.at[c.Pos] = append(w.decls, m), m
		}
	}
	w.decls, w.at[d.Pos] = append(w.decls, d), d
}

// ask runs a tool and reads its structured answer; fail is the text of a failure.
func ask[T any](w *world, tool string, args map[string]any) (v T, fail string) {
	w.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		w.Fatal(err)
	}
	a, err := w.b.Reg.Run(context.Background(), tool, raw, nil)
	switch {
	case err != nil:
		w.Fatal(err)
	case a.IsError:
		return v, a.Text
	}
	if err := json.Unmarshal(a.Data, &v); err != nil {
		w.Fatal(err)
	}
	return v, ""
}

// items are all entries that a list-shaped tool answers, page by page.
func items[T any](w *world, tool string, args map[string]any) (out []T) {
	w.Helper()
	out, fail := tryItems[T](w, tool, args)
	if fail != "" {
		w.Errorf("%s %v: %s", tool, args, fail)
	}
	return out
}

// tryItems is for questions that may have no answer.
func tryItems[T any](w *world, tool string, args map[string]any) (out []T, fail string) {
	w.Helper()
	for {
		page := map[string]any{"limit": 10000, "offset": len(out)}
		maps.Copy(page, args)
		p, fail := ask[toolsets.Page[T]](w, tool, page)
		if fail != "" {
			return nil, fail
		}
		if out = append(out, p.Items...); !p.More {
			return out, ""
		}
	}
}

// same compares two sets of lines.
func (w *world) same(check, symbol string, got, want []string) {
	w.Helper()
	w.count[check]++
	var out []string
	for _, x := range got {
		if !slices.Contains(want, x) {
			out = append(out, "+"+x)
		}
	}
	for _, x := range want {
		if !slices.Contains(got, x) {
			out = append(out, "-"+x)
		}
	}
	slices.Sort(out)
	w.diffs.note(w.T, w.name, check, symbol, strings.Join(slices.Compact(out), " "))
}

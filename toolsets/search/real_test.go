package search

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/go/packages"

	"gatehouse/toolsets/program"
	"gatehouse/toolsets/toolsettest"
)

// TestReferencesOfRealCode compares the references of every package-level name
// with those that the ordinary loader finds, package by package.
func TestReferencesOfRealCode(t *testing.T) {
	for name, snap := range toolsettest.Real(t, "github.com/go-chi/chi/v5", "golang.org/x/tools") {
		want := oracle(t, snap.Root)
		checked, refs := 0, 0
		for _, q := range snap.Plains() {
			for _, obj := range objects(q) {
				found := map[token.Pos]place{}
				collect(snap, obj.Pos(), false, "", found)
				var got []string
				for pos := range found {
					got = append(got, snap.Position(pos))
				}
				slices.Sort(got)
				decl := snap.Position(obj.Pos())
				if !slices.Equal(got, want[decl]) {
					t.Errorf("%s: %s at %s: %d references, the loader finds %d: %v", name, obj.Name(), decl, len(got), len(want[decl]), differ(got, want[decl]))
				}
				checked++
				refs += len(got)
			}
		}
		t.Logf("%s: %d names, %d references", name, checked, refs)
	}
}

// objects are the package-level names of a package and the methods of its types.
func objects(q *program.Package) []types.Object {
	var out []types.Object
	scope := q.Types().Scope()
	for _, n := range scope.Names() {
		obj := scope.Lookup(n)
		out = append(out, obj)
		if tn, ok := obj.(*types.TypeName); ok && !tn.IsAlias() {
			if named, ok := tn.Type().(*types.Named); ok {
				for m := range named.Methods() {
					out = append(out, m)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(o types.Object) bool { return !o.Pos().IsValid() })
}

// oracle maps the position of each declaration to the positions of its uses, as
// go/packages loads and checks everything by itself.
func oracle(t *testing.T, dir string) map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir, Env: toolsettest.RealEnv(t), Tests: true, Fset: fset}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	rel := func(pos token.Pos) string {
		p := fset.Position(pos)
		return fmt.Sprintf("%s:%d:%d", strings.TrimPrefix(p.Filename, dir+"/"), p.Line, p.Column)
	}
	out := map[string][]string{}
	for _, p := range pkgs {
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					use := rel(id.Pos())
					if obj := p.TypesInfo.Uses[id]; obj != nil && obj.Pos().IsValid() && !strings.HasPrefix(use, "/") { // no generated test mains
						decl := rel(obj.Pos())
						out[decl] = append(out[decl], use)
					}
				}
				return true
			})
		}
	}
	for k, v := range out {
		slices.Sort(v)
		out[k] = slices.Compact(v)
	}
	return out
}

func differ(a, b []string) (out []string) {
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, "+"+x)
		}
	}
	for _, x := range b {
		if !slices.Contains(a, x) {
			out = append(out, "-"+x)
		}
	}
	return out[:min(len(out), 5)]
}

var goplsPlace = regexp.MustCompile(`^(.*\.go):(\d+):(\d+)-`)

// daemon starts one gopls for all questions and returns its address.
func daemon(t *testing.T) string {
	t.Helper()
	sock := filepath.Join(t.TempDir(), "gopls")
	cmd := exec.Command("gopls", "serve", "-listen=unix;"+sock, "-listen.timeout=5m")
	cmd.Env = append(toolsettest.RealEnv(t), "TMPDIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 500 {
		if _, err := os.Stat(sock); err == nil {
			return "unix;" + sock
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("gopls does not listen")
	return ""
}

// gopls runs a gopls command on the file and position of an object.
func gopls(t *testing.T, remote string, snap *program.Snapshot, command string, pos token.Pos) []string {
	t.Helper()
	p := snap.Fset.Position(pos)
	cmd := exec.Command("gopls", "-remote="+remote, command, fmt.Sprintf("%s:%d:%d", p.Filename, p.Line, p.Column))
	cmd.Dir = snap.Root
	cmd.Env = toolsettest.RealEnv(t)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("gopls %s %v: %v\n%s", command, p, err, text)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if m := goplsPlace.FindStringSubmatch(line); m != nil {
			out = append(out, fmt.Sprintf("%s:%s:%s", snap.Rel(m[1]), m[2], m[3]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestAnswersAsGopls compares references and implementations with gopls' own for
// names spread over the code. gopls counts two things otherwise, by design:
// references to a method include those to methods that it implements or that
// implement it, and its implementations include types declared inside of
// functions and in the standard library; such names are skipped or cut to ours.
func TestAnswersAsGopls(t *testing.T) {
	if _, err := exec.LookPath("gopls"); err != nil {
		t.Skip("gopls is not installed: go install golang.org/x/tools/gopls@v0.23.0")
	}
	remote := daemon(t)
	for name, snap := range toolsettest.Real(t, "github.com/go-chi/chi/v5") {
		// Every question costs gopls a load of the workspace.
		most := 25
		if len(snap.Plains()) > 50 {
			most = 4
		}
		refs, impls, i := 0, 0, 0
		for _, q := range snap.Plains() {
			for _, obj := range objects(q) {
				if i++; i%17 != 0 || refs >= most {
					continue
				}
				if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil {
					continue
				}
				found := map[token.Pos]place{}
				collect(snap, obj.Pos(), false, "", found)
				var got []string
				for pos := range found {
					got = append(got, snap.Position(pos))
				}
				slices.Sort(got)
				if want := gopls(t, remote, snap, "references", obj.Pos()); !slices.Equal(got, want) {
					t.Errorf("%s: references to %s.%s: %v", name, q.Path, obj.Name(), differ(got, want))
				}
				refs++
			}
			for _, tn := range q.TypeNames() {
				it, ok := tn.Type().Underlying().(*types.Interface)
				if !ok || tn.IsAlias() || it.NumMethods() == 0 || !it.IsMethodSet() || generic(tn) || impls >= most {
					continue
				}
				rs, err := snap.Implementors(t.Context(), tn, nil)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, r := range rs {
					got = append(got, snap.Position(r.Type.Pos()))
				}
				slices.Sort(got)
				got = slices.Compact(got)
				want := slices.DeleteFunc(gopls(t, remote, snap, "implementation", tn.Pos()), func(s string) bool { return !topLevel(snap, s) })
				if !slices.Equal(got, want) {
					t.Errorf("%s: implementations of %s.%s: %v", name, q.Path, tn.Name(), differ(got, want))
				}
				impls++
			}
		}
		t.Logf("%s: %d names, %d interfaces", name, refs, impls)
	}
}

func generic(tn *types.TypeName) bool {
	n, ok := tn.Type().(*types.Named)
	return ok && n.TypeParams().Len() > 0
}

// topLevel reports whether a position is that of a top-level type of the module.
func topLevel(snap *program.Snapshot, pos string) bool {
	for _, q := range snap.Packages() {
		for _, tn := range q.TypeNames() {
			if snap.Position(tn.Pos()) == pos {
				return true
			}
		}
	}
	return false
}

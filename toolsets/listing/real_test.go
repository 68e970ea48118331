package listing

import (
	"bufio"
	"bytes"
	"go/types"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"gatehouse/toolsets/toolsettest"
)

// TestListingsOfRealCode compares packages and their documentation with what the
// go command lists, and the names of each package with its type-checked scope as
// the ordinary loader finds it.
func TestListingsOfRealCode(t *testing.T) {
	for name, snap := range toolsettest.Real(t, "github.com/go-chi/chi/v5", "golang.org/x/tools") {
		cmd := exec.Command("go", "list", "-e", "-f", "{{.ImportPath}}\t{{.Doc}}", "./...")
		cmd.Dir, cmd.Env = snap.Root, toolsettest.RealEnv(t)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		docs := map[string]string{}
		for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
			path, doc, _ := strings.Cut(sc.Text(), "\t")
			docs[path] = doc
		}
		loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedDeps | packages.NeedImports | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedFiles,
			Dir: snap.Root, Env: toolsettest.RealEnv(t)}, "./...")
		if err != nil {
			t.Fatal(err)
		}
		scopes := map[string]*types.Scope{}
		for _, p := range loaded {
			scopes[p.PkgPath] = p.Types.Scope()
		}
		n := 0
		for _, q := range snap.Plains() {
			doc, listed := docs[q.Folder()]
			delete(docs, q.Folder())
			if got := q.Synopsis(); !listed || got != doc {
				t.Errorf("%s: %s: synopsis %q, go list says %q (%v)", name, q.Path, got, doc, listed)
			}
			var got, want []string
			for _, e := range q.Entries() {
				got = append(got, e.Tag+" "+e.Name)
			}
			if q.IsTest() {
				continue // nothing but external tests: the loader has no such package
			}
			if scope := scopes[q.Path]; scope != nil {
				for _, id := range scope.Names() {
					want = append(want, tag(scope.Lookup(id))+" "+id)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s: names %v, the loader finds %v", name, q.Path, got, want)
			}
			n += len(got)
		}
		for path := range docs {
			t.Errorf("%s: go list has %s, list_packages has not", name, path)
		}
		t.Logf("%s: %d packages, %d names", name, len(snap.Plains()), n)
	}
}

func tag(o types.Object) string {
	switch o.(type) {
	case *types.TypeName:
		return "type"
	case *types.Func:
		return "func"
	case *types.Const:
		return "const"
	}
	return "var"
}

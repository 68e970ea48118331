// Package docs checks that the documents of this directory tell the truth.
package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "gatehouse"

// rules are the import rules of architecture.md.
type rules struct {
	may     map[string][]string // package -> packages of this module it may import
	mustNot map[string][]string // binary -> packages it must not link
	only    map[string][]string // foreign module -> the packages that may import it
}

// TestImports checks that every package imports what architecture.md says and
// nothing else of this module, and every foreign module only where it says.
//
// It parses the files itself, because go test caches a result until a file that
// the test process opened changes, and cannot see what a child process opens.
func TestImports(t *testing.T) {
	r := readRules(t)
	seen := map[string]bool{}
	for pkg, imports := range readImports(t, false) {
		seen[pkg] = true
		may, listed := r.may[pkg]
		if !listed {
			t.Errorf("%s is missing from architecture.md", pkg)
		}
		used := map[string]bool{}
		for _, imp := range imports {
			switch own, isOwn := strings.CutPrefix(imp, module+"/"); {
			case isOwn:
				used[own] = true
				if !slices.Contains(may, own) {
					t.Errorf("%s imports %s; architecture.md does not allow that", pkg, own)
				}
			case isForeign(imp) && !r.foreign(pkg, imp):
				t.Errorf("%s imports %s; architecture.md does not allow that", pkg, imp)
			}
		}
		for _, own := range may {
			if !used[own] {
				t.Errorf("architecture.md lets %s import %s, which it does not", pkg, own)
			}
		}
	}
	for pkg := range r.may {
		if !seen[pkg] {
			t.Errorf("architecture.md names %s, which does not exist", pkg)
		}
	}
}

// TestLinks checks what each binary must not link, directly or not.
func TestLinks(t *testing.T) {
	r := readRules(t)
	if len(r.mustNot) == 0 {
		t.Fatal("architecture.md has no link rules")
	}
	for _, name := range []string{"../go.mod", "../go.sum"} {
		if _, err := os.ReadFile(name); err != nil { // an input of the test: see TestImports
			t.Fatal(err)
		}
	}
	readImports(t, false)
	for bin, banned := range r.mustNot {
		cmd := exec.Command("go", "list", "-deps", "./"+bin)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -deps ./%s: %v", bin, err)
		}
		deps := strings.Fields(string(out))
		for _, p := range banned {
			hit := slices.ContainsFunc(deps, func(d string) bool { return d == p || strings.HasPrefix(d, p+"/") && p != "net" })
			if hit {
				t.Errorf("%s links %s; architecture.md forbids that", bin, p)
			}
		}
	}
}

func isForeign(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".")
}

// foreign reports whether pkg may import the package p of another module.
func (r rules) foreign(pkg, p string) bool {
	for mod, users := range r.only {
		if (p == mod || strings.HasPrefix(p, mod+"/")) && slices.Contains(users, pkg) {
			return true
		}
	}
	return false
}

// readImports returns the imports of each package of this module, tests aside.
func readImports(t *testing.T, tests bool) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || len(d.Name()) > 2 && d.Name()[0] == '.') {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || !tests && strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(strings.TrimPrefix(name, "../")))
		if imports[pkg] == nil {
			imports[pkg] = []string{}
		}
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[pkg] = append(imports[pkg], p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// TestDependencies: decisions/dependencies.md says of every foreign module what it is for,
// and of none that nobody imports.
func TestDependencies(t *testing.T) {
	page, err := os.ReadFile("decisions/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for module := range readRules(t).only {
		if !strings.Contains(string(page), "`"+module+"`") {
			t.Errorf("dependencies.md does not say what %s is for", module)
		}
	}
	var all []string
	for _, imports := range readImports(t, true) {
		all = append(all, imports...)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			rows++
			if !slices.ContainsFunc(all, func(p string) bool { return p == m[1] || strings.HasPrefix(p, m[1]+"/") }) {
				t.Errorf("dependencies.md names %s, which nobody imports", m[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d modules were found on the page", rows)
	}
}

// readRules parses the "imports" block of architecture.md.
func readRules(t *testing.T) rules {
	t.Helper()
	md, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```imports\n(.*?)```").FindSubmatch(md)
	if block == nil {
		t.Fatal("architecture.md has no imports block")
	}
	r := rules{map[string][]string{}, map[string][]string{}, map[string][]string{}}
	for line := range strings.Lines(string(block[1])) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0][0] == '!':
			r.mustNot[f[0][1:]] = f[1:]
		case f[0][0] == '@':
			r.only[f[0][1:]] = append(r.only[f[0][1:]], f[1:]...)
		case len(f) == 2 && f[1] == "-":
			r.may[f[0]] = nil
		default:
			r.may[f[0]] = f[1:]
		}
	}
	return r
}

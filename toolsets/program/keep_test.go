package program

import (
	"bytes"
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// again starts the program anew, in another folder with the same files, with what
// an earlier one kept.
func (f *fixture) again(keep string) *fixture {
	f.t.Helper()
	next := &fixture{t: f.t, dir: f.t.TempDir()}
	if err := os.CopyFS(next.dir, os.DirFS(f.dir)); err != nil {
		f.t.Fatal(err)
	}
	next.p = New(next.dir, f.p.env)
	next.p.KeepIn(keep)
	return next
}

// checked names the packages of the working copy that were type-checked.
func checked(s *Snapshot) []string {
	var out []string
	for _, q := range s.Packages() {
		if q.Types() != nil {
			out = append(out, q.Path)
		}
	}
	return out
}

// uses are the places that refer to a name.
func uses(t *testing.T, s *Snapshot, name string) []string {
	t.Helper()
	pos, ok := s.Declared(name)
	if !ok {
		t.Fatalf("%s is not declared", name)
	}
	var out []string
	for _, q := range s.Packages() {
		for _, r := range q.Index().Of(pos) {
			out = append(out, fmt.Sprint(s.Position(r.Pos), " ", r.Func, " ", r.Call))
		}
	}
	return out
}

func TestIndexesAreKept(t *testing.T) {
	f, keep := newFixture(t), t.TempDir()
	first := f.again(keep).index()
	if n := len(checked(first)); n != 4 {
		t.Errorf("at first %d packages were checked", n)
	}
	next := f.again(keep)
	s := next.index()
	if c := checked(s); len(c) != 0 {
		t.Errorf("checked again: %v", c)
	}
	want := []string{"mid/mid.go:5:29 Mid true"}
	for _, s := range []*Snapshot{first, s} {
		if got := uses(t, s, "low.Low"); !slices.Equal(got, want) {
			t.Errorf("uses of low.Low: %v", got)
		}
	}
	obj, _, err := s.Object(t.Context(), "fmt.Println", nil)
	if err != nil {
		t.Fatal(err)
	}
	if refs := s.Plain("example.com/m/top").Index().Of(obj.Pos()); len(refs) != 1 {
		t.Errorf("of a dependency's function there are %d uses", len(refs))
	}

	// An edit inside of a function costs the one package; one that others see costs them.
	next.write("low/low.go", "package low\n\n// Longer.\nfunc Low() int { return 2 }\n")
	s = next.index()
	if c := checked(s); !slices.Equal(c, []string{"example.com/m/low"}) {
		t.Errorf("after an edit of a body checked: %v", c)
	}
	if got := uses(t, s, "low.Low"); !slices.Equal(got, want) {
		t.Errorf("uses after it: %v", got)
	}
	next.write("low/low.go", "package low\n\nfunc Low() int8 { return 2 }\n")
	s = next.again(keep).index()
	if c := checked(s); !slices.Contains(c, "example.com/m/mid") || slices.Contains(c, "example.com/m/aside") {
		t.Errorf("after a change that others see checked: %v", c)
	}
	if b := s.Broken(); len(b) != 1 || b[0].Path != "example.com/m/mid" {
		t.Errorf("broken: %v", b)
	}
	// What has errors is not kept: it must be told again.
	if b := next.again(keep).index().Broken(); len(b) != 1 {
		t.Errorf("broken in the next session: %v", b)
	}
}

func TestKeptIndexesThatAreDamagedAreNotUsed(t *testing.T) {
	f, keep := newFixture(t), t.TempDir()
	f.again(keep).index()
	all, err := os.ReadDir(keep)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d kept, %v", len(all), err)
	}
	for i, e := range all {
		name := filepath.Join(keep, e.Name())
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			b = b[:len(b)/2]
		} else {
			b[0]++
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(checked(f.again(keep).index())); n != 4 {
		t.Errorf("%d packages were checked", n)
	}
}

// FuzzIndex reads anything as a kept index.
func FuzzIndex(f *testing.F) {
	g := &ground{Root: "/nowhere", Fset: token.NewFileSet()}
	tok := g.Fset.AddFile("/nowhere/a.go", -1, 100)
	s := &Snapshot{ground: g, files: map[string]*File{"/nowhere/a.go": {tok: tok}}}
	q := &Package{ground: g}
	f.Add(q.encodeIndex(&Index{ids: &g.ids, refs: []Ref{{tok.Pos(3), tok.Pos(50), "F", true}, {tok.Pos(3), tok.Pos(60), "", false}, {tok.Pos(9), tok.Pos(70), "T.M", true}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, ok := s.decodeIndex(b); ok {
			if y, ok := s.decodeIndex(q.encodeIndex(x)); !ok || !slices.Equal(x.refs, y.refs) {
				t.Errorf("%v is %v afterwards", x.refs, y)
			}
		}
	})
}

func TestOldIndexesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), bytes.Repeat([]byte("x"), i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ most, want int }{{10, 10}, {9, 5}} {
		if err := prune(dir, c.most); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != c.want {
			t.Errorf("with at most %d: %d left, %v", c.most, len(left), err)
		}
	}
	if err := prune(filepath.Join(dir, "none"), 1); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// countGo puts a go command into the PATH that counts how often it is asked.
func countGo(t *testing.T, f *fixture) (asked func() int) {
	t.Helper()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\necho \"$1\" >>'%s'\nexec '%s' \"$@\"\n", log, real)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	path := dir + ":" + os.Getenv("PATH")
	t.Setenv("PATH", path)
	f.p.env = append([]string{"PATH=" + path}, f.p.env[1:]...)
	return func() int {
		b, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		_ = os.Remove(log)
		return bytes.Count(b, []byte("list"))
	}
}

// TestTheListingIsKept: the go command is asked again when something has changed
// that it looks at, and for nothing else.
func TestTheListingIsKept(t *testing.T) {
	f, keep := newFixture(t), t.TempDir()
	asked := countGo(t, f)
	f.write("aside/embed.go", "package aside\n\nimport _ \"embed\"\n\n//go:embed text\nvar Text string\n")
	f.write("aside/text", "x")
	for _, step := range []struct {
		what   string
		change func()
		ask    bool
	}{
		{"at first", func() {}, true},
		{"nothing", func() {}, false},
		{"the body of a function", func() { f.write("low/low.go", "package low\n\nfunc Low() int { return 7 }\n") }, false},
		{"a declaration", func() { f.write("low/low.go", "package low\n\nfunc Low() int { return 7 }\n\nfunc New() {}\n") }, false},
		{"an import", func() { f.write("low/low.go", "package low\n\nimport _ \"fmt\"\n\nfunc Low() int { return 7 }\n") }, true},
		{"a build constraint", func() { f.write("low/more.go", "//go:build never\n\npackage low\n") }, true},
		{"another", func() { f.write("low/more.go", "//go:build !never\n\npackage low\n") }, true},
		{"a module file", func() { f.write("go.mod", "module example.com/m\n\ngo 1.23\n") }, true},
		{"an embedded file", func() {
			if err := os.Rename(filepath.Join(f.dir, "aside/text"), filepath.Join(f.dir, "aside/text2")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"what is embedded", func() {
			f.write("aside/embed.go", "package aside\n\nimport _ \"embed\"\n\n//go:embed text2\nvar Text string\n")
		}, true},
		{"the environment", func() { f.p.env = append(f.p.env, "GOARCH=arm64") }, true},
		{"nothing again", func() {}, false},
		{"a file of the account's configuration", func() {
			f.p.env = slices.DeleteFunc(f.p.env, func(s string) bool { return s == "GOENV=off" })
		}, true},
		{"it could be another one", func() {}, true},
	} {
		step.change()
		asked()
		kept := f.again(keep)
		s := kept.index()
		if n := asked(); (n > 0) != step.ask {
			t.Errorf("%s: the go command was asked %d times", step.what, n)
		}
		if step.ask {
			continue // it is the go command's answer
		}
		if err := s.CheckAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		got := facts(s)
		anew := &fixture{t: t, dir: kept.dir, p: New(kept.dir, f.p.env)}
		if want := facts(anew.load()); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nanew:\n%s", step.what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

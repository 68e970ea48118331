package program

import (
	"context"
	"errors"
	"fmt"
	"go/types"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const module = `
-- go.mod --
module example.com/m

go 1.24
-- low/low.go --
package low

func Low() int { return 1 }
-- mid/mid.go --
package mid

import "example.com/m/low"

func Mid() int { return low.Low() }
-- mid/mid_test.go --
package mid

import "testing"

func TestMid(t *testing.T) { Mid() }
-- top/top.go --
package top

import (
	"fmt"

	"example.com/m/mid"
)

func Top() { fmt.Println(mid.Mid()) }
-- aside/aside.go --
package aside

type T struct{ A, B int }

func (T) M() {}
`

type fixture struct {
	t   *testing.T
	dir string
	p   *Program
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir()}
	for _, file := range txtar.Parse([]byte(module)).Files {
		f.write(file.Name, string(file.Data))
	}
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Split(strings.TrimSpace(string(out)), "\n")
	f.p = New(f.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCACHE=" + caches[0], "GOMODCACHE=" + caches[1],
		"GOPROXY=off", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local", "GOENV=off", "CGO_ENABLED=0"})
	return f
}

func (f *fixture) write(name, text string) {
	f.t.Helper()
	p := filepath.Join(f.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) load() *Snapshot {
	f.t.Helper()
	s, err := f.p.Load(f.t.Context(), nil)
	if err == nil {
		err = s.CheckAll(f.t.Context(), nil)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// fresh names the packages that are not the same in two snapshots.
func fresh(before, after *Snapshot) []string {
	var out []string
	for _, q := range after.order {
		if before.byID[q.ID] != q {
			out = append(out, q.ID)
		}
	}
	slices.Sort(out)
	return out
}

func TestOnlyWhatDependsOnAChangeIsCheckedAgain(t *testing.T) {
	f := newFixture(t)
	first := f.load()
	if f.load() != first {
		t.Error("nothing changed and yet there is a new snapshot")
	}
	f.write("mid/mid.go", "package mid\n\nimport \"example.com/m/low\"\n\nfunc Mid() int { return low.Low() + 1 }\n")
	second := f.load()
	want := []string{"example.com/m/mid", "example.com/m/mid [example.com/m/mid.test]"}
	if got := fresh(first, second); !slices.Equal(got, want) {
		t.Errorf("after an edit inside of a function: %v", got)
	}
	f.write("mid/mid.go", "package mid\n\nimport \"example.com/m/low\"\n\nfunc Mid(...int) int { return low.Low() + 1 }\n")
	first, second = second, f.load()
	if got, want := fresh(first, second), append(want, "example.com/m/top"); !slices.Equal(got, want) {
		t.Errorf("after an edit of a function's type: %v", got)
	}
	f.write("aside/aside.go", "package aside\n\nimport \"example.com/m/low\"\n\ntype T struct{ A, B int }\n\nvar X = low.Low()\n")
	third := f.load()
	if got := fresh(second, third); !slices.Equal(got, []string{"example.com/m/aside"}) {
		t.Errorf("after an edit of the imports: %v", got)
	}
	f.write("new/new.go", "package new\n")
	fourth := f.load()
	if got := fresh(third, fourth); !slices.Equal(got, []string{"example.com/m/new"}) {
		t.Errorf("after a new package: %v", got)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "new")); err != nil {
		t.Fatal(err)
	}
	if got := fresh(fourth, f.load()); len(got) != 0 {
		t.Errorf("after a removed package: %v", got)
	}
}

// facts is everything that tools tell about a program, as text.
func facts(s *Snapshot) []string {
	var out []string
	for _, q := range s.Packages() {
		out = append(out, q.Errors()...)
		for _, tn := range q.TypeNames() {
			if it, ok := tn.Type().Underlying().(*types.Interface); ok && it.NumMethods() > 0 {
				rs, err := s.Implementors(context.Background(), tn, nil)
				for _, r := range rs {
					out = append(out, fmt.Sprint("implements ", tn.Name(), " ", r.Name(), r.Pointer, s.Position(r.Type.Pos()), err))
				}
			}
		}
		scope := q.Types().Scope()
		for _, n := range scope.Names() {
			objs := []types.Object{scope.Lookup(n)}
			if named, ok := objs[0].Type().(*types.Named); ok {
				for m := range named.Methods() {
					objs = append(objs, m)
				}
				if st, ok := named.Underlying().(*types.Struct); ok {
					for f := range st.Fields() {
						objs = append(objs, f)
					}
				}
			}
			for _, o := range objs {
				at := o.Name() + " at " + s.Position(o.Pos())
				out = append(out, at)
				for _, p := range s.Packages() {
					for _, r := range p.Index().Of(o.Pos()) {
						out = append(out, fmt.Sprint(at, ": ", s.Position(r.Pos), " ", r.Func, r.Call))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestUpToDateIsAsLoadedAnew edits at random, inside of functions and outside,
// and compares the program that was brought up to date with one loaded anew. Once
// all types are known at each edit; once the program starts again and again from
// kept indexes, and most types are unknown.
func TestUpToDateIsAsLoadedAnew(t *testing.T) {
	t.Run("all types known", func(t *testing.T) {
		f := newFixture(t)
		f.load()
		f.editAtRandom(func(*rand.Rand) {})
	})
	t.Run("indexes kept", func(t *testing.T) {
		f := newFixture(t)
		keep := t.TempDir()
		f.editAtRandom(func(r *rand.Rand) {
			if r.IntN(2) == 0 {
				f.p = New(f.dir, f.p.env)
				f.p.KeepIn(keep)
			}
			f.index()
		})
		if n, err := os.ReadDir(keep); err != nil || len(n) == 0 {
			t.Errorf("%d indexes were kept, %v", len(n), err)
		}
	})
}

// index brings the program up to date and asks for indexes alone.
func (f *fixture) index() *Snapshot {
	f.t.Helper()
	s, err := f.p.Load(f.t.Context(), nil)
	if err == nil {
		err = s.IndexAll(f.t.Context(), nil)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// editAtRandom calls before each of many edits, and compares after it.
func (f *fixture) editAtRandom(before func(*rand.Rand)) {
	t := f.t
	seed := rand.Uint64()
	t.Logf("random seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	steps := 8
	if testing.Short() {
		steps = 4
	}
	for step := range steps {
		before(r)
		pad := strings.Repeat("// pad\n", r.IntN(4))
		body := strings.Repeat("\t_ = 0\n", r.IntN(3))
		switch r.IntN(6) {
		case 0, 1:
			f.write("low/low.go", fmt.Sprintf("package low\n\n%s// S speaks.\ntype S interface{ Speak() T }\n\ntype T struct{ X int }\n\nfunc (t *T) Speak() T {\n%s\treturn T{X: t.X}\n}\n\nfunc Low() int {\n%s\treturn (&T{X: 1}).Speak().X\n}\n", pad, body, body))
		case 2:
			f.write("low/more.go", fmt.Sprintf("package low\n\n%sfunc More() T {\n%s\treturn T{X: Low()}\n}\n", pad, body))
		case 3:
			f.write("mid/mid.go", fmt.Sprintf("package mid\n\nimport \"example.com/m/low\"\n\n%stype W struct{ low.T }\n\nfunc (W) Speak() low.T { return low.T{X: %d} }\n\nfunc Mid() int {\n%s\tvar s low.S = W{}\n\treturn low.Low() + s.Speak().X\n}\n", pad, r.IntN(9), body))
		case 4:
			f.write("low/low.go", fmt.Sprintf("package low\n\n%stype S interface{ Speak() T }\n\ntype T struct{ Y, X int }\n\nfunc (t T) Speak() T { return t }\n\nfunc Low() int { return %d }\n", pad, step))
		default:
			f.write("top/top.go", fmt.Sprintf("package top\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/m/mid\"\n)\n\n%sfunc Top() {\n%s\tfmt.Println(mid.Mid())\n}\n", pad, body))
		}
		if r.IntN(3) == 0 {
			continue // several edits at once
		}
		got := facts(f.load())
		anew := &fixture{t: t, dir: f.dir, p: New(f.dir, f.p.env)}
		if want := facts(anew.load()); !slices.Equal(got, want) {
			t.Fatalf("step %d:\n%s\nanew:\n%s", step, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestErrorsComeAndGo(t *testing.T) {
	f := newFixture(t)
	if b := f.load().Broken(); len(b) != 0 {
		t.Errorf("broken at first: %v", b[0].Errors())
	}
	for _, step := range []struct{ src, want string }{
		{"package low\n\nfunc Low() string { return \"\" }\n", "mid/mid.go:5:25: cannot use low.Low()"},
		{"package low\n\nfunc Low() int { return 1 \n", "low/low.go:3:28: expected '}'"},
		{"package low\n\nimport \"example.com/nowhere\"\n\nfunc Low() int { return nowhere.X }\n", "low/low.go:3:8: could not import example.com/nowhere ("},
		{"package low\n\nfunc Low() int { return 2 }\n", ""},
	} {
		f.write("low/low.go", step.src)
		var all []string
		for _, q := range f.load().Broken() {
			all = append(all, q.Errors()...)
		}
		if text := strings.Join(all, "\n"); step.want == "" && text != "" || !strings.Contains(text, step.want) {
			t.Errorf("%q: errors %s", step.src, text)
		}
	}
}

func TestCancelledCheckCanBeTakenUpAgain(t *testing.T) {
	f := newFixture(t)
	s, err := f.p.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err = s.CheckAll(ctx, func(int, int, string) { n++; cancel() })
	if !errors.Is(err, context.Canceled) || n == 0 {
		t.Fatalf("after %d reports: %v", n, err)
	}
	if err := s.CheckAll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	obj, _, err := s.Object(t.Context(), "mid.Mid", nil)
	if err != nil {
		t.Fatal(err)
	}
	refs := 0
	for _, q := range s.Packages() {
		refs += len(q.Index().Of(obj.Pos()))
	}
	if refs != 2 { // top and the test
		t.Errorf("%d references", refs)
	}
}

func TestNoGoCommand(t *testing.T) {
	f := newFixture(t)
	t.Setenv("PATH", "/nonexistent")
	if _, err := New(f.dir, []string{"PATH=/nonexistent"}).Load(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no go command in this worker's PATH") {
		t.Errorf("error %v", err)
	}
}

func TestBuildOrder(t *testing.T) {
	var got []string
	for _, q := range newFixture(t).load().Plains() {
		got = append(got, q.Name)
	}
	at := func(n string) int { return slices.Index(got, n) }
	if len(got) != 4 || at("low") > at("mid") || at("mid") > at("top") {
		t.Errorf("order %v", got)
	}
}

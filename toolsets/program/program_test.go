package program

import (
	"context"
	"errors"
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
	f.p = New(f.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "GOCACHE=" + caches[0], "GOMODCACHE=" + caches[1],
		"GOPROXY=off", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local", "CGO_ENABLED=0"})
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
	for _, q := range after.All() {
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
	want := []string{"example.com/m/mid", "example.com/m/mid [example.com/m/mid.test]", "example.com/m/top"}
	if got := fresh(first, second); !slices.Equal(got, want) {
		t.Errorf("after an edit inside of a function: %v", got)
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

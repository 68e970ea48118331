package search

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/workspace"
)

func sets(ws *workspace.Workspace) []toolsets.Toolset { return []toolsets.Toolset{New(ws)} }

const module = `
-- go.mod --
module example.com/m

go 1.24
-- a.go --
package m

import "fmt"

type Speaker interface{ Speak() string }

type Dog struct{ Name string }

func (d *Dog) Speak() string { return d.Name }

type Cat struct{}

func (Cat) Speak() string { return "meow" }

func Say(s Speaker) { fmt.Println(s.Speak()) }

func Direct() { d := &Dog{Name: "x"}; d.Speak(); f := d.Speak; _ = f }

func Map[T any](x T) T { return x }

var once = Map(1)
-- a_test.go --
package m

import "testing"

type fake struct{}

func (fake) Speak() string { return "" }

func TestSay(t *testing.T) { Say(fake{}); Map[string]("") }
-- x_test.go --
package m_test

import (
	"testing"

	"example.com/m"
)

type outside struct{ m.Dog }

func TestOutside(t *testing.T) { m.Say(&outside{}) }
-- use/use.go --
package use

import "example.com/m"

type Bird struct{}

func (Bird) Speak() string { return "tweet" }

func Use() { m.Say(Bird{}) }
-- off/off_windows.go --
package off

func Speak() {}
-- testdata/t.go --
package t // Speak
`

func TestSearch(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("find_callers", map[string]any{"name": "m.Say"})
	for _, c := range []struct {
		tool, name, want string
	}{
		{"find_implementors", "m.Speaker", `(showing 1-5 of 5)
example.com/m.Cat at a.go:11:6
*example.com/m.Dog at a.go:7:6
example.com/m.fake at a_test.go:5:6
example.com/m/use.Bird at use/use.go:5:6
*example.com/m_test.outside at x_test.go:9:6`},
		{"find_implementors", "m.Speaker.Speak", `(showing 1-4 of 4)
example.com/m.Cat.Speak at a.go:13:12
*example.com/m.Dog.Speak at a.go:9:15
example.com/m.fake.Speak at a_test.go:7:13
example.com/m/use.Bird.Speak at use/use.go:7:13`},
		{"find_implementors", "Speak", `(showing 1-5 of 5)
example.com/m.Cat.Speak at a.go:13:12
example.com/m.Dog.Speak at a.go:9:15
example.com/m.Speaker.Speak at a.go:5:25
example.com/m.fake.Speak at a_test.go:7:13
example.com/m/use.Bird.Speak at use/use.go:7:13`},
		{"find_references_to", "m.Say", `(showing 1-3 of 3)
a_test.go:9:30: func TestSay(t *testing.T) { Say(fake{}); Map[string]("") }  (in example.com/m.TestSay)
use/use.go:9:16: func Use() { m.Say(Bird{}) }  (in example.com/m/use.Use)
x_test.go:11:36: func TestOutside(t *testing.T) { m.Say(&outside{}) }  (in example.com/m_test.TestOutside)`},
		{"find_references_to", "m.Dog.Name", `(showing 1-2 of 2)
a.go:9:41: func (d *Dog) Speak() string { return d.Name }  (in example.com/m.Dog.Speak)
a.go:17:27: func Direct() { d := &Dog{Name: "x"}; d.Speak(); f := d.Speak; _ = f }  (in example.com/m.Direct)`},
		{"find_references_to", "m.Map", `(showing 1-2 of 2)
a.go:21:12: var once = Map(1)  (in example.com/m.once)
a_test.go:9:43: func TestSay(t *testing.T) { Say(fake{}); Map[string]("") }  (in example.com/m.TestSay)`},
		{"find_references_to", "fmt.Println", "(showing 1-1 of 1)\na.go:15:27: func Say(s Speaker) { fmt.Println(s.Speak()) }  (in example.com/m.Say)"},
		{"find_references_to", "m.once", "(none)"},
		{"find_callers", "m.Dog.Speak", `(showing 1-2 of 2)
a.go:15:37: func Say(s Speaker) { fmt.Println(s.Speak()) }  (in example.com/m.Say)  [through interface method example.com/m.Speaker.Speak]
a.go:17:41: func Direct() { d := &Dog{Name: "x"}; d.Speak(); f := d.Speak; _ = f }  (in example.com/m.Direct)`},
		{"find_callers", "m.Speaker.Speak", "(showing 1-1 of 1)\na.go:15:37: func Say(s Speaker) { fmt.Println(s.Speak()) }  (in example.com/m.Say)"},
	} {
		if got := b.OK(c.tool, map[string]any{"name": c.name}); got != c.want {
			t.Errorf("%s %s:\n%s", c.tool, c.name, got)
		}
	}
	b.Fails(toolsets.NotFound, "find_callers", map[string]any{"name": "m.Dog"})
	b.Fails(toolsets.NotFound, "find_implementors", map[string]any{"name": "m.Dog"})
	b.Fails(toolsets.NotFound, "find_references_to", map[string]any{"name": "m.Nope"})
}

// TestCallersThroughError: the predeclared error is an interface like any other,
// also where another one embeds it, and in what is kept for the next session.
func TestCallersThroughError(t *testing.T) {
	b := toolsettest.New(t, `
-- go.mod --
module example.com/e

go 1.24
-- e.go --
package e

type Bad struct{}

func (*Bad) Error() string { return "bad" }

type Coded interface {
	error
	Code() int
}

func (*Bad) Code() int { return 1 }

type Other struct{}

func (Other) Error() int { return 0 }

func Text(err error) string { return err.Error() }

func Of[E error](e E) string { return e.Error() }

func Both(c Coded, b *Bad) string { return c.Error() + b.Error() }

func Value(err error) func() string { return err.Error }

func Alone() int { return Other{}.Error() }
`, sets)
	const want = `(showing 1-4 of 4)
e.go:18:42: func Text(err error) string { return err.Error() }  (in example.com/e.Text)  [through interface method error.Error]
e.go:20:41: func Of[E error](e E) string { return e.Error() }  (in example.com/e.Of)  [through interface method error.Error]
e.go:22:46: func Both(c Coded, b *Bad) string { return c.Error() + b.Error() }  (in example.com/e.Both)  [through interface method error.Error]
e.go:22:58: func Both(c Coded, b *Bad) string { return c.Error() + b.Error() }  (in example.com/e.Both)`
	b.OK("find_callers", map[string]any{"name": "e.Bad.Error", "limit": 0})
	for _, view := range []string{"main", "second"} { // the second one takes what the first one kept
		got := b.OK("find_callers", map[string]any{"name": "e.Bad.Error", "view": view})
		if got, _, _ := strings.Cut(got, "\n[view]"); got != want {
			t.Errorf("in view %s:\n%s", view, got)
		}
	}
	if got := b.OK("find_callers", map[string]any{"name": "e.Other.Error"}); !strings.HasPrefix(got, "(showing 1-1 of 1)\ne.go:26") {
		t.Errorf("of a method that is no error's:\n%s", got)
	}
}

func TestSearchFollowsEdits(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	count := func() string {
		return strings.SplitN(b.OK("find_references_to", map[string]any{"name": "m.Say", "limit": 0}), "\n", 2)[0]
	}
	if got := count(); got != "(3 in all)" {
		t.Fatal(got)
	}
	v := b.Set.Views()[0]
	for _, step := range []struct{ file, src, want string }{
		{"use/use.go", "package use\n\nimport \"example.com/m\"\n\nfunc Use() { m.Say(nil); m.Say(nil) }\n", "(4 in all)"},
		{"new/new.go", "package new\n\nimport \"example.com/m\"\n\nvar F = m.Say\n", "(5 in all)"},
		{"use/use.go", "package use\n\nimport (\n\t\"fmt\"\n\t\"example.com/m\"\n)\n\nfunc Use() { m.Say(nil); fmt.Println() }\n", "(4 in all)"},
		{"a.go", "package m\n\nfunc Say(any) { Say(1) }\n", "(5 in all)"},
		{"use/use.go", "package use\n\nfunc (\n", "(4 in all)"},
	} {
		if err := v.WriteFile(t.Context(), step.file, []byte(step.src)); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != step.want {
			t.Errorf("after %s: %s, want %s", step.file, got, step.want)
		}
	}
	if got := b.OK("find_references_to", map[string]any{"name": "m.Say"}); !strings.Contains(got, "\n(these packages have errors, so that something may be missing: example.com/m") || !strings.Contains(got, "example.com/m/use") {
		t.Errorf("broken packages are not named: %s", got)
	}
}

func TestSearchSource(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("search_source", map[string]any{"pattern": "zz"})
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"pattern": "Speak()", "package": "use"}, "(showing 1-1 of 1)\nuse/use.go:7:13: func (Bird) Speak() string { return \"tweet\" }"},
		{map[string]any{"pattern": "Speak", "limit": 0}, "(9 in all)"},
		{map[string]any{"pattern": "/^func \\(\\w* ?\\*?Dog/"}, "(showing 1-1 of 1)\na.go:9:1: func (d *Dog) Speak() string { return d.Name }"},
		{map[string]any{"pattern": "/(?i)TWEET\\b/"}, "(showing 1-1 of 1)\nuse/use.go:7:38: func (Bird) Speak() string { return \"tweet\" }"},
		{map[string]any{"pattern": "Speak", "limit": 1, "offset": 1}, "(showing 2-2; there are more and the total is not known; pass offset: 2 for the next page)\na.go:7"},
		{map[string]any{"pattern": "/x*/", "package": "use"}, "(showing 1-9 of 9)\nuse/use.go:1:1: package use\nuse/use.go:2:1: \n"},
		{map[string]any{"pattern": "no such thing"}, "(none)"},
	} {
		got := b.OK("search_source", c.args)
		if c.args["limit"] == 1 {
			if !strings.HasPrefix(got, "(showing 2-2; there are more and the total is not known; pass offset: 2 for the next page)\n") {
				t.Errorf("%v:\n%s", c.args, got)
			}
			continue
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%v:\n%s", c.args, got)
		}
	}
	b.Fails(toolsets.InvalidParams, "search_source", map[string]any{"pattern": ""})
	b.Fails(toolsets.InvalidParams, "search_source", map[string]any{"pattern": "/(/"})
	b.Fails(toolsets.NotFound, "search_source", map[string]any{"pattern": "x", "package": "off"}) // nothing of it is built here
}

// TestOddFiles: a pipe in the place of a Go file holds nothing up, and a file that
// is too large is named and not read.
func TestOddFiles(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("find_callers", map[string]any{"name": "m.Say", "limit": 0})
	dir := b.Set.Views()[0].Dir
	large, err := os.Create(filepath.Join(dir, "large.go"))
	if err == nil {
		err = errors.Join(large.Truncate(1<<40), large.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := b.OK("search_source", map[string]any{"pattern": "tweet"}); !strings.HasPrefix(got, "(showing 1-1 of 1)\nuse/use.go:7:38: func (Bird) Speak() string { return \"tweet\" }\n(1 file of more than 32 MiB not searched)") {
		t.Errorf("beside a large file:\n%s", got)
	}
	if err := os.Remove(large.Name()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe.go", "go.sum"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := b.Fails(toolsets.Refused, "find_callers", map[string]any{"name": "m.Say"}); !strings.Contains(got, name+" is a pipe") {
			t.Errorf("%s: %s", name, got)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.OK("find_callers", map[string]any{"name": "m.Say", "limit": 0})
}

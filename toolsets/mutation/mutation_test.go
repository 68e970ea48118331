package mutation

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/browsing"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/workspace"
)

func sets(ws *workspace.Workspace) []toolsets.Toolset {
	return []toolsets.Toolset{browsing.New(ws), New(ws)}
}

const fileA = `// Package m is edited.
package m

import (
	"fmt"
	"strings" // why not
)

// free comment

// Hello greets.
//
//go:noinline
func Hello() { fmt.Println("hi") } // tail

type   odd struct{ x int } // badly formatted on purpose? no: see below

// T is a type.
type T struct{ N int }

// Up shouts.
func (t *T) Up() string { return strings.ToUpper("t") }

type (
	// G1 is one.
	G1 int
	G2 string // two
)

const (
	// C is constant.
	C = 1
	D = 2
)

// the end
`

var module = "-- go.mod --\nmodule example.com/m\n\ngo 1.24\n-- a.go --\n" + strings.Replace(fileA, "type   odd", "type odd", 1) +
	"-- use/use.go --\npackage use\n\nimport \"example.com/m\"\n\nfunc Use() { m.Hello() }\n"

func read(t *testing.T, b *toolsettest.Bench, name string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(b.Set.Views()[0].Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if f, err := format.Source(src); err == nil && string(f) != string(src) && !strings.Contains(string(src), "\r") {
		t.Errorf("gofmt disagrees with %s:\n%s", name, src)
	}
	return string(src)
}

// show reads a declaration, so that it may be changed.
func show(b *toolsettest.Bench, name string) string {
	b.T.Helper()
	a := b.Call("get_function_source", map[string]any{"name": name})
	if a.IsError {
		a = b.Call("get_type_definition", map[string]any{"type": name})
	}
	return toolsettest.Decode[browsing.Source](b.T, a).Source
}

func TestBlindWritesAreRefused(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	src := "func Hello() {}"
	for tool, args := range map[string]map[string]any{
		"define_function": {"package": "m", "source": src},
		"delete_function": {"name": "m.Hello"},
		"set_doc_comment": {"name": "m.Hello", "comment": "x"},
		"define_type":     {"package": "m", "source": "type T int"},
		"delete_type":     {"type": "m.T"},
		"remove_package":  {"package": "m/use"},
	} {
		if tool == "remove_package" {
			args = map[string]any{"package": "use"}
		}
		if got := b.Fails(toolsets.Refused, tool, args); !strings.Contains(got, "read") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	show(b, "m.Hello")
	b.OK("define_function", map[string]any{"package": "m", "source": src})
	b.OK("define_function", map[string]any{"package": "m", "source": "func Hello() { _ = 1 }"}) // own text is known
	v := b.Set.Views()[0]
	if err := v.WriteFile(t.Context(), "a.go", []byte(strings.Replace(read(t, b, "a.go"), "_ = 1", "_ = 2", 1))); err != nil {
		t.Fatal(err)
	}
	if got := b.Fails(toolsets.Refused, "delete_function", map[string]any{"name": "m.Hello"}); !strings.Contains(got, "changed since") {
		t.Error(got)
	}
}

func TestDefineFunctionTouchesNothingElse(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	own := show(b, "m.Hello")
	before := read(t, b, "a.go")
	if got := b.OK("define_function", map[string]any{"package": "m", "source": own}); !strings.Contains(got, "nothing was changed") {
		t.Error(got)
	}
	got := b.OK("define_function", map[string]any{"package": "example.com/m", "source": "func Hello() { os.Exit(1)\nsort.Ints(nil) }"})
	if !strings.Contains(got, `Imports added: "os", "sort"`) || !strings.Contains(got, `Imports removed: "fmt"`) || strings.Contains(got, "new error") {
		t.Errorf("result: %s", got)
	}
	want := strings.Replace(before, "func Hello() { fmt.Println(\"hi\") } // tail\n", "func Hello() {\n\tos.Exit(1)\n\tsort.Ints(nil)\n}\n", 1)
	want = strings.Replace(want, "\t\"fmt\"\n\t\"strings\" // why not\n", "\t\"os\"\n\t\"sort\"\n\t\"strings\" // why not\n", 1)
	if now := read(t, b, "a.go"); now != want {
		t.Errorf("file:\n%s", now)
	}
	if got := b.OK("define_function", map[string]any{"package": "m", "source": "// New doc.\nfunc (t *T) Down() string { return undefined(t) }"}); !strings.Contains(got, "1 new error:\n  a.go:") || !strings.Contains(got, "undefined: undefined") {
		t.Errorf("result: %s", got)
	}
	if now := read(t, b, "a.go"); !strings.Contains(now, "ToUpper(\"t\") }\n\n// New doc.\nfunc (t *T) Down() string { return undefined(t) }\n\ntype (\n") {
		t.Errorf("file:\n%s", now)
	}
	if got := b.OK("define_function", map[string]any{"package": "m", "source": "func Other() {}"}); strings.Contains(got, "new error") {
		t.Errorf("an old error was called new: %s", got)
	}
	if now := read(t, b, "a.go"); !strings.HasSuffix(now, ")\n\nfunc Other() {}\n\n// the end\n") {
		t.Errorf("file:\n%s", now)
	}
}

func TestSourceThatDoesNotParseChangesNothing(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	show(b, "m.Hello")
	before := read(t, b, "a.go")
	if got := b.Fails(toolsets.CompileError, "define_function", map[string]any{"package": "m", "source": "func Hello() {\n\tx := := 1\n}"}); !strings.Contains(got, "source:2:7: ") {
		t.Errorf("position: %s", got)
	}
	if got := b.Fails(toolsets.CompileError, "define_function", map[string]any{"package": "m", "source": "func Hello( {"}); !strings.Contains(got, "source:1:13: ") {
		t.Errorf("position: %s", got)
	}
	for _, src := range []string{"", "var x = 1", "type T int", "func A() {}\nfunc B() {}", "import \"os\"\nfunc A() {}"} {
		b.Fails(toolsets.InvalidParams, "define_function", map[string]any{"package": "m", "source": src})
	}
	for _, src := range []string{"type (\n A int\n B int\n)", "func A() {}"} {
		b.Fails(toolsets.InvalidParams, "define_type", map[string]any{"package": "m", "source": src})
	}
	b.Fails(toolsets.CompileError, "define_function", map[string]any{"package": "m", "source": "package m\nfunc A() {}"})
	b.Fails(toolsets.Refused, "define_type", map[string]any{"package": "m", "source": "type Hello int"})
	b.Fails(toolsets.NotFound, "define_type", map[string]any{"package": "nope", "source": "type X int"})
	for _, f := range []string{"../x.go", "use/x.go", "x.txt", ".x.go", "/etc/x.go", ""} {
		if f != "" {
			b.Fails(toolsets.InvalidParams, "define_type", map[string]any{"package": "example.com/m", "source": "type X int", "file": f})
		}
	}
	if now := read(t, b, "a.go"); now != before {
		t.Errorf("file:\n%s", now)
	}
}

func TestDefineTypeAlsoInGroups(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	show(b, "m.T")
	show(b, "m.G1")
	b.OK("define_type", map[string]any{"package": "m", "source": "type T struct {\n\tN int\n\tTime time.Time\n}"})
	now := read(t, b, "a.go")
	if !strings.Contains(now, "// T is a type.\ntype T struct {\n\tN    int\n\tTime time.Time\n}\n") || !strings.Contains(now, "\"time\"\n") {
		t.Errorf("file:\n%s", now)
	}
	b.OK("define_type", map[string]any{"package": "m", "source": "// G1 is a type of map.\ntype G1 map[string]int"})
	now = read(t, b, "a.go")
	if !strings.Contains(now, "type (\n\t// G1 is a type of map.\n\tG1 map[string]int\n\tG2 string // two\n)\n") {
		t.Errorf("file:\n%s", now)
	}
	b.OK("define_type", map[string]any{"package": "m", "source": "type New[K comparable] struct{ k K }", "file": "new.go"})
	if now := read(t, b, "new.go"); now != "package m\n\ntype New[K comparable] struct{ k K }\n" {
		t.Errorf("new file:\n%s", now)
	}
	b.OK("define_function", map[string]any{"package": "m", "source": "func TestNew(t *testing.T) {}"})
	if now := read(t, b, "m_test.go"); now != "package m\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) {}\n" {
		t.Errorf("test file:\n%s", now)
	}
}

func TestDeletions(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	show(b, "m.T")
	b.Fails(toolsets.Refused, "delete_type", map[string]any{"type": "m.T"}) // its method was not read
	b.OK("export_type_source", map[string]any{"type": "m.T"})
	if got := b.OK("delete_type", map[string]any{"type": "m.T"}); !strings.Contains(got, "example.com/m.T, example.com/m.T.Up") || !strings.Contains(got, `Imports removed: "strings"`) {
		t.Errorf("result: %s", got)
	}
	show(b, "m.G2")
	b.OK("delete_type", map[string]any{"type": "m.G2"})
	show(b, "m.Hello")
	if got := b.OK("delete_function", map[string]any{"name": "m.Hello"}); !strings.Contains(got, "use/use.go:5:16: undefined: m.Hello") {
		t.Errorf("result: %s", got)
	}
	want := `// Package m is edited.
package m

// free comment

type odd struct{ x int } // badly formatted on purpose? no: see below

type (
	// G1 is one.
	G1 int
)

const (
	// C is constant.
	C = 1
	D = 2
)

// the end
`
	if now := read(t, b, "a.go"); now != want {
		t.Errorf("file:\n%s", now)
	}
}

func TestPackages(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("add_package", map[string]any{"path": "example.com/m/sub/go-thing"})
	if now := read(t, b, "sub/go-thing/thing.go"); now != "package thing\n" {
		t.Errorf("file %q", now)
	}
	b.OK("define_function", map[string]any{"package": "thing", "source": "func F() { m.Hello() }"})
	if now := read(t, b, "sub/go-thing/thing.go"); !strings.Contains(now, `import "example.com/m"`) {
		t.Errorf("file %q", now)
	}
	b.OK("add_package", map[string]any{"path": "dir", "name": "other"})
	for _, bad := range []string{"../x", "/x", "a//b", ".git/x", "a/.b", "_x", "vendor/x", "testdata", "", "a b", "x/../../y", "example.org/else/../x"} {
		b.Fails(toolsets.InvalidParams, "add_package", map[string]any{"path": bad})
	}
	b.Fails(toolsets.InvalidParams, "add_package", map[string]any{"path": "y", "name": "1x"})
	b.Fails(toolsets.Refused, "add_package", map[string]any{"path": "use"})
	if got := b.OK("remove_package", map[string]any{"package": "thing"}); !strings.Contains(got, "sub/go-thing/thing.go") {
		t.Error(got)
	}
	v := b.Set.Views()[0]
	for name, src := range map[string]string{"use/x_test.go": "package use_test\n\nfunc helper() {}\n", "use/use_windows.go": "package use\n\nfunc W() {}\n"} {
		if err := v.WriteFile(t.Context(), name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	show(b, "use.Use")
	if got := b.Fails(toolsets.Refused, "remove_package", map[string]any{"package": "example.com/m/use"}); !strings.Contains(got, "use_test.helper") {
		t.Error(got)
	}
	show(b, "use_test.helper")
	if got := b.OK("remove_package", map[string]any{"package": "example.com/m/use"}); !strings.Contains(got, "Left, because it is not built here: use_windows.go") {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(b.Set.Views()[0].Dir, "sub")); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestDocComments(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	before := ""
	for _, c := range []struct{ name, comment, want, reset string }{
		{"m.Hello", "Hello is new.\n\nReally.", "// Hello is new.\n//\n// Really.\n//\n//go:noinline\nfunc Hello()", "Hello greets."},
		{"m.T", "// T is raw.", "// T is raw.\ntype T", "T is a type."},
		{"m.T.Up", "", "}\n\nfunc (t *T) Up()", "Up shouts."},
		{"m.G1", "G1 is\nlong.", "\t// G1 is\n\t// long.\n\tG1 int", "G1 is one."},
		{"m.C", "", "const (\n\tC = 1", "C is constant."},
		{"m.D", "D is new.", "\tC = 1\n\t// D is new.\n\tD = 2", ""},
	} {
		show(b, c.name)
		if before == "" {
			before = read(t, b, "a.go")
		}
		b.OK("set_doc_comment", map[string]any{"name": c.name, "comment": c.comment})
		if now := read(t, b, "a.go"); !strings.Contains(now, c.want) {
			t.Errorf("%s:\n%s", c.name, now)
		}
		b.OK("set_doc_comment", map[string]any{"name": c.name, "comment": c.reset})
		if now := read(t, b, "a.go"); now != before {
			t.Errorf("%s set and reset:\n%s", c.name, now)
		}
	}
	for _, bad := range []string{"/* x", "/* x */ func f() {} /* y */", "// x\nfunc f() {}"} {
		b.Fails(toolsets.InvalidParams, "set_doc_comment", map[string]any{"name": "m.Hello", "comment": bad})
	}
	b.OK("set_doc_comment", map[string]any{"name": "m.Hello", "comment": "x\nfunc f() {}"})
	if now := read(t, b, "a.go"); !strings.Contains(now, "// x\n// func f() {}\n") {
		t.Errorf("a comment became code:\n%s", now)
	}
}

func TestOddFiles(t *testing.T) {
	crlf := strings.ReplaceAll("// Package m is odd.\npackage m\n\nimport \"fmt\"\n\n// A prints.\nfunc A() {\n\tfmt.Println()\n}\n\nfunc   B( ) { }\n", "\n", "\r\n")
	b := toolsettest.New(t, "-- go.mod --\nmodule example.com/m\n\ngo 1.24\n-- crlf.go --\n"+crlf+
		"-- bom.go --\n\ufeffpackage m\n\nfunc C() {}\n-- unformatted.go --\npackage m\nfunc   E( ) { }\nfunc F() {}\n", sets)
	for name, src := range map[string]string{
		"m.A": "func A() {\n\tfmt.Println(1)\n}",
		"m.C": "func C() { _ = 1 }",
		"m.F": "func F() { _ = 1 }",
	} {
		show(b, name)
		b.OK("define_function", map[string]any{"package": "m", "source": src})
	}
	if now, want := read(t, b, "crlf.go"), strings.Replace(crlf, "Println()", "Println(1)", 1); now != want {
		t.Errorf("CRLF:\n%q", now)
	}
	raw := func(name string) string {
		src, err := os.ReadFile(filepath.Join(b.Set.Views()[0].Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(src)
	}
	if now := raw("bom.go"); now != "\ufeffpackage m\n\nfunc C() { _ = 1 }\n" {
		t.Errorf("BOM:\n%q", now)
	}
	if now := raw("unformatted.go"); now != "package m\nfunc   E( ) { }\nfunc F() { _ = 1 }\n" {
		t.Errorf("unformatted:\n%q", now)
	}
}

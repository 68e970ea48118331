package execution

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

type Point struct{ X, Y int }

func (p Point) String() string { return fmt.Sprint(p.X, ",", p.Y) }

func Double(n int) (int, error) { return 2 * n, nil }

func Quiet() {}
-- internal/deep/deep.go --
package deep

const Answer = 42
-- sub/internal/inner/inner.go --
package inner

func Say() string { return "inner" }
-- other/internal/inner2/inner.go --
package inner2

func Say() string { return "inner2" }
`

func TestExecute(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("execute_code", map[string]any{"code": "0"})
	for _, c := range []struct {
		name, code string
		imports    []string
		kind       toolsets.Kind
		want       string
	}{
		{"expression", `1 + 2`, nil, "", "=> 3"},
		{"several values", `m.Double(21)`, nil, "", "=> 42, nil"},
		{"a Stringer", `m.Point{1, 2}`, nil, "", `=> m.Point{X:1, Y:2} (1,2)`},
		{"an error", `errors.New("no")`, nil, "", "=> *errors.errorString: no"},
		{"a string", "\"a\\nb\"", nil, "", `=> "a\nb"`},
		{"nothing to say", `m.Quiet()`, nil, "", "(no output)"},
		{"printed, then the value", "for i := range 3 {\n\tfmt.Println(i)\n}\nstrings.ToUpper(\"x\")", nil, "", "0\n1\n2\n=> \"X\""},
		{"stderr", `os.Stderr.WriteString("e"); fmt.Print("o")`, nil, "", "o\nstderr:\ne\n=> 1, nil"},
		{"internal", `deep.Answer`, nil, "", "=> 42"},
		{"internal further down", `inner.Say()`, []string{"example.com/m/sub/internal/inner"}, "", `=> "inner"`},
		{"two internals", `inner.Say()`, []string{"example.com/m/sub/internal/inner", "example.com/m/other/internal/inner2"}, toolsets.InvalidParams, "sub and other"},
		{"named import", `str.ToUpper("x")`, []string{"str strings"}, "", `=> "X"`},
		{"unused import", `1`, []string{"strings", "example.com/m"}, "", "=> 1"},
		{"a type in the body", "type T struct{ N int }\nT{7}", nil, "", "=> main.T{N:7}"},
		{"syntax", "x := 1\nx :=: 2", nil, toolsets.CompileError, "code:2:5: "},
		{"type error", "x := 1\n\tvar y string = x\n_ = y", nil, toolsets.CompileError, "code:2:17: cannot use x"},
		{"type error in the last line", "1 +\n  \"a\"", nil, toolsets.CompileError, "code:"},
		{"unused variable", "x := 1", nil, toolsets.CompileError, "code:1:1: declared and not used: x"},
		{"undefined", "nowhere.F()", nil, toolsets.CompileError, "code:1:1: undefined: nowhere"},
		{"closed function", "}\nfunc init() { println(1)", nil, toolsets.CompileError, "closes the function"},
		{"empty", " \n", nil, toolsets.InvalidParams, "must not be empty"},
		{"bad import", "1", []string{"-x"}, toolsets.InvalidParams, "no import path"},
		{"relative import", "1", []string{"./x"}, toolsets.InvalidParams, "no import path"},
		{"cgo", "1", []string{"C"}, toolsets.InvalidParams, "no import path"},
		{"exit code", `fmt.Println("so far"); os.Exit(3)`, nil, toolsets.Other, "ended with exit code 3\nso far"},
		{"panic", "fmt.Println(\"so far\")\nvar p *m.Point\nf := func() { _ = p.X }\nf()", nil, toolsets.Other,
			"the code panicked: runtime error: invalid memory address or nil pointer dereference\nso far\nstderr:\npanic: runtime error: invalid memory address or nil pointer dereference\n[signal SIGSEGV"},
		{"panic after much else", `for range 5000 { println("xxxxxxxxxxxxxxxx don't panic: not yet") }; panic("at last")`, nil, toolsets.Other, "the code panicked: at last\nstderr:\nxxxx"},
		{"what looks like a panic", `println("panic: not at all\ngoroutine 1"); println("more")`, nil, "", "stderr:\npanic: not at all\ngoroutine 1\nmore"},
		{"descriptor 3 is ours", `os.Stdout.WriteString("\"fake\"\n"); 5`, nil, "", "\"fake\"\n=> 5"},
	} {
		args := map[string]any{"code": c.code}
		if c.imports != nil {
			args["imports"] = c.imports
		}
		a := b.Call("execute_code", args)
		if a.IsError != (c.kind != "") || toolsettest.Kind(a) != c.kind || !strings.Contains(a.Text, c.want) {
			t.Errorf("%s: error %v of kind %q:\n%s", c.name, a.IsError, toolsettest.Kind(a), a.Text)
		}
		if c.name == "panic" && (!strings.Contains(a.Text, "at code:3") || !strings.Contains(a.Text, "at code:4") || strings.Contains(a.Text, "runtime.main")) {
			t.Errorf("stack:\n%s", a.Text)
		}
		if strings.Contains(a.Text, "[session]") {
			t.Errorf("%s left something in the view: %s", c.name, a.Text)
		}
	}
}

func TestLimits(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("execute_code", map[string]any{"code": "0"})
	start := time.Now()
	a := b.Call("execute_code", map[string]any{"code": `fmt.Println("begun"); time.Sleep(time.Minute)`, "timeout": 1})
	if toolsettest.Kind(a) != toolsets.Timeout || !strings.Contains(a.Text, "begun") || time.Since(start) > 20*time.Second {
		t.Errorf("after %v: %s", time.Since(start), a.Text)
	}
	b.Fails(toolsets.InvalidParams, "execute_code", map[string]any{"code": "1", "timeout": 0})
	b.Fails(toolsets.InvalidParams, "execute_code", map[string]any{"code": "1", "timeout": 86_400})

	mark := filepath.Join(t.TempDir(), "begun")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(mark); err == nil {
				start = time.Now()
				cancel()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	a = b.CallContext(ctx, "execute_code", map[string]any{"code": `signal.Ignore(syscall.SIGTERM); os.WriteFile(` + quote(mark) + `, nil, 0o600); time.Sleep(time.Minute)`})
	if toolsettest.Kind(a) != toolsets.Timeout || time.Since(start) > 2*time.Second {
		t.Errorf("%v after the cancel: %s", time.Since(start), a.Text)
	}
	reg, err := toolsets.New(sets(b.WS), toolsets.Config{Options: map[string]json.RawMessage{"execution": json.RawMessage(`{"output":1000,"memory_mb":300}`)}})
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string][]string{
		`"for range 100000 { fmt.Println(\"xxxxxxxxxx\") }"`: {"not all output was kept"},
		// The runtime says so itself, or crashes on the way to saying it.
		`"var all [][]byte\nfor range 64 {\n b := make([]byte, 16<<20)\n for i := range b { b[i] = 1 }\n all = append(all, b)\n}\nlen(all)"`: {"out of memory", "cannot allocate memory", "exit code 2", "by a signal"},
	} {
		a, err := reg.Run(t.Context(), "execute_code", []byte(`{"code":`+code+`}`), nil)
		if err != nil || !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(a.Text, w) }) || len(a.Text) > 3000 {
			t.Errorf("%s: %v, %d bytes: %.3000s", code, err, len(a.Text), a.Text)
		}
	}
}

func quote(s string) string { b, _ := json.Marshal(s); return string(b) }

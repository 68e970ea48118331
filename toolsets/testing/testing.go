// Package testing is the toolset that lists and runs Go tests. Tests run as the
// account, in the view's folder, and may do whatever the account may.
package testing

import (
	"context"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse/toolsets"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/workspace"
)

type toolset struct {
	ws      *workspace.Workspace
	options atomic.Pointer[options]
}

type options struct {
	timeout time.Duration
	memory  uint64 // bytes, 0 for no bound
	output  int    // bytes kept of one test's output
}

// Default limits.
const (
	defaultTimeout = 10 * time.Minute
	defaultMemory  = 4096    // MiB
	defaultOutput  = 200_000 // bytes
)

// New returns the toolset over a workspace.
func New(ws *workspace.Workspace) toolsets.Toolset {
	t := &toolset{ws: ws}
	t.options.Store(&options{defaultTimeout, defaultMemory << 20, defaultOutput})
	str := func(name string, required bool, meaning string) toolsets.Param {
		return toolsets.Param{Name: name, Type: toolsets.String, Required: required, Meaning: meaning}
	}
	pkg := str("package", true, "Import path, or its last element where that is unambiguous.")
	test := str("test", true, "Name of a test, such as TestParse or TestParse/empty.")
	tool := func(x toolsets.Tool) toolsets.Tool {
		x.Viewed = true
		return x
	}
	return toolsets.Toolset{
		Name:    "testing",
		Summary: "Lists and runs Go tests.",
		Options: []toolsets.Option{
			{Name: "timeout", Type: toolsets.Duration, Default: defaultTimeout, Meaning: "How long one call may test; 0 for no limit."},
			{Name: "memory_mb", Type: toolsets.Integer, Default: defaultMemory, Meaning: "Most data a process of a test may have, in MiB; 0 for no limit."},
			{Name: "output", Type: toolsets.Integer, Default: defaultOutput, Meaning: "Most bytes of output that are kept of one test."},
		},
		Configure: func(v toolsets.Values) error {
			o := &options{v.Duration("timeout"), uint64(max(0, v.Int("memory_mb"))) << 20, v.Int("output")}
			if v.Int("memory_mb") < 0 || o.output < 1 {
				return fmt.Errorf("memory_mb must not be negative and output must be at least 1")
			}
			t.options.Store(o)
			return nil
		},
		Tools: []toolsets.Tool{
			tool(toolsets.Tool{Name: "list_tests", Title: "List tests", Paged: true, ReadOnly: true, Idempotent: true, Call: t.list,
				Description: "Lists the packages that have tests, and their tests, benchmarks, fuzz tests and examples.",
				Output:      toolsets.OutputOf[toolsets.Page[Test]]()}),
			tool(toolsets.Tool{Name: "run_tests", Title: "Run tests", Call: t.runTests, Output: toolsets.OutputOf[Report](),
				Params: []toolsets.Param{str("package", false, "Run the tests of this package alone; default: of all packages."),
					str("pattern", false, "Run the tests whose name matches this regular expression, as go test -run does.")},
				Description: "Runs tests and says how many passed, failed and were skipped, and which failed. Fails with kind testFailure when a test failed, with kind compileError when tests do not build."}),
			tool(toolsets.Tool{Name: "run_test", Title: "Run one test", Call: t.runTest, Output: toolsets.OutputOf[Report](), Params: []toolsets.Param{pkg, test},
				Description: "Runs one test and shows its output."}),
			tool(toolsets.Tool{Name: "list_failing_tests", Title: "List failing tests", Paged: true, Call: t.failing,
				Params:      []toolsets.Param{{Name: "packages", Type: toolsets.Strings, Meaning: "Test these packages alone; default: all."}},
				Description: "Runs all tests and lists those that fail. That a test fails is no failure of this tool.",
				Output:      toolsets.OutputOf[toolsets.Page[Failed]]()}),
			tool(toolsets.Tool{Name: "describe_test_failure", Title: "Describe a test's failure", Call: t.describe, Output: toolsets.OutputOf[Description](), Params: []toolsets.Param{pkg, test},
				Description: "Runs one test alone and shows its output, the lines that report failures, and the stack of a panic."}),
		},
	}
}

// Test is an entry of list_tests.
type Test struct {
	Package  string `json:"package"`
	Name     string `json:"name"`
	Kind     string `json:"kind" jsonschema:"test, benchmark, fuzz or example"`
	Position string `json:"position"`
}

var kinds = []struct{ prefix, kind string }{{"Test", "test"}, {"Benchmark", "benchmark"}, {"Fuzz", "fuzz"}, {"Example", "example"}}

// kindOf says what kind of test a function is, "" for none.
func kindOf(f *program.File, d *ast.FuncDecl) string {
	if !f.Test() || d.Recv != nil || d.Name.Name == "TestMain" {
		return ""
	}
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(d.Name.Name, k.prefix)
		if !ok || rest != "" && rest[0] >= 'a' && rest[0] <= 'z' {
			continue
		}
		if n := d.Type.Params.NumFields(); k.kind == "example" && n != 0 || k.kind != "example" && n != 1 {
			return ""
		}
		return k.kind
	}
	return ""
}

// tests lists the tests of a package in the order of its files.
func tests(snap *program.Snapshot, q *program.Package) []Test {
	var out []Test
	for _, f := range q.Files {
		if f.AST() == nil {
			continue
		}
		for _, x := range f.AST().Decls {
			if d, ok := x.(*ast.FuncDecl); ok {
				if k := kindOf(f, d); k != "" {
					out = append(out, Test{q.Folder(), d.Name.Name, k, snap.Position(d.Pos())})
				}
			}
		}
	}
	return out
}

func (t *toolset) list(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, snap, err := t.ws.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var all []Test
	for _, q := range snap.Packages() {
		all = append(all, tests(snap, q)...)
	}
	slices.SortStableFunc(all, func(a, b Test) int { return strings.Compare(a.Package, b.Package) })
	last := ""
	return toolsets.Paged(c, all, func(x Test) string {
		line := "  " + x.Name
		if x.Kind != "test" {
			line += " (" + x.Kind + ")"
		}
		if x.Package != last {
			last = x.Package
			line = x.Package + ":\n" + line
		}
		return line
	}), nil
}

// target finds the package whose tests are meant. A folder may hold nothing but
// tests of another package than its own.
func target(snap *program.Snapshot, name string) (*program.Package, error) {
	return snap.Package(strings.TrimSuffix(name, "_test"))
}

// folder is how the go command is told a package; it can't be taken for an option.
func folder(q *program.Package) string {
	if q.Dir == "." {
		return "."
	}
	return "./" + path.Clean(q.Dir)
}

// everywhere names all packages; in a go.work "./..." would not.
func everywhere(snap *program.Snapshot) []string {
	var out []string
	for _, q := range snap.Packages() {
		if f := folder(q); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// exactly is the pattern of go test -run for one test, subtests included.
func exactly(test string) (string, error) {
	if test == "" || strings.ContainsAny(test, "\n\x00") {
		return "", toolsets.Failf(toolsets.InvalidParams, "argument \"test\" must be the name of a test")
	}
	var parts []string
	for _, p := range strings.Split(test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(strings.ReplaceAll(p, " ", "_"))+"$")
	}
	return strings.Join(parts, "/"), nil
}

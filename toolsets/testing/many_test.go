package testing

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
)

// TestManyFailures: the answers stay of a size that can be read, show the first
// failures whole, and say what they leave out.
func TestManyFailures(t *testing.T) {
	b := toolsettest.New(t, `
-- go.mod --
module example.com/m

go 1.24
-- a_test.go --
package m

import (
	"fmt"
	"strings"
	"testing"
)

func TestMany(t *testing.T) {
	for i := range 10_500 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { t.Error(strings.Repeat("x", 1000), "end") })
	}
}

func TestNested(t *testing.T) {
	t.Run("a", func(t *testing.T) { t.Run("b", func(t *testing.T) { t.Error("deep") }) })
}

func TestLatePanic(t *testing.T) {
	for range 5000 {
		t.Log(strings.Repeat("y", 100))
	}
	panic("at last")
}
`, sets)
	b.OK("list_tests", map[string]any{"limit": 0})
	text := b.Fails(toolsets.TestFailure, "run_tests", map[string]any{"pattern": "Many"})
	lines := strings.Split(text, "\n")
	if n := len(lines); n < 100 || len(text) > toolsets.MaxValue || !strings.HasPrefix(text, "0 passed, 10501 failed") ||
		!strings.HasPrefix(lines[1], "- example.com/m TestMany/0: xxx") || lines[n-1] != "describe_test_failure shows why one fails." ||
		lines[n-2] != fmt.Sprintf("(%d more failed; list_failing_tests lists them page by page)", 10501-(n-3)) {
		t.Errorf("%d characters:\n%.400s\n…\n%s", len(text), text, text[max(0, len(text)-400):])
	}
	for _, l := range lines[1 : len(lines)-2] {
		if !strings.HasPrefix(l, "- example.com/m TestMany/") || len(l) > 400 {
			t.Errorf("%.500s", l)
			break
		}
	}
	var body struct {
		Error struct{ Details Report }
	}
	if err := json.Unmarshal(b.Call("run_tests", map[string]any{"pattern": "Many"}).Data, &body); err != nil || body.Error.Details.Failed != 10501 || len(body.Error.Details.Failures) != maxReported {
		t.Errorf("%d of %d failures, %v", len(body.Error.Details.Failures), body.Error.Details.Failed, err)
	}
	if got := b.OK("list_failing_tests", map[string]any{"limit": 1}); !strings.HasPrefix(got, "(showing 1-1 of 10000;") || !strings.Contains(got, "\n(505 more failed and are not listed)") {
		t.Errorf("listed:\n%.1000s", got)
	}
	for _, c := range []struct{ test, want string }{
		{"TestMany", " more such lines)\noutput:\n"},
		{"TestNested/a", "TestNested/a fails\na_test.go:16: deep\n"},
		{"TestLatePanic", "\npanic: at last"},
	} {
		if got := b.OK("describe_test_failure", map[string]any{"package": "m", "test": c.test}); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%.300s\n…\n%s", c.test, got, got[max(0, len(got)-400):])
		}
	}
	if got := b.Fails(toolsets.InvalidParams, "run_tests", map[string]any{"pattern": "("}); !strings.Contains(got, `argument "pattern": testing: invalid regexp`) {
		t.Errorf("a pattern that is none: %s", got)
	}
}

// TestVerdictsAfterLongLines: the go command loses how a test ended that printed a
// multiple of its buffer without a newline.
func TestVerdictsAfterLongLines(t *testing.T) {
	b := toolsettest.New(t, `
-- go.mod --
module example.com/m

go 1.24
-- a_test.go --
package m

import (
	"os"
	"strings"
	"testing"
)

func long() { os.Stdout.WriteString(strings.Repeat("y", 16384)) }

func TestPasses(t *testing.T) { long() }

func TestFails(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("why"); long() }) }

func TestSkips(t *testing.T) { long(); t.SkipNow() }
`, sets)
	b.OK("list_tests", map[string]any{"limit": 0})
	if got := b.Fails(toolsets.TestFailure, "run_tests", nil); !strings.HasPrefix(got, "1 passed, 2 failed, 1 skipped in 1 package") || !strings.Contains(got, "\n- example.com/m TestFails/sub: why\n") {
		t.Errorf("all:\n%s", got)
	}
	if got := b.OK("run_test", map[string]any{"package": "m", "test": "TestPasses"}); !strings.HasPrefix(got, "example.com/m TestPasses passed") {
		t.Errorf("one:\n%.300s", got)
	}
}

// TestOutputIsNotKept feeds what 10,000 failing tests say: 240 MB of output leave
// nothing behind but the failures.
func TestOutputIsNotKept(t *testing.T) {
	o, c := newOutcome("", defaultOutput), &toolsets.Call{}
	text := strings.Repeat("x", 4000)
	feed := func(e event) {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		o.line(line, c, 1)
	}
	before := heap()
	for i := range 10_000 {
		test := fmt.Sprint("Test", i)
		feed(event{Action: "output", Package: "m", Test: test, Output: "    a_test.go:1: why " + text + "\n"})
		for range 5 {
			feed(event{Action: "output", Package: "m", Test: test, Output: text})
		}
		feed(event{Action: "fail", Package: "m", Test: test})
		feed(event{Action: "build-output", ImportPath: test, Output: text})
	}
	if grown := heap() - before; grown > 24<<20 || len(o.fails) != 10_000 || !strings.HasPrefix(o.fails[9999].Reason, "why xxx") {
		t.Errorf("%d failures, %d KiB are kept", len(o.fails), grown>>10)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

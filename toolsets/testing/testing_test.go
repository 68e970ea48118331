package testing

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
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

func Add(a, b int) int { return a + b }
-- a_test.go --
package m

import (
	"os"
	"testing"
)

func TestAdd(t *testing.T) { t.Log("adding") }

func TestBad(t *testing.T) {
	t.Run("sub one", func(t *testing.T) { t.Errorf("got %d", Add(1, 2)) })
	t.Run("fine", func(t *testing.T) {})
}

func TestSkipped(t *testing.T) { t.Skip("not now") }

func TestWrites(t *testing.T) {
	if err := os.WriteFile("written.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkX(b *testing.B) {}

func FuzzX(f *testing.F) { f.Fuzz(func(*testing.T, int) {}) }

func ExampleAdd() {}

func Testimony(t *testing.T) {}
-- p/p_test.go --
package p_test

import "testing"

func TestPanics(t *testing.T) { var m map[string]int; m["x"] = 1 }
-- broken/b_test.go --
package broken

import "testing"

func TestNever(t *testing.T) { undefined() }
`

func TestTools(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("list_tests", map[string]any{"limit": 0})
	want := `(showing 1-9 of 9)
example.com/m:
  TestAdd
  TestBad
  TestSkipped
  TestWrites
  BenchmarkX (benchmark)
  FuzzX (fuzz)
  ExampleAdd (example)
example.com/m/broken:
  TestNever
example.com/m/p:
  TestPanics`
	if got := b.OK("list_tests", nil); got != want {
		t.Errorf("list_tests:\n%s", got)
	}
	for _, c := range []struct {
		kind toolsets.Kind // empty for success
		tool string
		args map[string]any
		want []string
	}{
		{"", "run_test", map[string]any{"package": "m", "test": "TestAdd"}, []string{"example.com/m TestAdd passed", "a_test.go:8: adding"}},
		{"", "run_test", map[string]any{"package": "m", "test": "TestSkipped"}, []string{"TestSkipped was skipped", "not now"}},
		{"", "run_test", map[string]any{"package": "m", "test": "TestWrites"}, []string{"passed", "[session] 1 uncommitted change in 1 file"}},
		{"", "run_tests", map[string]any{"package": "example.com/m", "pattern": "Add|Skip"}, []string{"1 passed, 0 failed, 1 skipped in 1 package"}},
		{toolsets.TestFailure, "run_tests", map[string]any{"package": "m"}, []string{"- example.com/m TestBad/sub_one: got 3", "describe_test_failure"}},
		{toolsets.TestFailure, "run_test", map[string]any{"package": "m", "test": "TestBad/sub one"}, []string{"TestBad/sub one failed", "got 3"}},
		{toolsets.CompileError, "run_tests", nil, []string{"tests do not build:", "broken/b_test.go:5:32: undefined: undefined"}},
		{toolsets.CompileError, "run_test", map[string]any{"package": "broken", "test": "TestNever"}, []string{"undefined"}},
		{toolsets.NotFound, "run_test", map[string]any{"package": "m", "test": "TestNothing"}, []string{"has no test TestNothing; list_tests"}},
		{toolsets.NotFound, "run_test", map[string]any{"package": "m", "test": "-exec=touch /tmp/x"}, []string{"has no test"}},
		{toolsets.NotFound, "run_tests", map[string]any{"package": "-exec=x"}, []string{"no package"}},
		{toolsets.InvalidParams, "run_test", map[string]any{"package": "m", "test": ""}, []string{"name of a test"}},
		{"", "list_failing_tests", nil, []string{"(showing 1-4 of 4)", "\nexample.com/m TestBad/sub_one: got 3", "\nexample.com/m/broken: does not build", "\nexample.com/m/p TestPanics: panic: assignment to entry in nil map"}},
		{"", "list_failing_tests", map[string]any{"packages": []string{"p"}}, []string{"(showing 1-1 of 1)"}},
		{"", "describe_test_failure", map[string]any{"package": "m", "test": "TestBad"}, []string{"TestBad fails\na_test.go:11: got 3\noutput:\n=== RUN   TestBad"}},
		{"", "describe_test_failure", map[string]any{"package": "p", "test": "TestPanics"}, []string{"TestPanics fails", "\npanic: assignment to entry in nil map", "p_test.go:5"}},
		{"", "describe_test_failure", map[string]any{"package": "m", "test": "TestAdd"}, []string{"passed this time, run alone"}},
	} {
		a := b.Call(c.tool, c.args)
		if a.IsError != (c.kind != "") || toolsettest.Kind(a) != c.kind {
			t.Errorf("%s %v: error %v of kind %q:\n%s", c.tool, c.args, a.IsError, toolsettest.Kind(a), a.Text)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(a.Text, w) {
				t.Errorf("%s %v lacks %q:\n%s", c.tool, c.args, w, a.Text)
			}
		}
	}
}

func TestLimitsAndCancel(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pid")
	b := toolsettest.New(t, `
-- go.mod --
module example.com/m

go 1.24
-- a_test.go --
package m

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestHangs(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("`+pids+`", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

func TestTalks(t *testing.T) {
	for range 5000 {
		t.Log(strings.Repeat("x", 1000))
	}
}

func TestEats(t *testing.T) {
	var all [][]byte
	for range 64 {
		b := make([]byte, 16<<20)
		for i := range b {
			b[i] = 1
		}
		all = append(all, b)
	}
	_ = all
}
`, sets)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(pids); err == nil {
				time.Sleep(50 * time.Millisecond)
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	a := b.CallContext(ctx, "run_test", map[string]any{"package": "m", "test": "TestHangs"})
	if toolsettest.Kind(a) != toolsets.Timeout {
		t.Errorf("cancelled: %s", a.Text)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		stat, err := os.ReadFile("/proc/" + string(text) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
		if i > 100 {
			t.Fatal("what the test started is alive")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := strconv.Atoi(string(text)); err != nil {
		t.Fatal(err)
	}
	ts := New(b.WS)
	reg, err := toolsets.New([]toolsets.Toolset{ts}, toolsets.Config{Options: map[string]json.RawMessage{"testing": json.RawMessage(`{"timeout":"60s","memory_mb":400,"output":10000}`)}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := reg.Run(t.Context(), "run_test", []byte(`{"package":"m","test":"TestTalks"}`), nil)
	if err != nil || got.IsError || len(got.Text) > 11_000 {
		t.Errorf("talking: %d bytes, %v", len(got.Text), err)
	}
	got, err = reg.Run(t.Context(), "run_test", []byte(`{"package":"m","test":"TestEats"}`), nil)
	if err != nil || !got.IsError || !strings.Contains(got.Text, "out of memory") && !strings.Contains(got.Text, "cannot allocate memory") {
		t.Errorf("eating: %v %.600s", err, got.Text)
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
	"gatehouse/toolsets/session"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/worker"
	"gatehouse/toolsets/workspace"
)

func sets(ws *workspace.Workspace) []toolsets.Toolset {
	return builtin(session.Identity{Account: "alice", Groups: []int{}}, ws)
}

const module = `
-- go.mod --
module example.com/m

go 1.24
-- a.go --
// Package m is small.
package m

import "fmt"

// Greeter greets.
type Greeter interface{ Greet() string }

// English is one.
type English struct{ Name string }

// Greet greets.
func (e English) Greet() string { return fmt.Sprint("hello ", e.Name) }

// Say says.
func Say(g Greeter) string { return g.Greet() }
-- a_test.go --
package m

import "testing"

func TestSay(t *testing.T) { t.Log(Say(English{"x"})) }
-- util/util.go --
package util
`

// good has arguments with which each tool works on the module above. A tool that
// is not in it fails the tests below, so that none can be forgotten.
var good = map[string]map[string]any{
	"status": {}, "commit": {}, "abort": {}, "refresh": {},
	"list_packages": {}, "list_package_entries": {"package": "m"}, "list_types": {"package": "m"}, "list_all_types": {},
	"describe_type": {"type": "m.English"}, "get_type_definition": {"type": "m.English"}, "get_type_hierarchy": {"type": "m.Greeter"},
	"list_methods": {"type": "m.English"}, "get_function_source": {"name": "m.Say"}, "export_type_source": {"type": "m.English"},
	"find_implementors": {"name": "m.Greeter"}, "find_references_to": {"name": "m.Say"}, "find_callers": {"name": "m.English.Greet"}, "search_source": {"pattern": "Greet"},
	"add_package": {"path": "fresh"}, "define_type": {"package": "m", "source": "type New int"}, "define_function": {"package": "m", "source": "func NewF() {}"},
	"delete_type": {"type": "m.English"}, "delete_function": {"name": "m.Say"}, "remove_package": {"package": "util"}, "set_doc_comment": {"name": "m.Say", "comment": "Say says it."},
	"list_tests": {}, "run_tests": {}, "run_test": {"package": "m", "test": "TestSay"}, "list_failing_tests": {}, "describe_test_failure": {"package": "m", "test": "TestSay"},
	"execute_code": {"code": "1"},
}

func TestThereAreThirtyOneTools(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	if n := len(b.Reg.Tools()); n != 31 || len(good) != 31 || len(b.Reg.Toolsets()) != 7 {
		t.Errorf("%d tools, %d with good arguments, %d toolsets", n, len(good), len(b.Reg.Toolsets()))
	}
}

func TestDeclarations(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	for _, tool := range b.Reg.Tools() {
		if tool.Title == "" || len(tool.Description) < 20 || !strings.HasSuffix(tool.Description, ".") {
			t.Errorf("%s: title %q, description %q", tool.Name, tool.Title, tool.Description)
		}
		if tool.ReadOnly && (tool.Destructive || !tool.Idempotent) {
			t.Errorf("%s: a read-only tool is neither destructive nor has effects", tool.Name)
		}
		if tool.Output == nil {
			t.Errorf("%s has no output schema", tool.Name)
		}
		raw, err := json.Marshal(tool.InputSchema())
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Schema string `json:"$schema"`
			Extra  any    `json:"additionalProperties"`
		}
		if err := json.Unmarshal(raw, &s); err != nil || s.Extra != false || s.Schema != toolsets.Draft {
			t.Errorf("%s: the input schema is not closed: %s", tool.Name, raw)
		}
		for _, p := range tool.Params {
			// Clients read patterns as ECMA-262: flags in front and \A, \z are not in it.
			if strings.Contains(p.Pattern, "(?") || strings.Contains(p.Pattern, `\A`) || strings.Contains(p.Pattern, `\z`) {
				t.Errorf("%s: the pattern %q of %s is none of JSON Schema", tool.Name, p.Pattern, p.Name)
			}
		}
		if strings.HasPrefix(tool.Name, "list_") != tool.Paged && !strings.HasPrefix(tool.Name, "find_") && tool.Name != "search_source" {
			t.Errorf("%s: paged is %v", tool.Name, tool.Paged)
		}
		if tool.Viewed == (tool.Name == "status") {
			t.Errorf("%s: viewed is %v", tool.Name, tool.Viewed)
		}
	}
}

// TestBadArguments: nothing runs, and nothing is opened, before all arguments
// are right.
func TestBadArguments(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	for _, tool := range b.Reg.Tools() {
		bad := func(want string, change func(map[string]any)) {
			t.Helper()
			args := map[string]any{}
			for k, v := range good[tool.Name] {
				args[k] = v
			}
			change(args)
			if got := b.Fails(toolsets.InvalidParams, tool.Name, args); !strings.Contains(got, want) {
				t.Errorf("%s %v: %s", tool.Name, args, got)
			}
		}
		bad(`"surprise"`, func(a map[string]any) { a["surprise"] = 1 })
		for _, p := range tool.Params {
			bad(fmt.Sprintf("%q", p.Name), func(a map[string]any) { a[p.Name] = map[string]any{} })
			bad(fmt.Sprintf("%q", p.Name), func(a map[string]any) { a[p.Name] = nil })
			if p.Required {
				bad(fmt.Sprintf("%q", p.Name), func(a map[string]any) { delete(a, p.Name) })
			}
		}
		if tool.Viewed {
			for _, v := range []any{"", "A", "a/b", "..", strings.Repeat("a", 33), 1, "a\n"} {
				bad(`"view"`, func(a map[string]any) { a["view"] = v })
			}
		}
		if tool.Paged {
			for _, v := range []any{-1, 0.5, "1", 1 << 40} {
				bad(`"limit"`, func(a map[string]any) { a["limit"] = v })
				bad(`"offset"`, func(a map[string]any) { a["offset"] = v })
			}
		}
	}
	if n := len(b.Set.Views()); n != 0 {
		t.Errorf("%d views were opened", n)
	}
}

// order runs reading tools first, so that the guard lets the others work.
func order(tools []*toolsets.Tool) []*toolsets.Tool {
	late := func(t *toolsets.Tool) int {
		return slices.Index([]string{"set_doc_comment", "delete_function", "delete_type", "remove_package", "refresh", "commit", "abort"}, t.Name)
	}
	out := slices.Clone(tools)
	slices.SortStableFunc(out, func(a, b *toolsets.Tool) int { return late(a) - late(b) })
	return out
}

func TestEveryToolWorksAndRemindsOfChanges(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	b.OK("define_function", map[string]any{"package": "util", "source": "func Changed() {}"})
	for _, tool := range order(b.Reg.Tools()) {
		got := b.OK(tool.Name, good[tool.Name])
		lines := strings.Split(got, "\n")
		reminded := strings.HasPrefix(lines[len(lines)-1], "[session] ")
		if want := tool.Name != "commit" && tool.Name != "abort"; reminded != want {
			t.Errorf("%s: the reminder is there: %v\n%s", tool.Name, reminded, got)
		}
	}
	b.OK("define_function", map[string]any{"package": "m", "source": "func More() {}"})
	if got := b.Fails(toolsets.InvalidParams, "status", map[string]any{"x": 1}); !strings.Contains(got, "\n[session] ") {
		t.Errorf("a failed call does not remind: %s", got)
	}
}

func TestPagedToolsPage(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	header := regexp.MustCompile(`^\((showing \d+-\d+ of \d+|showing none of \d+; offset 5000 is past the end|none|\d+ in all)[;)]`)
	for _, tool := range b.Reg.Tools() {
		if !tool.Paged {
			continue
		}
		for _, page := range []map[string]any{{}, {"limit": 0}, {"limit": 1}, {"offset": 5000}} {
			args := map[string]any{}
			for k, v := range good[tool.Name] {
				args[k] = v
			}
			for k, v := range page {
				args[k] = v
			}
			if got := b.OK(tool.Name, args); !header.MatchString(got) && !strings.HasPrefix(got, "(showing 1-1; there are more") {
				t.Errorf("%s %v:\n%s", tool.Name, page, got)
			}
		}
	}
}

func TestCancelledCallsEndSoonAndOpenNothing(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tool := range b.Reg.Tools() {
		start := time.Now()
		a := b.CallContext(ctx, tool.Name, good[tool.Name])
		if tool.Name != "status" && toolsettest.Kind(a) != toolsets.Timeout || time.Since(start) > 2*time.Second {
			t.Errorf("%s: after %v, %s", tool.Name, time.Since(start), a.Text)
		}
	}
	if n := len(b.Set.Views()); n != 0 {
		t.Errorf("%d views were opened", n)
	}
}

func TestLongToolsReportProgress(t *testing.T) {
	for _, name := range []string{"list_packages", "find_references_to", "define_function", "run_tests", "execute_code"} {
		b := toolsettest.New(t, module, sets)
		raw, err := json.Marshal(good[name])
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if _, err := b.Reg.Run(t.Context(), name, raw, func(int, int, string) { n++ }); err != nil || n == 0 {
			t.Errorf("%s reported %d times, %v", name, n, err)
		}
	}
}

// TestInstructionsNameOnlyServedTools tries every single toolset and all of them.
func TestInstructionsNameOnlyServedTools(t *testing.T) {
	all := toolsettest.New(t, module, sets).Reg
	var names []string
	for _, tool := range all.Tools() {
		if strings.Contains(tool.Name, "_") { // "commit" and "status" are words, too
			names = append(names, tool.Name)
		}
	}
	for _, ts := range all.Toolsets() {
		served := map[string]bool{}
		for _, tool := range ts.Tools {
			served[tool.Name] = true
		}
		for _, n := range names {
			if strings.Contains(ts.Guide, n) && !served[n] {
				t.Errorf("the guide of %s names %s, which it does not have", ts.Name, n)
			}
		}
	}
}

func TestBuildForTheCatalogueTouchesNothing(t *testing.T) {
	set, err := build(worker.Input{Catalogue: true, Settings: settings.Settings{}})
	if err != nil || len(set.Default) != 7 {
		t.Fatalf("%+v, %v", set, err)
	}
	c := toolsets.List(set.Available, func(string) bool { return true })
	if b, err := json.Marshal(c); err != nil || !strings.Contains(string(b), `"name":"run_hooks","type":"boolean","default":false`) {
		t.Errorf("catalogue %s, %v", b, err)
	}
}

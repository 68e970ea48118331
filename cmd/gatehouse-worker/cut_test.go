package main

import (
	"fmt"
	"strings"
	"testing"

	"gatehouse/toolsets/toolsettest"
)

// TestLongValuesAreCut shows every tool values that are too long; what it answers
// is checked by the bench.
func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("é", 60_000)
	var fields, methods strings.Builder
	for i := range 1_200 {
		fmt.Fprintf(&fields, "\tField%d%s int\n", i, strings.Repeat("x", 20))
		fmt.Fprintf(&methods, "func (Huge) M%d() string { return %q }\n", i, strings.Repeat("y", 30))
	}
	b := toolsettest.New(t, `
-- go.mod --
module example.com/m

go 1.24
-- a.go --
// Package m `+long+`.
package m

// Huge is `+long+`.
type Huge struct {
`+fields.String()+`}

`+methods.String()+`
// Say says `+long+`.
func Say() string { return "`+long+`" }

type Greeter interface{ M1() string }
-- a_test.go --
package m

import "testing"

func TestSay(t *testing.T) { t.Error(Say()) }
-- util/util.go --
package util
`, sets)
	cut := 0
	for tool, a := range map[string]args{
		"list_packages": nil, "list_package_entries": {"package": "m"}, "list_types": {"package": "m"}, "list_all_types": nil,
		"describe_type": {"type": "m.Huge"}, "get_type_definition": {"type": "m.Huge"}, "get_type_hierarchy": {"type": "m.Huge"}, "list_methods": {"type": "m.Huge"},
		"get_function_source": {"name": "m.Say"}, "export_type_source": {"type": "m.Huge"}, "find_implementors": {"name": "m.Greeter"}, "find_references_to": {"name": "m.Say"},
		"find_callers": {"name": "m.Say"}, "search_source": {"pattern": "Say"}, "list_tests": nil, "run_test": {"package": "m", "test": "TestSay"}, "run_tests": nil,
		"list_failing_tests": nil, "describe_test_failure": {"package": "m", "test": "TestSay"}, "execute_code": {"code": "fmt.Println(m.Say())\nm.Say()"},
	} {
		if got := b.Call(tool, a).Text; strings.Contains(got, "...[truncated: showing 50000 of ") {
			cut++
		}
	}
	if cut < 6 {
		t.Errorf("%d answers were cut", cut)
	}
	b.Call("set_doc_comment", args{"name": "m.Say", "comment": long + long})
	b.Call("define_function", args{"package": "util", "source": "func F() int { return " + strings.Repeat("undefined1+", 6000) + "x }"})
	b.Call("commit", args{"message": long})
	b.Call("status", nil)
	b.Call("abort", nil)
	for _, tool := range b.Reg.Tools() {
		for _, p := range tool.Params {
			if p.Type == "string" {
				b.Call(tool.Name, args{p.Name: long})
			}
		}
	}
}

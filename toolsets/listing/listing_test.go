package listing

import (
	"strings"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/workspace"
)

func sets(ws *workspace.Workspace) []toolsets.Toolset { return []toolsets.Toolset{New(ws)} }

const module = `
-- go.mod --
module example.com/shop

go 1.24
-- doc.go --
// Package shop sells things. Really.
package shop

import "example.com/shop/internal/money"

// Item is for sale.
type Item struct{ Price money.Cents }

type (
	// Names are many.
	Names []string
	Alias = Item
)

const (
	// Free costs nothing.
	Free = 0
	_    = 1
)

var A, b = 1, 2

// New makes one.
func New() Item { return Item{} }

func (Item) Method() {}

func init() {}
-- doc_test.go --
package shop

import "testing"

func helper() {}

func TestX(t *testing.T) { helper() }
-- internal/money/money.go --
package money

type Cents int
-- cmd/shop/main.go --
// Command shop is a shop.
package main

func main() {}
-- broken/broken.go --
package broken

func ( {
-- testdata/skip/x.go --
package skip
`

func TestListings(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	got := b.OK("list_packages", nil)
	if !strings.HasSuffix(got, "the head of main") || strings.Contains(b.OK("list_packages", nil), "[view]") {
		t.Errorf("a new view is announced once, at the end:\n%s", got)
	}
	for _, line := range []string{
		"example.com/shop: Package shop sells things.",
		"example.com/shop/cmd/shop (main): Command shop is a shop.",
		"example.com/shop/broken [broken: ",
	} {
		if !strings.Contains(got, "\n"+line) {
			t.Errorf("list_packages lacks %q:\n%s", line, got)
		}
	}
	if strings.Index(got, "internal/money") > strings.Index(got, "example.com/shop:") || strings.Contains(got, "skip") {
		t.Errorf("order or contents:\n%s", got)
	}
	got = b.OK("list_package_entries", map[string]any{"package": "example.com/shop"})
	for _, line := range []string{"(showing 1-7 of 7)", "(var) A", "(type) Alias", "(const) Free: Free costs nothing.", "(type) Item: Item is for sale.", "(type) Names: Names are many.", "(func) New: New makes one.", "(var) b"} {
		if !strings.Contains(got+"\n", line+"\n") {
			t.Errorf("list_package_entries lacks %q:\n%s", line, got)
		}
	}
	if got = b.OK("list_types", map[string]any{"package": "example.com/shop"}); got != "(showing 1-3 of 3)\nAlias alias\nItem struct: Item is for sale.\nNames slice: Names are many." {
		t.Errorf("list_types:\n%s", got)
	}
	if got = b.OK("list_all_types", map[string]any{"limit": 1, "offset": 1}); !strings.HasPrefix(got, "(showing 2-2 of 4; pass offset: 2 for the next page)\n") {
		t.Errorf("list_all_types:\n%s", got)
	}
}

func TestNamesOfPackages(t *testing.T) {
	b := toolsettest.New(t, module+"-- other/money/m.go --\npackage money\n", sets)
	if got := b.Fails(toolsets.NotFound, "list_types", map[string]any{"package": "money"}); !strings.Contains(got, "example.com/shop/internal/money, example.com/shop/other/money") &&
		!strings.Contains(got, "example.com/shop/other/money, example.com/shop/internal/money") {
		t.Errorf("ambiguous: %s", got)
	}
	if got := b.Fails(toolsets.NotFound, "list_types", map[string]any{"package": "mony/money2"}); !strings.Contains(got, "list_packages") {
		t.Errorf("unknown: %s", got)
	}
	b.OK("list_types", map[string]any{"package": "internal/money"})
	b.Fails(toolsets.InvalidParams, "list_types", map[string]any{"package": 1})
}

func TestWorkspacesThatHoldNoModule(t *testing.T) {
	for name, c := range map[string]struct {
		archive string
		kind    toolsets.Kind
		want    string
	}{
		"no module":     {"-- x.go --\npackage x\n", toolsets.Refused, "neither go.mod nor go.work"},
		"broken go.mod": {"-- go.mod --\nmodule\n-- x.go --\npackage x\n", toolsets.CompileError, "go.mod"},
		"newer Go":      {"-- go.mod --\nmodule example.com/x\n\ngo 1.999\n-- x.go --\npackage x\n", toolsets.CompileError, "newer Go"},
		"no packages":   {"-- go.mod --\nmodule example.com/x\n\ngo 1.24\n", toolsets.NotFound, "no Go packages"},
	} {
		b := toolsettest.New(t, c.archive, sets)
		if got := b.Fails(c.kind, "list_packages", nil); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestSeveralModulesAndVendoredOnes(t *testing.T) {
	b := toolsettest.New(t, `
-- go.work --
go 1.24

use (
	./a
	./b
)
-- a/go.mod --
module example.com/a

go 1.24
-- a/a.go --
package a

type A int
-- b/go.mod --
module example.com/b

go 1.24
-- b/b.go --
package b

import "example.com/a"

type B a.A
`, sets)
	b.OK("list_packages", map[string]any{"limit": 0})
	if got := b.OK("list_all_types", nil); got != "(showing 1-2 of 2)\nexample.com/a.A named\nexample.com/b.B named" {
		t.Errorf("go.work:\n%s", got)
	}
	v := toolsettest.New(t, `
-- go.mod --
module example.com/a

go 1.24

require example.com/dep v1.0.0
-- vendor/modules.txt --
# example.com/dep v1.0.0
## explicit; go 1.24
example.com/dep
-- vendor/example.com/dep/dep.go --
package dep

type Dep int
-- a.go --
package a

import "example.com/dep"

type A dep.Dep
`, sets)
	v.OK("list_packages", map[string]any{"limit": 0})
	if got := v.OK("list_all_types", nil); got != "(showing 1-1 of 1)\nexample.com/a.A named" {
		t.Errorf("vendored:\n%s", got)
	}
}

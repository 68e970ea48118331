package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
)

// TestParallelCalls has many calls at once in one view and in others: readers
// read while writers write, and nothing that was acknowledged is lost.
func TestParallelCalls(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 5 {
				b.OK("define_function", args{"package": "util", "source": fmt.Sprintf("func F%d_%d() {}", i, n)})
			}
		})
		wg.Go(func() {
			for n, tool := range []string{"list_packages", "find_references_to", "describe_type", "search_source", "status", "list_methods"} {
				b.OK(tool, good[tool])
				view := fmt.Sprint("v", n%2)
				if tool != "status" {
					a := args{"view": view}
					for k, v := range good[tool] {
						a[k] = v
					}
					b.OK(tool, a)
				}
			}
		})
	}
	wg.Wait()
	src := b.OK("search_source", args{"pattern": "func F", "package": "util", "limit": 0})
	if !strings.HasPrefix(src, "(20 in all)") {
		t.Errorf("of 20 acknowledged functions there are %s", src)
	}
	if n := len(b.Set.Views()); n != 3 {
		t.Errorf("%d views", n)
	}
	a := b.Call("commit", nil)
	if a.IsError || toolsettest.Kind(a) == toolsets.Conflict {
		t.Errorf("commit: %s", a.Text)
	}
}

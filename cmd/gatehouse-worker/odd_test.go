package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/toolsettest"
)

// TestFilesOfManyKinds: what is built here is known, what is not is found as
// text, and what can't be edited is refused.
func TestFilesOfManyKinds(t *testing.T) {
	dir := toolsettest.Unpack(t, `
-- go.mod --
module example.com/m

go 1.24
-- with space/a b.go --
package spaced

func Spaced() int { return 1 }
-- tags/linux.go --
//go:build linux

package tags

func Here() string { return "linux" }
-- tags/other.go --
//go:build !linux

package tags

func Here() string { return "elsewhere" }
-- tags/tool.go --
//go:build ignore

package main

func Never() {}
-- link/real.go --
package link

func Real() { Aside() }
-- aside.txt --
package link

func Aside() {}
`)
	if err := os.Symlink("../aside.txt", filepath.Join(dir, "link/aside.go")); err != nil {
		t.Fatal(err)
	}
	b := toolsettest.Join(t, toolsettest.Seed(t, dir), "alice", sets)
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"get_function_source", args{"name": "tags.Here"}, `return "linux"`},
		{"search_source", args{"pattern": "elsewhere"}, "tags/other.go:5:"},
		{"search_source", args{"pattern": "Never"}, "tags/tool.go:5:"},
		{"list_package_entries", args{"package": "tags"}, "(showing 1-1 of 1)"},
		{"find_references_to", args{"name": "link.Aside"}, "link/real.go:3:15"},
	} {
		if got := b.OK(c.tool, c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s %v:\n%s", c.tool, c.args, got)
		}
	}
	// A folder with a space has no import path: the go command says so, and so do we.
	if got := b.OK("search_source", args{"pattern": "Spaced"}); !strings.Contains(got, "with space/a b.go:3:") {
		t.Errorf("text in a file with a space in its name:\n%s", got)
	}
	b.OK("get_function_source", args{"name": "link.Aside"})
	a := b.Call("define_function", args{"package": "link", "source": "func Aside() { _ = 1 }"})
	if target, err := os.ReadFile(filepath.Join(b.Set.Views()[0].Dir, "aside.txt")); err != nil || strings.Contains(string(target), "_ = 1") {
		t.Errorf("an edit went through a link: %s, %v", target, err)
	}
	if !a.IsError {
		t.Errorf("an edit of a link: %s", a.Text)
	}
}

// TestNamesWithNewlines: a Go file whose name holds a newline is no part of a
// package for the go command; all else goes on working.
func TestNamesWithNewlines(t *testing.T) {
	dir := toolsettest.Unpack(t, module)
	for _, name := range []string{"new\nline.go", "new\nline.txt", "tab\t.go", "util/qu\"ote.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package "+map[bool]string{true: "util", false: "m"}[strings.HasPrefix(name, "util")]+"\n\nvar Odd = 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := toolsettest.Join(t, toolsettest.Seed(t, dir), "alice", sets)
	a := b.Call("list_packages", nil)
	if a.IsError && toolsettest.Kind(a) == toolsets.Other {
		t.Errorf("list_packages: %s", a.Text)
	}
	if got := b.OK("search_source", args{"pattern": "Odd"}); !strings.Contains(got, "Odd = 1") {
		t.Errorf("search_source:\n%s", got)
	}
	if got := b.OK("status", nil); strings.Contains(got, "new\nline") && strings.Contains(got, "\nline.go") {
		t.Errorf("a name breaks the lines of status:\n%s", got)
	}
	b.OK("commit", nil)
}

// TestCgo: with cgo on, a package that uses it is looked at and edited without a
// compiler being run.
func TestCgo(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pwned")
	t.Setenv("PATH", traps(t, mark))
	b := toolsettest.New(t, `
-- go.mod --
module example.com/m

go 1.24
-- c.go --
package m

// #include <stdio.h>
// static int one(void) { return 1; }
import "C"

import "fmt"

// One is from C.
func One() int { return int(C.one()) }

// Say says it.
func Say() { fmt.Println(One()) }
`, sets)
	b.WS.SetGoEnv(run.Env(toolsettest.GoEnv(t), []string{"CGO_ENABLED=1", "PATH=" + os.Getenv("PATH")}))
	if got := b.OK("find_callers", args{"name": "m.One"}); !strings.Contains(got, "c.go:13:26") {
		t.Errorf("callers:\n%s", got)
	}
	b.OK("get_function_source", args{"name": "m.One"})
	if got := b.OK("define_function", args{"package": "m", "source": "func One() int { return 1 + int(C.one()) }"}); strings.Contains(got, "error") {
		t.Errorf("edit:\n%s", got)
	}
	src, err := b.Set.Views()[0].ReadFile("c.go")
	if err != nil || !strings.Contains(string(src), "// static int one(void) { return 1; }\nimport \"C\"\n\nimport \"fmt\"\n") {
		t.Errorf("after the edit, %v:\n%s", err, src)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a compiler was run")
	}
}

package decl

import (
	"strings"
	"testing"
)

// TestMergeLosesNothing: what one side wrote between declarations, or how it cut
// them, is in the merged file or a conflict, whatever the other side did.
func TestMergeLosesNothing(t *testing.T) {
	const base = `// Package p is used so:
//
//	import "fmt"
package p

// before the imports

import "fmt"

const A = 1

const B = 2

// before F

func F() { fmt.Println() }

func G() {}
`
	edit := func(pairs ...string) string {
		out := base
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(out, pairs[i]) {
				t.Fatalf("the file does not hold %q", pairs[i])
			}
			out = strings.Replace(out, pairs[i], pairs[i+1], 1)
		}
		return out
	}
	changed := edit("func G() {}", "func G() { _ = 1 }")
	grouped := "const (\n\tA = 1\n\tB = 2\n)"
	for _, c := range []struct {
		name, ours, theirs string
		want               string // empty for a conflict
	}{
		{"import added where a comment holds the same line",
			edit("\n\nimport \"fmt\"", "\n\nimport (\n\t\"fmt\"\n\t_ \"os\"\n)"), changed,
			edit("\n\nimport \"fmt\"", "\n\nimport (\n\t\"fmt\"\n\t_ \"os\"\n)", "func G() {}", "func G() { _ = 1 }")},
		{"comment before the imports", edit("// before the imports", "//go:generate true"), changed,
			edit("// before the imports", "//go:generate true", "func G() {}", "func G() { _ = 1 }")},
		{"comment before the imports and an import", edit("// before the imports", "//go:generate true"), edit("\n\nimport \"fmt\"", "\n\nimport (\n\t\"fmt\"\n\t_ \"os\"\n)"), ""},
		{"two declarations made a group", edit("const A = 1\n\nconst B = 2", grouped), changed,
			edit("const A = 1\n\nconst B = 2", grouped, "func G() {}", "func G() { _ = 1 }")},
		{"two declarations made a group, one changed there", edit("const A = 1\n\nconst B = 2", grouped), edit("B = 2", "B = 3"), ""},
		{"comment added, blank line added", edit("// before F\n\n", ""), edit("// before F\n\n", "// before F\n\n\n"), edit("// before F\n\n", "")},
		{"blank line added, comment removed", edit("// before F\n\n", "// before F\n\n\n"), edit("// before F\n\n", ""), edit("// before F\n\n", "")},
		{"comment changed, comment removed", edit("// before F", "// ahead of F"), edit("// before F\n\n", ""), ""},
		{"declaration deleted, comment before it changed", edit("// before F\n\nfunc F() { fmt.Println() }\n\n", "", "\n\nimport \"fmt\"", ""), edit("// before F", "// ahead of F"), ""},
		{"comment before it changed, declaration deleted", edit("// before F", "// ahead of F"), edit("// before F\n\nfunc F() { fmt.Println() }\n\n", "", "\n\nimport \"fmt\"", ""), ""},
	} {
		got, conflicts, err := Merge([]byte(base), []byte(c.ours), []byte(c.theirs), noLines)
		if err != nil || (len(conflicts) > 0) != (c.want == "") || string(got) != c.want {
			t.Errorf("%s: conflicts %v, %v\n%s", c.name, conflicts, err, got)
		}
	}
}

// TestRemovingAnImportKeepsWhatSharesItsLine: a file need not be formatted.
func TestRemovingAnImportKeepsWhatSharesItsLine(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"package p\n\nimport \"fmt\"; var keep = 1\n", "package p\n\nvar keep = 1\n"},
		{"package p\n\nimport \"os\"; import \"fmt\"\n", "package p\n\nimport \"os\"; \n"},
		{"package p\n\nimport (\"fmt\"; \"os\")\n", "package p\n\nimport (\"os\")\n"},
		{"package p; import \"fmt\"; var keep = 1\n", "package p; var keep = 1\n"},
		{"package p\n\nimport \"fmt\" // why\n\nvar keep = 1\n", "package p\n\nvar keep = 1\n"},
	} {
		got, err := SetImports([]byte(c.src), nil, []Imported{{Path: "fmt"}})
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v", c.src, got, err)
		}
	}
}

package decl

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLargeFilesMergeInTime: the work grows with the file and not with its square.
func TestLargeFilesMergeInTime(t *testing.T) {
	var groups, functions, inits strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&groups, "\tV%d int\n", i)
		fmt.Fprintf(&functions, "func F%d() {}\n", i)
		inits.WriteString("func init() {}\n")
	}
	for name, body := range map[string]string{
		"blank names":           "var " + strings.Repeat("_, ", 20_000) + "_ int\n",
		"blank declarations":    strings.Repeat("var _ = 1\n", 20_000),
		"blank functions":       strings.Repeat("func _() {}\n", 20_000),
		"the same name":         strings.Repeat("var a = 1\n", 20_000),
		"names in a group":      "var (\n" + groups.String() + ")\n",
		"functions":             functions.String(),
		"functions called init": inits.String(),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			file := func(a, z string) []byte {
				return []byte("package p\n\nfunc A() {" + a + "}\n\n" + body + "\nfunc Z() {" + z + "}\n")
			}
			got, conflicts, err := Merge(file("", ""), file("a()", ""), file("", "z()"), noLines)
			if err != nil || len(conflicts) > 0 || string(got) != string(file("a()", "z()")) {
				t.Errorf("%d bytes, %d conflicts, %v", len(got), len(conflicts), err)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

package mutation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
)

// TestEditsOfSeveralFilesAreMadeWhole: where one file may not be changed, none is.
func TestEditsOfSeveralFilesAreMadeWhole(t *testing.T) {
	b := toolsettest.New(t, "-- go.mod --\nmodule example.com/m\n\ngo 1.24\n-- m.go --\npackage m\n-- x/a.go --\npackage x\n\ntype T int\n-- x/real.txt --\npackage x\n\nfunc (T) M() {}\n", sets)
	b.OK("export_type_source", map[string]any{"type": "x.T"}) // opens the view
	dir := filepath.Join(b.Set.Views()[0].Dir, "x")
	if err := os.Symlink("real.txt", filepath.Join(dir, "b.go")); err != nil {
		t.Fatal(err)
	}
	b.OK("export_type_source", map[string]any{"type": "x.T"})
	b.Fails(toolsets.Refused, "delete_type", map[string]any{"type": "x.T"})
	b.Fails(toolsets.Refused, "remove_package", map[string]any{"package": "x"})
	if src, err := os.ReadFile(filepath.Join(dir, "a.go")); err != nil || !strings.Contains(string(src), "type T int") {
		t.Errorf("a.go: %s, %v", src, err)
	}
}

// TestRemovePackageLeavesWhatNobodyCanRead: a file that does not parse shows none
// of its declarations.
func TestRemovePackageLeavesWhatNobodyCanRead(t *testing.T) {
	b := toolsettest.New(t, "-- go.mod --\nmodule example.com/m\n\ngo 1.24\n-- m.go --\npackage m\n-- x/a.go --\npackage x\n\nfunc A() {}\n-- x/broken.go --\npackage x\n\nfunc Precious() { half\n", sets)
	show(b, "x.A")
	if got := b.OK("remove_package", map[string]any{"package": "example.com/m/x"}); !strings.Contains(got, "because it does not parse: broken.go") {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(b.Set.Views()[0].Dir, "x", "broken.go")); err != nil {
		t.Error(err)
	}
}

// TestOneOfAGroupIsReadAlone: changing one type of a group does not make the
// others known.
func TestOneOfAGroupIsReadAlone(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	show(b, "m.G1")
	b.OK("define_type", map[string]any{"package": "m", "source": "type G1 uint"})
	b.OK("set_doc_comment", map[string]any{"name": "m.G1", "comment": "G1 counts."})
	b.Fails(toolsets.Refused, "define_type", map[string]any{"package": "m", "source": "type G2 int"})
	b.OK("define_type", map[string]any{"package": "m", "source": "type G1 int8"}) // its own text is known
}

package mutation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/view"
	"gatehouse/toolsets/workspace"
)

// TestNamesOfFiles: a new file has a name that the go command takes, or is said
// not to be built.
func TestNamesOfFiles(t *testing.T) {
	b := toolsettest.New(t, module, sets)
	for _, c := range []struct{ name, fn, want string }{
		{"-x.go", "F", ""},
		{"a\nb.go", "F", ""},
		{"a\"b.go", "F", ""},
		{".go", "F", ""},
		{"a/b.go", "F", ""},
		{"ü b.go", "F", "Added example.com/m.F in ü b.go."},
		{"x_windows.go", "G", "not built here"},
	} {
		args := map[string]any{"package": "example.com/m", "source": "func " + c.fn + "() {}", "file": c.name}
		if c.want == "" {
			b.Fails(toolsets.InvalidParams, "define_function", args)
			continue
		}
		if got := b.OK("define_function", args); !strings.Contains(got, c.want) || strings.Contains(got, "new error") {
			t.Errorf("%q: %s", c.name, got)
		}
	}
}

// TestStateBelowAnOddFolder: the account's folder may have any name; no package is
// taken for a new one because of it.
func TestStateBelowAnOddFolder(t *testing.T) {
	state := filepath.Join(t.TempDir(), "[odd]*")
	repo := toolsettest.Seed(t, toolsettest.Unpack(t, module))
	set := view.NewSet(view.Config{Repository: repo, StateDir: state, Account: "alice", Env: []string{"PATH=" + os.Getenv("PATH")}, Now: time.Now})
	t.Cleanup(func() { set.Close("the test ended") })
	reg, err := toolsets.New(sets(workspace.New(set, toolsettest.GoEnv(t))), toolsets.Config{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := reg.Run(t.Context(), "add_package", []byte(`{"path":"use"}`), nil)
	if err != nil || !a.IsError || toolsettest.Kind(a) != toolsets.Refused {
		t.Errorf("%+v, %v", a, err)
	}
}

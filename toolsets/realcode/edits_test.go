package realcode

import (
	"bytes"
	"go/format"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/toolsets/browsing"
	"gatehouse/toolsets/mutation"
)

// compareEdits: a function defined by its own source and a comment set and set
// back change no byte.
func (w *world) compareEdits() {
	formatted := map[string]bool{}
	for _, d := range w.decls {
		if !d.picked || d.tag != "func" && d.tag != "method" || d.local == "init" {
			continue
		}
		file, _, _ := strings.Cut(d.Pos, ":")
		want, err := os.ReadFile(filepath.Join(w.dir, file))
		if err != nil {
			w.Fatal(err)
		}
		clean, asked := formatted[file]
		if !asked {
			f, err := format.Source(want)
			clean = err == nil && bytes.Equal(f, want)
			formatted[file] = clean
			if !clean {
				w.count["files that are not as gofmt wants them, and left out"]++
			}
		}
		if !clean {
			continue // an edit leaves what gofmt agrees with
		}
		src, fail := ask[browsing.Source](w, "get_function_source", map[string]any{"name": d.full()})
		if fail != "" {
			w.Errorf("%s: %s", d.full(), fail)
			continue
		}
		w.edit(d, file, want, "define_function", map[string]any{"package": d.pkg, "source": src.Source})
		doc, _, _ := strings.Cut(src.Source, d.Text)
		if doc = strings.TrimSpace(doc); doc == "" || !strings.HasPrefix(doc, "//") || strings.Contains(doc, "//go:") {
			continue
		}
		if _, fail := ask[mutation.Edit](w, "set_doc_comment", map[string]any{"name": d.full(), "comment": "Something else\n\nand more."}); fail != "" {
			w.Errorf("%s: %s", d.full(), fail)
		}
		if got, err := w.b.Set.Views()[0].ReadFile(file); err != nil || bytes.Equal(got, want) || !bytes.Contains(got, []byte("// Something else")) {
			w.Errorf("%s: the comment was not set, %v", d.full(), err)
		}
		w.edit(d, file, want, "set_doc_comment", map[string]any{"name": d.full(), "comment": doc})
	}
}

// edit calls a tool after which the file has to be as it is in the module.
func (w *world) edit(d *declared, file string, want []byte, tool string, args map[string]any) {
	w.Helper()
	w.count[tool]++
	_, fail := ask[mutation.Edit](w, tool, args)
	got, err := w.b.Set.Views()[0].ReadFile(file)
	if fail == "" && err == nil && bytes.Equal(got, want) {
		return
	}
	w.Errorf("%s %s: the file is not what it was: %s %v", tool, d.full(), fail, err)
	if err := w.b.Set.Views()[0].WriteFile(w.Context(), file, want); err != nil {
		w.Fatal(err)
	}
}

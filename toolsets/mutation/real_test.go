package mutation

import (
	"bytes"
	"go/format"
	"testing"

	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/toolsettest"
)

// TestOwnSourceOfRealCodeChangesNoByte replaces every function and type of whole
// modules by its own source, and every doc comment by itself.
func TestOwnSourceOfRealCodeChangesNoByte(t *testing.T) {
	for name, snap := range toolsettest.Real(t, "github.com/go-chi/chi/v5") {
		n, docs := 0, 0
		formatted := map[*program.File]bool{}
		for _, q := range snap.Packages() {
			for _, file := range q.Files {
				f, err := format.Source(file.Src)
				formatted[file] = err == nil && bytes.Equal(f, file.Src)
			}
		}
		for _, q := range snap.Packages() {
			for _, d := range q.Decls() {
				if !formatted[d.File] {
					continue // not formatted: its declarations may change by being formatted
				}
				if node, doc := docOf(d); node != nil && doc != nil {
					tf := snap.Fset.File(d.File.AST().Package)
					from, at := tf.Offset(doc.Pos()), tf.Offset(node.Pos())
					raw := string(d.File.Src[from:tf.Offset(doc.End())])
					text, err := comment(raw, directives(doc), indentation(d.File.Src, at))
					if err != nil || text != string(d.File.Src[from:at]) {
						t.Errorf("%s: its comment set again: %q, was %q, %v", d.Qualified(), text, d.File.Src[from:at], err)
					}
					docs++
				}
				isFunc := d.Unit.Kind == decl.Func
				if !isFunc && (d.Unit.Kind != decl.Type || d.Unit.Grouped) {
					continue
				}
				g, err := parseGiven(string(d.Text()), isFunc)
				if err != nil {
					t.Errorf("%s: %v", d.Qualified(), err)
					continue
				}
				if got := g.text + "\n"; got != string(d.Text()) {
					// gofmt aligns neighbours: the file as a whole must come out the same.
					f, err := format.Source(decl.Splice(d.File.Src, d.Unit.Doc, d.Unit.End, []byte(got)))
					if err != nil || !bytes.Equal(f, d.File.Src) {
						t.Errorf("%s: its own source becomes\n%s\nfrom\n%s", d.Qualified(), got, d.Text())
					}
				}
				n++
			}
		}
		t.Logf("%s: %d declarations, %d comments", name, n, docs)
		if n == 0 || docs == 0 {
			t.Errorf("%s: nothing was tried", name)
		}
	}
}

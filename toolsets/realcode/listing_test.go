package realcode

import (
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/toolsets/listing"
	"gatehouse/toolsets/program"
)

// compareListings: packages, their order and documentation are those of "go
// list", the names in them those of gopls.
func (w *world) compareListings() {
	var got, want []string
	seen := map[string]bool{}
	own := map[string]*goPackage{}
	for _, p := range w.pkgs {
		own[p.ImportPath] = p
		want = append(want, strings.Join([]string{p.ImportPath, p.Name, filepath.Dir(w.rel(p, "x")), p.Doc}, " "))
	}
	for _, p := range items[listing.Package](w, "list_packages", nil) {
		name := p.Name
		q := own[p.Path]
		if q != nil && len(q.GoFiles) == 0 {
			name = q.Name // nothing but tests: "go list" has another name for it
		}
		got = append(got, strings.Join([]string{p.Path, name, p.Dir, p.Synopsis}, " "))
		if q != nil {
			for _, im := range q.Imports {
				if own[im] != nil && !seen[im] {
					w.Errorf("list_packages has %s before %s, which it imports", p.Path, im)
				}
			}
		}
		seen[p.Path] = true
	}
	w.same("list_packages", "-", got, want)

	entries, all := map[string][]string{}, []string{}
	for _, d := range w.decls {
		if d.test || d.tag == "method" || d.tag == "member" || d.local == "init" && d.tag == "func" {
			continue
		}
		entries[d.pkg] = append(entries[d.pkg], d.tag+" "+d.local+" "+d.Pos)
		if d.tag == "type" {
			all = append(all, d.full()+" "+d.Pos)
		}
	}
	for _, p := range w.pkgs {
		if len(p.GoFiles) == 0 {
			continue
		}
		types := slices.DeleteFunc(slices.Clone(entries[p.ImportPath]), func(s string) bool { return !strings.HasPrefix(s, "type ") })
		for tool, want := range map[string][]string{"list_package_entries": entries[p.ImportPath], "list_types": types} {
			var got []string
			for _, e := range items[program.Entry](w, tool, map[string]any{"package": p.ImportPath}) {
				got = append(got, e.Tag+" "+e.Name+" "+e.Position)
			}
			w.same(tool, p.ImportPath, got, want)
		}
	}
	got = nil
	for _, e := range items[program.Entry](w, "list_all_types", nil) {
		if !strings.HasSuffix(e.Position[:strings.IndexByte(e.Position, ':')], "_test.go") { // of packages with nothing but tests
			got = append(got, e.Package+"."+e.Name+" "+e.Position)
		}
	}
	w.same("list_all_types", "-", got, all)
}

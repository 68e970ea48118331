package realcode

import (
	"go/format"
	"regexp"
	"slices"
	"strings"

	"gatehouse/toolsets/browsing"
)

// compareBrowsing: what is said of types is what gopls says, sources are what
// gopls and go doc show.
func (w *world) compareBrowsing() {
	shown := map[string]bool{}
	for _, d := range w.decls {
		if !d.cheap && !d.picked || d.tag == "member" || d.tag == "func" && d.local == "init" {
			continue
		}
		w.compareSource(d, d.picked && !shown[d.pkg+d.tag] && !d.test)
		shown[d.pkg+d.tag] = shown[d.pkg+d.tag] || d.picked && !d.test
		if d.tag == "type" {
			w.compareType(d)
		}
	}
}

var before = regexp.MustCompile(`^(?:\s*(?://[^\n]*\n|/\*(?s:.*?)\*/|(?:type|const|var)(?: \()?\s?))*\s*$`)

// compareSource: the source that is shown is the declaration, with its comment
// and nothing else.
func (w *world) compareSource(d *declared, doc bool) {
	tool, arg := "get_function_source", "name"
	if d.tag == "type" {
		tool, arg = "get_type_definition", "type"
	}
	src, fail := ask[browsing.Source](w, tool, map[string]any{arg: d.full()})
	if fail != "" {
		w.diffs.note(w.T, w.name, tool, d.full(), fail)
		return
	}
	w.count[tool]++
	head, tail, ok := strings.Cut(src.Source, d.Text)
	if !ok || !src.Group && (!before.MatchString(head) || !before.MatchString(tail+"\n") && d.tag != "var" && d.tag != "const") {
		w.Errorf("%s: %s shows\n%s\ngopls\n%s", d.full(), tool, src.Source, d.Text)
	}
	if !doc || d.tag != "type" && d.tag != "func" && d.tag != "method" || src.Group {
		return
	}
	out := string(w.command("go", "doc", "-u", "-src", d.pkg, d.local))
	if _, rest, ok := strings.Cut(out, "\n\n"); ok && strings.HasPrefix(out, "package ") {
		out = rest
	}
	want, err := format.Source([]byte(src.Source))
	if err != nil {
		w.Errorf("%s: %v", d.full(), err)
	}
	w.count["go doc"]++
	// It shows the constructors of a type, and Name for name, too.
	if !strings.Contains(squeeze(out), squeeze(string(want))) {
		w.Errorf("%s: %s shows\n%s\ngo doc\n%s", d.full(), tool, want, out)
	}
}

// squeeze leaves what go doc does not set anew: comments get blank lines there.
func squeeze(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), ""), "//", "")
}

// compareType: fields and declared methods are those of the source, all methods
// those that gopls shows, interfaces those that gopls finds.
func (w *world) compareType(d *declared) {
	desc, fail := ask[browsing.Description](w, "describe_type", map[string]any{"type": d.full()})
	if fail != "" {
		w.Errorf("describe_type %s: %s", d.full(), fail)
		return
	}
	w.same("describe_type position", d.full(), []string{desc.Position}, []string{d.Pos})
	var fields, wantFields, methods, want []string
	for _, f := range desc.Fields {
		fields = append(fields, f.Name)
	}
	if d.Kind == 23 { // a struct
		for _, c := range d.Children {
			name := c.Name[strings.LastIndexByte(c.Name, '.')+1:]
			name, _, _ = strings.Cut(strings.TrimLeft(name, "*"), "[")
			if name != "_" {
				wantFields = append(wantFields, name)
			}
		}
		fields = slices.DeleteFunc(fields, func(s string) bool { return s == "_" })
		if !slices.Equal(fields, wantFields) {
			w.Errorf("%s: describe_type has the fields %v, gopls %v", d.full(), fields, wantFields)
		}
		w.count["describe_type fields"] += len(fields)
	}
	for _, o := range w.decls {
		if o.pkg == d.pkg && (o.tag == "method" || d.iface && o.tag == "member" && o.iface) && strings.HasPrefix(o.local, d.local+".") && (!o.test || d.test) {
			want = append(want, o.local[len(d.local)+1:]+" "+o.Pos)
		}
	}
	listed := items[browsing.Method](w, "list_methods", map[string]any{"type": d.full()})
	if !slices.Equal(listed, desc.Methods) {
		w.Errorf("%s: list_methods and describe_type differ", d.full())
	}
	all := []string{}
	for _, m := range listed {
		// A type that is defined as another interface has that one's methods.
		at := w.at[m.Position]
		if m.From == "" && at != nil && (d.iface || !at.iface) {
			methods = append(methods, m.Name+" "+m.Position)
		}
		all = append(all, m.Name)
	}
	if desc.Kind == "named" {
		w.same("list_methods", d.full(), methods, want)
	}
	if d.picked {
		w.compareHierarchy(d, desc, all)
	}
}

var hoverMethod = regexp.MustCompile(`(?m)^func \([^)]*\) (\w+)[\[(]`)

func (w *world) compareHierarchy(d *declared, desc browsing.Description, methods []string) {
	if !d.iface && desc.Kind == "named" {
		// gopls shows the methods that can be used from where the cursor is: all.
		var shown []string
		for _, m := range hoverMethod.FindAllStringSubmatch(w.g.Hover(d.Pos), -1) {
			shown = append(shown, m[1])
		}
		w.same("methods with promoted ones", d.full(), methods, shown)
	}
	h, fail := ask[browsing.Hierarchy](w, "get_type_hierarchy", map[string]any{"type": d.full()})
	if fail != "" {
		w.Errorf("get_type_hierarchy %s: %s", d.full(), fail)
		return
	}
	bare := func(names []string) (out []string) {
		for _, n := range names {
			out = append(out, strings.TrimPrefix(n, "*"))
		}
		return out
	}
	slices.Sort(desc.Implements)
	if !slices.Equal(h.Implements, desc.Implements) {
		w.Errorf("%s: describe_type implements %v, get_type_hierarchy %v", d.full(), desc.Implements, h.Implements)
	}
	if desc.Kind == "alias" {
		return
	}
	if d.iface {
		w.same("get_type_hierarchy implemented by", d.full(), bare(h.ImplementedBy), w.names(w.ownTypes(w.g.Implementations(d.Pos))))
	}
	w.same("get_type_hierarchy implements", d.full(), bare(h.Implements), w.nearInterfaces(d, w.g.Supertypes(d.Pos)))
}

func (w *world) names(pos []string) (out []string) {
	for _, p := range pos {
		if n := w.nameAt(p); n != "" {
			out = append(out, n)
		}
	}
	return out
}

// nearInterfaces leaves of the interfaces that a type implements those that ours
// tells of: the module's own, and the exported ones of what the module imports.
func (w *world) nearInterfaces(d *declared, pos []string) (out []string) {
	imported := map[string]bool{}
	for _, p := range w.pkgs {
		for _, im := range p.Imports {
			imported[im] = !strings.Contains(im, "internal/")
		}
	}
	for _, p := range pos {
		name := w.nameAt(p)
		switch i := strings.LastIndexByte(name, '.'); {
		case name == "":
		case strings.HasPrefix(name, "builtin."):
			out = append(out, name[len("builtin."):])
		case w.at[p] != nil, imported[name[:i]] && name[i+1] >= 'A' && name[i+1] <= 'Z':
			out = append(out, name)
		}
	}
	return out
}

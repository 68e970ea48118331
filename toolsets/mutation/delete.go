package mutation

import (
	"bytes"
	"context"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/view"
)

func (m mutation) deleteFunction(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, d, err := m.found(ctx, c, "name")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if d.Unit.Kind != decl.Func {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is no function or method", d.Qualified())
	}
	return s.remove(ctx, []*program.Decl{d})
}

func (m mutation) deleteType(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, d, err := m.found(ctx, c, "type")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, spec := d.TypeSpec(); spec == nil {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is not a type", d.Qualified())
	}
	all := []*program.Decl{d}
	for _, x := range d.Pkg.Decls() {
		if strings.HasPrefix(x.Name, d.Name+".") {
			all = append(all, x)
		}
	}
	return s.remove(ctx, all)
}

// remove deletes declarations, all or none.
func (s *session) remove(ctx context.Context, all []*program.Decl) (*toolsets.Result, error) {
	e := &Edit{Action: "deleted"}
	byFile := map[*program.File][]*program.Decl{}
	var files []*program.File
	for _, d := range all {
		if err := s.guard(d); err != nil {
			return nil, err
		}
		e.Names = append(e.Names, d.Qualified())
		if byFile[d.File] == nil {
			files = append(files, d.File)
			e.Files = append(e.Files, d.File.Rel)
		}
		byFile[d.File] = append(byFile[d.File], d)
	}
	// Everything is prepared before anything is written.
	edited := map[*program.File][]byte{}
	for _, f := range files {
		src := f.Src
		some := byFile[f]
		slices.SortFunc(some, func(a, b *program.Decl) int { return b.Unit.Start - a.Unit.Start })
		for _, d := range some {
			src = cut(src, d)
		}
		src, err := s.arrange(ctx, e, all[0].Pkg, f.Rel, f.Src, src)
		if err != nil {
			return nil, err
		}
		if _, err := parse(src); err != nil {
			return nil, toolsets.Failf(toolsets.CompileError, "%s would not parse after the edit, so nothing was changed: %v", f.Rel, err)
		}
		edited[f] = src
	}
	if err := s.View.Changeable(e.Files...); err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := s.write(ctx, all[0].Pkg, f.Rel, edited[f]); err != nil {
			return nil, err
		}
	}
	return s.finish(ctx, e), nil
}

// cut takes one declaration out of a file; free comments before it stay.
func cut(src []byte, d *program.Decl) []byte {
	from, to := d.Unit.Doc, d.Unit.End
	if g, spec := d.TypeSpec(); spec != nil && len(g.Specs) > 1 {
		tf := d.Pkg.Fset.File(d.File.AST().Package)
		from, to = tf.Offset(spec.Pos()), tf.Offset(spec.End())
		if spec.Doc != nil {
			from = tf.Offset(spec.Doc.Pos())
		}
		for from > 0 && (src[from-1] == ' ' || src[from-1] == '\t') {
			from--
		}
		if i := bytes.IndexByte(src[to:], '\n'); i >= 0 && (spec.Comment != nil || len(bytes.TrimSpace(src[to:to+i])) == 0) {
			to += i + 1
		}
	}
	before, after := src[:from], src[to:]
	trimmed := bytes.TrimRight(before, " \t\r\n")
	rest := bytes.TrimLeft(after, " \t\r\n")
	switch blankEnd := bytes.HasSuffix(before, []byte("\n\n")) || bytes.HasSuffix(before, []byte("\n\r\n")); {
	case len(rest) == 0:
		// The end of the file: one newline and no blank lines.
		nl := "\n"
		if bytes.Contains(src, []byte("\r\n")) {
			nl = "\r\n"
		}
		return append(append([]byte{}, trimmed...), nl...)
	case blankEnd:
		for i := 0; i < len(after) && (after[i] == '\n' || after[i] == '\r'); i++ {
			if after[i] == '\n' {
				after = after[i+1:]
				break
			}
		}
	}
	return append(append([]byte{}, before...), after...)
}

// element is one part of an import path that we make.
var element = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.~+-]*(_[A-Za-z0-9.~+-]+)*$`)

// moduleLine finds the module's path in a go.mod.
var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)`)

func (m mutation) addPackage(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, err := m.ws.Open(ctx, c, view.Write)
	if err != nil {
		return nil, err
	}
	es := &session{Session: s, c: c}
	defer es.Close()
	dir := c.String("path")
	snap, err := s.Load(ctx, c)
	if f, ok := err.(*toolsets.Failure); err != nil && (!ok || f.Kind != toolsets.NotFound) {
		return nil, err // an empty module is fine
	}
	if snap != nil {
		if err := snap.CheckAll(ctx, c.Progress); err != nil {
			return nil, err
		}
		es.snap, es.before = snap, countErrors(snap)
		dir = relativeDir(snap, dir)
	} else {
		es.before = map[string]int{}
		if mod, err := s.View.ReadFile("go.mod"); err == nil {
			if m := moduleLine.FindSubmatch(mod); m != nil {
				dir = strings.TrimPrefix(dir, string(m[1])+"/")
			}
		}
	}
	dir = strings.TrimPrefix(dir, "./")
	for _, el := range strings.Split(dir, "/") {
		if !element.MatchString(el) || el == "vendor" || el == "testdata" {
			return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"path\": %q is no import path inside the module", c.String("path"))
		}
	}
	name := c.String("name")
	if name == "" {
		name = defaultName(path.Base(dir))
	}
	if !token.IsIdentifier(name) || name == "_" {
		return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"name\": %q is no name for a package; give one that is", name)
	}
	if old := goFiles(s.View.Dir, dir); len(old) > 0 {
		return nil, toolsets.Failf(toolsets.Refused, "there is a package in %s already", dir)
	}
	rel := path.Join(dir, name+".go")
	if err := s.View.WriteFile(ctx, rel, []byte("package "+name+"\n")); err != nil {
		return nil, err
	}
	return es.finish(ctx, &Edit{Action: "added", Names: []string{"package " + name}, Files: []string{rel}}), nil
}

// goFiles names the Go files of a folder, which is relative to root.
func goFiles(root, dir string) (names []string) {
	in, _ := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir))) // mostly it is not there
	for _, e := range in {
		if strings.HasSuffix(e.Name(), ".go") {
			names = append(names, e.Name())
		}
	}
	return names
}

// relativeDir turns an import path of one of the workspace's modules into a folder.
func relativeDir(snap *program.Snapshot, p string) string {
	for _, q := range snap.Plains() {
		if q.Module == "" {
			continue
		}
		root := q.Dir
		if sub, ok := strings.CutPrefix(q.Path, q.Module+"/"); ok {
			root = strings.TrimSuffix(strings.TrimSuffix(q.Dir, sub), "/")
		}
		if rest, ok := strings.CutPrefix(p, q.Module+"/"); ok {
			return path.Join(root, rest)
		}
	}
	return p
}

// defaultName makes a package name of a path element.
func defaultName(el string) string {
	if i := strings.LastIndexAny(el, "-."); i >= 0 {
		el = el[i+1:]
	}
	return strings.ToLower(el)
}

func (m mutation) removePackage(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, err := m.open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	q, err := s.snap.Package(c.String("package"))
	if err != nil {
		return nil, err
	}
	var unread, files, broken []string
	for _, p := range s.snap.Packages() {
		if p.Dir != q.Dir {
			continue // the folder's external tests go with it
		}
		for _, d := range p.Decls() {
			if s.guard(d) != nil {
				unread = append(unread, d.Qualified())
			}
		}
		for _, f := range p.Files {
			if f.Err() != nil {
				broken = append(broken, path.Base(f.Rel))
				continue
			}
			files = append(files, f.Rel)
		}
	}
	if len(unread) > 0 {
		list := unread
		if len(list) > 20 {
			list = list[:20]
		}
		return nil, &toolsets.Failure{Kind: toolsets.Refused, Data: unread,
			Text: "these declarations have not been read by this session as they are; read them first (export_type_source, get_function_source): " + strings.Join(list, ", ")}
	}
	if len(files) == 0 {
		return nil, toolsets.Failf(toolsets.Refused, "no file of %s parses (%s), so that nobody can have read what it declares", q.Path, strings.Join(broken, ", "))
	}
	if err := s.View.Changeable(files...); err != nil {
		return nil, err
	}
	e := &Edit{Action: "deleted", Names: []string{"package " + q.Path}, Files: files}
	for _, rel := range files {
		if err := s.View.RemoveFile(rel); err != nil {
			return nil, err
		}
	}
	// What is not built here or does not parse nobody has read: it stays.
	var left []string
	for _, name := range goFiles(s.View.Dir, q.Dir) {
		if !slices.Contains(broken, name) {
			left = append(left, name)
		}
	}
	if len(left) > 0 {
		e.note = "Left, because it is not built here: " + strings.Join(left, ", ") + "."
	}
	if len(broken) > 0 {
		e.note = strings.TrimSpace(e.note + " Left, because it does not parse: " + strings.Join(broken, ", ") + ".")
	}
	return s.finish(ctx, e), nil
}

// Package search is the toolset that finds uses: of interfaces, of functions, of
// anything with a name, and of text.
package search

import (
	"context"
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/workspace"
)

type search struct{ ws *workspace.Workspace }

// New returns the toolset over a workspace.
func New(ws *workspace.Workspace) toolsets.Toolset {
	s := search{ws}
	name := toolsets.Param{Name: "name", Type: toolsets.String, Required: true,
		Meaning: "pkg.Name or pkg.Type.Member; pkg is an import path, or its last element where that is unambiguous. Names of dependencies are found, too."}
	return toolsets.Toolset{
		Name:    "search",
		Summary: "Implementations, references, callers and text.",
		Tools: []toolsets.Tool{
			{Name: "find_implementors", Title: "Find implementations", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true,
				Params: []toolsets.Param{{Name: "name", Type: toolsets.String, Required: true,
					Meaning: "An interface as pkg.Name, a method of one as pkg.Name.Method, or a bare method name."}},
				Description: "Finds the types of the workspace that implement an interface, the methods that implement one of its methods, or all methods of a name.",
				Output:      toolsets.OutputOf[toolsets.Page[Implementor]](), Call: s.implementors},
			{Name: "find_references_to", Title: "Find references", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{name},
				Description: "Finds every use of a function, method, type, field, constant or variable in the workspace, tests included. The declaration itself is not among them.",
				Output:      toolsets.OutputOf[toolsets.Page[Hit]](), Call: s.references},
			{Name: "find_callers", Title: "Find callers", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{name},
				Description: "Finds the direct calls of a function or method. Of a method, calls through interfaces that its type implements are listed and marked.",
				Output:      toolsets.OutputOf[toolsets.Page[Hit]](), Call: s.callers},
			{Name: "search_source", Title: "Search the source", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true,
				Params: []toolsets.Param{
					{Name: "pattern", Type: toolsets.String, Required: true, Pattern: `^[\s\S]+$`, PatternText: "text that is not empty",
						Meaning: "Text to find as it stands, or /regexp/ in Go's syntax."},
					{Name: "package", Type: toolsets.String, Meaning: "Search this package alone: import path, or its last element where that is unambiguous."},
				},
				Description: "Finds lines of Go files, also of such that are not built here. Stops one hit past the page, so that the total is not known when there are more.",
				Output:      toolsets.OutputOf[toolsets.Page[Hit]](), Call: s.source},
		},
	}
}

// Hit is one place in the source.
type Hit struct {
	Position string `json:"position" jsonschema:"file:line:column relative to the module"`
	Line     string `json:"line" jsonschema:"the source line, trimmed"`
	In       string `json:"in,omitempty" jsonschema:"the declaration around it"`
	Through  string `json:"through,omitempty" jsonschema:"the interface method that is called"`
}

func (h Hit) String() string {
	s := h.Position + ": " + h.Line
	if h.In != "" {
		s += "  (in " + h.In + ")"
	}
	if h.Through != "" {
		s += "  [through interface method " + h.Through + "]"
	}
	return s
}

// maxLine bounds how much of a source line is shown, in bytes.
const maxLine = 300

func trimLine(line string) string {
	line = strings.ToValidUTF8(strings.TrimSpace(line), "?")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	return line
}

// place is a hit with its position as numbers, to sort by.
type place struct {
	pos     token.Position
	rel     string
	in      string
	through string
	file    *program.File
}

// collect gathers the uses of the object at pos in the whole working copy. Each
// place counts once, whatever variants of a package it is in.
func collect(snap *program.Snapshot, pos token.Pos, callsOnly bool, through string, into map[token.Pos]place) {
	for _, q := range snap.Packages() {
		x := q.Index()
		if x == nil {
			continue
		}
		for _, r := range x.Of(pos) {
			if _, seen := into[r.Pos]; seen || callsOnly && !r.Call {
				continue
			}
			p := place{pos: snap.Fset.Position(r.Pos), through: through}
			if r.Func != "" {
				p.in = q.Path + "." + r.Func
			}
			p.rel = snap.Rel(p.pos.Filename)
			for _, f := range q.Files {
				if f.Path == snap.Fset.File(r.Pos).Name() {
					p.file = f
				}
			}
			into[r.Pos] = p
		}
	}
}

func hits(found map[token.Pos]place) []Hit {
	all := make([]place, 0, len(found))
	for _, p := range found {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b place) int {
		if c := strings.Compare(a.rel, b.rel); c != 0 {
			return c
		}
		return a.pos.Offset - b.pos.Offset
	})
	out := make([]Hit, len(all))
	for i, p := range all {
		out[i] = Hit{Position: fmt.Sprintf("%s:%d:%d", p.rel, p.pos.Line, p.pos.Column), In: p.in, Through: p.through}
		if p.file != nil && p.pos.Offset <= len(p.file.Src) {
			out[i].Line = trimLine(lineAt(p.file.Src, p.pos.Offset))
		}
	}
	return out
}

// lineAt returns the line around an offset.
func lineAt(src []byte, at int) string {
	from, to := at, at
	for from > 0 && src[from-1] != '\n' {
		from--
	}
	for to < len(src) && src[to] != '\n' {
		to++
	}
	return string(src[from:to])
}

// indexed opens the view for reading and finds out what every package refers to.
func (s search) indexed(ctx context.Context, c *toolsets.Call) (*workspace.Session, *program.Snapshot, error) {
	w, snap, err := s.ws.Read(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if err := snap.IndexAll(ctx, c.Progress); err != nil {
		w.Close()
		return nil, nil, err
	}
	return w, snap, nil
}

func (s search) references(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	w, snap, err := s.indexed(ctx, c)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	pos, ok := snap.Declared(c.String("name"))
	if !ok {
		obj, _, err := snap.Object(ctx, c.String("name"), c.Progress)
		if err != nil {
			return nil, err
		}
		pos = obj.Pos()
	}
	found := map[token.Pos]place{}
	collect(snap, pos, false, "", found)
	return noted(toolsets.Paged(c, hits(found), Hit.String), snap), nil
}

func (s search) callers(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	w, snap, err := s.indexed(ctx, c)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	obj, q, err := snap.Object(ctx, c.String("name"), c.Progress)
	if err != nil {
		return nil, err
	}
	f, ok := obj.(*types.Func)
	if !ok {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is no function or method, so nothing calls it; find_references_to finds its uses", c.String("name"))
	}
	found := map[token.Pos]place{}
	collect(snap, f.Pos(), true, "", found)
	if tn := receiver(f); tn != nil {
		if err := snap.CheckAll(ctx, c.Progress); err != nil {
			return nil, err
		}
		for _, r := range snap.Interfaces(tn, q) {
			m, _, _ := types.LookupFieldOrMethod(r.Type.Type(), false, r.Type.Pkg(), f.Name())
			if m != nil && m.Pos() != f.Pos() {
				collect(snap, snap.Identity(m), true, through(r, m), found)
			}
		}
	}
	return noted(toolsets.Paged(c, hits(found), Hit.String), snap), nil
}

// through names the interface method m of r by the interface that declares it,
// which r may embed.
func through(r program.Relation, m types.Object) string {
	if f, ok := m.(*types.Func); ok {
		if tn := receiver(f); tn != nil {
			return program.TypeName(tn) + "." + f.Name()
		}
	}
	return r.Name() + "." + m.Name()
}

// noted adds what may make an answer incomplete.
func noted(r *toolsets.Result, snap *program.Snapshot) *toolsets.Result {
	r.Text += snap.BrokenNote()
	return r
}

// receiver is the named type that a method belongs to, nil for a function.
func receiver(f *types.Func) *types.TypeName {
	r := f.Signature().Recv()
	if r == nil {
		return nil
	}
	t := types.Unalias(r.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// Implementor is one type or method that implements something.
type Implementor struct {
	Name     string `json:"name" jsonschema:"of a type or of a method"`
	Position string `json:"position"`
	Pointer  bool   `json:"pointer,omitempty" jsonschema:"only the pointer to the type implements"`
}

func (i Implementor) String() string {
	name := i.Name
	if i.Pointer {
		name = "*" + name
	}
	return name + " at " + i.Position
}

func (s search) implementors(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	w, snap, err := s.ws.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := snap.CheckAll(ctx, c.Progress); err != nil {
		return nil, err
	}
	name := c.String("name")
	if token.IsIdentifier(name) {
		return noted(toolsets.Paged(c, methodsNamed(snap, name), Implementor.String), snap), nil
	}
	obj, q, err := snap.Object(ctx, name, c.Progress)
	if err != nil {
		return nil, err
	}
	tn, method := ifaceOf(snap, q, obj, name)
	if tn == nil {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is neither an interface nor a method of one; find_references_to finds its uses", name)
	}
	rs, err := snap.Implementors(ctx, tn, c.Progress)
	if err != nil {
		return nil, err
	}
	var out []Implementor
	seen := map[token.Pos]bool{}
	for _, r := range rs {
		at := types.Object(r.Type)
		full := r.Name()
		if method != "" {
			m, _, _ := types.LookupFieldOrMethod(r.Type.Type(), true, r.Type.Pkg(), method)
			if m == nil || !m.Pos().IsValid() || m.Pos() == obj.Pos() && types.IsInterface(r.Type.Type()) {
				continue // an interface that embeds this one has this very method
			}
			at, full = m, full+"."+method
		}
		if seen[at.Pos()] {
			continue
		}
		seen[at.Pos()] = true
		out = append(out, Implementor{full, snap.Position(at.Pos()), r.Pointer})
	}
	slices.SortFunc(out, func(a, b Implementor) int { return strings.Compare(a.Name, b.Name) })
	return noted(toolsets.Paged(c, out, Implementor.String), snap), nil
}

// ifaceOf returns the interface that an object is, or that it is a method of.
func ifaceOf(snap *program.Snapshot, q *program.Package, obj types.Object, name string) (tn *types.TypeName, method string) {
	if t, ok := obj.(*types.TypeName); ok {
		if _, ok := t.Type().Underlying().(*types.Interface); ok {
			return t, ""
		}
		return nil, ""
	}
	if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil {
		owner := name[:strings.LastIndexByte(name, '.')]
		owner = owner[strings.LastIndexByte(owner, '.')+1:]
		if t, ok := q.Types().Scope().Lookup(owner).(*types.TypeName); ok {
			if _, ok := t.Type().Underlying().(*types.Interface); ok {
				return t, f.Name()
			}
		}
	}
	return nil, ""
}

// methodsNamed lists all methods of a name, those of interfaces included.
func methodsNamed(snap *program.Snapshot, name string) []Implementor {
	var out []Implementor
	seen := map[token.Pos]bool{}
	for _, q := range snap.Packages() {
		for _, tn := range q.TypeNames() {
			if tn.IsAlias() {
				continue
			}
			m, index, _ := types.LookupFieldOrMethod(tn.Type(), true, tn.Pkg(), name)
			f, ok := m.(*types.Func)
			if !ok || len(index) > 1 || seen[f.Pos()] || receiver(f) != nil && receiver(f).Pos() != tn.Pos() {
				continue
			}
			seen[f.Pos()] = true
			out = append(out, Implementor{Name: program.TypeName(tn) + "." + name, Position: snap.Position(f.Pos())})
		}
	}
	slices.SortFunc(out, func(a, b Implementor) int { return strings.Compare(a.Name, b.Name) })
	return out
}

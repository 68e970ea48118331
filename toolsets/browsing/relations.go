package browsing

import (
	"context"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"

	"gatehouse/toolsets"
	"gatehouse/toolsets/program"
)

func (m Method) line() string {
	s := m.Signature
	if m.From != "" {
		s += " (promoted from " + m.From + ")"
	}
	return s
}

// methodsOf lists the methods of a type or of the pointer to it, declared ones
// by file, promoted ones behind.
func methodsOf(tn *types.TypeName, snap *program.Snapshot) []Method {
	qual := qualifier(tn.Pkg())
	t := tn.Type()
	var out []Method
	for _, sel := range typeutil.IntuitiveMethodSet(t, nil) {
		f, ok := sel.Obj().(*types.Func)
		if !ok || !f.Exported() && f.Pkg() != tn.Pkg() {
			continue // what another package keeps to itself can't be called through this type
		}
		m := Method{Name: f.Name(), Position: snap.Position(f.Pos())}
		if !f.Pos().IsValid() {
			m.Position = ""
		}
		m.File, _, _ = strings.Cut(m.Position, ":")
		sig := f.Signature()
		if r := sig.Recv(); r != nil {
			_, m.Pointer = types.Unalias(r.Type()).(*types.Pointer)
		}
		m.Signature = f.Name() + strings.TrimPrefix(types.TypeString(sig, qual), "func")
		if len(sel.Index()) > 1 || embeddedInterface(tn, f) {
			m.From = origin(f, qual)
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b Method) int {
		if (a.From == "") != (b.From == "") {
			if a.From == "" {
				return -1
			}
			return 1
		}
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// embeddedInterface reports whether a method of an interface comes from one that
// is embedded in it.
func embeddedInterface(tn *types.TypeName, f *types.Func) bool {
	it, ok := tn.Type().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for m := range it.ExplicitMethods() {
		if m.Id() == f.Id() {
			return false
		}
	}
	return true
}

// origin names the type that declares a method.
func origin(f *types.Func, qual types.Qualifier) string {
	t := f.Signature().Recv().Type()
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	return types.TypeString(t, qual)
}

func (b browsing) methods(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, snap, err := b.ws.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	tn, _, err := snap.Type(ctx, c.String("type"), c.Progress)
	if err != nil {
		return nil, err
	}
	last := ""
	return toolsets.Paged(c, methodsOf(tn, snap), func(m Method) string {
		line := "  " + m.line()
		if m.File != last && m.From == "" {
			last = m.File
			line = path.Clean(m.File) + ":\n" + line
		}
		return line
	}), nil
}

// Hierarchy is the answer of get_type_hierarchy. Names with * stand for the
// pointer to the type.
type Hierarchy struct {
	Name          string   `json:"name"`
	Embeds        []string `json:"embeds"`
	EmbeddedBy    []string `json:"embedded_by"`
	Implements    []string `json:"implements"`
	ImplementedBy []string `json:"implemented_by"`
}

func (b browsing) hierarchy(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, snap, err := b.ws.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := snap.CheckAll(ctx, c.Progress); err != nil {
		return nil, err
	}
	tn, q, err := snap.Type(ctx, c.String("type"), c.Progress)
	if err != nil {
		return nil, err
	}
	h := Hierarchy{Name: program.TypeName(tn), Embeds: embeds(tn), EmbeddedBy: []string{}, Implements: []string{}, ImplementedBy: []string{}}
	for _, p := range snap.Packages() {
		for _, other := range p.TypeNames() {
			if slices.ContainsFunc(embedded(other), func(e *types.TypeName) bool { return e.Pos() == tn.Pos() && e.Name() == tn.Name() }) {
				h.EmbeddedBy = append(h.EmbeddedBy, program.TypeName(other))
			}
		}
	}
	add := func(to *[]string, rs []program.Relation) {
		for _, r := range rs {
			name := r.Name()
			if r.Pointer {
				name = "*" + name
			}
			*to = append(*to, name)
		}
	}
	add(&h.Implements, snap.Interfaces(tn, q))
	if it, ok := tn.Type().Underlying().(*types.Interface); ok && it.NumMethods() > 0 {
		rs, err := snap.Implementors(ctx, tn, c.Progress)
		if err != nil {
			return nil, err
		}
		add(&h.ImplementedBy, rs)
	}
	var t strings.Builder
	t.WriteString("type " + h.Name)
	for _, part := range []struct {
		what string
		list *[]string
	}{{"embeds", &h.Embeds}, {"embedded by", &h.EmbeddedBy}, {"implements", &h.Implements}, {"implemented by", &h.ImplementedBy}} {
		slices.Sort(*part.list)
		*part.list = slices.Compact(*part.list)
		t.WriteString("\n" + part.what + ": ")
		if len(*part.list) == 0 {
			t.WriteString("nothing")
		}
		t.WriteString(strings.Join(*part.list, ", "))
	}
	return &toolsets.Result{Text: toolsets.Cut(t.String()) + snap.BrokenNote(), Data: h}, nil
}

// embedded lists the named types that a type embeds directly.
func embedded(tn *types.TypeName) []*types.TypeName {
	if tn.IsAlias() {
		return nil
	}
	var out []*types.TypeName
	add := func(t types.Type) {
		if p, ok := types.Unalias(t).(*types.Pointer); ok {
			t = p.Elem()
		}
		switch t := t.(type) {
		case *types.Alias:
			out = append(out, t.Obj())
		case *types.Named:
			out = append(out, t.Obj())
		}
	}
	switch u := tn.Type().Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if f.Embedded() {
				add(f.Type())
			}
		}
	case *types.Interface:
		for t := range u.EmbeddedTypes() {
			add(t)
		}
	}
	return out
}

func embeds(tn *types.TypeName) []string {
	out := []string{}
	for _, e := range embedded(tn) {
		out = append(out, program.TypeName(e))
	}
	return out
}

// receiverOf returns the base type's name of a method declaration.
func receiverOf(d ast.Decl, receiver func(ast.Expr) string) string {
	if fd, ok := d.(*ast.FuncDecl); ok && fd.Recv != nil && len(fd.Recv.List) > 0 {
		return receiver(fd.Recv.List[0].Type)
	}
	return ""
}

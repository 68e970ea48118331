// Package browsing is the toolset that describes types and shows the source of
// declarations. What it shows counts as read for the blind-write guard.
package browsing

import (
	"context"
	"fmt"
	"go/ast"
	"go/types"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/workspace"
)

type browsing struct{ ws *workspace.Workspace }

// New returns the toolset over a workspace.
func New(ws *workspace.Workspace) toolsets.Toolset {
	b := browsing{ws}
	typ := toolsets.Param{Name: "type", Type: toolsets.String, Required: true, Meaning: "The type as pkg.Name; pkg is an import path, or its last element where that is unambiguous."}
	return toolsets.Toolset{
		Name:    "browsing",
		Summary: "Types, their relations, and the source of declarations.",
		Guide:   "Read a declaration with get_function_source or get_type_definition; declarations are named pkg.Name and pkg.Type.Method.",
		Tools: []toolsets.Tool{
			{Name: "describe_type", Title: "Describe a type", Viewed: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{typ},
				Description: "Describes a type: underlying type, fields, embedded types, methods, and which interfaces it implements. Types of dependencies can be described, too.",
				Output:      toolsets.OutputOf[Description](), Call: b.describe},
			{Name: "get_type_definition", Title: "Get a type's definition", Viewed: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{typ},
				Description: "Shows the source of a type's declaration with its doc comment. Counts as having read it.",
				Output:      toolsets.OutputOf[Source](), Call: b.definition},
			{Name: "get_type_hierarchy", Title: "Get a type's relations", Viewed: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{typ},
				Description: "Says what a type embeds, what embeds it, which interfaces it implements and, of an interface, what implements it.",
				Output:      toolsets.OutputOf[Hierarchy](), Call: b.hierarchy},
			{Name: "list_methods", Title: "List a type's methods", Viewed: true, Paged: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{typ},
				Description: "Lists the methods of a type by the file they stand in; promoted ones are marked with the type they come from.",
				Output:      toolsets.OutputOf[toolsets.Page[Method]](), Call: b.methods},
			{Name: "get_function_source", Title: "Get a function's source", Viewed: true, ReadOnly: true, Idempotent: true,
				Params:      []toolsets.Param{{Name: "name", Type: toolsets.String, Required: true, Meaning: "The function as pkg.Name or the method as pkg.Type.Method. A constant or variable is shown, too."}},
				Description: "Shows the source of a function or method with its doc comment. Counts as having read it.",
				Output:      toolsets.OutputOf[Source](), Call: b.source},
			{Name: "export_type_source", Title: "Export a type's source", Viewed: true, ReadOnly: true, Idempotent: true, Params: []toolsets.Param{typ},
				Description: "Shows a type's definition and all its methods as one file with the imports that they need; the file compiles in the type's package in place of the originals. Counts as having read them.",
				Output:      toolsets.OutputOf[Export](), Call: b.export},
		},
	}
}

// Source is the source of one declaration.
type Source struct {
	Name     string `json:"name" jsonschema:"the full name"`
	Position string `json:"position" jsonschema:"file:line:column relative to the module"`
	Source   string `json:"source"`
	// Group is set when the declaration is shown as a part of a larger one.
	Group bool `json:"in_group,omitempty" jsonschema:"the declaration is part of a group in parentheses"`
	// Generated warns that the file is made by a program.
	Generated bool `json:"generated,omitempty"`
}

func (s Source) result() *toolsets.Result {
	s.Source = toolsets.Cut(s.Source)
	head := "// " + s.Name + " at " + s.Position
	if s.Group {
		head += " (in a group)"
	}
	if s.Generated {
		head += " (generated file: edits are lost when it is made again)"
	}
	return &toolsets.Result{Text: head + "\n" + s.Source, Data: s}
}

// found opens the view for the declaration that an argument names.
func (b browsing) found(ctx context.Context, c *toolsets.Call, arg string) (*workspace.Session, *program.Decl, error) {
	s, snap, err := b.ws.Read(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	d, err := snap.Find(c.String(arg))
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, d, nil
}

func (b browsing) definition(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, d, err := b.found(ctx, c, "type")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	g, spec := d.TypeSpec()
	if spec == nil {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is not a type; get_function_source shows it", d.Qualified())
	}
	s.MarkRead(d)
	src := Source{Name: d.Qualified(), Position: d.Position(), Source: strings.TrimRight(string(d.Text()), "\r\n"), Generated: d.File.Generated()}
	if d.Unit.Grouped && len(g.Specs) > 1 {
		src.Group, src.Source = true, specText(d, spec)
		src.Position = d.Pkg.Position(spec.Pos())
	}
	return src.result(), nil
}

// specText is one type of a group as a declaration of its own.
func specText(d *program.Decl, spec *ast.TypeSpec) string {
	tf := d.Pkg.Fset.File(d.File.AST().Package)
	text := func(n ast.Node) string { return string(d.File.Src[tf.Offset(n.Pos()):tf.Offset(n.End())]) }
	out := "type " + text(spec)
	if spec.Doc != nil {
		out = text(spec.Doc) + "\n" + out
	}
	if spec.Comment != nil {
		out += " " + text(spec.Comment)
	}
	return out
}

func (b browsing) source(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, d, err := b.found(ctx, c, "name")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if d.Unit.Kind == decl.Type {
		return nil, toolsets.Failf(toolsets.NotFound, "%s is a type; get_type_definition shows it", d.Qualified())
	}
	s.MarkRead(d)
	return Source{Name: d.Qualified(), Position: d.Position(), Source: strings.TrimRight(string(d.Text()), "\r\n"),
		Group: d.Unit.Grouped, Generated: d.File.Generated()}.result(), nil
}

// qualifier names packages other than home by their name.
func qualifier(home *types.Package) types.Qualifier {
	return func(p *types.Package) string {
		if p == home || home != nil && p.Path() == home.Path() {
			return ""
		}
		return p.Name()
	}
}

// Field is a field of a struct or an embedded type of an interface.
type Field struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Tag      string `json:"tag,omitempty"`
	Embedded bool   `json:"embedded,omitempty"`
}

// Method is a method of a type.
type Method struct {
	Name      string `json:"name"`
	Signature string `json:"signature"`
	File      string `json:"file,omitempty"`
	Position  string `json:"position,omitempty"`
	// From is the type that a promoted method comes from.
	From string `json:"promoted_from,omitempty"`
	// Pointer methods have a pointer receiver.
	Pointer bool `json:"pointer,omitempty"`
}

// Description is the answer of describe_type.
type Description struct {
	Name       string   `json:"name"`
	Position   string   `json:"position"`
	Synopsis   string   `json:"synopsis,omitempty"`
	Kind       string   `json:"kind"`
	Underlying string   `json:"underlying"`
	TypeParams string   `json:"type_parameters,omitempty"`
	Fields     []Field  `json:"fields"`
	Embedded   []string `json:"embedded"`
	Methods    []Method `json:"methods"`
	Implements []string `json:"implements" jsonschema:"interfaces; those marked with * by the pointer type only"`
}

func (b browsing) describe(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
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
	d := Description{Name: program.TypeName(tn), Position: snap.Position(tn.Pos()), Fields: []Field{}, Embedded: []string{}, Methods: []Method{}, Implements: []string{}}
	if q.Workspace {
		if dc := q.Lookup(tn.Name()); dc != nil {
			if g, spec := dc.TypeSpec(); spec != nil {
				d.Synopsis = program.Synopsis(spec.Doc.Text())
				if d.Synopsis == "" && len(g.Specs) == 1 {
					d.Synopsis = program.Synopsis(g.Doc.Text())
				}
			}
		}
	}
	d.fill(tn, snap)
	for _, r := range snap.Interfaces(tn, q) {
		name := r.Name()
		if r.Pointer {
			name = "*" + name
		}
		d.Implements = append(d.Implements, name)
	}
	return &toolsets.Result{Text: toolsets.Cut(d.text()) + snap.BrokenNote(), Data: d}, nil
}

func (d *Description) fill(tn *types.TypeName, snap *program.Snapshot) {
	qual := qualifier(tn.Pkg())
	d.Kind = "named"
	if tn.IsAlias() {
		d.Kind = "alias"
	}
	t := tn.Type()
	if n, ok := types.Unalias(t).(*types.Named); ok && n.TypeParams().Len() > 0 && !tn.IsAlias() {
		var ps []string
		for p := range n.TypeParams().TypeParams() {
			ps = append(ps, p.Obj().Name()+" "+types.TypeString(p.Constraint(), qual))
		}
		d.TypeParams = strings.Join(ps, ", ")
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		d.Underlying = "struct"
		for i := range u.NumFields() {
			f := u.Field(i)
			d.Fields = append(d.Fields, Field{f.Name(), types.TypeString(f.Type(), qual), u.Tag(i), f.Embedded()})
			if f.Embedded() {
				d.Embedded = append(d.Embedded, types.TypeString(f.Type(), qual))
			}
		}
	case *types.Interface:
		d.Underlying = "interface"
		for i := range u.NumEmbeddeds() {
			d.Embedded = append(d.Embedded, types.TypeString(u.EmbeddedType(i), qual))
		}
	default:
		d.Underlying = types.TypeString(u, qual)
	}
	d.Methods = append(d.Methods, methodsOf(tn, snap)...)
}

func (d Description) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "type %s", d.Name)
	if d.TypeParams != "" {
		fmt.Fprintf(&b, "[%s]", d.TypeParams)
	}
	fmt.Fprintf(&b, " (%s; underlying %s) at %s", d.Kind, d.Underlying, d.Position)
	if d.Synopsis != "" {
		b.WriteString("\n" + d.Synopsis)
	}
	if len(d.Fields) > 0 {
		b.WriteString("\nfields:")
		for _, f := range d.Fields {
			b.WriteString("\n  ")
			if f.Embedded {
				b.WriteString("(embedded) ")
			} else {
				b.WriteString(f.Name + " ")
			}
			b.WriteString(f.Type)
			if f.Tag != "" {
				b.WriteString(" `" + f.Tag + "`")
			}
		}
	} else if len(d.Embedded) > 0 {
		b.WriteString("\nembeds: " + strings.Join(d.Embedded, ", "))
	}
	if len(d.Methods) > 0 {
		b.WriteString("\nmethods:")
		for _, m := range d.Methods {
			b.WriteString("\n  " + m.line())
		}
	}
	if len(d.Implements) > 0 {
		b.WriteString("\nimplements: " + strings.Join(d.Implements, ", "))
	}
	return b.String()
}

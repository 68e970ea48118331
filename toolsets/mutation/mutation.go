// Package mutation is the toolset that edits declarations. An edit replaces the
// bytes of one declaration and the imports that this makes necessary, and leaves
// every other byte of the file as it was.
package mutation

import (
	"context"
	"fmt"
	"strings"

	"gatehouse/toolsets"
	"gatehouse/toolsets/program"
	"gatehouse/toolsets/view"
	"gatehouse/toolsets/workspace"
)

type mutation struct{ ws *workspace.Workspace }

// New returns the toolset over a workspace.
func New(ws *workspace.Workspace) toolsets.Toolset {
	m := mutation{ws}
	str := func(name string, required bool, meaning string) toolsets.Param {
		return toolsets.Param{Name: name, Type: toolsets.String, Required: required, Meaning: meaning}
	}
	pkg := str("package", true, "Import path, or its last element where that is unambiguous.")
	file := str("file", false, "File for a new declaration, such as util.go; made when it is not there. Existing declarations are replaced where they stand.")
	out := toolsets.OutputOf[Edit]()
	tool := func(name, title, description string, call func(context.Context, *toolsets.Call) (*toolsets.Result, error), destructive bool, params ...toolsets.Param) toolsets.Tool {
		return toolsets.Tool{Name: name, Title: title, Description: description, Call: call, Viewed: true, Destructive: destructive, Idempotent: !destructive, Params: params, Output: out}
	}
	return toolsets.Toolset{
		Name:    "mutation",
		Summary: "Edits of packages, types, functions and doc comments.",
		Guide:   "Edit with define_function and define_type, whole declarations at a time; imports are managed. An edit that does not parse changes nothing; one that does not type-check is kept and the new errors are listed.",
		Tools: []toolsets.Tool{
			tool("add_package", "Add a package", "Makes a new, empty package.", m.addPackage, false,
				str("path", true, "Import path inside the module, or the folder relative to the workspace."),
				str("name", false, "The package's name; default: the last element of the path.")),
			tool("define_type", "Define a type", "Adds a type, or replaces the one of that name where it stands. Without a doc comment the present one is kept.", m.defineType, false,
				pkg, str("source", true, "One type declaration in Go, with its doc comment."), file),
			tool("define_function", "Define a function", "Adds a function or method, or replaces the one of that name where it stands. Without a doc comment the present one is kept.", m.defineFunction, false,
				pkg, str("source", true, "One function or method declaration in Go, with its doc comment."), file),
			tool("delete_type", "Delete a type", "Deletes a type and all its methods. All of them must have been read (export_type_source shows all).", m.deleteType, true,
				str("type", true, "The type as pkg.Name.")),
			tool("delete_function", "Delete a function", "Deletes a function or method.", m.deleteFunction, true,
				str("name", true, "The function as pkg.Name or the method as pkg.Type.Method.")),
			tool("remove_package", "Remove a package", "Deletes all Go files of a package. All its declarations must have been read.", m.removePackage, true, pkg),
			tool("set_doc_comment", "Set a doc comment", "Sets the doc comment of a declaration. Compiler directives in it are kept.", m.setDoc, false,
				str("name", true, "The declaration as pkg.Name or pkg.Type.Method."),
				str("comment", true, "The comment's text, with or without comment marks; empty removes it.")),
		},
	}
}

// Edit is the answer of every tool of the toolset.
type Edit struct {
	Action  string   `json:"action" jsonschema:"added, replaced, deleted or unchanged"`
	Names   []string `json:"names" jsonschema:"the declarations or the package"`
	Files   []string `json:"files"`
	Added   []string `json:"imports_added,omitempty"`
	Removed []string `json:"imports_removed,omitempty"`
	// NewErrors are errors of the code that were not there before.
	NewErrors []string `json:"new_errors" jsonschema:"errors in the workspace that were not there before the edit"`
	note      string
}

func (e *Edit) result() *toolsets.Result {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s %s in %s.", strings.ToUpper(e.Action[:1]), e.Action[1:], strings.Join(e.Names, ", "), strings.Join(e.Files, ", "))
	if e.Action == "unchanged" {
		b.Reset()
		fmt.Fprintf(&b, "%s is like that already; nothing was changed.", strings.Join(e.Names, ", "))
	}
	if len(e.Added) > 0 {
		b.WriteString(" Imports added: " + strings.Join(e.Added, ", ") + ".")
	}
	if len(e.Removed) > 0 {
		b.WriteString(" Imports removed: " + strings.Join(e.Removed, ", ") + ".")
	}
	if e.note != "" {
		b.WriteString(" " + e.note)
	}
	if len(e.NewErrors) > 0 {
		fmt.Fprintf(&b, "\n%s:\n  %s", toolsets.Count(len(e.NewErrors), "new error"), strings.Join(e.NewErrors, "\n  "))
	} else {
		e.NewErrors = []string{}
	}
	return &toolsets.Result{Text: toolsets.Cut(b.String()), Data: e}
}

// session is one edit's hold on the view.
type session struct {
	*workspace.Session
	c      *toolsets.Call
	snap   *program.Snapshot
	before map[string]int // errors and how often there is each
}

// open takes the view for writing, loads the program and notes its errors.
func (m mutation) open(ctx context.Context, c *toolsets.Call) (*session, error) {
	w, err := m.ws.Open(ctx, c, view.Write)
	if err != nil {
		return nil, err
	}
	s := &session{Session: w, c: c}
	if s.snap, err = w.Load(ctx, c); err == nil {
		err = s.snap.IndexAll(ctx, c.Progress)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	s.before = countErrors(s.snap)
	return s, nil
}

// found is open for the declaration that an argument names.
func (m mutation) found(ctx context.Context, c *toolsets.Call, arg string) (*session, *program.Decl, error) {
	s, err := m.open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	d, err := s.snap.Find(c.String(arg))
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, d, nil
}

func countErrors(snap *program.Snapshot) map[string]int {
	out := map[string]int{}
	for _, q := range snap.Broken() {
		for _, e := range q.Errors() {
			out[withoutPosition(e)]++
		}
	}
	return out
}

// withoutPosition takes line and column out of an error, because an edit moves
// what follows it.
func withoutPosition(e string) string {
	file, rest, ok := strings.Cut(e, ":")
	if !ok {
		return e
	}
	_, text, ok := strings.Cut(rest, ": ")
	if !ok {
		return e
	}
	return file + ": " + text
}

// maxNewErrors bounds the list of new errors.
const maxNewErrors = 50

// finish loads what was written and lists the errors that are new. The edit is
// made: it does not fail any more.
func (s *session) finish(ctx context.Context, e *Edit) *toolsets.Result {
	snap, err := s.Load(ctx, s.c)
	if err == nil {
		err = snap.IndexAll(ctx, s.c.Progress)
	}
	if err != nil {
		e.NewErrors = []string{"the workspace could not be checked: " + err.Error()}
		return e.result()
	}
	s.snap = snap
	for _, q := range snap.Broken() {
		for _, msg := range q.Errors() {
			key := withoutPosition(msg)
			if s.before[key]--; s.before[key] < 0 && len(e.NewErrors) < maxNewErrors {
				e.NewErrors = append(e.NewErrors, msg)
			}
		}
	}
	return e.result()
}

// guard refuses to change a declaration that the session has not read as it is.
func (s *session) guard(d *program.Decl) error {
	how := "get_function_source"
	if _, spec := d.TypeSpec(); spec != nil {
		how = "get_type_definition"
	}
	switch s.View.Known(d.Pkg.Dir, d.Name, d.Text()) {
	case view.NeverRead:
		return toolsets.Failf(toolsets.Refused, "%s exists and this session has not read it; read it with %s first, so that nothing is overwritten unseen", d.Qualified(), how)
	case view.Stale:
		return toolsets.Failf(toolsets.Refused, "%s has changed since this session read it; read it again with %s first", d.Qualified(), how)
	}
	return nil
}

// fresh are the names that a declaration's unit declares and that the session has
// read as they are: d's own, and of the others of its group not all need be.
func (s *session) fresh(d *program.Decl) []string {
	var out []string
	for _, name := range d.Unit.Names {
		if s.View.Known(d.Pkg.Dir, name, d.Text()) == view.Fresh {
			out = append(out, name)
		}
	}
	return out
}

// write stores an edited file, after a last look that it parses, and marks the
// named declarations as known to the session.
func (s *session) write(ctx context.Context, q *program.Package, rel string, src []byte, known ...string) error {
	f, err := parse(src)
	if err != nil {
		return toolsets.Failf(toolsets.CompileError, "%s would not parse after the edit, so nothing was changed: %v", rel, err)
	}
	if err := s.View.WriteFile(ctx, rel, src); err != nil {
		return err
	}
	for _, name := range known {
		if u, ok := f.Find(name); ok {
			s.View.MarkRead(q.Dir, name, f.Text(u))
		}
	}
	return nil
}

package view

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"gatehouse/toolsets/decl"
)

// original is a file as the view's base has it.
type original struct {
	text  []byte
	there bool
}

// writes says that the view itself is about to write or remove a file. If its
// original is known, the changes can be told afterwards without asking git.
func (v *View) writes(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.touched++
	if _, ok := v.originals[name]; !v.known || ok {
		v.note(name)
		return
	}
	if slices.ContainsFunc(v.changes, func(c Change) bool { return c.Path == name }) {
		v.known = false
		return
	}
	// The file is as the base has it.
	text, err := v.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.known = false
		return
	}
	if v.originals == nil {
		v.originals = map[string]original{}
	}
	v.originals[name] = original{text, err == nil}
	v.note(name)
}

// wrote says that the view has written or removed a file. Whoever looked since
// writes was called may have seen it as it was before.
func (v *View) wrote(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.touched++
	v.note(name)
}

func (v *View) note(name string) {
	if v.written == nil {
		v.written = map[string]bool{}
	}
	v.written[name] = true
}

// knownChanges returns the changes if they can be told without git: nothing but
// the view itself has written since git was asked.
func (v *View) knownChanges() ([]Change, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known || len(v.written) == 0 {
		return v.changes, v.known
	}
	out := slices.Clone(v.changes)
	for name := range v.written {
		before := v.originals[name]
		text, err := v.ReadFile(name)
		there := err == nil
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			v.known = false
			return nil, false
		}
		out = slices.DeleteFunc(out, func(c Change) bool { return c.Path == name })
		if before.there == there && bytes.Equal(before.text, text) {
			continue
		}
		c := Change{Path: name, Status: "modified"}
		switch {
		case !before.there:
			c.Status = "added"
		case !there:
			c.Status = "deleted"
		}
		if isGo(name) {
			c.Declarations = changedDecls(before.text, text)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	v.changes, v.written = out, nil
	return out, true
}

// Touched says that files of the view may have changed: by a test, by code that
// was run. Writes through the view say so by themselves.
func (v *View) Touched() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = false
	v.touched++
}

// Change is one file that differs from the view's base.
type Change struct {
	Path string `json:"path"`
	// Status is "added", "modified" or "deleted".
	Status string `json:"status"`
	// Declarations are those that differ, for Go files that parse.
	Declarations []string `json:"declarations,omitempty"`
}

func (c Change) count() int { return max(1, len(c.Declarations)) }

// Changes returns the uncommitted changes.
func (v *View) Changes(ctx context.Context) ([]Change, error) {
	if ch, ok := v.knownChanges(); ok {
		return ch, nil
	}
	v.gitMu.Lock()
	defer v.gitMu.Unlock()
	v.mu.Lock()
	seen := v.touched
	v.mu.Unlock()
	tree, err := v.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	diff, err := v.git.diff(ctx, v.Base(), tree)
	if err != nil {
		return nil, err
	}
	ch, originals, err := v.describe(ctx, diff)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	// What was touched meanwhile is not in the snapshot.
	v.changes, v.known, v.written, v.originals = ch, v.touched == seen, nil, originals
	return ch, nil
}

// snapshot writes the view's present state as a tree. The caller holds gitMu.
func (v *View) snapshot(ctx context.Context) (string, error) {
	if _, err := v.git.run(ctx, "collect the changes", nil, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	return v.git.line(ctx, "collect the changes", "write-tree")
}

// describe says what a difference of trees changes, and what its Go files were.
func (v *View) describe(ctx context.Context, diff []entry) ([]Change, map[string]original, error) {
	blobs, err := v.goBlobs(ctx, diff)
	if err != nil {
		return nil, nil, err
	}
	var out []Change
	originals := map[string]original{}
	for i, e := range diff {
		c := Change{Path: e.path, Status: "modified"}
		switch {
		case e.added():
			c.Status = "added"
		case e.deleted():
			c.Status = "deleted"
		}
		if b := blobs[i]; b != nil {
			c.Declarations = changedDecls(b[0], b[1])
			originals[e.path] = original{b[0], !e.added()}
		}
		out = append(out, c)
	}
	return out, originals, nil
}

// goBlobs reads both versions of the Go files of a difference: nil of everything
// else, and of what is too large.
func (v *View) goBlobs(ctx context.Context, diff []entry) ([][][]byte, error) {
	var ids []string
	isCode := func(e entry) bool {
		return isGo(e.path) && (regular(e.oldMode) || e.added()) && (regular(e.newMode) || e.deleted())
	}
	for _, e := range diff {
		if isCode(e) {
			ids = append(ids, e.oldID, e.newID)
		}
	}
	blobs, err := v.git.blobs(ctx, ids...)
	oneByOne := errors.Is(err, errTooMuch)
	if err != nil && !oneByOne {
		return nil, err
	}
	out := make([][][]byte, len(diff))
	for i, e := range diff {
		switch {
		case !isCode(e):
		case !oneByOne:
			out[i], blobs = blobs[:2:2], blobs[2:]
		default:
			if out[i], err = v.git.blobs(ctx, e.oldID, e.newID); err != nil && !errors.Is(err, errTooMuch) {
				return nil, err
			}
		}
	}
	return out, nil
}

func isGo(name string) bool { return strings.HasSuffix(name, ".go") }

// changedDecls names the declarations that differ between two versions of a
// file; nil when one of them does not parse. A version may be nil for no file.
func changedDecls(a, b []byte) []string {
	texts := func(src []byte) (map[string]string, []string) {
		m := map[string]string{}
		var order []string
		if src == nil {
			return m, nil
		}
		f, err := decl.Split(src)
		if err != nil {
			return nil, nil
		}
		for _, u := range f.Units {
			for _, n := range u.Names {
				if _, ok := m[n]; !ok {
					order = append(order, n)
				}
				m[n] = string(bytes.TrimSpace(f.Text(u)))
			}
		}
		return m, order
	}
	before, orderA := texts(a)
	after, orderB := texts(b)
	if before == nil || after == nil {
		return nil
	}
	var out []string
	seen := map[string]bool{}
	for _, n := range append(orderB, orderA...) {
		old, ok := before[n]
		now, still := after[n]
		if (ok != still || old != now) && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

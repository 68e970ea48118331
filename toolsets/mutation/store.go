package mutation

import (
	"bytes"
	"context"
	"go/format"
	"path/filepath"
	"strconv"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/program"
)

// store brings the imports of an edited file in order, writes it and finishes
// the edit. old is nil for a new file.
func (s *session) store(ctx context.Context, e *Edit, q *program.Package, rel string, old, src []byte, known ...string) (*toolsets.Result, error) {
	src, err := s.arrange(ctx, e, q, rel, old, src)
	if err != nil {
		return nil, err
	}
	if err := s.write(ctx, q, rel, src, known...); err != nil {
		return nil, err
	}
	return s.finish(ctx, e), nil
}

// arrange adds the imports that the edit needs, removes those that it made
// superfluous, and leaves a file formatted that was.
func (s *session) arrange(ctx context.Context, e *Edit, q *program.Package, rel string, old, src []byte) ([]byte, error) {
	add, remove, err := s.importChanges(ctx, q, rel, old, src)
	if err != nil {
		return nil, err
	}
	if src, err = decl.SetImports(src, add, remove); err != nil {
		return nil, toolsets.Failf(toolsets.CompileError, "%s would not parse after the edit, so nothing was changed: %v", rel, err)
	}
	for _, im := range add {
		e.Added = append(e.Added, strconv.Quote(im.Path))
	}
	for _, im := range remove {
		e.Removed = append(e.Removed, strconv.Quote(im.Path))
	}
	if old != nil {
		if f, err := format.Source(old); err != nil || !bytes.Equal(f, old) {
			return src, nil // it was not formatted before: its bytes are left alone
		}
	}
	if f, err := format.Source(src); err == nil {
		src = f
	}
	return src, nil
}

// importChanges finds what an edit does to a file's imports. Imports that were
// unused before the edit are not its business.
func (s *session) importChanges(ctx context.Context, q *program.Package, rel string, old, src []byte) (add, remove []decl.Imported, err error) {
	now, err := decl.Split(src)
	if err != nil {
		return nil, nil, toolsets.Failf(toolsets.CompileError, "%s would not parse after the edit, so nothing was changed: %v", rel, err)
	}
	used, before := program.Qualifiers(src), program.Qualifiers(old)
	for _, im := range now.Imports {
		if local, sure := q.LocalName(im); sure && !used[local] && before[local] && im.Path != "C" {
			remove = append(remove, im)
		}
	}
	add, err = s.snap.MissingImports(ctx, q, s.GoEnv, filepath.Join(s.View.Dir, filepath.FromSlash(rel)), src)
	return add, remove, err
}

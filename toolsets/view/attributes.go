package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// asStored has git put files into a view as they are stored, and take them as
// they are: what .gitattributes files of the workspace say has no effect there.
const asStored = "* -text !eol !ident !working-tree-encoding !filter\n"

// storeAsIs writes asStored where it goes before files of the working copy.
func (v *View) storeAsIs() error {
	info := filepath.Join(v.git.gitDir, "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "attributes"), []byte(asStored), 0o600)
}

// maxText bounds the files that normal looks into, in bytes.
const maxText = 16 << 20

// normal returns the view's tree (written) as Git wants it stored, and the files
// that are not as they were written. Other working copies do follow the
// attributes: a line end or an expanded $Id$ that the view has brought into a
// file, and that Git would never store there, would show as a change of their
// owner for ever. What the base has already stays as it is.
func (v *View) normal(ctx context.Context, base, written string) (tree string, names []string, err error) {
	diff, err := v.git.diff(ctx, base, written)
	if err != nil {
		return "", nil, err
	}
	var entries bytes.Buffer
	for _, e := range diff {
		if !regular(e.newMode) {
			continue
		}
		now, err := v.readText(e.path)
		if err != nil || !lineEnd.Match(now) && !expanded.Match(now) {
			continue // what is not read is stored as it is
		}
		clean, err := v.clean(ctx, e, now)
		if err != nil {
			return "", nil, err
		}
		if bytes.Equal(clean, now) {
			continue
		}
		stored, err := v.git.run(ctx, "store a file", clean, "hash-object", "-w", "--stdin")
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&entries, "%s %s\t%s\x00", e.newMode, bytes.TrimSpace(stored), e.path)
		names = append(names, e.path)
	}
	if names == nil {
		return written, nil, nil
	}
	tree, err = v.writeMerged(ctx, written, entries.Bytes())
	return tree, names, err
}

var (
	lineEnd  = regexp.MustCompile(`\r\n`)
	expanded = regexp.MustCompile(`\$Id:[^$\n]*\$`)
)

// clean takes out of a file what the base has not and its attributes forbid.
func (v *View) clean(ctx context.Context, e entry, now []byte) ([]byte, error) {
	blobs, err := v.git.blobs(ctx, e.oldID)
	if errors.Is(err, errTooMuch) {
		return now, nil
	}
	if err != nil {
		return nil, err
	}
	a, err := v.attributes(ctx, e.path)
	if err != nil {
		return nil, err
	}
	if a.text() && !lineEnd.Match(blobs[0]) {
		now = lineEnd.ReplaceAllLiteral(now, []byte("\n"))
	}
	if a["ident"] == "set" && !expanded.Match(blobs[0]) {
		now = expanded.ReplaceAllLiteral(now, []byte("$Id$"))
	}
	return now, nil
}

// readText reads a file of the view if it is no more than maxText.
func (v *View) readText(name string) ([]byte, error) {
	if fi, err := v.root.Lstat(name); err != nil || fi.Size() > maxText {
		return nil, errors.Join(err, errors.New("too large"))
	}
	return v.ReadFile(name)
}

// attributes are Git's attributes of one file, by name.
type attributes map[string]string

// text reports whether the file is stored with LF alone. Of text=auto a file that
// has CRLF is left alone.
func (a attributes) text() bool {
	switch a["text"] {
	case "set", "input":
		return true
	case "unspecified":
		return a["eol"] == "lf" || a["eol"] == "crlf"
	}
	return false
}

// attributes asks what the view's files say of one of them. The shared repository
// is asked, whose own attributes count for its working tree, too.
func (v *View) attributes(ctx context.Context, name string) (attributes, error) {
	g := v.set.shared.git
	g.dir, g.tree = v.Dir, v.Dir
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(v.git.gitDir, "index")}
	out, err := g.try(ctx, nil, env, "check-attr", "-z", "text", "eol", "ident", "--", name)
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, &gitError{"look at the attributes of " + name, out.Code, plain(out.Stderr)}
	}
	all := attributes{}
	f := strings.Split(string(out.Stdout), "\x00")
	for i := 0; i+2 < len(f); i += 3 {
		all[f[i+1]] = f[i+2]
	}
	return all, nil
}

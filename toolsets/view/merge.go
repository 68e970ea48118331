package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/toolsets/decl"
	"gatehouse/toolsets/run"
)

// Clash is something that both sides changed.
type Clash struct {
	Path        string    `json:"path"`
	Declaration string    `json:"declaration,omitempty"`
	Commit      string    `json:"commit,omitempty" jsonschema:"the other side's commit"`
	Author      string    `json:"author,omitempty"`
	Time        time.Time `json:"time,omitzero"`
	Reason      string    `json:"reason,omitempty"`
}

func (c Clash) String() string {
	s := c.Path
	if c.Declaration != "" {
		s += ": " + c.Declaration
	}
	if c.Reason != "" {
		s += " (" + c.Reason + ")"
	}
	if c.Commit != "" {
		s += fmt.Sprintf(", changed in %s by %s at %s", abbrev(c.Commit), c.Author, c.Time.UTC().Format(time.RFC3339))
	}
	return s
}

// merge joins what the view did to base (its tree is ours) with what the shared
// branch did (head). It returns the merged tree, or what clashes.
func (v *View) merge(ctx context.Context, base, ours, head string) (tree string, clashes []Clash, err error) {
	mine, err := v.git.diff(ctx, base, ours)
	if err != nil {
		return "", nil, err
	}
	theirs, err := v.git.diff(ctx, base, head)
	if err != nil {
		return "", nil, err
	}
	other := map[string]entry{}
	for _, e := range theirs {
		other[e.path] = e
	}
	// Removals come first, so that a file can take the place of a folder.
	var removed, index bytes.Buffer
	for _, e := range mine {
		t, both := other[e.path]
		if both && t.newID == e.newID && t.newMode == e.newMode {
			continue
		}
		mode, id := e.newMode, e.newID
		if both {
			var found []Clash
			if mode, id, found, err = v.mergeFile(ctx, e, t); err != nil {
				return "", nil, err
			}
			clashes = append(clashes, found...)
		}
		to := &index
		if mode == noMode {
			to = &removed
		}
		fmt.Fprintf(to, "%s %s\t%s\x00", mode, id, e.path)
	}
	clashes = append(clashes, inTheWay(mine, theirs)...)
	twice, err := v.addedTwice(ctx, mine, theirs)
	if err != nil {
		return "", nil, err
	}
	if clashes = append(clashes, twice...); len(clashes) > 0 {
		v.attribute(ctx, base, head, clashes)
		return "", clashes, nil
	}
	tree, err = v.writeMerged(ctx, head, append(removed.Bytes(), index.Bytes()...))
	return tree, nil, err
}

// inTheWay finds files of one side that stand where the other has a folder.
func inTheWay(mine, theirs []entry) []Clash {
	var out []Clash
	for _, m := range mine {
		for _, t := range theirs {
			if !m.deleted() && !t.deleted() && (strings.HasPrefix(m.path, t.path+"/") || strings.HasPrefix(t.path, m.path+"/")) {
				out = append(out, Clash{Path: t.path, Reason: "one side has a file where the other has a folder, here " + m.path})
			}
		}
	}
	return out
}

// writeMerged makes the tree of head with the given index entries on top, in an
// index of its own.
func (v *View) writeMerged(ctx context.Context, head string, entries []byte) (string, error) {
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(v.git.gitDir, "merge-index")}
	defer os.Remove(filepath.Join(v.git.gitDir, "merge-index"))
	for _, step := range []struct {
		stdin []byte
		args  []string
	}{
		{nil, []string{"read-tree", "--reset", head}},
		{entries, []string{"update-index", "-z", "--add", "--index-info"}},
		{nil, []string{"write-tree"}},
	} {
		out, err := v.git.try(ctx, step.stdin, env, step.args...)
		if err != nil {
			return "", err
		}
		if out.Code != 0 {
			return "", &gitError{"write the merged tree", out.Code, plain(out.Stderr)}
		}
		if step.args[0] == "write-tree" {
			return strings.TrimSpace(string(out.Stdout)), nil
		}
	}
	panic("view: unreachable")
}

// mergeFile joins two changes of one path.
func (v *View) mergeFile(ctx context.Context, mine, theirs entry) (mode, id string, clashes []Clash, err error) {
	clash := func(reason string, decls ...string) (string, string, []Clash, error) {
		if len(decls) == 0 {
			return mine.newMode, mine.newID, []Clash{{Path: mine.path, Reason: reason}}, nil
		}
		var out []Clash
		for _, d := range decls {
			out = append(out, Clash{Path: mine.path, Declaration: d, Reason: reason})
		}
		return mine.newMode, mine.newID, out, nil
	}
	if slices.Contains([]string{mine.oldMode, mine.newMode, theirs.newMode}, submodule) {
		return clash("both sides changed something that is no ordinary file")
	}
	blobs, err := v.git.blobs(ctx, mine.oldID, mine.newID, theirs.newID)
	if errors.Is(err, errTooMuch) {
		return clash("both sides changed it, and it is too large to be merged")
	}
	if err != nil {
		return "", "", nil, err
	}
	switch {
	case mine.deleted():
		return clash("deleted here, changed on the shared branch", goDecls(mine.path, blobs[0], blobs[2])...)
	case theirs.deleted():
		return clash("changed here, deleted on the shared branch", goDecls(mine.path, blobs[0], blobs[1])...)
	case !regular(mine.newMode) || !regular(theirs.newMode):
		return clash("both sides changed something that is no ordinary file")
	case mine.added():
		return clash("both sides added it")
	}
	mode = mine.newMode
	if mine.newMode == mine.oldMode {
		mode = theirs.newMode
	}
	if mine.newID == mine.oldID || theirs.newID == mine.newID {
		return mode, theirs.newID, nil, nil
	}
	if theirs.newID == mine.oldID {
		return mode, mine.newID, nil, nil
	}
	merged, names, err := v.mergeText(ctx, mine.path, blobs[0], blobs[1], blobs[2])
	if err != nil {
		return "", "", nil, err
	}
	if merged == nil {
		return clash("", names...)
	}
	out, err := v.git.run(ctx, "store the merged file", merged, "hash-object", "-w", "--stdin")
	return mode, strings.TrimSpace(string(out)), nil, err
}

func goDecls(name string, a, b []byte) []string {
	if !isGo(name) {
		return nil
	}
	return changedDecls(a, b)
}

// mergeText returns nil and the names that clash (none where lines do).
func (v *View) mergeText(ctx context.Context, name string, base, ours, theirs []byte) (merged []byte, names []string, err error) {
	var lineErr error
	lines := func(b, o, t []byte) ([]byte, bool) {
		out, ok, err := mergeLines(ctx, v.git.env, b, o, t)
		if err != nil {
			lineErr = err
		}
		return out, ok
	}
	if isGo(name) {
		merged, names, err := decl.Merge(base, ours, theirs, lines)
		if lineErr != nil {
			return nil, nil, lineErr
		}
		if err == nil {
			return merged, names, nil
		}
		// A version that does not parse has no declarations: its lines are merged.
	}
	merged, ok, err := mergeLines(ctx, v.git.env, base, ours, theirs)
	if err != nil || !ok {
		return nil, nil, err
	}
	return merged, nil, nil
}

// mergeLines merges by lines with git merge-file. Binary data never merges.
func mergeLines(ctx context.Context, env []string, base, ours, theirs []byte) (merged []byte, ok bool, err error) {
	for _, b := range [][]byte{base, ours, theirs} {
		if bytes.IndexByte(b, 0) >= 0 {
			return nil, false, nil
		}
	}
	dir, err := os.MkdirTemp("", "gatehouse-merge-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	for i, b := range [][]byte{ours, base, theirs} {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), b, 0o600); err != nil {
			return nil, false, err
		}
	}
	out, err := run.Run(ctx, run.Cmd{Args: []string{"git", "merge-file", "-p", "--quiet", "0", "1", "2"}, Dir: dir, Env: env, MaxOutput: maxBlob})
	switch {
	case err != nil:
		return nil, false, err
	case out.Cut || out.Code < 0 || out.Code > 127:
		return nil, false, &gitError{"merge lines", out.Code, plain(out.Stderr)}
	case out.Code > 0:
		return nil, false, nil
	}
	if out.Stdout == nil {
		out.Stdout = []byte{}
	}
	return out.Stdout, true, nil
}

// addedTwice finds declarations that both sides added to the same package in
// different files: no file clashes, and yet they are the same declaration. Files
// with build constraints may well declare a name each.
func (v *View) addedTwice(ctx context.Context, mine, theirs []entry) ([]Clash, error) {
	added := func(diff []entry) (map[declKey]string, error) {
		out := map[declKey]string{}
		for _, e := range diff {
			if !isGo(e.path) || !regular(e.newMode) {
				continue
			}
			blobs, err := v.git.blobs(ctx, e.oldID, e.newID)
			if errors.Is(err, errTooMuch) {
				continue
			}
			if err != nil {
				return nil, err
			}
			now, err := decl.Split(blobs[1])
			if err != nil || constrained(e.path, blobs[1]) {
				continue
			}
			var before []string
			if blobs[0] != nil {
				if f, err := decl.Split(blobs[0]); err == nil {
					for _, u := range f.Units {
						before = append(before, u.Names...)
					}
				}
			}
			for _, u := range now.Units {
				for _, n := range u.Names {
					if !strings.HasPrefix(n, "_ ") && !strings.HasPrefix(n, "init#") && !slices.Contains(before, n) {
						out[declKey{path.Dir(e.path) + "\x00" + now.Package, n}] = e.path
					}
				}
			}
		}
		return out, nil
	}
	a, err := added(mine)
	if err != nil {
		return nil, err
	}
	b, err := added(theirs)
	if err != nil {
		return nil, err
	}
	var out []Clash
	for k, p := range a {
		if q, ok := b[k]; ok && p != q {
			out = append(out, Clash{Path: q, Declaration: k.name, Reason: "both sides added it, here in " + p})
		}
	}
	slices.SortFunc(out, func(x, y Clash) int { return strings.Compare(x.Path+x.Declaration, y.Path+y.Declaration) })
	return out, nil
}

// constrained reports whether a file is built on some systems only.
func constrained(name string, src []byte) bool {
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".go"), "_test")
	return strings.Contains(base, "_") || bytes.Contains(src, []byte("//go:build")) || bytes.Contains(src, []byte("// +build"))
}

// attribute finds who changed what clashes. What can't be found stays empty.
func (v *View) attribute(ctx context.Context, base, head string, clashes []Clash) {
	for i := range clashes {
		c := &clashes[i]
		out, err := v.git.run(ctx, "find the other commit", nil, "log", "-z", "--max-count=50", "--no-show-signature",
			"--format=%H%x01%an%x01%ct", base+".."+head, "--", c.Path)
		if err != nil {
			continue
		}
		for _, rec := range strings.Split(strings.Trim(string(out), "\x00\n"), "\x00") {
			f := strings.Split(rec, "\x01")
			if len(f) != 3 {
				continue
			}
			sec, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil || c.Declaration != "" && !v.commitChanged(ctx, f[0], c.Path, c.Declaration) {
				continue
			}
			c.Commit, c.Author, c.Time = f[0], strings.ToValidUTF8(f[1], "?"), time.Unix(sec, 0).UTC()
			break
		}
	}
}

// commitChanged reports whether a commit changed a declaration of a file.
func (v *View) commitChanged(ctx context.Context, commit, name, declaration string) bool {
	now, _ := v.git.run(ctx, "read a commit", nil, "cat-file", "blob", commit+":"+name)
	before, _ := v.git.run(ctx, "read a commit", nil, "cat-file", "blob", commit+"^:"+name)
	first, _, _ := strings.Cut(declaration, " (and its group)")
	names := changedDecls(orNil(before), orNil(now))
	return names == nil || slices.Contains(names, first) || !plainName(first)
}

func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func plainName(s string) bool { return !strings.Contains(s, " ") }

package program

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gatehouse/toolsets/decl"
)

// stamp tells versions of a file apart without reading it.
type stamp struct {
	size  int64
	mtime time.Time
	inode uint64
}

// scan stamps the files that decide about the program: Go files and module files.
func scan(root string) (map[string]stamp, error) {
	out := map[string]stamp{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == root {
				return err
			}
			return nil // an unreadable folder holds no packages for us
		}
		base := d.Name()
		if d.IsDir() {
			if name != root && (base == ".git" || base == "node_modules" || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") && base != "go.mod" && base != "go.work" && base != "go.sum" && base != "modules.txt" {
			return nil
		}
		fi, err := os.Stat(name)
		if err != nil || !fi.Mode().IsRegular() {
			return nil
		}
		out[name] = stampOf(fi)
		return nil
	})
	return out, err
}

func stampOf(fi fs.FileInfo) stamp {
	st := stamp{size: fi.Size(), mtime: fi.ModTime()}
	if sys, ok := fi.Sys().(*syscall.Stat_t); ok {
		st.inode = sys.Ino
	}
	return st
}

// File is one Go file of the working copy.
type File struct {
	Path string // absolute
	Rel  string // relative to the root, with slashes
	Src  []byte
	AST  *ast.File // also of a file that does not parse as a whole
	Err  error     // of parsing
	// Generated files say so in the standard comment.
	Generated bool
	stamp     stamp

	once  sync.Once
	decls *decl.File
	dErr  error
}

// Decls cuts the file into declarations. It fails when the file does not parse.
func (f *File) Decls() (*decl.File, error) {
	f.once.Do(func() { f.decls, f.dErr = decl.Split(f.Src) })
	return f.decls, f.dErr
}

// maxFile bounds a Go file that is looked at.
const maxFile = 32 << 20

// file returns the parsed file, nil when it can't be read.
func (s *Snapshot) file(name string) *File {
	if f := s.files[name]; f != nil {
		return f
	}
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	f := &File{Path: name, Rel: s.Rel(name), Src: src, stamp: stampOf(fi)}
	f.AST, f.Err = parser.ParseFile(s.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	f.Generated = f.AST != nil && ast.IsGenerated(f.AST)
	s.files[name] = f
	return f
}

// liveFiles are the parsed files that are still as they were.
func (s *Snapshot) liveFiles(tree map[string]stamp) map[string]*File {
	out := map[string]*File{}
	for name, f := range s.files {
		if st, ok := tree[name]; ok && st == f.stamp {
			out[name] = f
		}
	}
	return out
}

func (s *Snapshot) upToDate(tree map[string]stamp) bool {
	if len(tree) != len(s.tree) {
		return false
	}
	for name, st := range tree {
		if s.tree[name] != st {
			return false
		}
	}
	return true
}

// revise returns a snapshot for the changed tree when the change is inside of
// files: the same files, each with the same package name, imports and build
// constraints, or with imports that are known. Otherwise ok is false and the
// packages must be listed again.
func (s *Snapshot) revise(tree map[string]stamp) (next *Snapshot, ok bool) {
	if len(tree) != len(s.tree) {
		return nil, false
	}
	next = &Snapshot{ground: s.ground, tree: tree, byID: map[string]*Package{}, files: s.liveFiles(tree)}
	changed := map[string]*File{}
	visible := map[string]bool{} // changed in what others can see
	for name, st := range tree {
		old, known := s.tree[name]
		if !known {
			return nil, false
		}
		if old == st {
			continue
		}
		before := s.files[name]
		if !strings.HasSuffix(name, ".go") || before == nil {
			return nil, false
		}
		now := next.file(name)
		if now == nil || !sameShape(before, now) {
			return nil, false
		}
		changed[name] = now
		visible[name] = !s.bodiesOnly(before, now)
	}
	s.rebuild(next, changed, visible)
	next.choosePrimary()
	return next, true
}

// rebuild copies the packages into next: those without a changed file in them
// or a changed face below them as they are, the others new and unchecked. A
// package that changed inside of function bodies alone keeps its types and its
// face; only what it refers to itself is found out again.
func (s *Snapshot) rebuild(next *Snapshot, changed map[string]*File, visible map[string]bool) {
	for _, q := range s.order {
		touched := slices.ContainsFunc(q.paths, func(n string) bool { return changed[n] != nil })
		dirty := slices.ContainsFunc(q.paths, func(n string) bool { return visible[n] })
		for _, im := range q.Imports {
			dirty = dirty || !sameFace(next.byID[im.ID], im)
		}
		if !touched && !dirty {
			next.byID[q.ID] = q
			next.order = append(next.order, q)
			continue
		}
		n := &Package{ID: q.ID, Path: q.Path, Name: q.Name, ForTest: q.ForTest, Dir: q.Dir, Workspace: q.Workspace, Module: q.Module, abs: q.abs,
			ListErrors: q.ListErrors, goVersion: q.goVersion, paths: q.paths, ground: q.ground, Imports: map[string]*Package{}, face: &face{}}
		if t := q.Types(); t != nil && !dirty {
			n.Primary, n.types, n.face, n.errs = q.Primary, t, q.face, q.errs
		}
		for path, im := range q.Imports {
			n.Imports[path] = next.byID[im.ID]
		}
		for _, f := range q.Files {
			if c := changed[f.Path]; c != nil {
				f = c
			}
			n.Files = append(n.Files, f)
		}
		next.byID[n.ID] = n
		next.order = append(next.order, n)
	}
}

// sameShape reports whether two versions of a file look the same to the go
// command.
func sameShape(a, b *File) bool {
	if a.AST == nil || b.AST == nil || a.AST.Name.Name != b.AST.Name.Name || constraintsOf(a) != constraintsOf(b) {
		return false
	}
	return slices.Equal(importsOf(a), importsOf(b))
}

func importsOf(f *File) []string {
	var out []string
	for _, im := range f.AST.Imports {
		out = append(out, im.Path.Value)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func constraintsOf(f *File) string {
	var b strings.Builder
	for _, g := range f.AST.Comments {
		for _, c := range g.List {
			if constraint.IsGoBuild(c.Text) || constraint.IsPlusBuild(c.Text) || strings.HasPrefix(c.Text, "//go:embed") {
				b.WriteString(c.Text + "\n")
			}
		}
	}
	return b.String()
}

// adopt takes over from an older snapshot the packages that are the same: same
// files in the same versions, same imports, all the way down.
func (s *Snapshot) adopt(old *Snapshot) {
	for i, q := range s.order {
		o := old.byID[q.ID]
		if o == nil || !s.same(q, o) {
			// Imports may have been replaced by adopted ones.
			for path, im := range q.Imports {
				q.Imports[path] = s.byID[im.ID]
			}
			continue
		}
		s.byID[q.ID], s.order[i] = o, o
	}
	s.choosePrimary()
}

func (s *Snapshot) same(q, o *Package) bool {
	if !slices.Equal(q.paths, o.paths) || len(q.Imports) != len(o.Imports) || !slices.Equal(q.ListErrors, o.ListErrors) ||
		q.goVersion != o.goVersion || q.Workspace != o.Workspace || len(q.Files) != len(o.Files) || q.Primary != o.Primary {
		return false
	}
	for i := range q.Files {
		if q.Files[i] != o.Files[i] {
			return false
		}
	}
	for path, im := range q.Imports {
		if o.Imports[path] == nil || !sameFace(s.byID[im.ID], o.Imports[path]) {
			return false
		}
	}
	return true
}

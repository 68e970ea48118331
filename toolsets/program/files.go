package program

import (
	"crypto/sha256"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
)

// stamp tells versions of a file apart without reading it.
type stamp struct {
	size  int64
	mtime time.Time
	inode uint64
}

// scan stamps the files that decide about the program: Go files and module files.
// It refuses what only looks like one.
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
		if err != nil {
			return nil
		}
		if fi.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0 {
			rel, _ := filepath.Rel(root, name)
			return toolsets.Failf(toolsets.Refused, "%s is a pipe, a socket or a device, and the go command would wait for what it says; remove it (abort does)", filepath.ToSlash(rel))
		}
		if fi.Mode().IsRegular() {
			out[name] = stampOf(fi)
		}
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

	stamp stamp
	sum   [sha256.Size]byte // of Src
	tok   *token.File       // its part of the file set

	parsed sync.Once
	ast    *ast.File
	err    error

	split sync.Once
	decls *decl.File
	dErr  error
}

// AST is the parsed file, also of one that does not parse as a whole; nil of one
// that has nothing to parse.
func (f *File) AST() *ast.File {
	f.parse()
	return f.ast
}

// Err is what is wrong with the file's syntax.
func (f *File) Err() error {
	f.parse()
	return f.err
}

// Generated files say so in the standard comment.
func (f *File) Generated() bool { return f.AST() != nil && ast.IsGenerated(f.AST()) }

func (f *File) parse() {
	f.parsed.Do(func() { f.ast, f.err = parse(f.tok, f.Src, parser.ParseComments|parser.SkipObjectResolution) })
}

// parse parses a file whose place in the shared file set is tok: positions of the
// syntax are of that place. Lines are those of the file as it is; directives that
// name others are not followed.
func parse(tok *token.File, src []byte, mode parser.Mode) (*ast.File, error) {
	own := token.NewFileSet()
	if before := tok.Base() - own.Base() - 1; before >= 0 {
		own.AddFile("", own.Base(), before)
	}
	return parser.ParseFile(own, tok.Name(), src, mode)
}

// Decls cuts the file into declarations. It fails when the file does not parse.
func (f *File) Decls() (*decl.File, error) {
	f.split.Do(func() { f.decls, f.dErr = decl.Split(f.Src) })
	return f.decls, f.dErr
}

// maxFile bounds a Go file that is looked at.
const maxFile = 32 << 20

// file returns a file, nil when it can't be read.
func (s *Snapshot) file(name string) *File {
	if f := s.files[name]; f != nil {
		return f
	}
	f := s.read(name)
	if f != nil {
		s.files[name] = f
	}
	return f
}

// read reads a file, nil when it can't be read.
func (g *ground) read(name string) *File {
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	f := &File{Path: name, Rel: g.Rel(name), Src: src, stamp: stampOf(fi), sum: sha256.Sum256(src), tok: g.Fset.AddFile(name, -1, len(src))}
	f.tok.SetLinesForContent(src)
	return f
}

// liveFiles are the files that are still as they were.
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
// face; only what it refers to itself is found out again. One whose types nobody
// has asked for gets them later: what imports it must then see the same ones.
func (s *Snapshot) rebuild(next *Snapshot, changed map[string]*File, visible map[string]bool) {
	untyped := map[string]bool{} // new ones
	for _, q := range s.order {
		touched := slices.ContainsFunc(q.paths, func(n string) bool { return changed[n] != nil })
		dirty := slices.ContainsFunc(q.paths, func(n string) bool { return visible[n] })
		below := false
		for _, im := range q.Imports {
			dirty = dirty || !sameFace(next.byID[im.ID], im)
			below = below || untyped[im.ID]
		}
		if !touched && !dirty && !below {
			next.byID[q.ID] = q
			next.order = append(next.order, q)
			continue
		}
		n := &Package{ID: q.ID, Path: q.Path, Name: q.Name, ForTest: q.ForTest, Dir: q.Dir, Workspace: q.Workspace, Module: q.Module, abs: q.abs,
			ListErrors: q.ListErrors, goVersion: q.goVersion, paths: q.paths, ground: q.ground, Imports: map[string]*Package{}, face: &face{}}
		if !dirty {
			q.pass(n, !below, !touched)
		}
		untyped[n.ID] = n.types == nil
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

// pass hands on what is known of a package to its next version: what importers
// see of it, and its types and its index if they hold for that, too.
func (q *Package) pass(n *Package, types, index bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n.Primary, n.face, n.errs = q.Primary, q.face, q.errs
	if types {
		n.types = q.types
	}
	if index {
		n.index, n.clean = q.index, q.clean
	}
}

// sameShape reports whether two versions of a file look the same to the go
// command.
func sameShape(a, b *File) bool {
	if a.AST() == nil || b.AST() == nil || a.AST().Name.Name != b.AST().Name.Name || constraintsOf(a) != constraintsOf(b) {
		return false
	}
	return slices.Equal(importsOf(a), importsOf(b))
}

func importsOf(f *File) []string {
	var out []string
	for _, im := range f.AST().Imports {
		out = append(out, im.Path.Value)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func constraintsOf(f *File) string {
	var b strings.Builder
	for _, g := range f.AST().Comments {
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

package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"

	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
)

// list asks the go command for the packages and parses those of the working copy.
func (p *Program) list(ctx context.Context, tree map[string]stamp) (*Snapshot, error) {
	if !exists(filepath.Join(p.Root, "go.mod")) && !exists(filepath.Join(p.Root, "go.work")) {
		return nil, toolsets.Failf(toolsets.Refused, "the workspace holds neither go.mod nor go.work at its top, so there are no Go packages to work on")
	}
	s := &Snapshot{ground: p.ground, files: map[string]*File{}, tree: tree, byID: map[string]*Package{}}
	if p.snap != nil {
		s.files = p.snap.liveFiles(tree)
	}
	key := s.listKey(p.env)
	all, known := p.keep.listing(key, p.Root)
	if !known {
		var err error
		if all, err = p.ask(ctx); err != nil {
			return nil, err
		}
		p.keep.saveListing(key, p.Root, all)
	}
	for i := range all {
		s.add(&all[i])
	}
	s.choosePrimary()
	return s, nil
}

// ask has the go command list the packages, imports first.
func (p *Program) ask(ctx context.Context) ([]listed, error) {
	patterns, err := p.patterns(ctx)
	if err != nil {
		return nil, err
	}
	roots, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedForTest,
		Dir:  p.Root, Env: p.env, Tests: true, Context: ctx,
	}, patterns...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, goFailure(err)
	}
	var all []listed
	packages.Visit(roots, nil, func(lp *packages.Package) {
		if l, ok := newListed(lp); ok {
			all = append(all, l)
		}
	})
	if len(all) == 0 {
		for _, r := range roots {
			for _, e := range r.Errors {
				return nil, goFailure(errors.New(e.Msg))
			}
		}
		return nil, toolsets.Failf(toolsets.NotFound, "the workspace holds no Go packages")
	}
	return all, nil
}

// patterns names all packages of the working copy to the go command: with a
// go.work, "./..." at its top would be those of a module there and no others.
func (p *Program) patterns(ctx context.Context) ([]string, error) {
	if !exists(filepath.Join(p.Root, "go.work")) {
		return []string{"./..."}, nil
	}
	out, err := run.Run(ctx, run.Cmd{Args: []string{"go", "list", "-m", "-f", "{{.Dir}}"}, Dir: p.Root, Env: p.env})
	if err != nil {
		return nil, err
	}
	if out.Code != 0 {
		return nil, goFailure(errors.New(string(out.Stderr)))
	}
	var all []string
	for dir := range strings.Lines(string(out.Stdout)) {
		if rel, err := filepath.Rel(p.Root, strings.TrimRight(dir, "\n")); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			all = append(all, "./"+filepath.ToSlash(filepath.Join(rel, "...")))
		}
	}
	return all, nil
}

func exists(name string) bool { _, err := os.Stat(name); return err == nil }

// goFailure words what the go command said about the module as a whole.
func goFailure(err error) *toolsets.Failure {
	text := err.Error()
	if errors.Is(err, exec.ErrNotFound) || strings.Contains(text, "executable file not found") {
		return toolsets.Failf(toolsets.Other, "there is no go command in this worker's PATH, and the workspace tools need one; the operator installs Go or sets PATH")
	}
	if strings.Contains(text, "GOTOOLCHAIN=local") || strings.Contains(text, "toolchain not available") {
		return toolsets.Failf(toolsets.CompileError, "the module asks for a newer Go than this host has, and none is downloaded: %s", oneLine(text))
	}
	return toolsets.Failf(toolsets.CompileError, "the go command could not load the workspace: %s", oneLine(text))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// listed is what we take over of a listed package.
type listed struct {
	ID, Path, Name, ForTest string
	Module, GoVersion       string
	Fixed                   bool              // its files can't change under us: of the toolchain, or of a version of a module
	Dir                     string            // empty when it has no files
	Files                   []string          // absolute
	Imports                 map[string]string // by path, IDs
	Errors                  []string
}

// newListed leaves out generated test mains, and the package without source.
func newListed(lp *packages.Package) (l listed, ok bool) {
	if strings.HasSuffix(lp.ID, ".test") && lp.Name == "main" && lp.ForTest == "" || lp.PkgPath == "unsafe" {
		return l, false
	}
	l = listed{ID: lp.ID, Path: lp.PkgPath, Name: lp.Name, ForTest: lp.ForTest, Files: lp.GoFiles, Imports: map[string]string{}, Fixed: lp.Module == nil}
	if lp.Module != nil {
		l.Module, l.GoVersion = lp.Module.Path, lp.Module.GoVersion
		l.Fixed = strings.Contains(lp.Module.Dir, "@")
	}
	for _, e := range lp.Errors {
		l.Errors = append(l.Errors, e.Error())
	}
	for path, im := range lp.Imports {
		l.Imports[path] = im.ID
	}
	if len(lp.GoFiles) > 0 {
		l.Dir = filepath.Dir(lp.GoFiles[0])
	} else if len(lp.IgnoredFiles) > 0 {
		l.Dir = filepath.Dir(lp.IgnoredFiles[0])
	}
	return l, true
}

// add turns one listed package into ours. Packages come imports first.
func (s *Snapshot) add(l *listed) {
	q := &Package{ID: l.ID, Path: l.Path, Name: l.Name, ForTest: l.ForTest, Module: l.Module, goVersion: l.GoVersion,
		Imports: map[string]*Package{}, paths: l.Files, ground: s.ground, face: &face{}}
	for _, e := range l.Errors {
		q.ListErrors = append(q.ListErrors, s.relativeText(e))
	}
	for path, id := range l.Imports {
		if d := s.byID[id]; d != nil {
			q.Imports[path] = d
		}
	}
	if l.Dir != "" {
		q.setDir(l.Dir)
	}
	if q.Name == "" {
		q.Name = filepath.Base(q.Path)
	}
	if q.Workspace {
		for _, name := range q.paths {
			if f := s.file(name); f != nil {
				q.Files = append(q.Files, f)
			}
		}
	}
	s.byID[q.ID] = q
	s.order = append(s.order, q)
}

// setDir decides whether the package is one of the working copy: below its root
// and not vendored.
func (q *Package) setDir(dir string) {
	q.abs = dir
	rel, err := filepath.Rel(q.Root, dir)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return
	}
	rel = filepath.ToSlash(rel)
	if !vendored(rel) {
		q.Dir, q.Workspace = rel, true
	}
}

// vendored reports whether a folder or file, named relative to the root, is a copy
// of somebody else's.
func vendored(rel string) bool {
	return rel == "vendor" || strings.HasPrefix(rel, "vendor/") || strings.Contains(rel, "/vendor/")
}

// choosePrimary picks, of the variants of a package, the one that tools show:
// the one that has the in-package tests, too.
func (s *Snapshot) choosePrimary() {
	widest := map[string]*Package{}
	for _, q := range s.order {
		if !q.Workspace || q.ForTest != "" && q.ForTest != q.Path && q.ForTest+"_test" != q.Path {
			continue // a dependency rebuilt for somebody else's test
		}
		if w := widest[q.Path]; w == nil || len(q.paths) > len(w.paths) || len(q.paths) == len(w.paths) && q.ForTest == "" {
			widest[q.Path] = q
		}
	}
	for _, q := range widest {
		if !q.Primary { // shared ones are left alone
			q.Primary = true
		}
	}
}

// listKey names everything that the go command's answer depends on: the command
// and its environment, the module files, the names of all files, and of each Go
// file what the command reads of it. Empty when that can't be told.
func (s *Snapshot) listKey(env []string) string {
	if s.keep == nil || !slices.Contains(env, "GOENV=off") {
		return "" // a file of the account may configure the go command
	}
	h := sha256.New()
	put(h, "list 1", runtime.Version())
	put(h, slices.Sorted(slices.Values(env))...)
	tool, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	fi, err := os.Stat(tool)
	if err != nil {
		return ""
	}
	put(h, tool, fmt.Sprint(fi.Size(), fi.ModTime().UnixNano()))
	if names, err := allNames(s.Root); err == nil {
		put(h, names...)
	} else {
		return ""
	}
	shapes := s.shapes()
	for _, name := range slices.Sorted(maps.Keys(s.tree)) {
		if shapes[name] == "" {
			return ""
		}
		put(h, s.Rel(name), shapes[name])
	}
	return "list-" + hex.EncodeToString(h.Sum(nil))
}

// allNames are the names of all files below root but Git's.
func allNames(root string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		}
		out = append(out, name[len(root):]+" "+d.Type().String())
		return nil
	})
	return out, err
}

// shapes says of each file of the tree what the go command reads of it: of Go
// files what is up to the imports, and whole files where they embed others.
func (s *Snapshot) shapes() map[string]string {
	var mu sync.Mutex // guards out, s.files
	out := map[string]string{}
	names := make(chan string, len(s.tree))
	for name := range s.tree {
		names <- name
	}
	close(names)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for name := range names {
				mu.Lock()
				f := s.files[name]
				mu.Unlock()
				if f == nil {
					f = s.read(name)
				}
				if f == nil {
					continue
				}
				shape := string(f.sum[:])
				if strings.HasSuffix(name, ".go") {
					shape = headOf(f)
				}
				mu.Lock()
				out[name] = shape
				if strings.HasSuffix(name, ".go") && !vendored(f.Rel) {
					s.files[name] = f
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

// headOf is the file up to its last import, or all of it where that is not all
// that counts.
func headOf(f *File) string {
	head, err := parser.ParseFile(token.NewFileSet(), "", f.Src, parser.ImportsOnly)
	if err != nil || bytes.Contains(f.Src, []byte("//go:embed")) {
		return string(f.sum[:])
	}
	end := head.Name.End()
	for _, im := range head.Imports {
		end = max(end, im.End())
	}
	sum := sha256.Sum256(f.Src[:int(end)-1])
	return string(sum[:])
}

// listing returns a kept listing if all packages outside of the working copy are
// still there.
func (k *keeper) listing(key, root string) ([]listed, bool) {
	var all []listed
	b := k.load(key)
	if b == nil || json.Unmarshal(b, &all) != nil {
		return nil, false
	}
	for i := range all {
		l := &all[i]
		switch {
		case l.Dir == "":
		case !filepath.IsAbs(l.Dir):
			l.Dir = filepath.Join(root, l.Dir)
		case !exists(l.Dir):
			return nil, false
		}
		for j, name := range l.Files {
			l.Files[j] = filepath.Join(l.Dir, name)
		}
	}
	return all, true
}

// saveListing keeps a listing without errors, of files that can't change without
// the key: those of the working copy, of the toolchain and of versions of modules.
func (k *keeper) saveListing(key, root string, all []listed) {
	if k == nil || key == "" {
		return
	}
	out := make([]listed, len(all))
	for i, l := range all {
		rel, err := filepath.Rel(root, l.Dir)
		inside := l.Dir != "" && err == nil && filepath.IsLocal(rel)
		if len(l.Errors) > 0 || l.Dir != "" && !inside && !l.Fixed {
			return
		}
		names := make([]string, len(l.Files))
		for j, name := range l.Files {
			if filepath.Dir(name) != l.Dir {
				return // made by cgo
			}
			names[j] = filepath.Base(name)
		}
		l.Files = names
		if inside {
			l.Dir = rel
		}
		out[i] = l
	}
	if b, err := json.Marshal(out); err == nil {
		k.save(key, b)
	}
}

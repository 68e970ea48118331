package view

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"gatehouse/toolsets"
	"gatehouse/toolsets/decl"
)

// writers is the weight of one who is alone: the most others there can be.
const writers = 1 << 20

// Access says what a caller wants of a view.
type Access uint8

// What callers may want.
const (
	Read  Access = iota // to look at files
	Write               // to change files, alone
	Move                // to change its base and all files, alone and while nothing runs in it
)

// View is one working copy. Callers hold Lock while they look at its files.
type View struct {
	Name string
	Dir  string // absolute

	set  *Set
	git  git
	root *os.Root
	rw   *semaphore.Weighted // readers and writers of files
	runs *semaphore.Weighted // what runs in the view, and what moves it

	gitMu sync.Mutex // one git command on the index at a time

	mu      sync.Mutex // guards what follows
	base    string     // the commit that the view is at
	reads   map[declKey][32]byte
	notes   []string
	changes []Change
	known   bool // changes is up to date but for the files in written
	written map[string]bool
	// originals are files as the base has them: those in changes, and those in written.
	originals map[string]original
	touched   int             // how often files may have changed
	added     map[string]bool // files written since the view moved last: git knows them
}

// declKey names a declaration: its folder ("." for the root) and its name.
type declKey struct{ dir, name string }

// Lock takes the view until the returned function is called. It fails when ctx
// ends first.
func (v *View) Lock(ctx context.Context, a Access) (unlock func(), err error) {
	switch a {
	case Read:
		return acquire(ctx, v.rw, 1)
	case Write:
		return acquire(ctx, v.rw, writers)
	}
	settle, err := acquire(ctx, v.runs, writers)
	if err != nil {
		return nil, err
	}
	done, err := acquire(ctx, v.rw, writers)
	if err != nil {
		settle()
		return nil, err
	}
	return func() { done(); settle() }, nil
}

// Hold keeps the view from being moved while something runs in it, until the
// returned function is called. Files may be edited meanwhile. It is to be called
// before Lock.
func (v *View) Hold(ctx context.Context) (release func(), err error) {
	return acquire(ctx, v.runs, 1)
}

func acquire(ctx context.Context, s *semaphore.Weighted, n int64) (release func(), err error) {
	if err := s.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.Release(n) }, nil
}

// Version counts how often files of the view may have changed.
func (v *View) Version() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.touched
}

// Note has the next result of the view end with a line.
func (v *View) Note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, "[view] "+text)
}

// Base returns the commit that the view is at.
func (v *View) Base() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.base
}

func (v *View) takeNotes() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.notes
	v.notes = nil
	return n
}

// ReadFile reads a file of the view. It follows no symbolic link out of it, and
// does not wait for what a pipe or a device might say.
func (v *View) ReadFile(name string) ([]byte, error) {
	f, err := v.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch fi, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no ordinary file")}
	}
	return io.ReadAll(f)
}

// WriteFile writes a file of the view, named relative to it with slashes. It
// never writes through a symbolic link, into Git's own folder or out of the
// view. The caller holds the view for writing.
func (v *View) WriteFile(ctx context.Context, name string, data []byte) error {
	if err := v.checkPath(name); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	fi, err := v.root.Lstat(name)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil {
		mode = fi.Mode().Perm()
	}
	if dir := path.Dir(name); isNew && dir != "." {
		if err := v.root.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make folder %s: %w", dir, err)
		}
	}
	v.writes(name)
	if err := v.replace(name, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	v.wrote(name)
	if v.isAdded(name) && !isNew {
		return nil
	}
	// What was written counts even where the repository's ignore rules cover it.
	// The file is there, so that this must not fail because the client left.
	v.gitMu.Lock()
	defer v.gitMu.Unlock()
	if _, err := v.git.run(context.WithoutCancel(ctx), "note the written file", nil, "add", "--force", "--", name); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.added == nil {
		v.added = map[string]bool{}
	}
	v.added[name] = true
	return nil
}

func (v *View) isAdded(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.added[name]
}

// Changeable says why one of the named files may not be written or removed, so
// that an edit of several files is made as a whole or not at all.
func (v *View) Changeable(names ...string) error {
	for _, n := range names {
		if err := v.checkPath(n); err != nil {
			return err
		}
	}
	return nil
}

// replace puts a new file in the place of name. A reader never sees half of it,
// and it never has size, time and inode in common with the one before.
func (v *View) replace(name string, data []byte, mode fs.FileMode) error {
	tmp := path.Join(path.Dir(name), ".gatehouse-"+rand.Text())
	f, err := v.root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = v.root.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, v.root.Remove(tmp))
	}
	return nil
}

// RemoveFile removes a file of the view and the folders that are empty then.
func (v *View) RemoveFile(name string) error {
	if err := v.checkPath(name); err != nil {
		return err
	}
	v.writes(name)
	if err := v.root.Remove(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	v.wrote(name)
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if v.root.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// checkPath refuses names that lead out of the view, into Git's folder, or
// through a symbolic link.
func (v *View) checkPath(name string) error {
	if !fs.ValidPath(name) || name == "." {
		return toolsets.Failf(toolsets.InvalidParams, "%q is no path inside the view", name)
	}
	parts := strings.Split(name, "/")
	for _, p := range parts {
		if strings.EqualFold(p, ".git") {
			return toolsets.Failf(toolsets.InvalidParams, "%q is Git's own folder", name)
		}
	}
	for i := range parts {
		prefix := strings.Join(parts[:i+1], "/")
		fi, err := v.root.Lstat(prefix)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at %s: %w", prefix, err)
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			return toolsets.Failf(toolsets.Refused, "%s is a symbolic link; files are not changed through links", prefix)
		}
	}
	return nil
}

// Freshness says what a session knows of a declaration.
type Freshness uint8

// The states of the blind-write guard.
const (
	NeverRead Freshness = iota
	Stale               // read, and changed since
	Fresh
)

// MarkRead notes that the session has seen a declaration: text is that of its
// decl.Unit, dir its folder relative to the view.
func (v *View) MarkRead(dir, name string, text []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads[declKey{dir, name}] = sha256.Sum256(bytes.TrimSpace(text))
}

// Known says whether the session has seen the declaration as it is now.
func (v *View) Known(dir, name string, text []byte) Freshness {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch h, ok := v.reads[declKey{dir, name}]; {
	case !ok:
		return NeverRead
	case h != sha256.Sum256(bytes.TrimSpace(text)):
		return Stale
	}
	return Fresh
}

// noteStale tells the session once which declarations that it had read have
// changed between two trees.
func (v *View) noteStale(ctx context.Context, before, after, why string) error {
	diff, err := v.git.diff(ctx, before, after)
	if err != nil {
		return err
	}
	var stale []string
	for _, e := range diff {
		if !isGo(e.path) || !regular(e.oldMode) {
			continue
		}
		blobs, err := v.git.blobs(ctx, e.oldID, e.newID)
		if errors.Is(err, errTooMuch) {
			continue
		}
		if err != nil {
			return err
		}
		old, err := decl.Split(blobs[0])
		if err != nil {
			continue
		}
		dir := path.Dir(e.path)
		for _, name := range changedDecls(blobs[0], blobs[1]) {
			if u, ok := old.Find(name); ok && v.Known(dir, name, old.Text(u)) == Fresh {
				stale = append(stale, e.path+": "+name)
			}
		}
	}
	if len(stale) == 0 {
		return nil
	}
	v.Note(fmt.Sprintf("%s changed %d %s that you had read; read again before changing: %s",
		why, len(stale), plural(len(stale), "declaration"), strings.Join(stale, ", ")))
	return nil
}

// Info describes a view for status.
type Info struct {
	Name    string    `json:"name"`
	Base    string    `json:"base" jsonschema:"the commit of the shared branch that the view is at"`
	Time    time.Time `json:"base_time"`
	Subject string    `json:"base_subject"`
	Behind  int       `json:"behind" jsonschema:"how many commits the shared branch is ahead"`
	Changes []Change  `json:"changes"`
}

// Info looks at the view. The caller holds it for reading.
func (v *View) Info(ctx context.Context) (Info, error) {
	base := v.Base()
	info := Info{Name: v.Name, Base: base}
	// The shared repository knows if it is a shallow one.
	out, err := v.set.shared.line(ctx, "look at the base", "show", "--no-patch", "--no-show-signature", "--format=%ct %s", base, "--")
	if err != nil {
		return info, err
	}
	sec, subject, _ := strings.Cut(out, " ")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return info, fmt.Errorf("look at the base: %w", err)
	}
	info.Time, info.Subject = time.Unix(n, 0).UTC(), strings.ToValidUTF8(subject, "?")
	head, err := v.set.shared.head(ctx)
	if err != nil {
		return info, err
	}
	count, err := v.set.shared.line(ctx, "count commits", "rev-list", "--count", base+".."+head, "--")
	if err != nil {
		return info, err
	}
	if info.Behind, err = strconv.Atoi(count); err != nil {
		return info, fmt.Errorf("count commits: %w", err)
	}
	info.Changes, err = v.Changes(ctx)
	if info.Changes == nil {
		info.Changes = []Change{}
	}
	return info, err
}

package program

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"go/token"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// keeper keeps the indexes of packages in a private folder from one session to
// the next, so that what a package refers to need not be found out again while
// the package and everything below it are the same. Packages with errors are not
// kept. A nil keeper keeps nothing.
type keeper struct {
	dir string

	once sync.Once // makes the folder and clears it up
	err  error
}

// keepFormat is part of every key: another one makes all that was kept unknown.
const keepFormat = "index 2"

// maxKept is how many indexes the folder holds before the oldest are removed.
const maxKept = 8192

func (k *keeper) prepare() error {
	k.once.Do(func() {
		if k.err = os.MkdirAll(k.dir, 0o700); k.err == nil {
			k.err = prune(k.dir, maxKept)
		}
	})
	return k.err
}

// prune removes the files of a folder that were written longest ago, half of
// them, when there are more than most.
func prune(dir string, most int) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= most {
		return err
	}
	type aged struct {
		name string
		at   int64
	}
	var all []aged
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			all = append(all, aged{e.Name(), fi.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return int(min(1, max(-1, a.at-b.at))) })
	for _, a := range all[:len(all)/2] {
		if err := os.Remove(filepath.Join(dir, a.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// load returns what was kept under a key; nil when there is nothing.
func (k *keeper) load(key string) []byte {
	if k == nil || key == "" || k.prepare() != nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(k.dir, key))
	if err != nil || len(b) < sha256.Size {
		return nil
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if got := sha256.Sum256(body); string(got[:]) != string(sum) {
		return nil
	}
	return body
}

// save keeps a value. What can't be kept is found out again.
func (k *keeper) save(key string, body []byte) {
	if k == nil || key == "" || k.prepare() != nil {
		return
	}
	f, err := os.CreateTemp(k.dir, ".new-")
	if err != nil {
		return
	}
	sum := sha256.Sum256(body)
	_, err = f.Write(append(body, sum[:]...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(k.dir, key))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// key names everything that the package's index depends on: its files, how it is
// built, and the same of what it imports. Empty when that can't be told.
func (q *Package) key() string {
	q.keyOnce.Do(func() {
		h := sha256.New()
		put(h, keepFormat, runtime.Version(), runtime.GOARCH, q.ID, q.Path, q.Name, q.goVersion, fmt.Sprint(q.Workspace, q.Primary))
		if len(q.ListErrors) > 0 || q.Workspace && q.hashFiles(h) != nil || !q.Workspace && q.stampFiles(h) != nil {
			return
		}
		for _, path := range slices.Sorted(maps.Keys(q.Imports)) {
			below := q.Imports[path].key()
			if below == "" {
				return
			}
			put(h, path, below)
		}
		q.keySum = hex.EncodeToString(h.Sum(nil))
	})
	return q.keySum
}

func put(h hash.Hash, all ...string) {
	for _, s := range all {
		_ = binary.Write(h, binary.LittleEndian, int64(len(s)))
		_, _ = io.WriteString(h, s)
	}
}

func (q *Package) hashFiles(h hash.Hash) error {
	if len(q.Files) != len(q.paths) {
		return errors.New("a file can't be read")
	}
	for _, f := range q.Files {
		put(h, f.Rel, string(f.sum[:]))
	}
	return nil
}

// stampFiles takes a dependency's files by size and time, and those that lie in
// the working copy (which is another one in each session) by what they hold.
func (q *Package) stampFiles(h hash.Hash) error {
	inside := strings.HasPrefix(q.abs, q.Root+"/")
	for _, name := range q.paths {
		if inside {
			src, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			put(h, q.Rel(name), string(src))
			continue
		}
		fi, err := os.Stat(name)
		if err != nil {
			return err
		}
		put(h, name, fmt.Sprint(fi.Size(), fi.ModTime().UnixNano()))
	}
	return nil
}

// recall takes the index of a package from what was kept. It reports whether
// there was one.
func (s *Snapshot) recall(q *Package) bool {
	if !q.Primary || s.keep == nil || q.Index() != nil {
		return q.Index() != nil
	}
	x, ok := s.decodeIndex(s.keep.load(q.key()))
	if !ok {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.index == nil {
		q.index, q.clean = x, true
	}
	return true
}

// retain keeps the index of a package that has no errors.
func (q *Package) retain() {
	if q.keep == nil || len(q.Errors()) > 0 {
		return
	}
	if b := q.encodeIndex(q.Index()); b != nil {
		q.keep.save(q.key(), b)
	}
}

// encodeIndex writes positions as files and offsets. Files of the working copy
// are relative to its root. It returns nil when a position is in no file.
func (q *Package) encodeIndex(x *Index) []byte {
	names, numbers := []string{}, map[string]uint64{}
	number := func(s string) uint64 {
		n, ok := numbers[s]
		if !ok {
			n = uint64(len(names))
			numbers[s], names = n, append(names, s)
		}
		return n
	}
	var body []byte
	var file *token.File
	position := func(p token.Pos) bool {
		if file == nil || int(p) < file.Base() || int(p) > file.Base()+file.Size() {
			file = q.Fset.File(p)
		}
		if file == nil {
			return false
		}
		body = binary.AppendUvarint(body, number(q.Rel(file.Name())))
		body = binary.AppendUvarint(body, uint64(file.Offset(p)))
		return true
	}
	for i := 0; i < len(x.refs); {
		j := i
		for j < len(x.refs) && x.refs[j].Object == x.refs[i].Object {
			j++
		}
		if !position(q.ids.place(x.refs[i].Object)) {
			return nil
		}
		body = binary.AppendUvarint(body, uint64(j-i))
		for _, r := range x.refs[i:j] {
			if !position(r.Pos) {
				return nil
			}
			call := uint64(0)
			if r.Call {
				call = 1
			}
			body = binary.AppendUvarint(body, number(r.Func)<<1|call)
		}
		i = j
	}
	out := binary.AppendUvarint(nil, uint64(len(names)))
	for _, n := range names {
		out = binary.AppendUvarint(out, uint64(len(n)))
		out = append(out, n...)
	}
	return append(out, body...)
}

// decodeIndex reads what encodeIndex wrote; ok is false for anything else.
func (s *Snapshot) decodeIndex(b []byte) (x *Index, ok bool) {
	if b == nil {
		return nil, false
	}
	bad := false
	number := func() int {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<31 {
			bad = true
			return 0
		}
		b = b[size:]
		return int(n)
	}
	n := number()
	if n > len(b) {
		return nil, false
	}
	names := make([]string, n)
	files := make([]*token.File, n)
	for i := range names {
		size := number()
		if size > len(b) {
			return nil, false
		}
		names[i], b = string(b[:size]), b[size:]
	}
	position := func() token.Pos {
		i, offset := number(), number()
		if i >= len(files) {
			bad = true
			return token.NoPos
		}
		if files[i] == nil {
			files[i] = s.stretch(names[i])
		}
		if files[i] == nil || offset > files[i].Size() {
			bad = true
			return token.NoPos
		}
		return files[i].Pos(offset)
	}
	x = &Index{ids: &s.ids}
	for len(b) > 0 && !bad {
		object, n := s.ids.of(position()), number()
		for range n {
			at, around := position(), number()
			if bad || around>>1 >= len(names) {
				return nil, false
			}
			x.refs = append(x.refs, Ref{Object: object, Pos: at, Func: names[around>>1], Call: around&1 == 1})
		}
	}
	x.sort()
	return x, !bad
}

// stretch is the part of the file set that a file has, by its name relative to
// the root; nil when there is no such file.
func (s *Snapshot) stretch(name string) *token.File {
	if name == universeFile {
		return s.ids.universe
	}
	if filepath.IsAbs(name) {
		return s.reserve(name, -1)
	}
	name = filepath.Join(s.Root, filepath.FromSlash(name))
	if f := s.files[name]; f != nil {
		return f.tok
	}
	return s.reserve(name, -1)
}

// reserve gives a dependency's file its part of the file set, so that positions
// in it can be told before it is read. A size below 0 asks for the file's own.
func (g *ground) reserve(name string, size int) *token.File {
	if size < 0 {
		g.mu.Lock()
		tok := g.reserved[name]
		g.mu.Unlock()
		if tok != nil {
			return tok
		}
		fi, err := os.Stat(name)
		if err != nil || fi.Size() > maxFile {
			return nil
		}
		size = int(fi.Size())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if tok := g.reserved[name]; tok != nil && tok.Size() == size {
		return tok
	}
	if g.reserved == nil {
		g.reserved = map[string]*token.File{}
	}
	tok := g.Fset.AddFile(name, -1, size)
	g.reserved[name] = tok
	return tok
}

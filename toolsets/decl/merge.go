package decl

import (
	"bytes"
	"slices"
)

// LineMerge merges three versions of a text by lines. ok is false when both
// sides changed the same lines.
type LineMerge func(base, ours, theirs []byte) (merged []byte, ok bool)

// Merge joins two changed versions of a file declaration by declaration. The
// result is theirs with what ours did to base applied to it. conflicts names
// what both sides changed differently; then there is no result. Groups of
// declarations are merged by lines, constant groups with iota not at all.
//
// An error means that one of the versions does not parse.
func Merge(base, ours, theirs []byte, lines LineMerge) (merged []byte, conflicts []string, err error) {
	switch {
	case bytes.Equal(base, ours), bytes.Equal(ours, theirs):
		return theirs, nil, nil
	case bytes.Equal(base, theirs):
		return ours, nil, nil
	}
	m := merger{lines: lines}
	for _, v := range []struct {
		src []byte
		to  **File
	}{{base, &m.base}, {ours, &m.ours}, {theirs, &m.theirs}} {
		if *v.to, err = Split(v.src); err != nil {
			return nil, nil, err
		}
	}
	m.units()
	out := m.join()
	if len(m.conflicts) > 0 {
		return nil, m.conflicts, nil
	}
	if out, err = m.imports(out); err != nil {
		return nil, nil, err
	}
	return out, m.conflicts, nil
}

type merger struct {
	lines              LineMerge
	base, ours, theirs *File
	conflicts          []string

	importsAt int // where the imports begin in what join returned

	placed   map[int]int      // unit of ours -> unit of theirs that it stands for
	replaced map[int][]byte   // unit of theirs -> new gap and text
	dropped  map[int]bool     // units of theirs that ours deleted
	added    map[int][][]byte // unit of theirs -> what ours added behind it
}

func (m *merger) conflict(u Unit) {
	m.conflicts = append(m.conflicts, Title(u))
}

// Title names a unit for people.
func Title(u Unit) string {
	switch u.Kind {
	case Header:
		return "the head of the file"
	case Import:
		return "the imports"
	case Trailer:
		return "the comments at the end of the file"
	}
	n := u.Names
	if len(n) == 0 {
		return "an empty group"
	}
	if u.Grouped && len(n) > 1 {
		return n[0] + " (and its group)"
	}
	return n[0]
}

// match finds the unit of f that is the given one of another version: the one
// that shares most of its names, of the same kind. -1 for none.
func match(f *File, u Unit) int {
	switch u.Kind {
	case Header:
		return 0
	case Trailer:
		return len(f.Units) - 1
	}
	shared := map[int]int{} // by unit
	best := -1
	for _, n := range u.Names {
		i, ok := f.first[declared{u.Kind, n}]
		if !ok {
			continue
		}
		shared[i]++
		if best < 0 || shared[i] > shared[best] || shared[i] == shared[best] && i < best {
			best = i
		}
	}
	return best
}

func (m *merger) units() {
	m.placed, m.replaced, m.dropped, m.added = map[int]int{}, map[int][]byte{}, map[int]bool{}, map[int][][]byte{}
	claimed := map[int]bool{} // units of ours that come from base
	for _, b := range m.base.Units {
		if b.Kind == Import {
			continue
		}
		o, t := match(m.ours, b), match(m.theirs, b)
		if o >= 0 {
			claimed[o] = true
		}
		switch {
		case o < 0 && t < 0:
		case o < 0:
			m.drop(b, t)
		case t < 0:
			if m.differs(b, m.ours, o) {
				m.conflict(b)
			}
		default:
			if at, ok := m.placed[o]; ok && at != t {
				m.drop(b, t) // ours made one of two declarations; it stands where the first was
				continue
			}
			m.placed[o] = t
			m.both(b, m.ours.Units[o], m.theirs.Units[t], t)
		}
	}
	m.additions(claimed)
}

// drop takes out a unit of theirs, which base has as b.
func (m *merger) drop(b Unit, t int) {
	if m.differs(b, m.theirs, t) {
		m.conflict(b)
	}
	m.dropped[t] = true
}

// differs reports whether a version changed what would be lost without its unit
// at: the declaration, or the free comments before it.
func (m *merger) differs(b Unit, f *File, at int) bool {
	u := f.Units[at]
	free := bytes.TrimSpace(f.Gap(u))
	return !bytes.Equal(m.base.Text(b), f.Text(u)) || len(free) > 0 && !bytes.Equal(bytes.TrimSpace(m.base.Gap(b)), free)
}

// both merges a unit that all three versions have.
func (m *merger) both(b, o, t Unit, at int) {
	text, ok := m.three(m.base.Text(b), m.ours.Text(o), m.theirs.Text(t), b.Grouped && !(b.Iota || o.Iota || t.Iota) || b.Kind == Header || b.Kind == Trailer)
	gap, gapOK := m.gap(m.base.Gap(b), m.ours.Gap(o), m.theirs.Gap(t))
	if !ok || !gapOK {
		m.conflict(b)
		return
	}
	m.replaced[at] = append(slices.Clone(gap), text...)
}

// gap merges what precedes a unit. Blank lines differ easily where neighbours came
// or went: only comments matter.
func (m *merger) gap(base, ours, theirs []byte) ([]byte, bool) {
	b, o, t := bytes.TrimSpace(base), bytes.TrimSpace(ours), bytes.TrimSpace(theirs)
	switch {
	case bytes.Equal(base, theirs):
		return ours, true
	case bytes.Equal(o, t), bytes.Equal(b, o):
		return theirs, true
	case bytes.Equal(b, t):
		return ours, true
	}
	return m.lines(base, ours, theirs)
}

func (m *merger) three(base, ours, theirs []byte, byLines bool) ([]byte, bool) {
	switch {
	case bytes.Equal(ours, theirs), bytes.Equal(base, ours):
		return theirs, true
	case bytes.Equal(base, theirs):
		return ours, true
	case byLines:
		return m.lines(base, ours, theirs)
	}
	return nil, false
}

// additions places what ours added behind the nearest unit before it that is
// still there. A name that both sides added must have the same text.
func (m *merger) additions(claimed map[int]bool) {
	anchor := 0
	for i, o := range m.ours.Units {
		if o.Kind == Import {
			continue
		}
		if claimed[i] {
			if t := match(m.theirs, o); t >= 0 && o.Kind != Trailer {
				anchor = t
			}
			continue
		}
		if t := match(m.theirs, o); t >= 0 && o.Kind != Header && o.Kind != Trailer {
			if !bytes.Equal(m.ours.Text(o), m.theirs.Text(m.theirs.Units[t])) {
				m.conflict(o)
			}
			continue
		}
		m.added[anchor] = append(m.added[anchor], m.ours.Src[o.Start:o.End])
	}
}

// join writes the merged file, the imports as theirs has them.
func (m *merger) join() []byte {
	nl := newline(m.theirs.Src)
	var out []byte
	natural := true // what is put next followed what was put last in theirs, too
	put := func(b []byte) {
		if len(b) == 0 {
			return
		}
		if n := len(out); n > 0 && out[n-1] != '\n' && !natural {
			out = append(out, nl...)
		}
		out = append(out, b...)
	}
	// Additions that stand before the first declaration follow the imports.
	pending := m.added[0]
	firstImport, lastImport := m.theirs.importUnits()
	for i, t := range m.theirs.Units {
		switch b, ok := m.replaced[i]; {
		case m.dropped[i]:
			natural = false
		case ok:
			put(b)
			natural = true
		default:
			put(m.theirs.Src[t.Start:t.End])
			natural = true
			if i == firstImport {
				m.importsAt = len(out) - (t.End - t.Start)
			}
		}
		here := m.added[i]
		if i == 0 {
			here = nil
		}
		if i == max(0, lastImport) {
			here = append(slices.Clone(pending), here...)
		}
		for _, b := range here {
			natural = false
			put(b)
		}
	}
	return out
}

// imports applies what ours did to the imports of out, which has theirs' ones:
// what it added, and what it removed unless the merged file still needs it.
func (m *merger) imports(out []byte) ([]byte, error) {
	base, ours, theirs := m.base.importSection(), m.ours.importSection(), m.theirs.importSection()
	var add, remove []Imported
	switch {
	case bytes.Equal(ours, base):
	case bytes.Equal(theirs, base) && len(base) > 0:
		// The only change: taken with its comments and its order.
		out = splice(out, m.importsAt, m.importsAt+len(theirs), string(ours))
	case !slices.Equal(m.ours.importComments(), m.base.importComments()):
		m.conflicts = append(m.conflicts, Title(Unit{Kind: Import}))
		return nil, nil
	default:
		for _, im := range m.ours.Imports {
			if !slices.Contains(m.base.Imports, im) {
				add = append(add, im)
			}
		}
		for _, im := range m.base.Imports {
			if !slices.Contains(m.ours.Imports, im) && !Uses(out, im) {
				remove = append(remove, im)
			}
		}
	}
	// What one side removed is needed when a declaration of the other uses it.
	for _, im := range m.base.Imports {
		if slices.Contains(m.ours.Imports, im) && slices.Contains(m.theirs.Imports, im) || im.Name == "_" || im.Name == "." {
			continue
		}
		if Uses(out, im) {
			add = append(add, im)
		}
	}
	if add == nil && remove == nil {
		return out, nil
	}
	return SetImports(out, add, remove)
}

// importUnits are the first and the last import declaration, -1 without any.
func (f *File) importUnits() (first, last int) {
	first, last = -1, -1
	for i, u := range f.Units {
		if u.Kind == Import {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	return first, last
}

// importSection is the stretch of all import declarations, with what precedes
// them behind the package clause.
func (f *File) importSection() []byte {
	first, last := f.importUnits()
	if first < 0 {
		return nil
	}
	return f.Src[f.Units[first].Start:f.Units[last].End]
}

// importComments are the lines of the import section that are no imports.
func (f *File) importComments() []string {
	var out []string
	for line := range bytes.Lines(f.importSection()) {
		i := bytes.Index(line, []byte("//"))
		if j := bytes.Index(line, []byte("/*")); i < 0 || j >= 0 && j < i {
			i = j
		}
		if i >= 0 {
			out = append(out, string(bytes.TrimSpace(line[i:])))
		}
	}
	return out
}

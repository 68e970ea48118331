package jsonrpc

import (
	"bytes"
	"slices"
)

// maxEdits is how many changes Edits holds: one more is a fault of the program.
const maxEdits = 12

// Edits are changes of one message, gathered in any order and made in one copy. What
// is not changed is copied as it stands. The zero value changes nothing.
type Edits struct {
	list [maxEdits]Edit
	n    int
}

// Replace puts other text in the place of a value. An absent one stays absent.
func (e *Edits) Replace(value Span, with []byte) {
	if value.Present() {
		e.list[e.n] = Edit{value, with}
		e.n++
	}
}

// Add puts members at the end of an object, from which nothing is dropped.
func (e *Edits) Add(raw []byte, object Span, members []byte) {
	end := Span{object.End - 1, object.End - 1}
	last := bytes.TrimRight(raw[:end.Start], " \t\r\n")
	added := slices.ContainsFunc(e.list[:e.n], func(x Edit) bool { return x.Span == end })
	if added || last[len(last)-1] != '{' {
		e.Replace(end, comma)
	}
	e.Replace(end, members)
}

var comma = []byte{','}

// Drop takes the members with these values out of an object, those that are there.
// When nothing would be left it reports empty and leaves the object as it is. The
// names of the members must have no escaped quote in them.
func (e *Edits) Drop(raw []byte, object Span, values ...Span) (empty bool) {
	slices.SortFunc(values, func(a, b Span) int { return int(a.Start) - int(b.Start) })
	before := e.n
	at := object.Start + 1 // all between here and the object's start is gone
	for _, v := range values {
		if !v.Present() {
			continue
		}
		start := nameOf(raw, v)
		k := spaceBefore(raw, start, at)
		if k > at { // a comma, after a member that stays
			e.Replace(Span{k - 1, v.End}, nil)
			empty = false
			continue
		}
		end := v.End
		for raw[end] != ',' && raw[end] != '}' {
			end++
		}
		if empty = raw[end] == '}'; !empty {
			end++
		}
		e.Replace(Span{start, end}, nil)
		at = end
	}
	if empty {
		e.n = before
	}
	return empty
}

// nameOf is where the name of the member with that value begins.
func nameOf(raw []byte, value Span) uint32 {
	colon := spaceBefore(raw, value.Start, 0) - 1
	quote := spaceBefore(raw, colon, 0) - 1
	return uint32(bytes.LastIndexByte(raw[:quote], '"'))
}

// spaceBefore is where the white space that ends at i begins, at least.
func spaceBefore(raw []byte, i, least uint32) uint32 {
	for i > least && (raw[i-1] == ' ' || raw[i-1] == '\t' || raw[i-1] == '\n' || raw[i-1] == '\r') {
		i--
	}
	return i
}

// Append appends the message with the changes made.
func (e *Edits) Append(dst, raw []byte) []byte {
	list := e.list[:e.n]
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && list[j].Span.Start < list[j-1].Span.Start; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return AppendEdited(dst, raw, list...)
}

package jsonrpc

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit replaces the bytes of a span.
type Edit struct {
	Span Span
	With []byte
}

// AppendEdited appends raw with the edits made. They must be in ascending order
// and must not overlap; edits of absent spans are skipped.
func AppendEdited(dst, raw []byte, edits ...Edit) []byte {
	at := uint32(0)
	for i := range edits {
		e := &edits[i]
		if !e.Span.Present() {
			continue
		}
		if e.Span.Start < at {
			panic("jsonrpc: edits out of order")
		}
		dst = append(dst, raw[at:e.Span.Start]...)
		dst = append(dst, e.With...)
		at = e.Span.End
	}
	return append(dst, raw[at:]...)
}

// AppendLine is AppendEdited for a transport of one message a line: line breaks,
// which valid JSON has between its tokens alone, become spaces, and a newline
// ends it.
func AppendLine(dst, raw []byte, edits ...Edit) []byte {
	start := len(dst)
	dst = AppendEdited(dst, raw, edits...)
	FlattenLines(dst[start:])
	return append(dst, '\n')
}

// FlattenLines replaces the line breaks of valid JSON text by spaces, in place.
func FlattenLines(b []byte) {
	for _, c := range [...]byte{'\n', '\r'} {
		for rest := b; ; {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// Unquote returns the text of a JSON string that the parser has accepted. It
// copies only when there are escapes; lone surrogates become U+FFFD. It returns
// nil when raw is no string.
func Unquote(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1 : len(raw)-1]
	}
	out, _ := jsontext.AppendUnquote(nil, raw) // an error stands for U+FFFD alone
	return out
}

// SameToken reports whether two ids or progress tokens, as they stand in their
// messages, are the same: the same text for strings however they are escaped, the
// same bytes for numbers.
func SameToken(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return len(a) > 0
	}
	ta, tb := Unquote(a), Unquote(b)
	return ta != nil && tb != nil && bytes.Equal(ta, tb)
}

// Batch yields the elements of an array of messages, as a worker of the 2025-03-26
// revision may write it. It yields a *Error and stops where the text is no array
// of JSON values. What an element is, ParseWorker says.
func Batch(b []byte) iter.Seq2[[]byte, error] {
	return func(yield func(element []byte, err error) bool) {
		s := scanner{b: trim(b), max: MaxWorkerDepth + 1}
		if s.peek() != '[' {
			yield(nil, errSyntax)
			return
		}
		for s.i++; ; {
			s.space()
			start := s.i
			if err := s.value(1); err != nil {
				yield(nil, err)
				return
			}
			if !yield(s.b[start:s.i], nil) {
				return
			}
			more, err := s.next(']')
			if err != nil {
				yield(nil, err)
				return
			}
			if !more {
				break
			}
		}
		if s.space(); s.i != len(s.b) {
			yield(nil, errTrailing)
		}
	}
}

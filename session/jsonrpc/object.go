package jsonrpc

import (
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member of an object that is to be written.
type Member struct {
	Name  string // plain: it needs no escapes
	Value []byte // JSON; nil: it is not written
}

// pair is one member of an object.
type pair struct{ name, value, text []byte } // name with escapes resolved

// enter moves into an object that the parser has accepted, and reports whether a
// member is next.
func (s *scanner) enter() bool {
	if s.peek() != '{' {
		return false
	}
	s.i++
	return s.peek() == '"'
}

// pair moves past a member.
func (s *scanner) pair() (p pair, ok bool) {
	start := s.i
	if _, err := s.str(); err != nil {
		return p, false
	}
	p.name = Unquote(s.b[start:s.i])
	if s.peek() != ':' {
		return p, false
	}
	s.i++
	s.space()
	value := s.i
	if err := s.value(0); err != nil {
		return p, false
	}
	p.value, p.text = s.b[value:s.i:s.i], s.b[start:s.i]
	return p, true
}

// another moves to the next member, and reports whether there is one.
func (s *scanner) another() bool {
	more, err := s.next('}')
	return more && err == nil && s.peek() == '"'
}

// Members yields the names, with escapes resolved, and values of an object that
// the parser has accepted; nothing for any other value.
func Members(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(name string, value []byte) bool) {
		s := scanner{b: object, max: len(object)}
		for ok := s.enter(); ok; ok = s.another() {
			p, ok := s.pair()
			if !ok || !yield(string(p.name), p.value) {
				return
			}
		}
	}
}

// Value is the value of the first member of that name in an object that the parser
// has accepted; nil when there is none.
func Value(object []byte, name string) []byte {
	s := scanner{b: object, max: len(object)}
	for ok := s.enter(); ok; ok = s.another() {
		p, ok := s.pair()
		if !ok {
			break
		}
		if string(p.name) == name {
			return p.value
		}
	}
	return nil
}

// AppendObject appends an object that the parser has accepted, without the members
// that drop names and with more at its end. What stays is copied as it stands,
// names and spaces included. An object that is nil counts as empty.
func AppendObject(dst, object []byte, drop func(name []byte) bool, more ...Member) []byte {
	dst = append(dst, '{')
	start := len(dst)
	s := scanner{b: object, max: len(object)}
	for ok := s.enter(); ok; ok = s.another() {
		p, ok := s.pair()
		if !ok {
			break
		}
		if drop == nil || !drop(p.name) {
			dst = append(separated(dst, start), p.text...)
		}
	}
	for i := range more {
		if m := &more[i]; m.Value != nil {
			dst = append(append(append(separated(dst, start), '"'), m.Name...), '"', ':')
			dst = append(dst, m.Value...)
		}
	}
	return append(dst, '}')
}

// separated puts a comma after what was appended since start.
func separated(dst []byte, start int) []byte {
	if len(dst) > start {
		return append(dst, ',')
	}
	return dst
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}

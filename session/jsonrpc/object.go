package jsonrpc

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member of an object that is to be written.
type Member struct {
	Name  string // plain: it needs no escapes
	Value []byte // JSON
}

// AppendObject appends an object that the parser has accepted, without the members
// that drop names and with more at its end. What stays is copied as it stands,
// names and spaces included. An object that is nil counts as empty.
func AppendObject(dst, object []byte, drop func(name string) bool, more ...Member) []byte {
	dst = append(dst, '{')
	empty := true
	s := scanner{b: object, max: len(object)}
	if s.peek() == '{' {
		for s.i++; s.peek() == '"'; {
			start := s.i
			if _, err := s.str(); err != nil {
				break
			}
			name := Unquote(object[start:s.i])
			if s.peek() != ':' {
				break
			}
			s.i++
			if err := s.value(0); err != nil {
				break
			}
			if drop == nil || !drop(string(name)) {
				if !empty {
					dst = append(dst, ',')
				}
				dst, empty = append(dst, object[start:s.i]...), false
			}
			if more, err := s.next('}'); !more || err != nil {
				break
			}
		}
	}
	for _, m := range more {
		if !empty {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.Name...), '"', ':')
		dst, empty = append(dst, m.Value...), false
	}
	return append(dst, '}')
}

// Value is the value of the first member of that name in an object that the parser
// has accepted; nil when there is none.
func Value(object []byte, name string) []byte {
	for n, value := range Members(object) {
		if n == name {
			return value
		}
	}
	return nil
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}

package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// scanner walks over JSON text (RFC 8259). It checks the grammar, UTF-8 and the
// depth, and stops at the first fault. Lone surrogates written as \u escapes are
// let through: they are valid text, and the receiver's affair.
type scanner struct {
	b   []byte
	i   int
	max int // depth
}

// space moves past white space.
func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// peek moves past white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value moves past one value; depth is that of what encloses it.
func (s *scanner) value(depth int) *Error {
	switch c := s.peek(); c {
	case '"':
		_, err := s.str()
		return err
	case '{':
		return s.object(depth + 1)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// object moves past an object whose members nobody compares.
func (s *scanner) object(depth int) *Error {
	if depth > s.max {
		return errDepth
	}
	s.i++
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		if s.peek() != '"' {
			return errSyntax
		}
		if _, err := s.str(); err != nil {
			return err
		}
		if s.peek() != ':' {
			return errSyntax
		}
		s.i++
		if err := s.value(depth); err != nil {
			return err
		}
		if more, err := s.next('}'); !more {
			return err
		}
	}
}

func (s *scanner) array(depth int) *Error {
	if depth > s.max {
		return errDepth
	}
	s.i++
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		if err := s.value(depth); err != nil {
			return err
		}
		if more, err := s.next(']'); !more {
			return err
		}
	}
}

// next moves past the comma before another element, or past the end.
func (s *scanner) next(end byte) (more bool, err *Error) {
	switch s.peek() {
	case ',':
		s.i++
		return true, nil
	case end:
		s.i++
		return false, nil
	}
	return false, errSyntax
}

func (s *scanner) literal(want string) *Error {
	if len(s.b)-s.i < len(want) || string(s.b[s.i:s.i+len(want)]) != want {
		return errSyntax
	}
	s.i += len(want)
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}
	return s.i > start
}

func (s *scanner) number() *Error {
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !s.digits() {
		return errSyntax
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return errSyntax
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// str moves past a string, whose opening quote is next, and reports whether it
// holds an escape. Eight bytes are looked at together: a byte below 0x20, a quote
// or a backslash leaves its high bit set, and the lowest one set is exact.
func (s *scanner) str() (escaped bool, err *Error) {
	b, i := s.b, s.i+1
	start, ascii := i, true
	for {
		var c byte
		for {
			if len(b)-i < 8 {
				if i >= len(b) {
					return false, errSyntax
				}
				c = b[i]
				if c != '"' && c != '\\' && c >= 0x20 {
					ascii = ascii && c < utf8.RuneSelf
					i++
					continue
				}
				break
			}
			w := binary.LittleEndian.Uint64(b[i:])
			stop := (w - 0x20*eachByte) | ((w ^ '"'*eachByte) - eachByte) | ((w ^ '\\'*eachByte) - eachByte)
			stop &= ^w & highBits
			ascii = ascii && w&highBits == 0
			if stop != 0 {
				i += bits.TrailingZeros64(stop) / 8
				c = b[i]
				break
			}
			i += 8
		}
		switch c {
		case '"':
			s.i = i + 1
			if !ascii && !utf8.Valid(b[start:i]) {
				return escaped, errUTF8
			}
			return escaped, nil
		case '\\':
			escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				return escaped, errSyntax
			}
			i += n
		default:
			return escaped, errSyntax
		}
	}
}

// escapeLen is the length of the escape sequence that b begins with, 0 when it is
// none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if !(c-'0' <= 9 || (c|0x20)-'a' <= 5) {
				return 0
			}
		}
		return 6
	}
	return 0
}

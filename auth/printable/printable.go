// Package printable makes text from elsewhere fit for a log line or a terminal: what
// a token, a client, an issuer or a worker says is shown and never obeyed.
//
// What is not printable in the sense of [unicode.IsPrint] is written as its number:
// control characters (C0, DEL, C1), line and paragraph separators, spaces other than
// U+0020, marks that turn the direction or take no place, and what Unicode has not
// assigned. A byte that is no UTF-8 is written as \xff, everything else as \u202e or
// \U000e0041. So no text can look like another line, move a cursor, or hide that it
// holds something unusual; it can look as if it did, which harms nobody.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Value is how many bytes of a token's or a request's value a line of the log has.
const Value = 256

// Text returns s as it may be shown to people: at most limit bytes of it, cut at a
// rune's border and then with "…" behind, and what is not printable as its number. The
// result has at most six times limit bytes, and three more for the mark. Text that is
// short enough and printable is returned as it is, without an allocation.
func Text(s string, limit int) string {
	if len(s) <= limit && visible(s) {
		return s // most of what is shown, and some of it stands in every request's line
	}
	return escaped(s, limit, unicode.IsPrint)
}

// ASCII is the stricter Text: all that is not visible ASCII or a space is written as
// its number, so that no letter can pass for another one.
func ASCII(s string, limit int) string {
	return escaped(s, limit, func(r rune) bool { return r >= ' ' && r <= '~' })
}

// Quoted is ASCII in quotation marks, for a value inside a sentence of ours, as
// [strconv.QuoteToASCII] writes it. The "…" of a cut value stands behind the marks.
func Quoted(s string, limit int) string {
	s, mark := cut(s, limit)
	return strconv.QuoteToASCII(s) + mark
}

// escaped writes what fits as it is and the rest as its number.
func escaped(s string, limit int, fits func(r rune) bool) string {
	s, mark := cut(s, limit)
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case fits(r):
			b.WriteString(s[i : i+n])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String() + mark
}

// cut shortens s to limit bytes, at a rune's border where there is one, and returns
// what stands for the rest.
func cut(s string, limit int) (part, mark string) {
	if len(s) <= limit {
		return s, ""
	}
	n := max(limit, 0)
	for n > 0 && limit-n < utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], "…"
}

// visible reports whether s is visible ASCII and spaces.
func visible(s string) bool {
	for i := range len(s) {
		if s[i]-' ' > '~'-' ' {
			return false
		}
	}
	return true
}

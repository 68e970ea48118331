package conf

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is what a setting accepts.
type Type struct {
	// Name is a word or two for the reference: "duration", "list of text".
	Name string
	// Accepts completes the sentence "… is accepted": the form, the limits.
	Accepts string
	// Range is the short form of the limits, for the reference; may be empty.
	Range string

	form  form
	parse func(text string) (any, error) // from a flag, the environment, a default
	show  func(v any) string             // for check; the inverse of parse where there is one
	items func(string) error             // checks each item of a list
}

// form is the shape of a value in the YAML file.
type form uint8

const (
	formText     form = iota // a string
	formWhole                // an integer
	formNumber               // an integer or a fraction
	formBool                 // true or false
	formQuantity             // a string or an integer: durations, sizes
	formList                 // a sequence of strings
	formTable                // a mapping of strings to strings
	formObject               // a mapping of anything, kept as JSON
)

func showString(v any) string { return v.(string) }

// oneOf accepts one word of a closed list.
func oneOf(words ...string) Type {
	return Type{
		Name: "word", Accepts: orList(words), Range: "`" + strings.Join(words, "`, `") + "`", form: formText, show: showString,
		parse: func(s string) (any, error) {
			if slices.Contains(words, s) {
				return s, nil
			}
			return nil, errors.New("is not one of them" + didYouMean(s, words))
		},
	}
}

// text accepts printable UTF-8 on one line, of at most limit bytes.
func text(limit int) Type {
	return Type{
		Name: "text", Accepts: fmt.Sprintf("one line of text, at most %d bytes", limit), Range: fmt.Sprintf("at most %d bytes", limit),
		form: formText, show: showString,
		parse: func(s string) (any, error) { return s, plain(s, limit) },
	}
}

// plain refuses what has no place in any single-line value.
func plain(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > limit:
		return fmt.Errorf("has %d bytes", len(s))
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return errors.New("has a control character")
	}
	return nil
}

// path accepts a file or folder; Load makes it absolute.
func path() Type {
	t := text(4095)
	t.Name, t.Accepts, t.Range = "path", "a path, relative ones from the configuration file's folder (in the file) or the working directory", ""
	return t
}

// socketPath is path with the word none. The kernel limits its length.
func socketPath() Type {
	t := path()
	t.Range = "at most 100 bytes, or `none`"
	t.Accepts += ", or none"
	parse := t.parse
	t.parse = func(s string) (any, error) {
		if len(s) > 100 {
			return nil, errors.New("is too long for a socket")
		}
		return parse(s)
	}
	return t
}

// webAddress accepts text that looks like a URL; validate looks closer.
func webAddress() Type {
	return Type{
		Name: "URL", Accepts: "an absolute https URL", form: formText, show: showString,
		parse: func(s string) (any, error) {
			if err := plain(s, 2048); err != nil {
				return nil, err
			}
			if strings.ContainsAny(s, " <>\"\\^`{|}") {
				return nil, errors.New("has a character that no URL has")
			}
			return s, nil
		},
	}
}

// whole accepts an integer from lo to hi.
func whole(lo, hi int) Type {
	return Type{
		Name: "whole number", Accepts: fmt.Sprintf("a whole number from %d to %d", lo, hi), Range: fmt.Sprintf("%d to %d", lo, hi), form: formWhole,
		show: func(v any) string { return strconv.Itoa(v.(int)) },
		parse: func(s string) (any, error) {
			n, err := strconv.Atoi(s)
			if err != nil || strconv.Itoa(n) != s {
				return nil, errors.New("is not a plain whole number")
			}
			if n < lo || n > hi {
				return nil, errors.New("is out of range")
			}
			return n, nil
		},
	}
}

// number accepts a decimal fraction from lo to hi.
func number(lo, hi float64) Type {
	return Type{
		Name: "number", Accepts: fmt.Sprintf("a number from %v to %v", lo, hi), Range: fmt.Sprintf("%v to %v", lo, hi), form: formNumber,
		show: func(v any) string { return strconv.FormatFloat(v.(float64), 'f', -1, 64) },
		parse: func(s string) (any, error) {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || strings.ContainsAny(s, "xXpP_nNiI") || math.IsNaN(f) {
				return nil, errors.New("is not a number")
			}
			if f < lo || f > hi {
				return nil, errors.New("is out of range")
			}
			return f, nil
		},
	}
}

// boolean accepts the usual words; in YAML only true and false.
func boolean() Type {
	return Type{
		Name: "yes or no", Accepts: "true, false, 1, 0, yes, no, on or off (in YAML true or false)", form: formBool,
		show: func(v any) string { return strconv.FormatBool(v.(bool)) },
		parse: func(s string) (any, error) {
			switch strings.ToLower(s) {
			case "1", "true", "yes", "on":
				return true, nil
			case "0", "false", "no", "off":
				return false, nil
			}
			return nil, errors.New("is neither yes nor no")
		},
	}
}

// duration accepts a time from lo to hi.
func duration(lo, hi time.Duration) Type {
	limits := fmt.Sprintf("%s to %s", FormatDuration(lo), FormatDuration(hi))
	if hi == maxDuration {
		limits = FormatDuration(lo) + " to ten years"
	}
	return Type{
		Name: "duration", Range: limits, form: formQuantity,
		Accepts: "a duration from " + limits + ", such as 90s, 5m, 8h or a number of seconds",
		show:    func(v any) string { return FormatDuration(v.(time.Duration)) },
		parse: func(s string) (any, error) {
			d, err := ParseDuration(s)
			if err == nil && (d < lo || d > hi) {
				err = errors.New("is out of range")
			}
			return d, err
		},
	}
}

// durationOrNone is duration with the word none, which is kept as off.
func durationOrNone(lo, hi, off time.Duration) Type {
	t := duration(lo, hi)
	parse, show := t.parse, t.show
	t.Range, t.Accepts = t.Range+", or `none`", t.Accepts+", or none"
	t.parse = func(s string) (any, error) {
		if s == "none" {
			return off, nil
		}
		return parse(s)
	}
	t.show = func(v any) string {
		if v.(time.Duration) == off {
			return "none"
		}
		return show(v)
	}
	return t
}

var sizeUnits = []struct {
	name string
	unit int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// size accepts a number of bytes from lo to hi, with KiB, MiB or GiB.
func size(lo, hi int64) Type {
	return Type{
		Name: "size", Accepts: fmt.Sprintf("a size from %s to %s, such as 16MiB, 8KiB or a number of bytes", formatSize(lo), formatSize(hi)),
		Range: fmt.Sprintf("%s to %s", formatSize(lo), formatSize(hi)), form: formQuantity,
		show: func(v any) string { return formatSize(v.(int64)) },
		parse: func(s string) (any, error) {
			for _, u := range sizeUnits {
				digits, ok := strings.CutSuffix(s, u.name)
				if !ok {
					continue
				}
				n, err := strconv.ParseUint(digits, 10, 62)
				if err != nil {
					return nil, errors.New("is not a size")
				}
				if n > uint64(hi/u.unit) || int64(n)*u.unit < lo {
					return nil, errors.New("is out of range")
				}
				return int64(n) * u.unit, nil
			}
			return nil, errors.New("is not a size")
		},
	}
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.unit && n%u.unit == 0 {
			return strconv.FormatInt(n/u.unit, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// list accepts items that check agrees with, parted by commas or blanks in a
// flag or variable, where none is the empty list. Order is kept.
func list(of, accepts string, check func(string) error) Type {
	return Type{
		Name: "list of " + of, Accepts: accepts, Range: accepts, form: formList, items: check,
		show: func(v any) string {
			if l := v.([]string); len(l) > 0 {
				return strings.Join(l, ", ")
			}
			return "none"
		},
		parse: func(s string) (any, error) {
			if s == "none" {
				return []string{}, nil
			}
			items := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
			if len(items) == 0 {
				return nil, errors.New("holds no item; write none for the empty list")
			}
			return checkItems(items, check)
		},
	}
}

// checkItems refuses bad items and repeated ones.
func checkItems(items []string, check func(string) error) (any, error) {
	for i, x := range items {
		if err := check(x); err != nil {
			return nil, fmt.Errorf("item %q %w", clip(x), err)
		}
		if slices.Contains(items[:i], x) {
			return nil, fmt.Errorf("item %q stands there twice", clip(x))
		}
	}
	return items, nil
}

// isScope checks one scope-token of RFC 6749 section 3.3.
func isScope(s string) error {
	bad := func(r rune) bool { return r != 0x21 && (r < 0x23 || r > 0x5b) && (r < 0x5d || r > 0x7e) }
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, bad) {
		return errors.New("is no scope-token of RFC 6749 section 3.3 (printable ASCII without blank, quote and backslash)")
	}
	return nil
}

// isAddress checks one listening address.
func isAddress(s string) error {
	if s == "localhost" {
		return nil
	}
	if a, err := netip.ParseAddr(s); err != nil || a.String() != s || a.Is4In6() {
		return errors.New("is neither an IP address in its shortest form nor localhost")
	}
	return nil
}

func isWord(s string) error { return plain(s, 512) }

// orList joins words for a sentence.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// clip shortens what is quoted in a message.
func clip(s string) string {
	const limit = 80
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit]) + "…"
}

package token

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"gatehouse/auth/printable"
)

// maxDepth is how deep header, claims and key sets may nest.
const maxDepth = 16

// maxTime bounds the numeric dates, in seconds since 1970 (the year 36812).
const maxTime = 1 << 40

// object is a decoded JSON object: member names exactly as they are (nothing is
// folded, so "ISS" is not "iss") with the raw bytes of their values.
type object map[string]jsontext.Value

// decodeObject reads one JSON object strictly: UTF-8 without a byte-order mark,
// no duplicate names at any level, no lone surrogates, at most maxDepth levels,
// nothing behind it (RFC 7493, RFC 7515 section 4, RFC 7519 section 4).
func decodeObject(b []byte) (object, error) {
	if err := checkShape(b); err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadToken(); err != nil {
			return nil, jsonError(err)
		}
		return nil, errors.New("not a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	o := make(object, min(len(b)/40, 24))
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, jsonError(err)
		}
		key := name.String() // before the token is voided
		value, err := dec.ReadValue()
		if err != nil {
			return nil, jsonError(err)
		}
		o[key] = sourceOf(dec, b, value)
	}
	if _, err := dec.ReadToken(); err != nil { // the closing brace
		return nil, jsonError(err)
	}
	return o, atEnd(dec)
}

// onlyIssuer returns the iss of claims that nobody vouches for. It keeps no other
// member and no name, which is why names that stand twice pass, iss itself aside:
// strangers choose how many there are.
func onlyIssuer(b []byte) (iss string, ok bool) {
	if checkShape(b) != nil {
		return "", false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return "", false
	}
	o := object{}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return "", false
		}
		named := isIssuer(name) // before it is voided
		value, err := dec.ReadValue()
		if err != nil || named && o["iss"] != nil {
			return "", false
		}
		if named {
			o["iss"] = sourceOf(dec, b, value)
		}
	}
	if _, err := dec.ReadToken(); err != nil || atEnd(dec) != nil {
		return "", false
	}
	iss, found, err := o.text("iss", maxIssuer)
	return iss, found && err == nil
}

// isIssuer reports whether the raw name of a member is iss, however it is escaped.
func isIssuer(raw jsontext.Value) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == `"iss"`
	}
	name, err := unquote(raw)
	return err == nil && name == "iss"
}

// decodeArray reads one JSON array as strictly as decodeObject does, with at
// most limit members.
func decodeArray(b []byte, limit int) ([]jsontext.Value, error) {
	if err := checkShape(b); err != nil {
		return nil, err
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(b))
	if dec.PeekKind() != '[' {
		return nil, errors.New("not a JSON array")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	var out []jsontext.Value
	for k := dec.PeekKind(); k != ']' && k != jsontext.KindInvalid; k = dec.PeekKind() {
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d members", limit)
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, jsonError(err)
		}
		out = append(out, sourceOf(dec, b, value))
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, jsonError(err)
	}
	return out, atEnd(dec)
}

// sourceOf returns the bytes of b that the value just read came from; the value
// itself is void after the next read.
func sourceOf(dec *jsontext.Decoder, b []byte, value jsontext.Value) jsontext.Value {
	end := dec.InputOffset()
	return b[end-int64(len(value)) : end : end]
}

func atEnd(dec *jsontext.Decoder) error {
	switch _, err := dec.ReadToken(); {
	case err == io.EOF:
		return nil
	case err != nil:
		return jsonError(err)
	default:
		return errors.New("data behind the value")
	}
}

// checkShape counts brackets and measures numbers outside of strings, so that a
// deep value costs one pass over its bytes and no memory, and so that no number
// is beyond what a double holds (RFC 7493 section 2.2). On bytes that are no JSON
// its verdict means nothing; the decoder refuses those.
func checkShape(b []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c >= '0' && c <= '9':
			end := i
			for end < len(b) && strings.IndexByte("0123456789.eE+-", b[end]) >= 0 {
				end++
			}
			if err := checkNumber(b[i:end]); err != nil {
				return err
			}
			i = end - 1
		}
	}
	return nil
}

func checkNumber(b []byte) error {
	if len(b) < 300 && !bytes.ContainsAny(b, "eE") {
		return nil // at most 10^300
	}
	if _, err := strconv.ParseFloat(string(b), 64); errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("number %s is out of range", plain(string(b)))
	}
	return nil
}

// jsonError cuts and escapes the decoder's message, which quotes its input.
func jsonError(err error) error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return fmt.Errorf("invalid JSON at byte %d: %s", syntactic.ByteOffset, plain(syntactic.Err.Error()))
	}
	return fmt.Errorf("invalid JSON: %s", plain(err.Error()))
}

// The accessors below tell three cases apart: absent (found is false), present
// and of the wanted kind, present and wrong (an error that names what it is).

// text returns a string member: 1 to limit bytes, without control characters.
func (o object) text(name string, limit int) (s string, found bool, err error) {
	raw, found := o[name]
	if !found {
		return "", false, nil
	}
	s, err = unquote(raw)
	switch {
	case err != nil:
		return "", true, fmt.Errorf("%s %w", name, err)
	case s == "":
		return "", true, fmt.Errorf("%s is empty", name)
	case len(s) > limit:
		return "", true, fmt.Errorf("%s is %d bytes long, at most %d are taken", name, len(s), limit)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", true, fmt.Errorf("%s holds a control character: %s", name, quote(s))
	}
	return s, true, nil
}

// date returns a NumericDate member (RFC 7519 section 2) from 1 to maxTime, cut to seconds.
func (o object) date(name string) (t time.Time, found bool, err error) {
	raw, found := o[name]
	if !found {
		return time.Time{}, false, nil
	}
	if raw.Kind() != '0' {
		return time.Time{}, true, fmt.Errorf("%s is %s, want a number", name, kindName(raw))
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(f) || f < 1 || f > maxTime {
		return time.Time{}, true, fmt.Errorf("%s is %s, want seconds since 1970 from 1 to %d", name, plain(string(raw)), int64(maxTime))
	}
	return time.Unix(int64(f), 0).UTC(), true, nil
}

// unquote returns the value of a raw JSON string that the decoder has read.
func unquote(raw jsontext.Value) (string, error) {
	if raw.Kind() != '"' {
		return "", fmt.Errorf("is %s, want a string", kindName(raw))
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", jsonError(err)
	}
	return string(b), nil
}

func kindName(raw jsontext.Value) string {
	switch raw.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "a boolean"
	}
}

// maxShown is how many bytes of a foreign value a reason shows.
const maxShown = 120

// quote makes a foreign value safe for a log line.
func quote(s string) string { return printable.Quoted(s, maxShown) }

// plain is quote without the quotation marks, for text that is mostly ours.
func plain(s string) string { return printable.ASCII(s, maxShown) }

// quoteAll lists foreign values, the first eight of them.
func quoteAll(values []string) string {
	const most = 8
	var b strings.Builder
	b.WriteByte('[')
	for i, v := range values {
		if i == most {
			fmt.Fprintf(&b, " … %d more", len(values)-most)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(v))
	}
	b.WriteByte(']')
	return b.String()
}

package toolsets

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// parseArgs checks raw against the declared arguments and returns their values:
// string, int, bool or []string. The failure is of kind InvalidParams and names
// the argument.
func parseArgs(params []Param, raw []byte) (map[string]any, *Failure) {
	members, f := splitObject(raw)
	if f != nil {
		return nil, f
	}
	args := make(map[string]any, len(members))
	for _, m := range members {
		i := slices.IndexFunc(params, func(p Param) bool { return p.Name == m.name })
		if i < 0 {
			return nil, Failf(InvalidParams, "unknown argument %q; this tool takes %s", m.name, paramNames(params))
		}
		v, f := params[i].parse(m.value)
		if f != nil {
			return nil, f
		}
		args[m.name] = v
	}
	for _, p := range params {
		if _, ok := args[p.Name]; p.Required && !ok {
			return nil, Failf(InvalidParams, "missing argument %q: %s", p.Name, p.Meaning)
		}
	}
	return args, nil
}

type member struct {
	name  string
	value jsontext.Value
}

// splitObject reads one JSON object strictly: valid UTF-8, no duplicate names,
// nothing behind it. Absent arguments and null are the empty object.
func splitObject(raw []byte) ([]member, *Failure) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, Failf(InvalidParams, "the arguments must be a JSON object")
	}
	bad := func(err error) *Failure { return Failf(InvalidParams, "read arguments: %v", err) }
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := d.ReadToken(); err != nil {
		return nil, bad(err)
	}
	var out []member
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, bad(err)
		}
		n := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, bad(err)
		}
		out = append(out, member{n, v.Clone()})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, bad(err)
	}
	if rest := bytes.TrimSpace(raw[d.InputOffset():]); len(rest) > 0 {
		return nil, Failf(InvalidParams, "read arguments: something follows the object")
	}
	return out, nil
}

func (p Param) parse(v jsontext.Value) (any, *Failure) {
	wrong := func(want string) *Failure {
		return Failf(InvalidParams, "argument %q must be %s", p.Name, want)
	}
	switch p.Type {
	case String:
		s, ok := parseString(v)
		if !ok {
			return nil, wrong("a string")
		}
		if p.Pattern != "" && !compiled(p.Pattern).MatchString(s) {
			return nil, wrong(p.PatternText)
		}
		return s, nil
	case Integer:
		n, err := strconv.Atoi(string(v))
		if v.Kind() != '0' || err != nil {
			return nil, wrong("a whole number")
		}
		if p.Bounded && (n < p.Min || n > p.Max) {
			return nil, wrong("a whole number from " + strconv.Itoa(p.Min) + " to " + strconv.Itoa(p.Max))
		}
		return n, nil
	case Boolean:
		if k := v.Kind(); k != 't' && k != 'f' {
			return nil, wrong("true or false")
		}
		return v.Kind() == 't', nil
	case Strings:
		list := []string{}
		var items []json.RawMessage
		if v.Kind() != '[' || json.Unmarshal(v, &items) != nil {
			return nil, wrong("a list of strings")
		}
		for _, it := range items {
			s, ok := parseString(jsontext.Value(it))
			if !ok {
				return nil, wrong("a list of strings")
			}
			list = append(list, s)
		}
		return list, nil
	}
	panic("toolsets: argument " + p.Name + " has no type")
}

// parseString decodes a JSON string; one with a NUL in it is no argument.
func parseString(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return "", false
	}
	return string(b), true
}

var patterns sync.Map // pattern -> *regexp.Regexp

func compiled(pattern string) *regexp.Regexp {
	if re, ok := patterns.Load(pattern); ok {
		return re.(*regexp.Regexp)
	}
	re := regexp.MustCompile(pattern)
	patterns.Store(pattern, re)
	return re
}

func paramNames(params []Param) string {
	if len(params) == 0 {
		return "no arguments"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return strings.Join(names, ", ")
}

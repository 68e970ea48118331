package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// ParseArgv reads a command as a JSON array of strings: the program, then its
// arguments. A plain string is refused, because no shell ever splits it.
func ParseArgv(s string) ([]string, error) {
	if t := strings.TrimSpace(s); !strings.HasPrefix(t, "[") {
		return nil, fmt.Errorf("is not a JSON array; no shell runs it, so write each word apart, such as %s", clip(encode(maskArgv(strings.Fields(t)))))
	}
	if !utf8.ValidString(s) {
		return nil, errors.New("is not UTF-8")
	}
	var items []any
	dec := json.NewDecoder(strings.NewReader(s))
	if err := dec.Decode(&items); err != nil {
		return nil, errors.New("is not a valid JSON array of strings")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("goes on after the closing bracket")
	}
	argv := make([]string, len(items))
	for i, x := range items {
		word, ok := x.(string)
		if !ok {
			return nil, fmt.Errorf("item %d is not a string", i+1)
		}
		argv[i] = word
	}
	return argv, checkArgv(argv)
}

// checkArgv refuses what execve could not pass on.
func checkArgv(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return errors.New("names no program")
	}
	if len(argv) > 256 {
		return errors.New("has more than 256 words")
	}
	for i, a := range argv {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("item %d has a NUL byte", i+1)
		}
	}
	return nil
}

func argv() Type {
	return Type{
		Name:    "command",
		Accepts: `the program and its arguments as a list of strings, in a flag or variable as JSON: ["/usr/bin/tool", "--option"]`,
		Range:   "a YAML list; in a flag or variable JSON: `[\"/usr/bin/tool\", \"--option\"]`",
		form:    formList,
		parse:   func(s string) (any, error) { return ParseArgv(s) },
		show:    func(v any) string { return encode(maskArgv(v.([]string))) },
	}
}

// table accepts names with values, as JSON in a flag or variable.
func table() Type {
	return Type{
		Name: "names with values", Accepts: `names with text values, in a variable as JSON: {"NAME": "value"}`,
		Range: "in a variable JSON: `{\"NAME\": \"value\"}`",
		form:  formTable,
		parse: func(s string) (any, error) {
			raw, err := jsonObject(s)
			if err != nil {
				return nil, err
			}
			m := map[string]string{}
			if err := json.Unmarshal(raw, &m); err != nil {
				return nil, errors.New("has a value that is not text")
			}
			return m, checkEnviron(m)
		},
		show: func(v any) string {
			names := []string{}
			for n := range v.(map[string]string) {
				names = append(names, n+"=(hidden)")
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		},
	}
}

// object accepts a JSON object that is passed on as it is.
func object() Type {
	return Type{
		Name: "object", Range: "in a flag or variable JSON: `{\"testing\": {\"timeout\": \"5m\"}}`", Accepts: `an object keyed by name, in a flag or variable as JSON: {"testing": {"timeout": "5m"}}`,
		form:  formObject,
		parse: func(s string) (any, error) { return jsonObject(s) },
		show: func(v any) string {
			var x any
			if json.Unmarshal(v.(json.RawMessage), &x) != nil {
				return "(not shown)"
			}
			return encode(maskValue(x))
		},
	}
}

// jsonObject checks that s is one JSON object without repeated names, at most
// 16 deep, and returns it compacted.
func jsonObject(s string) (json.RawMessage, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("is not UTF-8")
	}
	if !strings.HasPrefix(strings.TrimSpace(s), "{") {
		return nil, errors.New("is not a JSON object")
	}
	if !json.Valid([]byte(s)) {
		return nil, errors.New("is not valid JSON")
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if err := scanValue(dec, 0); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		return nil, errors.New("is not valid JSON")
	}
	return b.Bytes(), nil
}

// scanValue walks one value of valid JSON, refusing repeated names and depth.
func scanValue(dec *json.Decoder, depth int) error {
	if depth > 16 {
		return errors.New("is nested deeper than 16")
	}
	t, err := dec.Token()
	if err != nil {
		return errors.New("is not valid JSON")
	}
	d, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if d == '{' {
			name, err := dec.Token()
			if err != nil {
				return errors.New("is not valid JSON")
			}
			if key := name.(string); seen[key] {
				return fmt.Errorf("names %q twice", clip(key))
			} else {
				seen[key] = true
			}
		}
		if err := scanValue(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "(not shown)"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

package toolsets

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Option is one setting of a toolset.
type Option struct {
	Name string
	Type Type
	// Default is a string, int, bool, []string or time.Duration, as Type says.
	Default any
	Meaning string
}

// Values are the options of one toolset, the defaults filled in.
type Values map[string]any

// String returns a string option.
func (v Values) String(name string) string { return value[string](v, name) }

// Int returns an integer option.
func (v Values) Int(name string) int { return value[int](v, name) }

// Bool returns a boolean option.
func (v Values) Bool(name string) bool { return value[bool](v, name) }

// Strings returns a list option.
func (v Values) Strings(name string) []string { return value[[]string](v, name) }

// Duration returns a duration option.
func (v Values) Duration(name string) time.Duration { return value[time.Duration](v, name) }

func value[T any](v Values, name string) T {
	x, ok := v[name].(T)
	if !ok {
		panic("toolsets: option " + name + " is not declared with this type")
	}
	return x
}

// parseOptions reads the operator's options of one toolset, strictly.
func (ts *Toolset) parseOptions(raw []byte) (Values, error) {
	values := Values{}
	for _, o := range ts.Options {
		values[o.Name] = o.Default
	}
	members, f := splitObject(raw)
	if f != nil {
		return nil, fmt.Errorf("options of toolset %q: %s", ts.Name, f.Text)
	}
	for _, m := range members {
		i := slices.IndexFunc(ts.Options, func(o Option) bool { return o.Name == m.name })
		if i < 0 {
			return nil, fmt.Errorf("toolset %q has no option %q; it has %s", ts.Name, m.name, ts.optionNames())
		}
		v, err := ts.Options[i].parse(m.value)
		if err != nil {
			return nil, fmt.Errorf("option %q of toolset %q %w", m.name, ts.Name, err)
		}
		values[m.name] = v
	}
	return values, nil
}

func (o Option) parse(v jsontext.Value) (any, error) {
	if o.Type == Duration {
		d, ok := parseDuration(v)
		if !ok || d < 0 {
			return nil, fmt.Errorf(`must be a duration such as "90s", "5m", "8h", or a number of seconds`)
		}
		return d, nil
	}
	x, f := Param{Name: o.Name, Type: o.Type}.parse(v)
	if f != nil {
		_, want, _ := strings.Cut(f.Text, "must be")
		return nil, fmt.Errorf("must be%s", want)
	}
	return x, nil
}

func parseDuration(v jsontext.Value) (time.Duration, bool) {
	if v.Kind() == '0' {
		n, err := strconv.Atoi(string(v))
		return time.Duration(n) * time.Second, err == nil
	}
	s, ok := parseString(v)
	if !ok {
		return 0, false
	}
	if n, err := strconv.Atoi(s); err == nil {
		return time.Duration(n) * time.Second, true
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

func (ts *Toolset) optionNames() string {
	if len(ts.Options) == 0 {
		return "no options"
	}
	var names []string
	for _, o := range ts.Options {
		names = append(names, o.Name)
	}
	return strings.Join(names, ", ")
}

// Catalogue is the machine-readable list of toolsets, tools and options.
type Catalogue struct {
	Toolsets []CatalogueToolset `json:"toolsets"`
}

// CatalogueToolset describes one toolset in a Catalogue.
type CatalogueToolset struct {
	Name    string            `json:"name"`
	Summary string            `json:"summary"`
	Default bool              `json:"default"` // served when the operator names no toolsets
	Tools   []CatalogueTool   `json:"tools"`
	Options []CatalogueOption `json:"options"`
}

// CatalogueTool describes one tool in a Catalogue.
type CatalogueTool struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
}

// CatalogueOption describes one option in a Catalogue. A duration's default is
// written as Go writes durations.
type CatalogueOption struct {
	Name    string          `json:"name"`
	Type    Type            `json:"type"`
	Default json.RawMessage `json:"default"`
	Meaning string          `json:"meaning"`
}

// List returns the catalogue of the given toolsets.
func List(all []Toolset, isDefault func(name string) bool) Catalogue {
	c := Catalogue{Toolsets: []CatalogueToolset{}}
	for _, ts := range all {
		out := CatalogueToolset{Name: ts.Name, Summary: ts.Summary, Default: isDefault(ts.Name),
			Tools: []CatalogueTool{}, Options: []CatalogueOption{}}
		for _, t := range ts.Tools {
			out.Tools = append(out.Tools, CatalogueTool{t.Name, t.Title, t.Description})
		}
		for _, o := range ts.Options {
			def := o.Default
			if d, ok := def.(time.Duration); ok {
				def = d.String()
			}
			out.Options = append(out.Options, CatalogueOption{o.Name, o.Type, marshal(def), o.Meaning})
		}
		c.Toolsets = append(c.Toolsets, out)
	}
	return c
}

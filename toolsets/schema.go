package toolsets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Draft is the dialect of every schema.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// InputSchema returns the closed JSON Schema of the tool's arguments.
func (t *Tool) InputSchema() *jsonschema.Schema {
	s := &jsonschema.Schema{
		Schema: Draft, Type: "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: falseSchema(),
	}
	for _, p := range t.params() {
		s.Properties[p.Name] = p.schema()
		s.PropertyOrder = append(s.PropertyOrder, p.Name)
		if p.Required {
			s.Required = append(s.Required, p.Name)
		}
	}
	return s
}

func (p Param) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Description: p.Meaning}
	switch p.Type {
	case Strings:
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string"}
	case Integer:
		s.Type = "integer"
		if p.Bounded {
			s.Minimum, s.Maximum = number(p.Min), number(p.Max)
		}
	default:
		s.Type, s.Pattern = string(p.Type), p.Pattern
	}
	return s
}

func number(n int) *float64 { f := float64(n); return &f }

// falseSchema is the schema that nothing fits.
func falseSchema() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// OutputOf returns the schema of the struct type T, for Tool.Output. It panics
// when T has none, which is a programmer's mistake.
func OutputOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("toolsets: output schema of %v: %v", reflect.TypeFor[T](), err))
	}
	return s
}

// OutputSchema returns what structuredContent of the tool fits: its data, or
// the error of a failed call. Nil when the tool answers text alone.
func (t *Tool) OutputSchema() *jsonschema.Schema {
	if t.Output == nil {
		return nil
	}
	out := t.Output.CloneSchemas()
	failed := OutputOf[errorInfo]()
	failed.Properties["kind"] = &jsonschema.Schema{Type: "string"}
	for _, k := range Kinds() {
		failed.Properties["kind"].Enum = append(failed.Properties["kind"].Enum, string(k))
	}
	s := &jsonschema.Schema{
		Schema: Draft, Type: "object",
		Properties:           out.Properties,
		PropertyOrder:        append(out.PropertyOrder, "error"),
		AdditionalProperties: falseSchema(),
		AnyOf:                []*jsonschema.Schema{{Required: out.Required}, {Required: []string{"error"}}},
	}
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	s.Properties["error"] = failed
	return s
}

// marshal encodes data that a tool made. It panics when that is impossible,
// which is a programmer's mistake.
func marshal(data any) json.RawMessage {
	b, err := json.Marshal(data)
	if err != nil {
		panic("toolsets: encode a tool's data: " + err.Error())
	}
	return b
}

// cutValues shortens the long strings of an encoded value, as Cut does.
func cutValues(raw json.RawMessage) json.RawMessage {
	if len(raw) <= MaxValue {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic("toolsets: decode a tool's data: " + err.Error())
	}
	return marshal(cutAll(v))
}

func cutAll(v any) any {
	switch v := v.(type) {
	case string:
		return Cut(v)
	case []any:
		for i := range v {
			v[i] = cutAll(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = cutAll(v[k])
		}
	}
	return v
}

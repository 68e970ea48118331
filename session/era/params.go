package era

import (
	"math/big"
	"slices"
	"strings"

	"gatehouse/session/jsonrpc"
)

// Param is an argument of a tool that clients mirror into the header Mcp-Param-Name
// (2026-07-28, basic/transports, "Custom Headers from Tool Parameters").
type Param struct {
	Path []string // through the objects of the arguments
	Name string   // of the header, without Mcp-Param-
}

// maxParamDepth bounds how deep schemas are searched.
const maxParamDepth = 16

// ToolParams enters the annotated arguments of each tool of a JSON array into found.
// Tools without any, and tools whose annotations are not valid, are left out: their
// clients send no such headers.
func ToolParams(found map[string][]Param, tools []byte) {
	if len(tools) == 0 || tools[0] != '[' {
		return
	}
	for tool, err := range jsonrpc.Batch(tools) {
		if err != nil {
			return
		}
		name := jsonrpc.Unquote(jsonrpc.Value(tool, "name"))
		schema := jsonrpc.Value(tool, "inputSchema")
		if name == nil || !strings.Contains(string(schema), "x-mcp-header") {
			continue
		}
		if params, ok := searchSchema(schema, nil, nil); ok && len(params) > 0 {
			found[string(name)] = params
		}
	}
}

// searchSchema collects the annotations below properties; false: one is not valid.
func searchSchema(schema []byte, path []string, out []Param) ([]Param, bool) {
	if len(path) > maxParamDepth {
		return out, true
	}
	for name, property := range jsonrpc.Members(jsonrpc.Value(schema, "properties")) {
		here := append(slices.Clone(path), name)
		if raw := jsonrpc.Value(property, "x-mcp-header"); raw != nil {
			header := string(jsonrpc.Unquote(raw))
			kind := string(jsonrpc.Unquote(jsonrpc.Value(property, "type")))
			twice := slices.ContainsFunc(out, func(p Param) bool { return strings.EqualFold(p.Name, header) })
			if !isToken(header) || twice || kind != "string" && kind != "integer" && kind != "boolean" {
				return nil, false
			}
			out = append(out, Param{here, header})
		}
		var ok bool
		if out, ok = searchSchema(property, here, out); !ok {
			return nil, false
		}
	}
	return out, true
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// Argument is the value at the param's path, nil when there is none or it is null. It
// is false when a name on the path stands twice: which one counts is the worker's
// affair, so that nobody can say what the header has to be.
func (p Param) Argument(arguments []byte) (value []byte, ok bool) {
	value = arguments
	for _, name := range p.Path {
		var found []byte
		for n, v := range jsonrpc.Members(value) {
			if n == name && found != nil {
				return nil, false
			}
			if n == name {
				found = v
			}
		}
		if value = found; value == nil {
			return nil, true
		}
	}
	if string(value) == "null" {
		return nil, true
	}
	return value, true
}

// Fits reports whether a header's value, already decoded, says the same as an
// argument: the text of a string, true or false, or the same number.
func Fits(header string, argument []byte) bool {
	switch argument[0] {
	case '"':
		return string(jsonrpc.Unquote(argument)) == header
	case 't', 'f':
		return string(argument) == header
	case '{', '[':
		return false
	}
	if string(argument) == header {
		return true
	}
	const longest = 64 // of a number; large exponents cost much
	if len(header) > longest || len(argument) > longest || strings.ContainsAny(header+string(argument), "eE_xXpP/") {
		return false
	}
	a, ok := new(big.Rat).SetString(header)
	b, okToo := new(big.Rat).SetString(string(argument))
	return ok && okToo && a.Cmp(b) == 0
}

package conf

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile is far more than any configuration needs, in bytes.
const maxFile = 256 << 10

// file reads the configuration file strictly.
func (l *loader) file(name string) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.c.host.WorkDir, path)
	}
	l.dir = filepath.Dir(path)
	data, err := l.c.host.ReadFile(path)
	if err != nil {
		l.refuse(name, "read the configuration file: %s", reason(err))
		l.broken = true
		return
	}
	if err := l.c.host.exposed(path); err != nil {
		l.refuse(name, "others could change this file: %v", err)
	}
	l.yaml(name, data)
}

// yaml decodes the content of the configuration file.
func (l *loader) yaml(name string, data []byte) {
	switch {
	case len(data) > maxFile:
		l.broken = true
		l.refuse(name, "has %d bytes; at most %d are accepted", len(data), maxFile)
		return
	case !utf8.Valid(data):
		l.broken = true
		l.refuse(name, "is not UTF-8")
		return
	}
	d := decoder{l: l, name: name}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	root, err := d.parse([]byte(text))
	if err != nil {
		l.broken = true
		l.problems = append(l.problems, *err)
		return
	}
	if root != nil {
		d.mapping(root, tree, "", 0)
		l.broken = !isMapping(root)
	}
}

// node is one level of the keys that exist.
type node struct {
	names    []string // in the order of the table
	children map[string]*node
	setting  *Setting
	list     string // "servers" when the value is a sequence of mappings
}

// tree holds the keys of the table.
var tree = func() *node {
	root := &node{children: map[string]*node{}}
	for _, s := range rows {
		at := root
		for part := range strings.SplitSeq(s.Key, ".") {
			part, isList := strings.CutSuffix(part, "[]")
			next := at.children[part]
			if next == nil {
				next = &node{children: map[string]*node{}}
				at.children[part] = next
				at.names = append(at.names, part)
				if isList {
					next.list = part
				}
			}
			at = next
		}
		at.setting = s
	}
	return root
}()

// decoder walks the syntax tree of one file along the table.
type decoder struct {
	l    *loader
	name string
}

// parse returns the document's mapping, nil for an empty file.
func (d *decoder) parse(data []byte) (root ast.Node, problem *Problem) {
	// Should the parser, which is not ours, panic on damaged input, then that is
	// a wrong file and not a programmer's mistake.
	defer func() {
		if recover() != nil {
			root, problem = nil, &Problem{d.name, "is not YAML that can be read"}
		}
	}()
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		where := d.name
		ye, ok := errors.AsType[yaml.Error](err)
		if !ok {
			return nil, &Problem{where, "is not YAML"}
		}
		if tk := ye.GetToken(); tk != nil && tk.Position != nil {
			where = d.at(tk)
		}
		return nil, &Problem{where, "is not YAML: " + ye.GetMessage()}
	}
	for i, doc := range f.Docs {
		if i > 0 && doc.Body != nil {
			return nil, &Problem{d.pos(doc.Body), "begins a second document; one is accepted"}
		}
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		return nil, nil
	}
	return f.Docs[0].Body, nil
}

func (d *decoder) at(tk *token.Token) string {
	return fmt.Sprintf("%s:%d:%d", d.name, tk.Position.Line, tk.Position.Column)
}

// pos is the place where a node begins.
func (d *decoder) pos(n ast.Node) string {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return d.at(tk)
	}
	return d.name
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	at    string // where the key is
	value ast.Node
}

// entries lists a mapping's members, having refused what is no plain mapping
// of distinct names.
func (d *decoder) entries(n ast.Node, what string) []entry {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.l.refuse(d.pos(n), "%s is %s; names with values are wanted", what, kindOf(n))
		return nil
	}
	var out []entry
	seen := map[string]string{}
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			d.l.refuse(d.pos(v.Key), "%s has a key that is %s; a plain name is wanted", what, kindOf(v.Key))
			continue
		}
		at := d.pos(key)
		if first, twice := seen[key.Value]; twice {
			d.l.refuse(at, "the key %q stands there twice, first at %s", clip(key.Value), strings.TrimPrefix(first, d.name+":"))
			continue
		}
		seen[key.Value] = at
		out = append(out, entry{key.Value, at, v.Value})
	}
	return out
}

// mapping decodes one level: prefix is its key, i the item of the list around it.
func (d *decoder) mapping(n ast.Node, level *node, prefix string, i int) {
	what := "the file"
	if prefix != "" {
		what = prefix
	}
	for _, e := range d.entries(n, what) {
		next := level.children[e.key]
		if next == nil {
			d.unknown(e, level, prefix)
			continue
		}
		full := strings.TrimPrefix(prefix+"."+e.key, ".")
		switch {
		case next.setting != nil:
			d.value(e, next.setting, i)
		case isNull(e.value):
			d.l.refuse(e.at, "%s has no value; take the line out or write something below it", full)
		case next.list != "":
			d.sequence(e.value, next, full)
		default:
			d.mapping(e.value, next, full, i)
		}
	}
}

// sequence decodes a list of mappings.
func (d *decoder) sequence(n ast.Node, level *node, key string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.l.refuse(d.pos(n), "%s is %s; a list is wanted, each item beginning with a dash", key, kindOf(n))
		return
	}
	if len(seq.Values) == 0 {
		d.l.refuse(d.pos(n), "%s has no item; take the line out or write one", key)
		return
	}
	if len(seq.Values) > 64 {
		d.l.refuse(d.pos(n), "%s has %d items; at most 64 are accepted", key, len(seq.Values))
		return
	}
	for i, item := range seq.Values {
		d.l.c.grow(level.list, i)
		d.mapping(item, level, fmt.Sprintf("%s[%d]", key, i), i)
	}
}

// unknown refuses a key that is not in the table.
func (d *decoder) unknown(e entry, level *node, prefix string) {
	hint := didYouMean(e.key, level.names)
	if hint == "" {
		for _, s := range rows {
			if s.leaf() == e.key || strings.EqualFold(s.Env, e.key) {
				hint = " (did you mean " + s.Key + "?)"
				break
			}
		}
	}
	where := "here"
	if prefix != "" {
		where = "below " + prefix
	}
	d.l.refuse(e.at, "unknown key %q%s; accepted %s: %s", clip(e.key), hint, where, strings.Join(level.names, ", "))
}

// value decodes one setting.
func (d *decoder) value(e entry, s *Setting, i int) {
	o := Origin{FromFile, e.at}
	if e.value != nil && !isNull(e.value) {
		o.Where = d.pos(e.value)
	}
	v, err := fromNode(e.value, s.Type)
	if err != nil {
		d.l.bad(s, i, o, err.Error())
		return
	}
	d.l.put(s, i, v, o)
}

// fromNode reads a value of type t.
func fromNode(n ast.Node, t Type) (any, error) {
	switch {
	case n == nil || isNull(n):
		return nil, errors.New("has no value")
	case t.form == formList:
		return listNode(n, t)
	case t.form == formTable, t.form == formObject:
		x, err := jsonNode(n, 0)
		if err != nil {
			return nil, err
		}
		if _, ok := x.(map[string]any); !ok {
			return nil, fmt.Errorf("is %s", kindOf(n))
		}
		return t.parse(encode(x))
	}
	text, ok := scalar(n, t.form)
	if !ok {
		if k := kindOf(n); t.form == formText && (k == "a number" || k == "true or false") {
			return nil, fmt.Errorf("is %s, not text; put it in quotes if it is meant as text", k)
		}
		return nil, fmt.Errorf("is %s", kindOf(n))
	}
	v, err := t.parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q %w", clip(text), err)
	}
	return v, nil
}

// scalar is a node's text when its kind fits the form.
func scalar(n ast.Node, f form) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, f == formText || f == formQuantity
	case *ast.IntegerNode:
		return x.Token.Value, f == formWhole || f == formNumber || f == formQuantity
	case *ast.FloatNode:
		return x.Token.Value, f == formNumber
	case *ast.BoolNode:
		return x.Token.Value, f == formBool
	}
	return "", false
}

// listNode reads a sequence of strings.
func listNode(n ast.Node, t Type) (any, error) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil, fmt.Errorf("is %s, not a list", kindOf(n))
	}
	items := make([]string, len(seq.Values))
	for i, v := range seq.Values {
		s, ok := v.(*ast.StringNode)
		if !ok {
			return nil, fmt.Errorf("item %d is %s, not text; put it in quotes", i+1, kindOf(v))
		}
		items[i] = s.Value
	}
	if t.items == nil {
		return items, checkArgv(items)
	}
	return checkItems(items, t.items)
}

// jsonNode turns plain YAML into what encoding/json would have decoded.
func jsonNode(n ast.Node, depth int) (any, error) {
	if depth > 16 {
		return nil, errors.New("is nested deeper than 16")
	}
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, nil
	case *ast.LiteralNode:
		return x.Value.Value, nil
	case *ast.BoolNode:
		return x.Value, nil
	case *ast.NullNode:
		return nil, nil
	case *ast.IntegerNode, *ast.FloatNode:
		if text := n.GetToken().Value; json.Valid([]byte(text)) {
			return json.Number(text), nil
		}
		return nil, fmt.Errorf("has the number %s, which JSON does not know", clip(n.GetToken().Value))
	case *ast.SequenceNode:
		out := make([]any, len(x.Values))
		for i, v := range x.Values {
			e, err := jsonNode(v, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = e
		}
		return out, nil
	case *ast.MappingNode:
		return jsonMapping(x, depth)
	}
	return nil, fmt.Errorf("has %s in it", kindOf(n))
}

func jsonMapping(m *ast.MappingNode, depth int) (any, error) {
	out := map[string]any{}
	for _, v := range m.Values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, fmt.Errorf("has a key that is %s", kindOf(v.Key))
		}
		if _, twice := out[key.Value]; twice {
			return nil, fmt.Errorf("names %q twice", clip(key.Value))
		}
		e, err := jsonNode(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		out[key.Value] = e
	}
	return out, nil
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return ok || n == nil
}

// kindOf names what a node is.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.StringNode:
		return "text"
	case *ast.LiteralNode:
		return "a block of lines"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode, nil:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "names with values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor, alias or merge, none of which is accepted here"
	case *ast.TagNode:
		return "a tag, which is not accepted here"
	}
	return "something that is not accepted here"
}

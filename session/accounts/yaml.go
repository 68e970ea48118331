package accounts

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readEntries walks the syntax tree instead of decoding into a struct, because a
// decoder makes 83 of the subject 0123 and 31 of 0x1F: every value must be
// written as a string. Anchors, aliases, tags and merge keys are refused.
func readEntries(b []byte) ([]Entry, error) {
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) && syntax.Token != nil && syntax.Token.Position != nil {
			p := syntax.Token.Position
			return nil, fmt.Errorf("line %d, column %d: %s", p.Line, p.Column, syntax.Message)
		}
		return nil, err
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, at(doc.Body, "a second document")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, nil
	}
	seq, ok := body.(*ast.SequenceNode)
	if !ok {
		return nil, at(body, "not a list; write \"- issuer: ...\"")
	}
	list := make([]Entry, 0, len(seq.Values))
	for _, v := range seq.Values {
		e, err := readEntry(v)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func readEntry(n ast.Node) (Entry, error) {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return Entry{}, at(n, "not an entry; write \"issuer: ...\", \"subject: ...\", \"account: ...\"")
	}
	e := Entry{Line: position(n).Line}
	fields := map[string]*string{
		"issuer": &e.Issuer, "subject": &e.Subject, "account": &e.Account,
		"client_id": &e.ClientID, "name": &e.Name, "email": &e.Email,
	}
	for _, p := range pairs {
		key, ok := p.Key.(*ast.StringNode)
		if !ok {
			return Entry{}, at(p, "the key is no plain word")
		}
		field, ok := fields[key.Value]
		if !ok {
			return Entry{}, at(key, fmt.Sprintf("unknown or repeated key %q; accepted once each: issuer, subject, account, client_id, name, email", key.Value))
		}
		delete(fields, key.Value)
		value, ok := p.Value.(*ast.StringNode)
		if !ok {
			return Entry{}, at(p.Value, fmt.Sprintf("the value of %s is no string; write it in quotes", key.Value))
		}
		if value.Value == "" {
			return Entry{}, at(value, fmt.Sprintf("the value of %s is empty", key.Value))
		}
		*field = value.Value
		if key.Value == "issuer" {
			e.Line = position(key).Line
		}
	}
	return e, nil
}

// at is an error with the place of a node.
func at(n ast.Node, text string) error {
	p := position(n)
	return fmt.Errorf("line %d, column %d: %s", p.Line, p.Column, text)
}

func position(n ast.Node) token.Position {
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		return *n.GetToken().Position
	}
	return token.Position{Line: 1, Column: 1}
}

package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// oracle judges a text with jsontext and maps, so by other means than Parse.
type oracle struct {
	code    int // 0: accepted
	kind    Kind
	id      string
	method  string
	members map[string]jsontext.Value
}

func judge(b []byte) oracle {
	parse := oracle{code: CodeParse}
	if !utf8.Valid(b) || depthOf(b) > MaxDepth {
		return parse
	}
	dec := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	v, err := dec.ReadValue()
	if err != nil {
		return parse
	}
	v = bytes.Clone(v)
	if _, err := dec.ReadToken(); err != io.EOF {
		return parse
	}
	o := oracle{code: CodeInvalidRequest, members: map[string]jsontext.Value{}}
	if v.Kind() != '{' {
		return o
	}
	others := 0
	for name, value := range topLevel(v) {
		if len(value) != 1 {
			return o // duplicate
		}
		known := false
		for _, k := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if strings.EqualFold(name, k) {
				if name != k {
					return o
				}
				known = true
			}
		}
		if !known {
			others++
		}
		o.members[name] = value[0]
	}
	if others > MaxMembers || string(o.members["jsonrpc"]) != `"2.0"` {
		return o
	}
	return o.shape()
}

// shape says what kind of message the members make.
func (o oracle) shape() oracle {
	id, method := o.members["id"], o.members["method"]
	params, result, fault := o.members["params"], o.members["result"], o.members["error"]
	if id != nil && !strings.ContainsRune(`"0n`, rune(id.Kind())) || len(id) > MaxID || hasCompared(params, result) || hasBothCases(params) {
		return o
	}
	switch {
	case method != nil:
		if method.Kind() != '"' || string(method) == `""` || result != nil || fault != nil || id != nil && id.Kind() == 'n' {
			return o
		}
		if params != nil && params.Kind() != '{' && params.Kind() != 'n' {
			return o
		}
		o.kind = Notification
		if id != nil {
			o.kind = Request
		}
		text, _ := jsontext.AppendUnquote(nil, method)
		o.method = string(text)
	case id == nil || params != nil || (result == nil) == (fault == nil):
		return o
	case fault != nil && fault.Kind() != '{', result != nil && id.Kind() == 'n':
		return o
	default:
		o.kind = Response
	}
	o.code, o.id = 0, string(id)
	return o
}

// topLevel maps each name, escapes resolved, to all its values.
func topLevel(v jsontext.Value) map[string][]jsontext.Value {
	out := map[string][]jsontext.Value{}
	if v.Kind() != '{' {
		return out
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	_, _ = dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, _ := dec.ReadToken()
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			panic(err) // v was read before
		}
		out[key] = append(out[key], bytes.Clone(value))
	}
	return out
}

// hasCompared reports a duplicate or an endless token among the members that
// Parse compares.
func hasCompared(values ...jsontext.Value) bool {
	for _, v := range values {
		for name, all := range topLevel(v) {
			switch name {
			case "_meta":
				for n, metas := range topLevel(all[0]) {
					switch n {
					case "progressToken":
						if len(metas) > 1 || strings.ContainsRune(`"0`, rune(metas[0].Kind())) && len(metas[0]) > MaxID {
							return true
						}
					case "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/logLevel", "io.modelcontextprotocol/clientCapabilities",
						"io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId":
						if len(metas) > 1 {
							return true
						}
					}
				}
				fallthrough
			case "name", "uri", "protocolVersion", "capabilities", "requestState", "arguments", "inputResponses", "resultType", "ttlMs", "cacheScope":
				if len(all) > 1 {
					return true
				}
			case "requestId", "progressToken":
				if len(all) > 1 || strings.ContainsRune(`"0`, rune(all[0].Kind())) && len(all[0]) > MaxID {
					return true
				}
			}
		}
	}
	return false
}

// hasBothCases reports a member of params, or of _meta there, that Parse compares beside one of
// the same name in another case.
func hasBothCases(params jsontext.Value) bool {
	both := func(members map[string][]jsontext.Value, compared ...string) bool {
		for _, c := range compared {
			for name := range members {
				if name != c && members[c] != nil && strings.EqualFold(name, c) {
					return true
				}
			}
		}
		return false
	}
	members := topLevel(params)
	if both(members, "_meta", "name", "uri", "requestId", "progressToken", "protocolVersion", "capabilities", "task", "requestState", "arguments", "inputResponses") {
		return true
	}
	const ours = "io.modelcontextprotocol/"
	return members["_meta"] != nil && both(topLevel(members["_meta"][0]), "progressToken",
		ours+"protocolVersion", ours+"logLevel", ours+"clientCapabilities", ours+"clientInfo")
}

// depthOf is the deepest nesting of a text that may be no JSON at all.
func depthOf(b []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// FuzzParse: Parse and the oracle accept the same texts and read the same things
// from them, and what is written with other ids parses again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","_meta":{"progressToken":"\ud800"}}}`,
		`{"jsonrpc":"2.0","id":"x","result":{"protocolVersion":"2025-06-18","a":[1,2.5e-3,true,false,null]}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1}}`,
		`{"jsonrpc":"2.0","method":"m","m\u0065thod":"n"}`,
		`{"jsonrpc":"2.0","method":"m","params":null,"x":{},"X":[]}`,
		"{\"jsonrpc\":\"2.0\",\"method\":\"aaaaaaaaaaaa\xff\"}",
		` [1] `, `1`, `"`, `{"a":"\u12`, `{"a":-}`, `{"a":01}`, `{"":"","":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		want := judge(b)
		var e *Error
		switch {
		case err == nil && want.code != 0:
			t.Fatalf("accepted, the oracle refuses with %d", want.code)
		case err == nil:
		case !errors.As(err, &e):
			t.Fatalf("error of another type: %v", err)
		case e.Batch:
			return // refused at the first byte, unread
		case want.code == 0:
			t.Fatalf("refused, the oracle accepts: %v", err)
		case (e.Code == CodeParse) != (want.code == CodeParse):
			t.Fatalf("refused with %v, the oracle with %d", err, want.code)
		}
		if err != nil {
			return
		}
		if m.Kind != want.kind || string(m.IDBytes()) != want.id || string(m.Method()) != want.method {
			t.Fatalf("got %v %q %q, want %v %q %q", m.Kind, m.IDBytes(), m.Method(), want.kind, want.id, want.method)
		}
		line := AppendLine(nil, m.Raw, Edit{m.ID, []byte("7")})
		if bytes.Count(line, []byte("\n")) != 1 || bytes.IndexByte(line, '\r') >= 0 {
			t.Fatalf("not one line: %q", line)
		}
		again, err := Parse(line)
		if err != nil || again.Kind != m.Kind || m.ID.Present() && string(again.IDBytes()) != "7" {
			t.Fatalf("what was written reads as %v, %v", again.Kind, err)
		}
	})
}

// FuzzBatch: an array's elements are those that jsontext finds.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(`[{"jsonrpc":"2.0","id":1,"result":{}},"é",[1,[]]]`))
	f.Add([]byte(`[1,]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got []string
		var failed error
		for e, err := range Batch(b) {
			if err != nil {
				failed = err
				break
			}
			got = append(got, string(e))
		}
		dec := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		v, err := dec.ReadValue()
		if err == nil {
			v = bytes.Clone(v)
			_, err = dec.ReadToken()
		}
		valid := err == io.EOF && v.Kind() == '[' && utf8.Valid(b) && depthOf(b) <= MaxWorkerDepth+1
		inner := bytes.TrimSpace(v)
		if valid && len(bytes.TrimSpace(inner[1:len(inner)-1])) == 0 {
			valid = false // an empty batch is none
		}
		if valid != (failed == nil) {
			t.Fatalf("got %v, valid is %v", failed, valid)
		}
		if !valid {
			return
		}
		dec = jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		_, _ = dec.ReadToken()
		for i := 0; dec.PeekKind() != ']'; i++ {
			e, err := dec.ReadValue()
			if err != nil || i >= len(got) || string(e) != got[i] {
				t.Fatalf("element %d: %v %q of %q", i, err, e, got)
			}
		}
	})
}

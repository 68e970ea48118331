package jsonrpc

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestEdits(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing there", `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{"first", `{"jsonrpc":"2.0","id":1,"result":{"resultType":1,"a":1}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{"last", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"resultType":1}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{"both ends", `{"jsonrpc":"2.0","id":1,"result":{"resultType":1,"a":1,"ttlMs":1}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{"in a row, at the start", `{"jsonrpc":"2.0","id":1,"result":{"resultType":1 , "ttlMs":[1], "cacheScope":{}, "a":1}}`, `{"jsonrpc":"2.0","id":7,"result":{   "a":1}}`},
		{"in a row, at the end", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"resultType" : 1 , "ttlMs":[1]}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1 }}`},
		{"every other one", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"resultType":1,"b":2,"ttlMs":1,"c":3}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":1,"b":2,"c":3}}`},
		{"with an escaped name", `{"jsonrpc":"2.0","id":1,"result":{"a":"\",","resul\u0074Type":1}}`, `{"jsonrpc":"2.0","id":7,"result":{"a":"\","}}`},
		{"all", `{"jsonrpc":"2.0","id":1,"result":{"resultType":1, "ttlMs":1 }}`, `{"jsonrpc":"2.0","id":7}`},
		{"all, in front of the id", `{"jsonrpc":"2.0","result":{"resultType":1},"id":1}`, `{"jsonrpc":"2.0","id":7}`},
	} {
		m := parsed(t, c.in)
		var e Edits
		if e.Drop(m.Raw, m.Result, m.CacheScope, m.ResultType, m.TTL) {
			e.Drop(m.Raw, Span{0, uint32(len(m.Raw))}, m.Result)
		}
		e.Replace(m.ID, []byte("7"))
		if got := string(e.Append(nil, m.Raw)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	for in, want := range map[string]string{`{}`: `{"x":1,"y":2}`, `{ }`: `{ "x":1,"y":2}`, `{"a":{}}`: `{"a":{},"x":1,"y":2}`, "{\"a\":1\n}": "{\"a\":1\n,\"x\":1,\"y\":2}"} {
		m := parsed(t, `{"jsonrpc":"2.0","id":1,"result":`+in+`}`)
		var e Edits
		e.Add(m.Raw, m.Result, []byte(`"x":1`))
		e.Add(m.Raw, m.Result, []byte(`"y":2`))
		if got := string(e.Append([]byte(">"), m.Raw)); got != `>{"jsonrpc":"2.0","id":1,"result":`+want+`}` {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func parsed(t testing.TB, text string) *Message {
	t.Helper()
	m, err := ParseWorker([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &m
}

// FuzzDrop: what is left is what a decoder finds without those members.
func FuzzDrop(f *testing.F) {
	for _, s := range []string{`{"resultType":1,"a":2}`, `{ "ttlMs" : 1 , "resultType":[]}`, `{"a":{"resultType":1},"cacheScope":"x","b":[1,{}]}`, "{\"a\":\"}\",\n\"ttlMs\":\"{,\"\n}", `{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), b...), '}')
		m, err := ParseWorker(text)
		var all map[string]any
		if err != nil || json.Unmarshal(m.Result.Of(m.Raw), &all) != nil || all == nil {
			return
		}
		for _, name := range []string{"resultType", "ttlMs", "cacheScope"} {
			delete(all, name)
		}
		var e Edits
		if e.Drop(m.Raw, m.Result, m.ResultType, m.TTL, m.CacheScope) {
			if len(all) != 0 {
				t.Fatalf("%s: empty, with %v left", b, all)
			}
			return
		}
		out, err := ParseWorker(e.Append(nil, m.Raw))
		var left map[string]any
		if err != nil || json.Unmarshal(out.Result.Of(out.Raw), &left) != nil || !reflect.DeepEqual(all, left) {
			t.Fatalf("%s became %s: %v", b, out.Raw, err)
		}
	})
}

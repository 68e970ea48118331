package router

import (
	"net/http"
	"strings"
	"testing"
)

func TestAccept(t *testing.T) {
	both, json, events, none := accepted{json: true, events: true}, accepted{json: true}, accepted{events: true}, accepted{}
	rather := accepted{true, true, true}
	for _, c := range []struct {
		name   string
		fields []string
		want   accepted
	}{
		{"what clients send", []string{"application/json, text/event-stream"}, both},
		{"missing", nil, both},
		{"empty", []string{""}, both},
		{"commas only", []string{" , ,"}, both},
		{"anything", []string{"*/*"}, both},
		{"JSON", []string{"application/json"}, json},
		{"events", []string{"text/event-stream"}, events},
		{"all of application", []string{"application/*"}, json},
		{"all of text", []string{"text/*"}, events},
		{"other order, with quality", []string{"text/event-stream;q=0.5, application/json"}, both},
		{"events first", []string{"text/event-stream, application/json"}, rather},
		{"events at a higher quality", []string{"application/json;q=0.9, text/event-stream"}, rather},
		{"events first at a lower quality", []string{"text/event-stream;q=0.999, application/json"}, both},
		{"events first in two lines", []string{"text/event-stream", "application/json"}, rather},
		{"events, and anything else less", []string{"text/event-stream, */*;q=0.1"}, rather},
		{"a quality that is none", []string{"application/json;q=x, text/event-stream;q=2"}, both},
		{"upper case", []string{"APPLICATION/JSON, Text/Event-Stream"}, both},
		{"two lines", []string{"application/json", "text/event-stream"}, both},
		{"spaces and tabs", []string{"application/json\t ,  text/event-stream ; q=1"}, both},
		{"with parameters", []string{`application/json;charset=utf-8, text/event-stream; a="b,c;d"`}, both},
		{"a quoted comma", []string{`text/html;a="x, application/json", text/event-stream`}, events},
		{"a quoted escape", []string{`text/html;a="x\", application/json"`}, none},
		{"JSON refused", []string{"application/json;q=0, text/event-stream"}, events},
		{"JSON refused, however it is written", []string{"application/json; Q=0.000, */*"}, events},
		{"all but events", []string{"*/*, text/event-stream;q=0"}, json},
		{"more specific wins over anything", []string{"*/*;q=0, application/json"}, json},
		{"more specific wins over a type", []string{"application/*, application/json;q=0"}, none},
		{"of two alike the friendlier", []string{"application/json;q=0, application/json"}, json},
		{"anything at low quality", []string{"text/html, */*;q=0.1"}, both},
		{"a browser", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, both},
		{"HTML", []string{"text/html"}, none},
		{"JSON of another kind", []string{"application/jsonrpc, application/json5, application/ld+json"}, none},
		{"JSON in a longer name", []string{"xapplication/json"}, none},
		{"no subtype", []string{"application"}, none},
		{"empty subtype", []string{"application/"}, none},
		{"any type of JSON", []string{"*/json"}, none},
		{"everything refused", []string{"*/*;q=0"}, none},
		{"nonsense beside a good one", []string{"///, =;=, application/json"}, json},
	} {
		if got := accepts(c.fields); got != c.want {
			t.Errorf("%s: %q: got %+v, want %+v", c.name, c.fields, got, c.want)
		}
	}
}

func TestContentType(t *testing.T) {
	for _, c := range []struct {
		name string
		h    http.Header
		want kind
	}{
		{"JSON", http.Header{"Content-Type": {"application/json"}}, 0},
		{"charset", http.Header{"Content-Type": {"application/json; charset=utf-8"}}, 0},
		{"upper case", http.Header{"Content-Type": {"Application/JSON; Charset=UTF-8"}}, 0},
		{"quoted charset", http.Header{"Content-Type": {`application/json;charset="utf-8"`}}, 0},
		{"another parameter", http.Header{"Content-Type": {"application/json; v=1"}}, 0},
		{"identity", http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity"}}, 0},

		{"missing", http.Header{}, kindContentType},
		{"empty", http.Header{"Content-Type": {""}}, kindContentType},
		{"text", http.Header{"Content-Type": {"text/plain"}}, kindContentType},
		{"form", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, kindContentType},
		{"longer name", http.Header{"Content-Type": {"application/jsonp"}}, kindContentType},
		{"JSON in a parameter", http.Header{"Content-Type": {"text/plain; x=application/json"}}, kindContentType},
		{"another charset", http.Header{"Content-Type": {"application/json; charset=latin1"}}, kindContentType},
		{"two", http.Header{"Content-Type": {"application/json", "application/json"}}, kindContentType},
		{"two in one", http.Header{"Content-Type": {"application/json, text/plain"}}, kindContentType},
		{"gzip", http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, kindEncoding},
		{"gzip and identity", http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity", "gzip"}}, kindEncoding},
	} {
		got := kindInternal
		if r := checkContent(c.h); r != nil {
			got = r.kind
		}
		if got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// FuzzAccept checks that reading never fails, that order and case of the elements
// do not matter, and that refusing everything in the end refuses what was not named.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"application/json, text/event-stream", "*/*;q=0", `a/b;c="d,e"`, "application/json;q=0.0", ";;;", "text/*,*/*;q=0.1", `"`, `\`} {
		f.Add(s, "text/event-stream")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got := accepts([]string{a, b})
		if again := accepts([]string{b, a}); again.json != got.json || again.events != got.events {
			t.Errorf("%q, %q: %+v, the other way round %+v", a, b, got, again)
		}
		if upper := accepts([]string{asciiUpper(a), asciiUpper(b)}); upper != got {
			t.Errorf("%q, %q: %+v, in upper case %+v", a, b, got, upper)
		}
		if !strings.Contains(strings.ToLower(a+b), "json") && !strings.Contains(a+b, "*") && strings.Trim(a+b, ", \t") != "" && got.json {
			t.Errorf("%q, %q admits JSON", a, b)
		}
	})
}

func asciiUpper(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

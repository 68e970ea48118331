package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gatehouse/auth/identity"
)

func TestTraceLine(t *testing.T) {
	alice := identity.Principal{Subject: "alice"}
	for _, c := range []struct {
		name, body string
		limit      int
		want       string
	}{
		{"whole", `{"a":1}`, 100, `{"a":1}`},
		{"exactly", `{"a":1}`, 7, `{"a":1}`},
		{"cut", `{"a":1}`, 4, `{"a"...(+3 more)`},
		{"nothing shown", `{"a":1}`, 0, `...(+7 more)`},
		{"negative", `{"a":1}`, -1, `...(+7 more)`},
		{"empty", ``, 0, ``},
		{"between characters", "aä€", 2, "a...(+5 more)"},
		{"no text at all", "\xff\x80\x80\x80\x80\x80\x80", 5, "\ufffd...(+6 more)"},
		{"line ends and tabs", "a\r\n\tb", 100, "a\r\n\tb"},
	} {
		var out bytes.Buffer
		NewTrace(&out, c.limit).Message(In, "POST", "/mcp", "abcdef", alice, []byte(c.body))
		var got struct {
			Dir, Method, Path, Session, Sub, Body string
			Size                                  int
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: line %q: %v", c.name, out.String(), err)
		}
		if got.Dir != "in" || got.Method != "POST" || got.Path != "/mcp" || got.Session != "abcdef" || got.Sub != "alice" || got.Size != len(c.body) || got.Body != c.want {
			t.Errorf("%s: got %+v, want body %q", c.name, got, c.want)
		}
	}
}

func TestNilTraceIsOff(t *testing.T) {
	var none *Trace
	none.Message(Out, "POST", "/mcp", "", identity.Principal{}, []byte("x"))
}

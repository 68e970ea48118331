package jsonrpc

import (
	"errors"
	"slices"
	"testing"
)

func TestAppendLine(t *testing.T) {
	text := []byte("{\r\n\"jsonrpc\":\"2.0\",\n\"id\":\"a\",\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":\"p\"},\n\"x\":\"\\n\"}}\n")
	m, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	got := AppendLine([]byte(">"), m.Raw, Edit{m.ID, []byte("17")}, Edit{m.RequestID, []byte("absent")}, Edit{m.MetaProgressToken, []byte("18")})
	want := `>{  "jsonrpc":"2.0", "id":17,"method":"m","params":{"_meta":{"progressToken":18}, "x":"\n"}}` + "\n"
	if string(got) != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if again, err := Parse(got[1:]); err != nil || string(again.IDBytes()) != "17" {
		t.Errorf("what was written does not parse: %v", err)
	}
}

func TestAppendEditedOutOfOrderPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	AppendEdited(nil, []byte("abcdef"), Edit{Span{3, 4}, nil}, Edit{Span{1, 2}, nil})
}

func TestSameToken(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1`, true}, {`"1"`, `1`, false}, {`"a/b"`, `"a\/b"`, true}, {`"\u0061"`, `"a"`, true},
		{`"a"`, `"b"`, false}, {`1`, `1.0`, false}, {``, ``, false},
	} {
		if got := SameToken([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestUnquote(t *testing.T) {
	for raw, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\ud83d\ude00"`: "😀", `"\ud800x"`: "\ufffdx",
	} {
		if got := string(Unquote([]byte(raw))); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
	if Unquote([]byte("12")) != nil || Unquote(nil) != nil {
		t.Error("what is no string has no text")
	}
}

func TestMembers(t *testing.T) {
	var got []string
	for name, value := range Members([]byte(`{ "a" : {"b":1} , "\u0063":[2] }`)) {
		got = append(got, name+"="+string(value))
	}
	if want := []string{`a={"b":1}`, `c=[2]`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range Members([]byte(`[1]`)) {
		t.Error("an array has no members")
	}
	for range Members(nil) {
		t.Error("nothing has no members")
	}
}

func TestBatch(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
		err  error
	}{
		{` [{"a":1}, {"b":[2]} ] `, []string{`{"a":1}`, `{"b":[2]}`}, nil},
		{`[1]x`, []string{`1`}, errTrailing},
		{`[1,`, []string{`1`}, errSyntax},
		{`[]`, nil, errSyntax},
		{`{}`, nil, errSyntax},
	} {
		var got []string
		var failed error
		for e, err := range Batch([]byte(c.text)) {
			if err != nil {
				failed = err
				continue
			}
			got = append(got, string(e))
		}
		if !slices.Equal(got, c.want) || !errors.Is(failed, c.err) {
			t.Errorf("%s: got %q %v, want %q %v", c.text, got, failed, c.want, c.err)
		}
	}
}

package printable_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gatehouse/auth/printable"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain text":               "plain text",
		"Zoë 日本 🙂":                 "Zoë 日本 🙂",
		"a\r\nb\tc\x00\x7f":        `a\u000d\u000ab\u0009c\u0000\u007f`,
		"\x1b]0;title\x07\u009b2J": `\u001b]0;title\u0007\u009b2J`,
		"\u202eevil\u2066\u200f":   `\u202eevil\u2066\u200f`,
		"a\u200bb\u00a0c\u2028d":   `a\u200bb\u00a0c\u2028d`,
		"\U000e0041":               `\U000e0041`,
		"\xff\xc3":                 `\xff\xc3`,
		"\ufffd":                   "\ufffd",
	} {
		if got := printable.Text(in, 100); got != want {
			t.Errorf("%+q: %s, want %s", in, got, want)
		}
	}
}

func TestASCII(t *testing.T) {
	for in, want := range map[string]string{
		`"mcp:use"`:            `"mcp:use"`,
		"m\u0441p:use\n\xff 🙂": `m\u0441p:use\u000a\xff \U0001f642`,
	} {
		if got := printable.ASCII(in, 100); got != want {
			t.Errorf("%+q: %s, want %s", in, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"":               `""`,
		"alice":          `"alice"`,
		"Zoë \"\u202e\n": `"Zo\u00eb \"\u202e\n"`,
		"\xff":           `"\xff"`,
	} {
		if got := printable.Quoted(in, 100); got != want {
			t.Errorf("%+q: %s, want %s", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in     string
		limit  int
		text   string
		quoted string
	}{
		{"abc", 3, "abc", `"abc"`},
		{"abcd", 3, "abc…", `"abc"…`},
		{"éé", 3, "é…", `"\u00e9"…`},
		{"🙂", 3, "…", `""…`},
		{"\x80\x80\x80\x80\x80\x80", 5, `\x80…`, `"\x80"…`},
		{"abc", 0, "…", `""…`},
		{"abc", -1, "…", `""…`},
	} {
		if got := printable.Text(c.in, c.limit); got != c.text {
			t.Errorf("Text(%+q, %d): %s, want %s", c.in, c.limit, got, c.text)
		}
		if got := printable.Quoted(c.in, c.limit); got != c.quoted {
			t.Errorf("Quoted(%+q, %d): %s, want %s", c.in, c.limit, got, c.quoted)
		}
	}
}

// Most of what is shown needs nothing, and some of it stands in every request's line.
func TestPlainTextCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { printable.Text("https://issuer.test/realms/lab", 64) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("plain", 10)
	f.Add("\x1b[2J\u009b\u202e\u2028\xff\U000e0041", 7)
	f.Add(strings.Repeat("é", 20), 11)
	f.Add("\x80\x80\x80\x80\x80", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		text := printable.Text(s, limit)
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(text) {
			t.Errorf("%+q holds what is not printable", text)
		}
		if most := 6*max(0, min(limit, len(s))) + len("…"); len(text) > most {
			t.Errorf("%d bytes, at most %d were promised", len(text), most)
		}
		if again := printable.Text(text, len(text)); again != text {
			t.Errorf("%+q becomes %+q when it is made printable again", text, again)
		}
		if len(s) <= limit && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && text != s {
			t.Errorf("%+q was printable and became %+q", s, text)
		}

		ascii := printable.ASCII(s, limit)
		if notVisible(strings.TrimSuffix(ascii, "…")) || printable.Text(ascii, len(ascii)) != ascii {
			t.Errorf("%+q is not visible ASCII", ascii)
		}

		quoted, short := strings.CutSuffix(printable.Quoted(s, limit), "…")
		value, err := strconv.Unquote(quoted)
		if err != nil || !strings.HasPrefix(s, value) || short != (len(s) > limit) || !short && value != s || len(value) > max(0, limit) {
			t.Errorf("Quoted(%+q, %d) is %s: %+q, %v", s, limit, quoted, value, err)
		}
		if notVisible(quoted) {
			t.Errorf("%+q is not visible ASCII", quoted)
		}
	})
}

func notVisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

package auth

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"gatehouse/auth/token"
)

const shaped = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln"

func TestCredentials(t *testing.T) {
	long := strings.Repeat("a", 8000) + ".b.c"
	for _, c := range []struct {
		name   string
		fields []string
		want   Kind
		tok    token.Kind
	}{
		{"a token", []string{"Bearer " + shaped}, accepted, 0},
		{"lower case scheme", []string{"bearer " + shaped}, accepted, 0},
		{"upper case scheme", []string{"BEARER " + shaped}, accepted, 0},
		{"two spaces", []string{"Bearer  " + shaped}, accepted, 0},
		{"a tab", []string{"Bearer\t" + shaped}, accepted, 0},
		{"spaces and tabs", []string{"Bearer \t \t" + shaped}, accepted, 0},
		{"space at the end", []string{"Bearer " + shaped + "  "}, accepted, 0},

		{"no field", nil, KindNoCredentials, 0},
		{"another scheme", []string{"Basic dXNlcjpwYXNz"}, KindNoCredentials, 0},
		{"another scheme without credentials", []string{"Negotiate"}, KindNoCredentials, 0},
		{"another scheme with quoted parameters", []string{`Digest username="alice", nonce="x", response="y"`}, KindNoCredentials, 0},
		{"a quote behind a bare token", []string{shaped + `"`}, KindQuoted, 0},
		{"a bound token's scheme", []string{"DPoP " + shaped}, KindNoCredentials, 0},
		{"a word that begins with the scheme", []string{"Bearerx " + shaped}, KindNoCredentials, 0},

		{"two fields", []string{"Bearer " + shaped, "Bearer " + shaped}, KindTwoFields, 0},
		{"two fields, one empty", []string{"", "Bearer " + shaped}, KindTwoFields, 0},
		{"an empty field", []string{""}, KindSyntax, 0},
		{"scheme alone", []string{"Bearer"}, KindSyntax, 0},
		{"scheme and spaces", []string{"Bearer   "}, KindSyntax, 0},
		{"two tokens", []string{"Bearer a b"}, KindSyntax, 0},
		{"two fields that a proxy joined", []string{"Bearer " + shaped + ", Bearer " + shaped}, KindSyntax, 0},
		{"a token with a parameter", []string{"Bearer " + shaped + " realm=x"}, KindSyntax, 0},
		{"control byte", []string{"Bearer " + shaped + "\x01"}, KindSyntax, 0},
		{"NUL", []string{"Bearer \x00" + shaped}, KindSyntax, 0},
		{"line end", []string{"Bearer a\r\n b"}, KindSyntax, 0},
		{"byte above ASCII", []string{"Bearer " + shaped + "\u00e9"}, KindSyntax, 0},
		{"no-break space", []string{"Bearer\u00a0" + shaped}, KindSyntax, 0},

		{"no scheme", []string{shaped}, KindBareToken, 0},
		{"scheme twice", []string{"Bearer Bearer " + shaped}, KindDoubledScheme, 0},
		{"scheme twice, other case", []string{"Bearer bearer " + shaped}, KindDoubledScheme, 0},
		{"scheme twice and nothing", []string{"Bearer Bearer"}, KindDoubledScheme, 0},
		{"quoted token", []string{`Bearer "` + shaped + `"`}, KindQuoted, 0},
		{"single quotes", []string{`Bearer '` + shaped + `'`}, KindQuoted, 0},
		{"quoted field", []string{`"Bearer ` + shaped + `"`}, KindQuoted, 0},
		{"one quote at the end", []string{`Bearer ` + shaped + `"`}, KindQuoted, 0},
		{"shell variable", []string{"Bearer ${TOKEN}"}, KindUnexpanded, 0},
		{"short shell variable", []string{"Bearer $TOKEN"}, KindUnexpanded, 0},
		{"settings variable", []string{"Bearer ${input:token}"}, KindUnexpanded, 0},
		{"batch file variable", []string{"Bearer %TOKEN%"}, KindUnexpanded, 0},
		{"template variable", []string{"Bearer {{token}}"}, KindUnexpanded, 0},
		{"variable for all of it", []string{"${AUTH_HEADER}"}, KindUnexpanded, 0},

		{"one segment", []string{"Bearer opaque-token"}, KindToken, token.KindMalformed},
		{"two segments", []string{"Bearer a.b"}, KindToken, token.KindMalformed},
		{"four segments", []string{"Bearer a.b.c.d"}, KindToken, token.KindMalformed},
		{"five segments", []string{"Bearer a.b.c.d.e"}, KindToken, token.KindMalformed},
		{"empty segment", []string{"Bearer a..c"}, KindToken, token.KindMalformed},
		{"no signature", []string{"Bearer a.b."}, KindToken, token.KindMalformed},
		{"padding", []string{"Bearer a.b.c="}, KindToken, token.KindMalformed},
		{"base64 instead of base64url", []string{"Bearer a+b.c/d.e"}, KindToken, token.KindMalformed},
		{"a million dots", []string{"Bearer " + strings.Repeat(".", 1<<20)}, KindToken, token.KindMalformed},
		{"longest token", []string{"Bearer " + long[:8000]}, KindToken, token.KindMalformed},
		{"one byte too long", []string{"Bearer " + strings.Repeat("a", 8192) + ".b.c"}, KindToken, token.KindMalformed},
	} {
		got, r := credentials(c.fields, 8192)
		switch {
		case c.want == accepted && (r != nil || got != shaped):
			t.Errorf("%s: got %q, %v, want the token", c.name, got, r)
		case c.want != accepted && (r == nil || r.Kind != c.want || r.Token != c.tok || got != ""):
			t.Errorf("%s: got %q, %+v, want kind %v, token kind %v", c.name, got, r, c.want, c.tok)
		}
	}
	if got, r := credentials([]string{"Bearer " + long}, 8192); got != long {
		t.Errorf("token below the limit: %v", r)
	}
}

// accepted stands in the table for "no refusal".
const accepted = Kind(255)

// A refused token is never a part of the reason, which goes to the log.
func TestCredentialsReasonHasNoToken(t *testing.T) {
	for _, f := range []string{shaped, "Bearer Bearer " + shaped, `Bearer "` + shaped + `"`, "Bearer " + shaped + " " + shaped, "Bearer " + shaped + "=="} {
		_, r := credentials([]string{f}, 8192)
		if r == nil {
			t.Errorf("%q: accepted", f)
		} else if strings.Contains(r.Reason, "eyJ") {
			t.Errorf("%q: reason %q shows it", f, r.Reason)
		}
	}
}

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// FuzzCredentials checks that what is let through has the form that security
// depends on, and that one field is exactly as good as its bytes.
func FuzzCredentials(f *testing.F) {
	for _, s := range []string{"Bearer " + shaped, "bearer\t" + shaped, "Bearer a b", "", "Bearer ", "${X}", `"x"`, "Bearer Bearer a.b.c", "%", "Basic x", "Bearer a.b.c\x00"} {
		f.Add(s, 100)
	}
	f.Fuzz(func(t *testing.T, field string, limit int) {
		limit = max(limit, 1) % token.MaxBytes
		got, r := credentials([]string{field}, limit)
		if (r == nil) == (got == "") {
			t.Fatalf("got %q and %v", got, r)
		}
		if r != nil {
			if r.Kind == KindInternal || r.Reason == "" {
				t.Fatalf("refusal without a ground: %+v", r)
			}
			return
		}
		if !tokenForm.MatchString(got) || len(got) > limit || !strings.Contains(field, got) {
			t.Fatalf("let %q through", got)
		}
		if rest := strings.Trim(strings.TrimSuffix(strings.TrimRight(field, " \t"), got), " \t"); !strings.EqualFold(rest, "bearer") {
			t.Fatalf("let a token through behind %q", rest)
		}
		if _, r := credentials([]string{field, field}, limit); r == nil || r.Kind != KindTwoFields {
			t.Fatal("two fields passed")
		}
	})
}

func TestLoopbackNeedsNoToken(t *testing.T) {
	c, r := Loopback{}.Admit(t.Context(), http.Header{"Authorization": {"Bearer " + shaped}})
	if r != nil || c.Token != "" || !c.Expiry.IsZero() || c.Principal.Subject != "local-user" {
		t.Errorf("got %+v, %v", c, r)
	}
}

package auth

import (
	"strings"

	"gatehouse/auth/token"
)

const scheme = "Bearer"

// credentials returns the bearer token of a request whose Authorization fields
// are given (RFC 6750 section 2.1, RFC 9110 section 11.4), or why there is none.
// Tokens in the query or the body are never looked at (OAuth 2.1 section 5.1).
//
// A token has at most limit bytes and is three non-empty base64url segments; the
// mistakes that people make when they paste one into a client's settings are
// told apart, so that the answer can name them.
func credentials(fields []string, limit int) (string, *Refusal) {
	switch len(fields) {
	case 0:
		return "", &Refusal{Kind: KindNoCredentials, Reason: "no Authorization field"}
	case 1:
	default:
		return "", &Refusal{Kind: KindTwoFields, Reason: "more than one Authorization field"}
	}
	v := strings.Trim(fields[0], " \t")
	if v == "" {
		return "", &Refusal{Kind: KindSyntax, Reason: "empty Authorization field"}
	}
	if !visible(v) {
		return "", &Refusal{Kind: KindSyntax, Reason: "byte outside printable ASCII in the Authorization field"}
	}
	name, rest := v, ""
	if i := strings.IndexAny(v, " \t"); i >= 0 {
		name, rest = v[:i], strings.TrimLeft(v[i:], " \t")
	}
	if !strings.EqualFold(name, scheme) {
		return "", notBearer(name, v)
	}
	if k := misuse(rest); k != KindInternal {
		return "", &Refusal{Kind: k, Reason: "the text after the scheme is no token"}
	}
	if len(rest) > limit {
		return "", &Refusal{Kind: KindToken, Token: token.KindMalformed, Reason: "token longer than the limit"}
	}
	if !threeSegments(rest) {
		return "", &Refusal{Kind: KindToken, Token: token.KindMalformed, Reason: "token is not three base64url segments"}
	}
	return rest, nil
}

// notBearer tells a field that was meant to be a bearer token from one of
// another scheme. name is the field's first word, v the whole of it.
func notBearer(name, v string) *Refusal {
	switch {
	case unexpanded(v):
		return &Refusal{Kind: KindUnexpanded, Reason: "unexpanded variable in the Authorization field"}
	case quoted(name): // not v: the parameters of other schemes end in quotation marks
		return &Refusal{Kind: KindQuoted, Reason: "quotation marks around the Authorization field"}
	case len(name) == len(v) && threeSegments(v):
		return &Refusal{Kind: KindBareToken, Reason: "token without a scheme"}
	}
	return &Refusal{Kind: KindNoCredentials, Reason: "scheme is not Bearer"}
}

// misuse names what is wrong with the text after the scheme, or KindInternal
// when it may be a token.
func misuse(rest string) Kind {
	word := rest
	i := strings.IndexAny(rest, " \t")
	if i >= 0 {
		word = rest[:i]
	}
	switch {
	case rest == "":
		return KindSyntax
	case strings.EqualFold(word, scheme):
		return KindDoubledScheme
	case unexpanded(rest):
		return KindUnexpanded
	case quoted(rest):
		return KindQuoted
	case i >= 0:
		return KindSyntax
	}
	return KindInternal
}

// unexpanded reports the variable spellings of the shells and of clients'
// settings files: ${NAME}, $NAME, $env:NAME, %NAME%, {{name}}.
func unexpanded(s string) bool {
	return s[0] == '$' || strings.Contains(s, "${") || strings.Contains(s, "{{") ||
		len(s) > 2 && s[0] == '%' && s[len(s)-1] == '%'
}

func quoted(s string) bool {
	return strings.IndexByte("\"'`", s[0]) >= 0 || strings.IndexByte("\"'`", s[len(s)-1]) >= 0
}

// visible reports whether s is visible ASCII, spaces and tabs.
func visible(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// threeSegments is ^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$ .
func threeSegments(s string) bool {
	dots, run := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if run == 0 {
				return false
			}
			dots, run = dots+1, 0
		case base64url[c]:
			run++
		default:
			return false
		}
	}
	return dots == 2 && run > 0
}

var base64url = func() (t [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		t[c] = true
	}
	return t
}()

package authtest

import (
	"math"
	"strings"
	"unicode/utf16"

	"gatehouse/auth/token"
)

// claims are rows C1 to C3, C13 and C14: who issued it, for whom, to whom.
func (w *World) claims(i *Issuer) []recipe {
	const issuer, audience, claims = token.KindWrongIssuer, token.KindWrongAudience, token.KindBadClaims
	replace := func(old, new string) Change {
		return EditPayload(func(p string) string { return strings.Replace(p, old, new, 1) })
	}
	subject := func(raw string) Change { return Claim("sub", Raw(`"`+raw+`"`)) }
	return []recipe{
		bad("C1", "iss with a slash behind", issuer, Claim("iss", i.URL+"/")),
		bad("C1", "iss with the host in upper case", issuer, Claim("iss", strings.Replace(i.URL, ".test", ".TEST", 1))),
		bad("C1", "iss over http", issuer, Claim("iss", strings.Replace(i.URL, "https", "http", 1))),
		bad("C1", "iss with the default port", issuer, Claim("iss", strings.Replace(i.URL, ".test", ".test:443", 1))),
		bad("C1", "iss that begins like ours", issuer, Claim("iss", i.URL+".attacker.test")),
		bad("C1", "iss without scheme", issuer, Claim("iss", strings.TrimPrefix(i.URL, "https://"))),
		bad("C1", "iss an array", issuer, Claim("iss", []string{i.URL})),
		bad("C1", "iss null", issuer, Claim("iss", nil)),
		bad("C1", "iss a number", issuer, Claim("iss", 1)),
		bad("C1", "iss empty", issuer, Claim("iss", "")),
		bad("C1", "iss missing", issuer, Without("iss")),
		bad("C1", "iss with a NUL behind", issuer, Claim("iss", i.URL+"\x00")),
		bad("C1", "iss with a space behind", issuer, Claim("iss", i.URL+" ")),
		good("ok", "iss with escaped slashes", replace(`"iss":"https://`, `"iss":"https:\/\/`)),

		bad("C2", "aud missing", audience, Without("aud")),
		bad("C2", "aud empty", audience, Claim("aud", "")),
		bad("C2", "aud an empty array", audience, Claim("aud", []string{})),
		bad("C2", "aud an array of an empty string", audience, Claim("aud", []string{""})),
		bad("C2", "aud an object", audience, Claim("aud", map[string]any{Audience: true})),
		bad("C2", "aud nested", audience, Claim("aud", [][]string{{Audience}})),
		bad("C2", "aud with a number beside us", audience, Claim("aud", []any{Audience, 1})),
		bad("C2", "aud with null beside us", audience, Claim("aud", []any{Audience, nil})),
		bad("C2", "aud null", audience, Claim("aud", nil)),
		bad("C2", "aud true", audience, Claim("aud", true)),
		bad("C2", "aud a number", audience, Claim("aud", 1)),
		bad("C2", "aud a prefix of ours", audience, Claim("aud", "https://mcp.test:8443")),
		bad("C2", "aud longer than ours", audience, Claim("aud", Audience+"/admin")),
		bad("C2", "aud with a slash behind", audience, Claim("aud", Audience+"/")),
		bad("C2", "aud in upper case", audience, Claim("aud", strings.ToUpper(Audience))),
		bad("C2", "aud account", audience, Claim("aud", []string{"account", "other"})),
		bad("C2", "aud the client's id", audience, Claim("aud", Client)),
		bad("C2", "aud the issuer", audience, Claim("aud", i.URL)),
		bad("C2", "aud with a fragment", audience, Claim("aud", Audience+"#x")),
		bad("C2", "aud a list in a string", audience, Claim("aud", "other "+Audience)),
		bad("C2", "aud a wildcard", audience, Claim("aud", "*")),
		good("C3", "aud of us alone in an array", Claim("aud", []string{Audience})),
		good("C3", "aud of us and others", Claim("aud", []string{"account", Audience, "other"})),

		bad("C13", "sub missing", claims, Without("sub")),
		bad("C13", "sub empty", claims, Claim("sub", "")),
		bad("C13", "sub null", claims, Claim("sub", nil)),
		bad("C13", "sub a number", claims, Claim("sub", 0)),
		bad("C13", "sub true", claims, Claim("sub", true)),
		bad("C13", "sub an array", claims, Claim("sub", []string{User})),
		bad("C13", "sub of 256 bytes", claims, Claim("sub", strings.Repeat("s", 256))),
		good("ok", "sub of 255 bytes", Claim("sub", strings.Repeat("s", 255))),
		good("ok", "sub beyond ASCII", Claim("sub", "Jürgen 🙂")),
		bad("C13", "sub with a line feed", claims, Claim("sub", "alice\nbob")),
		bad("C13", "sub with DEL", claims, Claim("sub", "alice\x7f")),
		bad("C13", "sub with a C1 control", claims, Claim("sub", "alice\u0085")),
		bad("C13", "jti missing", claims, Without("jti")),
		bad("C13", "jti empty", claims, Claim("jti", "")),
		bad("C13", "jti a number", claims, Claim("jti", 1)),
		bad("C13", "jti of 256 bytes", claims, Claim("jti", strings.Repeat("j", 256))),
		bad("C13", "sid a number", claims, Claim("sid", 1)),
		bad("C13", "sid with a tab", claims, Claim("sid", "a\tb")),

		bad("C14", "sub with invalid UTF-8", claims, subject("a\xffb")),
		bad("C14", "sub with a lone surrogate", claims, subject(`a\ud800`)),
		bad("C14", "sub with surrogates in the wrong order", claims, subject(`\udc00\ud800`)),
		bad("C14", "sub with a surrogate in UTF-8", claims, subject("\xed\xa0\x80")),
		bad("C14", "sub with an overlong encoding", claims, subject("\xc0\xae")),
		bad("C14", "sub with an escaped NUL", claims, subject(`root\u0000x`)),
		bad("C14", "sub with a raw NUL", claims, subject("root\x00x")),
		bad("C14", "lone surrogate in a claim that nobody reads", claims, Claim("nickname", Raw(`"\ud800"`))),
		bad("C14", "invalid UTF-8 in a claim that nobody reads", claims, Claim("nickname", Raw("\"\xff\""))),
		bad("C14", "invalid UTF-8 in a name", claims, Claim("nick\xff", "x")),
		good("ok", "sub with an escaped letter", subject(`\u0061lice`)),
	}
}

// scopes are row C18, with C19 and C21: claims that mean something, or nothing.
func (w *World) scopes() []recipe {
	const claims = token.KindBadClaims
	return []recipe{
		bad("C18", "scope an array", claims, Claim("scope", []string{"mcp:use"})),
		bad("C18", "scope a number", claims, Claim("scope", 1)),
		bad("C18", "scope null", claims, Claim("scope", nil)),
		bad("C18", "scope twice", claims, Twice("scope", "admin")),
		bad("C18", "scope with 201 items", claims, Claim("scope", strings.TrimSpace(strings.Repeat("x ", 201)))),
		bad("C18", "scope with CRLF", claims, Claim("scope", "mcp:use\r\nX-Evil: 1")),
		bad("C18", "scope with a tab", claims, Claim("scope", "mcp:use\tadmin")),
		bad("C18", "scope with a quotation mark", claims, Claim("scope", `mcp:use "`)),
		bad("C18", "scope with a backslash", claims, Claim("scope", `mcp:use\`)),
		bad("C18", "scope beyond ASCII", claims, Claim("scope", "mcp:usé")),
		bad("C18", "scope with a no-break space", claims, Claim("scope", "mcp:use\u00a0admin")),
		bad("C18", "scope of a hundred thousand items", token.KindMalformed, Claim("scope", strings.Repeat("x ", 100_000))),
		good("ok", "scope with 200 items", Claim("scope", strings.TrimSpace(strings.Repeat("x ", 200)))),
		good("ok", "scope missing", Without("scope")),
		good("ok", "scope empty", Claim("scope", "")),
		good("ok", "scope with more spaces than needed", Claim("scope", " mcp:use  files ")),
		good("C19", "claim sources, which are not resolved", Claim("_claim_names", map[string]any{"roles": "src"}),
			Claim("_claim_sources", map[string]any{"src": map[string]any{"endpoint": "http://169.254.169.254/"}})),
		good("C21", "claims that users can edit, which mean nothing", Claim("email", "root@localhost"), Claim("name", "root"), Claim("upn", "root")),
		good("C21", "account claim of a wrong type, which maps nobody", Claim(AcctClaim, []string{"root"})),
	}
}

// dates are rows C4 to C10.
func (w *World) dates(i *Issuer) []recipe {
	const claims, expired, early = token.KindBadClaims, token.KindExpired, token.KindNotYetValid
	now := w.Now.Unix()
	leeway := int64(Leeway.Seconds())
	at := func(name string, offset int64) Change { return Claim(name, now+offset) }
	raw := func(name, json string) Change { return Claim(name, Raw(json)) }
	return []recipe{
		bad("C4", "exp missing", claims, Without("exp")),
		bad("C4", "exp zero", claims, raw("exp", "0")),
		bad("C4", "exp minus zero", claims, raw("exp", "-0")),
		bad("C5", "exp a string", claims, Claim("exp", "9999999999")),
		bad("C5", "nbf a string", claims, Claim("nbf", "0")),
		bad("C6", "exp 1e300", claims, raw("exp", "1e300")),
		bad("C6", "exp 1e999", claims, raw("exp", "1e999")),
		bad("C6", "number beyond a double in a claim that nobody reads", claims, raw("n", "1e999")),
		bad("C6", "exp 1e19", claims, raw("exp", "1e19")),
		bad("C6", "exp -1", claims, raw("exp", "-1")),
		bad("C6", "exp true", claims, raw("exp", "true")),
		bad("C6", "exp null", claims, raw("exp", "null")),
		bad("C6", "exp an array", claims, raw("exp", "[9999999999]")),
		bad("C6", "nbf null", claims, raw("nbf", "null")),
		bad("C6", "nbf -1", claims, raw("nbf", "-1")),
		bad("C7", "exp 9e18", claims, raw("exp", "9e18")),
		bad("C7", "exp in 100 years", claims, at("exp", 100*365*86400)),
		bad("C7", "lives one second more than a day", claims, at("exp", 86401)),
		good("ok", "lives a day", at("exp", 86400)),
		bad("C7", "lives long because iat is old", claims, at("iat", -86400), at("exp", 60)),
		bad("C7", "exp before iat", claims, at("exp", -10), at("iat", 10)),
		bad("C7", "exp is iat", claims, at("exp", 0)),
		bad("C8", "expired by exactly the leeway", expired, at("exp", -leeway), at("iat", -300)),
		bad("C8", "expired a minute ago", expired, at("exp", -60), at("iat", -300)),
		bad("C8", "expired an hour ago", expired, at("exp", -3600), at("iat", -7200)),
		bad("C8", "exp 1", expired, raw("exp", "1")),
		good("C8", "expired within the leeway", at("exp", 1-leeway), at("iat", -300)),
		bad("C9", "nbf in four minutes", early, at("nbf", 240)),
		bad("C9", "nbf one second beyond the leeway", early, at("nbf", leeway+1)),
		good("C9", "nbf within the leeway", at("nbf", leeway)),
		good("ok", "nbf in the past", at("nbf", -10)),
		bad("C10", "iat in the future", early, at("iat", leeway+1)),
		bad("C10", "iat missing", claims, Without("iat")),
		bad("C10", "iat a string", claims, Claim("iat", "1")),
		bad("C10", "iat null", claims, raw("iat", "null")),
		bad("C10", "iat zero", claims, raw("iat", "0")),
		good("C10", "iat within the leeway", at("iat", leeway)),
		good("ok", "dates with fractions", Claim("exp", float64(now)+300.75), Claim("iat", float64(now)-0.5)),
		bad("C8", "expired and for another audience", token.KindWrongAudience, at("exp", -3600), at("iat", -7200), Claim("aud", "other")),
	}
}

// documents are rows C11, C12 and C15 to C17: payloads that two readers may read
// in two ways.
func (w *World) documents(i *Issuer) []recipe {
	const issuer, claims, expired = token.KindWrongIssuer, token.KindBadClaims, token.KindExpired
	now := w.Now.Unix()
	expiredChanges := []Change{Claim("exp", now-3600), Claim("iat", now-7200)}
	behind := func(s string) Change { return EditPayload(func(p string) string { return p + s }) }
	front := func(s string) Change { return EditPayload(func(p string) string { return s + p }) }
	utf16le := func(p string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune("\ufeff" + p)) {
			b.WriteByte(byte(u))
			b.WriteByte(byte(u >> 8))
		}
		return b.String()
	}
	nested := func(levels int) Change {
		return Claim("deep", Raw(strings.Repeat("[", levels)+strings.Repeat("]", levels)))
	}
	return []recipe{
		bad("C11", "sub twice", claims, Twice("sub", "bob")),
		bad("C11", "exp twice", claims, Twice("exp", now+300)),
		bad("C11", "aud twice", claims, Twice("aud", Audience)),
		bad("C11", "iss twice", claims, Twice("iss", i.URL)),
		bad("C11", "sub twice, once escaped", claims, Twice(`s\u0075b`, "bob")),
		bad("C11", "names twice in a claim that nobody reads", claims, Claim("realm_access", Raw(`{"roles":[],"roles":["admin"]}`))),
		bad("C12", "EXP extends an expired token", expired, append(expiredChanges, Claim("EXP", now+300))...),
		bad("C12", "Exp extends an expired token", expired, append(expiredChanges, Claim("Exp", now+300))...),
		bad("C12", "AUD in the place of aud", token.KindWrongAudience, Without("aud"), Claim("AUD", Audience)),
		bad("C12", "ISS in the place of iss", issuer, Without("iss"), Claim("ISS", i.URL)),
		bad("C12", "long s in the place of the s of iss", issuer, Without("iss"), Claim("i\u017fs", i.URL)),
		bad("C12", "SUB in the place of sub", claims, Without("sub"), Claim("SUB", User)),
		bad("C12", "sub with a space in its name", claims, Without("sub"), Claim("sub ", User)),
		good("C12", "SUB beside sub, which means nothing", Claim("SUB", "root")),
		bad("C15", "data behind the payload", claims, behind("x")),
		bad("C15", "second object behind the payload", claims, behind(`{"sub":"bob"}`)),
		bad("C15", "NUL behind the payload", claims, behind("\x00")),
		bad("C15", "brace too many", claims, behind("}")),
		good("ok", "white space around the payload", front(" \n"), behind("\t\r\n ")),
		bad("C16", "payload an array", claims, EditPayload(func(p string) string { return "[" + p + "]" })),
		bad("C16", "payload a string", claims, Payload(`"alice"`)),
		bad("C16", "payload a number", claims, Payload(`1`)),
		bad("C16", "payload null", claims, Payload(`null`)),
		bad("C16", "payload an empty object", issuerOrType(i), Payload(`{}`)),
		bad("C16", "payload with a byte-order mark", claims, front("\xef\xbb\xbf")),
		bad("C16", "payload in UTF-16", claims, EditPayload(utf16le)),
		bad("C16", "payload no JSON", claims, Payload(`sub=alice`)),
		bad("C16", "payload cut off", claims, EditPayload(func(p string) string { return p[:len(p)-1] })),
		bad("C16", "trailing comma", claims, EditPayload(func(p string) string { return p[:len(p)-1] + ",}" })),
		bad("C16", "comment", claims, front("/* */")),
		bad("C16", "single quotation marks", claims, EditPayload(func(p string) string { return strings.ReplaceAll(p, `"`, `'`) })),
		bad("C16", "NaN", claims, Claim("exp", Raw("NaN"))),
		bad("C16", "number in hexadecimal", claims, Claim("exp", Raw("0x7fffffff"))),
		bad("C16", "number with a leading zero", claims, Claim("exp", Raw("09999999999"))),
		bad("C17", "nested one level too deep", claims, nested(16)),
		bad("C17", "nested 5,000 deep", claims, nested(5000)),
		bad("C17", "nested 9,000 deep", token.KindMalformed, nested(9000)),
		bad("C17", "9,000 opened and none closed", claims, Payload(strings.Repeat("[", 9000))),
		good("ok", "nested as deep as may be", nested(15)),
		good("ok", "huge number in a claim that nobody reads", Claim("n", uint64(math.MaxUint64))),
	}
}

// issuerOrType is what is missed first in an empty payload.
func issuerOrType(i *Issuer) token.Kind {
	if i.Profile == token.ProfileKeycloak {
		return token.KindWrongType
	}
	return token.KindWrongIssuer
}

package authtest

import (
	"strings"

	"gatehouse/auth/token"
)

// headers are rows A14 to A20 and A22: what a header may say.
func (w *World) headers(i *Issuer) []recipe {
	const malformed, unverifiable, unknown = token.KindMalformed, token.KindUnverifiable, token.KindUnknownKey
	raw := func(s string) Change { return EditHeader(func(string) string { return s }) }
	prefix := func(s string) Change { return EditHeader(func(h string) string { return s + h }) }
	member := func(m string) Change { return EditHeader(func(h string) string { return "{" + m + "," + h[1:] }) }
	attackerKey := Raw(JWK(w.attacker, `,"kid":"mine"`))
	return []recipe{
		bad("A14", "crit with an unknown extension", malformed, Header("crit", []string{"exp-ext"}), Header("exp-ext", 1)),
		bad("A14", "crit empty", malformed, Header("crit", []string{})),
		bad("A14", "crit null", malformed, Header("crit", nil)),
		bad("A14", "crit names alg", malformed, Header("crit", []string{"alg"})),
		bad("A14", "crit a string", malformed, Header("crit", "exp")),
		bad("A15", "b64 false", malformed, Header("b64", false)),
		bad("A15", "b64 false and critical", malformed, Header("b64", false), Header("crit", []string{"b64"})),
		bad("A15", "b64 true", malformed, Header("b64", true)),
		bad("A16", "embedded key of the attacker", malformed, SignedAs(w.attacker), WithoutHeader("kid"), Header("jwk", attackerKey)),
		bad("A16", "embedded key beside our kid", malformed, Header("jwk", attackerKey)),
		bad("A16", "embedded certificate", malformed, Header("x5c", []string{"MIIB"})),
		bad("A16", "embedded certificates of a megabyte", malformed, Header("x5c", []string{strings.Repeat("MIIB", 1<<18)})),
		good("A17", "jku, which is not followed", Header("jku", "https://127.0.0.1:1/keys")),
		good("A17", "x5u, which is not followed", Header("x5u", "https://169.254.169.254/")),
		bad("A17", "jku of the attacker under a new kid", unknown, SignedBy(w.attacker), Header("jku", "https://attacker.test/keys")),
		bad("A17", "jku of the attacker under our kid", unverifiable, SignedAs(w.attacker), Header("jku", "https://attacker.test/keys")),
		good("A17", "certificate thumbprints, which are not compared", Header("x5t", "AAAA"), Header("x5t#S256", "AAAA")),
		bad("A17", "jku an object", malformed, Header("jku", Raw(`{}`))),
		bad("A18", "kid missing", unverifiable, WithoutHeader("kid")),
		bad("A18", "kid empty", malformed, Header("kid", "")),
		bad("A18", "kid null", malformed, Header("kid", nil)),
		bad("A19", "kid a number", malformed, Header("kid", 1)),
		bad("A19", "kid an array", malformed, Header("kid", []string{i.Current().ID})),
		bad("A19", "kid of 257 bytes", malformed, Header("kid", strings.Repeat("k", 257))),
		bad("A19", "kid of a megabyte", malformed, Header("kid", strings.Repeat("k", 1<<20))),
		bad("A19", "kid a path", unknown, Header("kid", "../../../../dev/null")),
		bad("A19", "kid an SQL statement", unknown, Header("kid", "x' UNION SELECT 'secret' --")),
		bad("A19", "kid a command", unknown, Header("kid", "key.pem; sleep 10")),
		bad("A19", "kid with a NUL behind ours", malformed, Header("kid", i.Current().ID+"\x00")),
		bad("A19", "kid with a line feed", malformed, Header("kid", "a\nlevel=info")),
		bad("A19", "kid unknown", unknown, Header("kid", "withdrawn")),
		bad("A19", "kid in another case", unknown, Header("kid", strings.ToLower(i.Current().ID))),
		bad("A20", "alg twice", malformed, member(`"alg":"none"`)),
		bad("A20", "alg twice, once escaped", malformed, member(`"\u0061lg":"none"`)),
		bad("A20", "kid twice", malformed, member(`"kid":"other"`)),
		bad("A20", "ALG beside alg", malformed, Header("ALG", "none")),
		bad("A20", "Kid beside kid", malformed, Header("Kid", "other")),
		bad("A20", "ALG in the place of alg", malformed, WithoutHeader("alg"), Header("ALG", "RS256")),
		bad("A20", "unknown parameter", malformed, Header("foo", "bar")),
		bad("A20", "claims copied to the header", malformed, Header("iss", i.URL)),
		bad("A20", "empty name", malformed, Header("", "bar")),
		bad("A20", "header an array", malformed, raw(`["RS256"]`)),
		bad("A20", "header a string", malformed, raw(`"RS256"`)),
		bad("A20", "header null", malformed, raw(`null`)),
		bad("A20", "header no JSON", malformed, raw(`alg=RS256`)),
		bad("A20", "header with a byte-order mark", malformed, prefix("\xef\xbb\xbf")),
		bad("A20", "header with data behind", malformed, EditHeader(func(h string) string { return h + "{}" })),
		bad("A20", "header with a trailing comma", malformed, EditHeader(func(h string) string { return h[:len(h)-1] + ",}" })),
		bad("A20", "header with invalid UTF-8", malformed, member("\"x5t\":\"\xff\"")),
		bad("A20", "header with a lone surrogate", malformed, member(`"x5t":"\ud800"`)),
		bad("A20", "header nested too deep", malformed, member(`"x5t":`+strings.Repeat("[", 17)+strings.Repeat("]", 17))),
		bad("A20", "header over a kilobyte", malformed, Header("x5u", strings.Repeat("u", 1<<10))),
		bad("A22", "second key of one kid", unverifiable, SignedAs(w.attacker)),
	}
}

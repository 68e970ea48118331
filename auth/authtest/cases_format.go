package authtest

import (
	"strings"

	"gatehouse/auth/token"
)

// formats are rows A9 to A13: what is no compact signed token.
func (w *World) formats(i *Issuer) []recipe {
	const malformed = token.KindMalformed
	fixed := func(s string) Change { return Finally(func(string) string { return s }) }
	part := func(n int, edit func(string) string) Change {
		return Finally(func(s string) string {
			parts := strings.Split(s, ".")
			parts[n] = edit(parts[n])
			return strings.Join(parts, ".")
		})
	}
	insert := func(what string) func(string) string {
		return func(s string) string { return s[:8] + what + s[8:] }
	}
	// Signed over the changed text, so that only the encoding is wrong.
	signedOver := func(edit func(h, p string) (string, string)) Change {
		return func(d *Draft) { d.Encoded = edit }
	}
	oneTail := func(d *Draft) { // makes the payload leave four bits over
		for len(d.Claims.JSON())%3 != 1 {
			d.Claims.Set("pad", d.Claims.Get("pad")+"x")
		}
	}
	headerTail := func(d *Draft) {
		for n := 1; len(d.Header.JSON())%3 != 1; n++ {
			d.Header.Set("x5t", strings.Repeat("x", n))
		}
	}
	return []recipe{
		bad("A9", "trailing bits set in the header", malformed, headerTail, signedOver(func(h, p string) (string, string) { return nextLetter(h), p })),
		bad("A9", "trailing bits set in the payload", malformed, oneTail, signedOver(func(h, p string) (string, string) { return h, nextLetter(p) })),
		bad("A9", "trailing bits set in the signature", malformed, SignedBy(w.keys["ES256"]), Finally(nextLetter)),
		bad("A9", "CRLF in the header", malformed, signedOver(func(h, p string) (string, string) { return insert("\r\n")(h), p })),
		bad("A9", "CRLF in the payload", malformed, signedOver(func(h, p string) (string, string) { return h, insert("\r\n")(p) })),
		bad("A9", "LF in the signature", malformed, part(2, insert("\n"))),
		bad("A9", "padding behind the header", malformed, part(0, func(s string) string { return s + "=" })),
		bad("A9", "padding behind the signature", malformed, Finally(func(s string) string { return s + "==" })),
		bad("A9", "standard base64 alphabet", malformed, part(2, func(s string) string { return "+/" + s[2:] })),
		bad("A9", "impossible base64 length of the header", malformed, part(0, func(string) string { return "eyJhb" })),
		bad("A9", "impossible base64 length of the payload", malformed, part(1, func(string) string { return "eyJpc" })),
		bad("A9", "impossible base64 length of the signature", malformed, part(2, func(string) string { return "AAAAA" })),
		bad("A9", "percent-encoded dot", malformed, Finally(func(s string) string { return strings.Replace(s, ".", "%2E", 1) })),

		bad("A10", "space in front", malformed, Finally(func(s string) string { return " " + s })),
		bad("A10", "line feed behind", malformed, Finally(func(s string) string { return s + "\n" })),
		bad("A10", "tab inside", malformed, part(1, insert("\t"))),
		bad("A10", "NUL inside", malformed, part(1, insert("\x00"))),
		bad("A10", "zero-width space inside", malformed, part(1, insert("\u200b"))),
		bad("A10", "in quotation marks", malformed, Finally(func(s string) string { return `"` + s + `"` })),

		bad("A11", "flattened JSON serialization", malformed, Finally(flattened)),
		bad("A11", "general JSON serialization", malformed, Finally(general)),
		bad("A11", "JSON serialization with alg in the unprotected header", malformed, Finally(unprotected)),

		bad("A12", "empty", malformed, fixed("")),
		bad("A12", "one part", malformed, fixed("opaque-token")),
		bad("A12", "two parts", malformed, Finally(func(s string) string { return s[:strings.LastIndexByte(s, '.')] })),
		bad("A12", "four parts", malformed, Finally(func(s string) string { return s + ".AAAA" })),
		bad("A12", "five parts", malformed, Finally(func(s string) string { return s + ".AAAA.AAAA" })),
		bad("A12", "only dots", malformed, fixed("..")),
		bad("A12", "a million dots", malformed, fixed(strings.Repeat(".", 1_000_000))),
		bad("A12", "dots up to the limit", malformed, fixed(strings.Repeat("a.", token.MaxBytes/2))),
		bad("A12", "empty header", malformed, part(0, func(string) string { return "" })),
		bad("A12", "empty payload", malformed, part(1, func(string) string { return "" })),
		bad("A12", "empty signature", malformed, part(2, func(string) string { return "" })),
		bad("A12", "one byte too long", malformed, filledTo(token.MaxBytes+1)),
		good("ok", "as long as may be", filledTo(token.MaxBytes)),

		bad("A13", "encrypted token", malformed, fixed(b64([]byte(`{"alg":"RSA-OAEP","enc":"A256GCM"}`))+".AAAA.AAAA.AAAA.AAAA")),
		bad("A13", "encrypted header in a signed token", malformed, Header("enc", "A256GCM")),
		bad("A13", "nested token", malformed, Header("cty", "JWT")),
		bad("A13", "compressed", malformed, Header("zip", "DEF")),
		bad("A13", "p2c bomb", malformed, Header("alg", "PBES2-HS256+A128KW"), Header("p2c", 2147483647)),
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// nextLetter replaces the last letter, whose last bits are zero, by the next one
// of the alphabet, which sets a bit that decoding drops.
func nextLetter(s string) string {
	n := strings.IndexByte(alphabet, s[len(s)-1])
	return s[:len(s)-1] + alphabet[n+1:n+2]
}

// otherLetter replaces the last letter by another.
func otherLetter(s string) string {
	n := strings.IndexByte(alphabet, s[len(s)-1])
	return s[:len(s)-1] + alphabet[n^1:n^1+1]
}

// filledTo pads the claims until the token has that many bytes.
func filledTo(size int) Change {
	return func(d *Draft) {
		d.Claims.Set("pad", "")
		for n := 0; n <= 2; n++ { // three header lengths reach every size
			d.Header.Set("x5t", strings.Repeat("x", n))
			d.Claims.Set("pad", "")
			missing := (size-len(d.Compact()))*3/4 - 2
			for fill := missing; fill < missing+8; fill++ {
				d.Claims.Set("pad", strings.Repeat("x", fill))
				if len(d.Compact()) == size {
					return
				}
			}
		}
		panic("authtest: no padding makes that size")
	}
}

func flattened(s string) string {
	p := strings.Split(s, ".")
	return `{"protected":"` + p[0] + `","payload":"` + p[1] + `","signature":"` + p[2] + `"}`
}

func general(s string) string {
	p := strings.Split(s, ".")
	return `{"payload":"` + p[1] + `","signatures":[{"protected":"` + p[0] + `","signature":"` + p[2] + `"}]}`
}

func unprotected(s string) string {
	p := strings.Split(s, ".")
	return `{"header":{"alg":"RS256"},"payload":"` + p[1] + `","signature":"` + p[2] + `"}`
}

package token

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// base64url of RFC 7515 section 2, refusing non-zero trailing bits. Go's decoder
// skips CR and LF even when strict; checkSegments lets none through.
var base64url = base64.RawURLEncoding.Strict()

const (
	maxHeaderJSON = 1 << 10
	maxSignature  = 1 << 10 // RSA with 8192 bits
)

// checkSize bounds all that follows before anything is looked at.
func checkSize(j *judgement) *Refusal {
	switch n := len(j.raw); {
	case n == 0:
		return refuse(KindMalformed, "the token is empty")
	case n > MaxBytes:
		return refuse(KindMalformed, "the token is %d bytes long, at most %d are taken", n, MaxBytes)
	}
	return nil
}

func showSize(j *judgement) string { return fmt.Sprintf("%d bytes", len(j.raw)) }

// inAlphabet holds the letters of base64url.
var inAlphabet = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		in[c] = true
	}
	return in
}()

// checkSegments wants the compact serialization of a signed token: three
// non-empty parts of the base64url alphabet (RFC 7515 section 7.1). That leaves
// out JSON serializations, encrypted and unsecured tokens, white space and padding.
func checkSegments(j *judgement) *Refusal {
	dots, lastDot, firstDot := 0, -1, -1
	for i := 0; i < len(j.raw); i++ {
		c := j.raw[i]
		switch {
		case inAlphabet[c]:
		case c == '.':
			if i == lastDot+1 {
				return refuse(KindMalformed, "part %d of the token is empty", dots+1)
			}
			if dots++; dots > 2 {
				return refuse(KindMalformed, "the token has more than three parts%s", manyPartsHint(j.raw))
			}
			if dots == 1 {
				firstDot = i
			}
			lastDot = i
		default:
			return refuse(KindMalformed, "byte %d of the token is 0x%02x, which is not base64url", i, c)
		}
	}
	switch {
	case dots < 2:
		return refuse(KindMalformed, "the token has %d of three parts: not a signed JWT (an opaque token?)", dots+1)
	case lastDot == len(j.raw)-1:
		return refuse(KindMalformed, "the signature part is empty")
	}
	j.headerPart, j.payloadPart, j.signaturePart = j.raw[:firstDot], j.raw[firstDot+1:lastDot], j.raw[lastDot+1:]
	return nil
}

func manyPartsHint(raw string) string {
	if strings.Count(raw, ".") == 4 {
		return " (five are an encrypted token, which is not taken)"
	}
	return ""
}

// checkEncoding decodes header and signature; of the payload it makes sure only
// that there is one way to decode it.
func checkEncoding(j *judgement) *Refusal {
	if n := base64url.DecodedLen(len(j.headerPart)); n > maxHeaderJSON {
		return refuse(KindMalformed, "the header is %d bytes long, at most %d are taken", n, maxHeaderJSON)
	}
	if n := base64url.DecodedLen(len(j.signaturePart)); n > maxSignature {
		return refuse(KindMalformed, "the signature is %d bytes long, at most %d are taken", n, maxSignature)
	}
	var err error
	if j.headerJSON, err = base64url.DecodeString(j.headerPart); err != nil {
		return refuse(KindMalformed, "the header is not canonical base64url")
	}
	if j.signature, err = base64url.DecodeString(j.signaturePart); err != nil {
		return refuse(KindMalformed, "the signature is not canonical base64url")
	}
	if !canonicalTail(j.payloadPart) {
		return refuse(KindMalformed, "the payload is not canonical base64url")
	}
	return nil
}

// canonicalTail reports whether the last quantum of s has a possible length and
// no bits that decoding would drop.
func canonicalTail(s string) bool {
	tail := len(s) % 4
	if tail == 0 {
		return true
	}
	_, err := base64url.DecodeString(s[len(s)-tail:])
	return err == nil
}

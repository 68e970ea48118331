package router

import (
	"mime"
	"net/http"
	"strings"
)

// tokenByte is the alphabet of a token (RFC 9110 section 5.6.2).
var tokenByte = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
		t[c] = true
	}
	return t
}()

// checkContent wants a JSON body without an encoding.
func checkContent(h http.Header) *refusal {
	if enc := h["Content-Encoding"]; len(enc) > 0 && !(len(enc) == 1 && strings.EqualFold(strings.TrimSpace(enc[0]), "identity")) {
		return &refusal{kind: kindEncoding, reason: "body has a Content-Encoding"}
	}
	ct := h["Content-Type"]
	if len(ct) == 1 && (ct[0] == "application/json" || isJSON(ct[0])) {
		return nil
	}
	return &refusal{kind: kindContentType, reason: "Content-Type is not application/json"}
}

// isJSON reports whether a Content-Type is JSON in UTF-8 (RFC 8259 section 8.1).
func isJSON(v string) bool {
	t, params, err := mime.ParseMediaType(v)
	charset, ok := params["charset"]
	return err == nil && t == "application/json" && (!ok || strings.EqualFold(charset, "utf-8"))
}

// accepted is which of the two forms of an answer a client takes, and whether one
// that takes both would rather have events: it gives them the higher quality, or
// the same one and names them first.
type accepted struct{ json, events, rather bool }

// accepts reads the Accept fields of a request (RFC 9110 section 12.5.1): all
// lines together are one list; the most specific range that fits a type decides,
// and a quality of 0 refuses it. A missing or empty field admits everything. What
// can't be read counts for nothing.
func accepts(fields []string) accepted {
	if len(fields) == 1 && fields[0] == "application/json, text/event-stream" {
		return accepted{json: true, events: true}
	}
	var json, events choice
	place := 0
	for _, f := range fields {
		for f != "" {
			var item string
			item, f = cutItem(f)
			if item = strings.Trim(item, " \t"); item == "" {
				continue
			}
			place++
			r, ok := parseRange(item)
			if !ok {
				continue
			}
			r.place = place
			json.consider(r, "application", "json")
			events.consider(r, "text", "event-stream")
		}
	}
	if place == 0 {
		return accepted{json: true, events: true}
	}
	return accepted{
		json: json.quality > 0, events: events.quality > 0,
		rather: json.quality > 0 && (events.quality > json.quality || events.quality == json.quality && events.place < json.place),
	}
}

// mediaRange is one element of an Accept field.
type mediaRange struct {
	kind, sub string // as sent; "*" is any
	quality   int    // in thousandths
	place     int    // in the list, from 1
}

// choice is the most specific range so far for one type: rank 1 is */*, 2 is
// type/*, 3 is type/subtype.
type choice struct{ rank, quality, place int }

func (c *choice) consider(r mediaRange, kind, sub string) {
	rank := 0
	switch {
	case r.kind == "*" && r.sub == "*":
		rank = 1
	case strings.EqualFold(r.kind, kind) && r.sub == "*":
		rank = 2
	case strings.EqualFold(r.kind, kind) && strings.EqualFold(r.sub, sub):
		rank = 3
	}
	// Of two ranges that say the same, the friendlier one counts.
	if rank > 0 && (rank > c.rank || rank == c.rank && r.quality > c.quality) {
		*c = choice{rank, r.quality, r.place}
	}
}

// cutItem cuts the first element off a comma-separated list in which commas may
// stand in quoted strings.
func cutItem(s string) (item, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// parseRange reads type/subtype and the quality among the parameters. Other
// parameters are passed over: neither of our types has any that matters.
func parseRange(s string) (mediaRange, bool) {
	full, params, _ := strings.Cut(s, ";")
	kind, sub, ok := strings.Cut(strings.Trim(full, " \t"), "/")
	if !ok || !isToken(kind) || !isToken(sub) {
		return mediaRange{}, false
	}
	r := mediaRange{kind: kind, sub: sub, quality: 1000}
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(strings.Trim(p, " \t"), "=")
		if strings.EqualFold(name, "q") {
			r.quality = quality(value)
			break
		}
	}
	return r, true
}

// quality is a qvalue in thousandths. What is none counts as the highest: a client
// that names a type wants it.
func quality(s string) int {
	whole, rest, _ := strings.Cut(s, ".")
	if whole != "0" || len(rest) > 3 {
		return 1000
	}
	q := 0
	for i := range 3 {
		q *= 10
		if i < len(rest) {
			if rest[i] < '0' || rest[i] > '9' {
				return 1000
			}
			q += int(rest[i] - '0')
		}
	}
	return q
}

func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

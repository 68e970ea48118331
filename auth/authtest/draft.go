package authtest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// Draft is a token before it is signed. Everything may be made wrong.
type Draft struct {
	Header, Claims Members
	Key            *Key

	RawHeader, RawClaims []byte                             // instead of Header and Claims
	Encoded              func(h, p string) (string, string) // changes the encoded parts before they are signed
	Signature            func(input string) []byte          // instead of Key.Sign
	Final                func(compact string) string        // changes the finished token
}

// Members is a JSON object that keeps order and may hold a name twice.
type Members []Member

// Member is one name with the raw JSON of its value.
type Member struct{ Name, JSON string }

// Set replaces a member, or adds it.
func (m *Members) Set(name string, value any) {
	raw := rawJSON(value)
	for i := range *m {
		if (*m)[i].Name == name {
			(*m)[i].JSON = raw
			return
		}
	}
	*m = append(*m, Member{name, raw})
}

// Add adds a member, even a second one of a name.
func (m *Members) Add(name string, value any) { *m = append(*m, Member{name, rawJSON(value)}) }

// Del removes members.
func (m *Members) Del(names ...string) {
	*m = slices.DeleteFunc(*m, func(x Member) bool { return slices.Contains(names, x.Name) })
}

// Get returns the raw JSON of a member, "" when there is none.
func (m Members) Get(name string) string {
	for _, x := range m {
		if x.Name == name {
			return x.JSON
		}
	}
	return ""
}

// JSON writes the object. Names are written as they are, between quotation marks.
func (m Members) JSON() []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i, x := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + x.Name + `":` + x.JSON)
	}
	b.WriteByte('}')
	return []byte(b.String())
}

// Raw is JSON that is used as it is, valid or not.
type Raw string

func rawJSON(value any) string {
	if raw, ok := value.(Raw); ok {
		return string(raw)
	}
	b, err := json.Marshal(value)
	if err != nil {
		panic("authtest: " + err.Error())
	}
	return string(b)
}

// Compact signs the draft.
func (d *Draft) Compact() string {
	header, claims := d.RawHeader, d.RawClaims
	if header == nil {
		header = d.Header.JSON()
	}
	if claims == nil {
		claims = d.Claims.JSON()
	}
	h, p := b64(header), b64(claims)
	if d.Encoded != nil {
		h, p = d.Encoded(h, p)
	}
	input := h + "." + p
	sign := d.Signature
	if sign == nil {
		sign = d.Key.Sign
	}
	compact := input + "." + b64(sign(input))
	if d.Final != nil {
		return d.Final(compact)
	}
	return compact
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Change makes a draft differ from the defaults.
type Change func(*Draft)

// Claim sets a claim.
func Claim(name string, value any) Change { return func(d *Draft) { d.Claims.Set(name, value) } }

// Twice adds a claim although it is there already.
func Twice(name string, value any) Change { return func(d *Draft) { d.Claims.Add(name, value) } }

// Without removes claims.
func Without(names ...string) Change { return func(d *Draft) { d.Claims.Del(names...) } }

// Header sets a header parameter.
func Header(name string, value any) Change { return func(d *Draft) { d.Header.Set(name, value) } }

// WithoutHeader removes header parameters.
func WithoutHeader(names ...string) Change { return func(d *Draft) { d.Header.Del(names...) } }

// SignedBy signs with another key and says so in alg and kid.
func SignedBy(k *Key) Change {
	return func(d *Draft) {
		d.Key = k
		d.Header.Set("alg", k.Algorithm)
		d.Header.Set("kid", k.ID)
	}
}

// SignedAs signs with another key, but leaves the header as it is.
func SignedAs(k *Key) Change { return func(d *Draft) { d.Key = k } }

// Payload puts these bytes in the place of the claims.
func Payload(b string) Change { return func(d *Draft) { d.RawClaims = []byte(b) } }

// EditPayload changes the claims' JSON.
func EditPayload(edit func(string) string) Change {
	return func(d *Draft) { d.RawClaims = []byte(edit(string(d.Claims.JSON()))) }
}

// EditHeader changes the header's JSON.
func EditHeader(edit func(string) string) Change {
	return func(d *Draft) { d.RawHeader = []byte(edit(string(d.Header.JSON()))) }
}

// Finally changes the finished token.
func Finally(edit func(string) string) Change { return func(d *Draft) { d.Final = edit } }

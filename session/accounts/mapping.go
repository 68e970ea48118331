package accounts

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"gatehouse/auth/identity"
	"gatehouse/session/safepath"
)

// maxMapping is the largest accounts file in bytes.
const maxMapping = 4 << 20

// Entry is one item of the operator's map: a principal and its account.
type Entry struct {
	Issuer  string
	Subject string
	Account string
	// ClientID, when set, confines the entry to tokens of that client. Only such
	// an entry admits a client's own token.
	ClientID string
	// Name and Email are put on commits.
	Name, Email string
	// Line is where it begins in the file.
	Line int
}

type mapKey struct {
	issuer  identity.Issuer
	subject identity.Subject
	client  identity.ClientID // "": any
}

// Map is the operator's map from principals to accounts. It is immutable; the
// zero value holds nobody.
type Map struct{ entries map[mapKey]Entry }

// Len is the number of entries.
func (m *Map) Len() int {
	if m == nil {
		return 0
	}
	return len(m.entries)
}

// Entries calls fn for every entry, in no order.
func (m *Map) Entries(fn func(Entry)) {
	if m == nil {
		return
	}
	for _, e := range m.entries {
		fn(e)
	}
}

// Find returns the entry for a principal: the one for its client, else the one
// for any client. For a token that is the client's own, only the former counts.
func (m *Map) Find(p identity.Principal, clientOwn bool) (Entry, bool) {
	if m == nil {
		return Entry{}, false
	}
	if p.Client != "" {
		if e, ok := m.entries[mapKey{p.Issuer, p.Subject, p.Client}]; ok {
			return e, true
		}
	}
	if clientOwn {
		return Entry{}, false
	}
	e, ok := m.entries[mapKey{issuer: p.Issuer, subject: p.Subject}]
	return e, ok
}

// ReadMap reads an accounts file. The file must belong to root or to uid, and
// nobody else may write it.
func ReadMap(path string, uid int) (*Map, error) {
	f, err := safepath.Open(path, uid, maxMapping)
	if err != nil {
		return nil, fmt.Errorf("open accounts file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMapping+1))
	if err != nil {
		return nil, fmt.Errorf("read accounts file: %w", err)
	}
	m, err := ParseMap(b)
	if err != nil {
		return nil, fmt.Errorf("accounts file %s: %w", path, err)
	}
	return m, nil
}

// ParseMap reads the YAML list of an accounts file strictly: unknown keys,
// duplicates and values that are no strings are refused with line and column.
func ParseMap(b []byte) (*Map, error) {
	if len(b) > maxMapping {
		return nil, errors.New("larger than 4 MiB")
	}
	if !utf8.Valid(b) {
		return nil, errors.New("is not UTF-8")
	}
	list, err := readEntries(b)
	if err != nil {
		return nil, err
	}
	m := &Map{entries: make(map[mapKey]Entry, len(list))}
	for _, e := range list {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", e.Line, err)
		}
		k := mapKey{identity.Issuer(e.Issuer), identity.Subject(e.Subject), identity.ClientID(e.ClientID)}
		if _, twice := m.entries[k]; twice {
			return nil, fmt.Errorf("line %d: subject %q of issuer %q stands there twice", e.Line, e.Subject, e.Issuer)
		}
		m.entries[k] = e
	}
	return m, nil
}

// check is what must hold for an entry by itself.
func (e *Entry) check() error {
	for _, f := range []struct {
		key, value string
		limit      int
		needed     bool
	}{
		{"issuer", e.Issuer, 1024, true},
		{"subject", e.Subject, 255, true},
		{"account", e.Account, MaxName, true},
		{"client_id", e.ClientID, 512, false}, // as long as a token's may be
		{"name", e.Name, 255, false},
		{"email", e.Email, 255, false},
	} {
		switch {
		case f.value == "" && f.needed:
			return fmt.Errorf("%s is missing", f.key)
		case len(f.value) > f.limit:
			return fmt.Errorf("%s is longer than %d bytes", f.key, f.limit)
		case strings.ContainsFunc(f.value, unicode.IsControl):
			return fmt.Errorf("%s holds a control character", f.key)
		}
	}
	switch {
	case !ValidName(e.Account):
		return fmt.Errorf("account %q: small letters, digits, _ and -, at most %d, not beginning with a digit or -", e.Account, MaxName)
	case strings.ContainsAny(e.Name+e.Email, "<>"):
		return errors.New("name and email may not hold < or >")
	case e.Email != "" && strings.Count(e.Email, "@") != 1:
		return fmt.Errorf("email %q has no single @", e.Email)
	}
	return nil
}

package toolsets

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits on what one result shows.
const (
	DefaultLimit = 200    // entries of a page
	MaxLimit     = 10_000 // the most that "limit" may ask for
	MaxValue     = 50_000 // characters of a single value
)

// Page is one page of a list, as structured data.
type Page[T any] struct {
	// Total is how many entries there are, or -1 when that is not known.
	Total  int `json:"total" jsonschema:"how many entries there are; -1 when not known"`
	Offset int `json:"offset"`
	Items  []T `json:"items"`
	// More says that entries follow the page.
	More bool `json:"more"`
}

// Paged cuts all down to the page that the call asks for and renders it: a
// header line, then one line (or more) for each entry.
func Paged[T any](c *Call, all []T, line func(T) string) *Result {
	total := len(all)
	from := min(c.Offset, total)
	to := min(from+c.Limit, total)
	p := Page[T]{Total: total, Offset: c.Offset, Items: all[from:to:to], More: to < total}
	if p.Items == nil {
		p.Items = []T{}
	}
	return &Result{Text: p.render(c, line), Data: p}
}

// PagedUpTo is Paged for a search that stopped early: found holds at most one
// entry more than the page's end, and the total is not known when it does.
func PagedUpTo[T any](c *Call, found []T, line func(T) string) *Result {
	r := Paged(c, found, line)
	p := r.Data.(Page[T])
	if p.More && c.Limit > 0 {
		p.Total = -1
		r.Text, r.Data = p.render(c, line), p
	}
	return r
}

func (p Page[T]) render(c *Call, line func(T) string) string {
	var b strings.Builder
	b.WriteString(p.header(c))
	for _, it := range p.Items {
		b.WriteByte('\n')
		b.WriteString(Cut(line(it)))
	}
	return b.String()
}

func (p Page[T]) header(c *Call) string {
	next := p.Offset + len(p.Items)
	switch {
	case c.Limit == 0:
		return fmt.Sprintf("(%d in all)", p.Total)
	case p.Total == 0:
		return "(none)"
	case len(p.Items) == 0:
		return fmt.Sprintf("(showing none of %d; offset %d is past the end)", p.Total, p.Offset)
	case p.Total < 0:
		return fmt.Sprintf("(showing %d-%d; there are more and the total is not known; pass offset: %d for the next page)", p.Offset+1, next, next)
	case p.More:
		return fmt.Sprintf("(showing %d-%d of %d; pass offset: %d for the next page)", p.Offset+1, next, p.Total, next)
	}
	return fmt.Sprintf("(showing %d-%d of %d)", p.Offset+1, next, p.Total)
}

// Cut shortens a single value to MaxValue characters and says so at its end. It
// never cuts inside a UTF-8 sequence.
func Cut(s string) string {
	if len(s) <= MaxValue {
		return s
	}
	n := utf8.RuneCountInString(s)
	if n <= MaxValue {
		return s
	}
	end := 0
	for range MaxValue {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return fmt.Sprintf("%s...[truncated: showing %d of %d characters]", s[:end], MaxValue, n)
}

// Count words a number of things: "1 file", "2 files".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

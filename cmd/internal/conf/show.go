package conf

import (
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"

	"gatehouse/auth/printable"
)

// Show prints the effective configuration with the origin of each value, one
// setting a line, leaving out what has no meaning in this way of running.
// Secrets are hidden.
func (c *Config) Show(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	way := c.Way()
	for start := 0; start < len(rows); {
		list, end := rows[start].list(), start+1
		for list != "" && end < len(rows) && rows[end].list() == list {
			end++
		}
		for i := range c.count(list) { // a list item by item
			for _, s := range rows[start:end] {
				if !s.Ways.has(way) {
					continue
				}
				text := c.shown(s, i)
				if s.Key == "operators.socket" && c.Operators.Socket == "" && c.Listen.Port > 0 {
					text = c.OperatorsSocket(c.Listen.Port)
				}
				if _, err := fmt.Fprintf(t, "  %s\t%s\t%s\n", keyOf(s.Key, i), text, c.origins[slot{s.Key, i}]); err != nil {
					return err
				}
			}
		}
		start = end
	}
	return t.Flush()
}

// shown is a value as people may see it, "-" when it is not set.
func (c *Config) shown(s *Setting, i int) string {
	v := reflect.ValueOf(s.at(c, i)).Elem()
	_, known := c.origins[slot{s.Key, i}]
	if v.IsZero() && !known {
		return "-"
	}
	if k := v.Kind(); (k == reflect.Slice || k == reflect.Map) && v.IsNil() {
		return "-"
	}
	text := s.Type.show(v.Interface())
	if text == "" {
		return "-"
	}
	return printable.Text(text, len(text))
}

package conf

import (
	"fmt"
	"strings"
)

// Problem is one thing that stops the start.
type Problem struct {
	// Where is "gatehouse.yaml:3:7", "MCP_PORT", "--port", or empty when the
	// problem is that something is missing.
	Where string
	// Text says what is wrong and what is accepted. It holds no secret.
	Text string
}

// String puts the place before the text.
func (p Problem) String() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}

// Problems is every problem of one configuration, in the order of discovery.
type Problems []Problem

// Error lists all of them, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// report collects what Load finds.
type report struct {
	problems Problems
	warnings []string
}

func (r *report) refuse(where, format string, a ...any) {
	r.problems = append(r.problems, Problem{where, fmt.Sprintf(format, a...)})
}

func (r *report) warn(format string, a ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, a...))
}

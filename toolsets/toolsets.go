// Package toolsets is the contract between gatehouse-worker and the packs of
// tools that it serves: what a toolset declares, what a tool is given, how it
// answers and how it fails. It knows no toolset by name and no workspace.
//
// A toolset is chosen by the operator by name; what is not chosen is not served.
// Choosing narrows what a model is offered and is no security control: tools run
// as the account, and the account's rights are the gate.
package toolsets

import (
	"context"

	"github.com/google/jsonschema-go/jsonschema"
)

// Toolset is a named pack of tools.
type Toolset struct {
	// Name selects the toolset: lower-case letters, digits and dashes.
	Name string
	// Summary is one sentence for the operator.
	Summary string
	// Options are what the operator may set for it; nothing else is accepted.
	Options []Option
	// Tools are served in this order.
	Tools []Tool
	// Configure receives the toolset's own options before the first call, with
	// the defaults filled in. Nil when there is nothing to configure.
	Configure func(Values) error
	// Guide is the toolset's part of the server's instructions, empty for none.
	// It must not name tools of other toolsets.
	Guide string
}

// Tool is one tool. Its input schema is made from Params and is closed.
type Tool struct {
	Name        string // ^[a-z][a-z0-9_]*$
	Title       string // for people
	Description string // for models: what it does and when to use it
	Params      []Param
	// Viewed tools work in a view and take the optional argument "view".
	Viewed bool
	// Paged tools answer a list and take the optional arguments "limit" and
	// "offset".
	Paged bool
	// ReadOnly, Destructive and Idempotent become the MCP annotations.
	ReadOnly, Destructive, Idempotent bool
	// Output describes Result.Data, nil when the tool answers text alone.
	Output *jsonschema.Schema
	// Call runs the tool. Arguments have been checked. It must return soon after
	// ctx ends. An error that is not a *Failure is reported as kind "other".
	Call func(ctx context.Context, c *Call) (*Result, error)
}

// Type is the type of an argument or an option.
type Type string

// The types that arguments and options can have.
const (
	String   Type = "string"
	Integer  Type = "integer"
	Boolean  Type = "boolean"
	Strings  Type = "strings"  // a list of strings
	Duration Type = "duration" // options only: "90s", "5m" or a number of seconds
)

// Param is one argument of a tool.
type Param struct {
	Name     string
	Type     Type
	Required bool
	Meaning  string
	// Pattern is an anchored regular expression that a string must match, empty
	// for any; PatternText says the same in words.
	Pattern, PatternText string
	// Min and Max bound an integer when Bounded is set.
	Bounded  bool
	Min, Max int
}

// Result is a tool's answer: Text for a model to read, Data for programs.
type Result struct {
	Text string
	Data any // marshals to an object that fits Tool.Output; nil without one
}

// Call is one call of a tool.
type Call struct {
	Tool string
	// View is the name of the view that a Viewed tool works in.
	View string
	// Limit and Offset are the page that a Paged tool shows. Limit 0 asks for the
	// count alone.
	Limit, Offset int

	args     map[string]any
	progress func(done, total int, message string)
}

// NewCall returns a call with the given checked arguments, for tests and for
// callers that do not go through a Registry.
func NewCall(tool string, args map[string]any) *Call {
	return &Call{Tool: tool, View: DefaultView, Limit: DefaultLimit, args: args}
}

// Has reports whether the argument was given.
func (c *Call) Has(name string) bool { _, ok := c.args[name]; return ok }

// String returns a string argument, empty when it was not given.
func (c *Call) String(name string) string { s, _ := c.args[name].(string); return s }

// Int returns an integer argument, or the default when it was not given.
func (c *Call) Int(name string, def int) int {
	if n, ok := c.args[name].(int); ok {
		return n
	}
	return def
}

// Bool returns a boolean argument, false when it was not given.
func (c *Call) Bool(name string) bool { b, _ := c.args[name].(bool); return b }

// Strings returns a list argument, nil when it was not given.
func (c *Call) Strings(name string) []string { s, _ := c.args[name].([]string); return s }

// Progress reports how far the call is, when its client asked to know. A total
// of 0 is an unknown one. It may be called from any goroutine.
func (c *Call) Progress(done, total int, message string) {
	if c.progress != nil {
		c.progress(done, total, message)
	}
}

// DefaultView is the view of a call that names none.
const DefaultView = "main"

// The standard arguments of Viewed and Paged tools.
var (
	viewParam = Param{Name: "view", Type: String, Pattern: `^[a-z0-9-]{1,32}$`,
		PatternText: "1 to 32 lower-case letters, digits and dashes",
		Meaning:     "Name of the view to work in (default \"main\"); a new name opens a new view at the shared branch's head."}
	limitParam = Param{Name: "limit", Type: Integer, Bounded: true, Min: 0, Max: MaxLimit,
		Meaning: "Most entries to show (default 200); 0 answers the count alone."}
	offsetParam = Param{Name: "offset", Type: Integer, Bounded: true, Min: 0, Max: 1 << 30,
		Meaning: "How many entries to skip (default 0)."}
)

// params returns all arguments of the tool, the standard ones last.
func (t *Tool) params() []Param {
	p := append([]Param(nil), t.Params...)
	if t.Paged {
		p = append(p, limitParam, offsetParam)
	}
	if t.Viewed {
		p = append(p, viewParam)
	}
	return p
}

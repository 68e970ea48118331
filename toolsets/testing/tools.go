package testing

import (
	"context"
	"fmt"
	"strings"

	"gatehouse/toolsets"
)

// Report is the answer of run_tests and run_test.
type Report struct {
	Passed   int      `json:"passed"`
	Failed   int      `json:"failed"`
	Skipped  int      `json:"skipped"`
	Packages int      `json:"packages"`
	Seconds  float64  `json:"seconds"`
	Failures []Failed `json:"failures" jsonschema:"the first 500; list_failing_tests lists more"`
	Output   string   `json:"output,omitempty"`

	all int // failures, of which Failures are the first
}

// maxReported bounds the failures of one report. They are shown whole, as many as
// there is room for in a value.
const maxReported = 500

func (o *outcome) report() Report {
	r := Report{Passed: o.passed, Failed: o.failed, Skipped: o.skipped, Packages: o.packages, Seconds: o.elapsed.Round(1e7).Seconds(),
		Failures: o.fails[:min(len(o.fails), maxReported)], all: len(o.fails) + o.unlisted}
	if r.Failures == nil {
		r.Failures = []Failed{}
	}
	return r
}

func (r Report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped in %s (%.1f s)", r.Passed, r.Failed, r.Skipped, toolsets.Count(r.Packages, "package"), r.Seconds)
	shown := 0
	for _, f := range r.Failures {
		line := "\n- " + f.String()
		if b.Len()+len(line) > toolsets.MaxValue-200 { // what follows is short
			break
		}
		b.WriteString(line)
		shown++
	}
	if more := r.all - shown; more > 0 {
		fmt.Fprintf(&b, "\n(%d more failed; list_failing_tests lists them page by page)", more)
	}
	if len(r.Failures) > 0 {
		b.WriteString("\ndescribe_test_failure shows why one fails.")
	}
	return toolsets.Cut(b.String())
}

func (f Failed) String() string {
	s := f.Package
	if f.Test != "" {
		s += " " + f.Test
	}
	if f.Reason != "" {
		s += ": " + f.Reason
	}
	return s
}

func (t *toolset) runTests(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, snap, err := t.ws.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	folders := everywhere(snap)
	if c.Has("package") {
		one, err := target(snap, c.String("package"))
		if err != nil {
			return nil, err
		}
		folders = []string{folder(one)}
	}
	o, err := t.gotest(ctx, c, s, folders, c.String("pattern"), "")
	if err != nil {
		return nil, err
	}
	if err := o.buildFailure(); err != nil {
		return nil, err
	}
	r := o.report()
	if len(r.Failures) > 0 {
		return nil, &toolsets.Failure{Kind: toolsets.TestFailure, Text: r.text(), Data: r}
	}
	return &toolsets.Result{Text: r.text(), Data: r}, nil
}

// one runs a single test.
func (t *toolset) one(ctx context.Context, c *toolsets.Call) (o *outcome, pkg string, err error) {
	pattern, err := exactly(c.String("test"))
	if err != nil {
		return nil, "", err
	}
	s, snap, err := t.ws.Run(ctx, c)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	q, err := target(snap, c.String("package"))
	if err != nil {
		return nil, "", err
	}
	if o, err = t.gotest(ctx, c, s, []string{folder(q)}, pattern, c.String("test")); err != nil {
		return nil, "", err
	}
	if err := o.buildFailure(); err != nil {
		return nil, "", err
	}
	if o.passed+o.failed+o.skipped == 0 && len(o.fails) == 0 {
		return nil, "", toolsets.Failf(toolsets.NotFound, "%s has no test %s; list_tests shows those there are", q.Path, c.String("test"))
	}
	return o, q.Folder(), nil
}

func (t *toolset) runTest(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	o, pkg, err := t.one(ctx, c)
	if err != nil {
		return nil, err
	}
	r := o.report()
	r.Output = toolsets.Cut(o.output.String())
	verdict := "passed"
	switch {
	case len(r.Failures) > 0:
		verdict = "failed"
	case r.Passed == 0 && r.Skipped > 0:
		verdict = "was skipped"
	}
	text := fmt.Sprintf("%s %s %s (%.1f s)\n%s", pkg, c.String("test"), verdict, r.Seconds, strings.TrimRight(r.Output, "\n"))
	if len(r.Failures) > 0 {
		return nil, &toolsets.Failure{Kind: toolsets.TestFailure, Text: text, Data: r}
	}
	return &toolsets.Result{Text: text, Data: r}, nil
}

func (t *toolset) failing(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, snap, err := t.ws.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	folders := everywhere(snap)
	if c.Has("packages") {
		folders = nil
		for _, name := range c.Strings("packages") {
			one, err := target(snap, name)
			if err != nil {
				return nil, err
			}
			folders = append(folders, folder(one))
		}
		if folders == nil {
			return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"packages\" must name at least one package, or be left out")
		}
	}
	o, err := t.gotest(ctx, c, s, folders, "", "")
	if err != nil {
		return nil, err
	}
	r := toolsets.Paged(c, o.fails, Failed.String)
	if o.unlisted > 0 {
		r.Text += fmt.Sprintf("\n(%d more failed and are not listed)", o.unlisted)
	}
	return r, nil
}

// maxLines bounds the lines that report failures of one test.
const maxLines = 100

// Description is the answer of describe_test_failure.
type Description struct {
	Package string        `json:"package"`
	Test    string        `json:"test"`
	Passed  bool          `json:"passed" jsonschema:"it passed this time"`
	Lines   []FailureLine `json:"failure_lines" jsonschema:"the first 100"`
	Panic   string        `json:"panic,omitempty" jsonschema:"the message and stack of a panic"`
	Output  string        `json:"output"`
}

func (t *toolset) describe(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	o, pkg, err := t.one(ctx, c)
	if err != nil {
		return nil, err
	}
	d := Description{Package: pkg, Test: c.String("test"), Passed: len(o.fails) == 0, Lines: []FailureLine{}}
	all := o.output.String()
	d.Lines = append(d.Lines, failureLines(all)...)
	more := max(0, len(d.Lines)-maxLines)
	d.Lines = d.Lines[:len(d.Lines)-more]
	if i := strings.Index(all, "panic: "); i >= 0 && !d.Passed {
		d.Panic = toolsets.Cut(strings.TrimRight(all[i:], "\n"))
	}
	d.Output = toolsets.Cut(all)
	var b strings.Builder
	verdict := "fails"
	if d.Passed {
		verdict = "passed this time, run alone"
	}
	fmt.Fprintf(&b, "%s %s %s", pkg, d.Test, verdict)
	for _, l := range d.Lines {
		fmt.Fprintf(&b, "\n%s: %s", l.Position, l.Text)
	}
	if more > 0 {
		fmt.Fprintf(&b, "\n(%d more such lines)", more)
	}
	if d.Panic != "" {
		first, _, _ := strings.Cut(d.Panic, "\n")
		b.WriteString("\n" + first)
	}
	b.WriteString("\noutput:\n" + strings.TrimRight(d.Output, "\n"))
	return &toolsets.Result{Text: b.String(), Data: d}, nil
}

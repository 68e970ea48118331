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
	Failures []Failed `json:"failures"`
	Output   string   `json:"output,omitempty"`
}

func (o *outcome) report() Report {
	r := Report{Passed: o.passed, Failed: o.failed, Skipped: o.skipped, Packages: o.packages, Seconds: o.elapsed.Round(1e7).Seconds(), Failures: o.fails}
	if r.Failures == nil {
		r.Failures = []Failed{}
	}
	return r
}

func (r Report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped in %s (%.1f s)", r.Passed, r.Failed, r.Skipped, toolsets.Count(r.Packages, "package"), r.Seconds)
	for _, f := range r.Failures {
		b.WriteString("\n- " + f.String())
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
	o, err := t.gotest(ctx, c, s, folders, c.String("pattern"))
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
	if o, err = t.gotest(ctx, c, s, []string{folder(q)}, pattern); err != nil {
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

func (o *outcome) outputOf(pkg, test string) string {
	name := strings.ReplaceAll(test, " ", "_")
	b := o.output[key(pkg, name)]
	if b == nil || o.ran[key(pkg, name)] == "" {
		// It ended the whole test binary: what the package said counts, too.
		var all strings.Builder
		for k, x := range o.output {
			if p, _, _ := strings.Cut(k, "\x00"); p == pkg && !strings.Contains(k, "/") && k != key(pkg, name) {
				all.WriteString(x.String())
			}
		}
		if b != nil {
			return b.String() + all.String()
		}
		return all.String()
	}
	return b.String()
}

func (t *toolset) runTest(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	o, pkg, err := t.one(ctx, c)
	if err != nil {
		return nil, err
	}
	r := o.report()
	r.Output = toolsets.Cut(o.outputOf(pkg, c.String("test")))
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
	o, err := t.gotest(ctx, c, s, folders, "")
	if err != nil {
		return nil, err
	}
	return toolsets.Paged(c, o.fails, Failed.String), nil
}

// Description is the answer of describe_test_failure.
type Description struct {
	Package string        `json:"package"`
	Test    string        `json:"test"`
	Passed  bool          `json:"passed" jsonschema:"it passed this time"`
	Lines   []FailureLine `json:"failure_lines"`
	Panic   string        `json:"panic,omitempty" jsonschema:"the message and stack of a panic"`
	Output  string        `json:"output"`
}

func (t *toolset) describe(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	o, pkg, err := t.one(ctx, c)
	if err != nil {
		return nil, err
	}
	d := Description{Package: pkg, Test: c.String("test"), Passed: len(o.fails) == 0, Lines: []FailureLine{}}
	all := o.outputOf(pkg, d.Test)
	d.Lines = append(d.Lines, failureLines(all)...)
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
	if d.Panic != "" {
		first, _, _ := strings.Cut(d.Panic, "\n")
		b.WriteString("\n" + first)
	}
	b.WriteString("\noutput:\n" + strings.TrimRight(d.Output, "\n"))
	return &toolsets.Result{Text: b.String(), Data: d}, nil
}

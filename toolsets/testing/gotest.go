package testing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/workspace"
)

// event is one line of go test -json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// outcome is what one run of go test came to.
type outcome struct {
	passed, failed, skipped int
	packages                int
	fails                   []Failed // failed tests, packages without a failed test among them
	builds                  map[string]*bytes.Buffer
	output                  map[string]*bytes.Buffer // by package and test
	ran                     map[string]string        // last action by package and test
	stderr                  string
	elapsed                 time.Duration
}

// Failed is a test that failed; Test is empty when the package as a whole did.
type Failed struct {
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`
	Seconds float64 `json:"seconds"`
	Reason  string  `json:"reason,omitempty" jsonschema:"the first line of output that looks like the reason"`
}

func key(pkg, test string) string { return pkg + "\x00" + test }

// gotest runs the tests of the given folders. Tests may write files: the view is
// told to look again. Files may be edited meanwhile; then the answer says so.
func (t *toolset) gotest(ctx context.Context, c *toolsets.Call, s *workspace.Session, folders []string, pattern string) (*outcome, error) {
	opt := t.options.Load()
	args := []string{"go", "test", "-json", "-vet=off", "-count=1"}
	if pattern != "" {
		args = append(args, "-run="+pattern)
	}
	if opt.timeout > 0 {
		args = append(args, "-timeout="+opt.timeout.String())
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opt.timeout+5*time.Second, errTimeout)
		defer cancel()
	}
	args = append(args, folders...)
	o := &outcome{builds: map[string]*bytes.Buffer{}, output: map[string]*bytes.Buffer{}, ran: map[string]string{}}
	s.Release()
	version := s.View.Version()
	defer func() {
		if s.View.Version() != version {
			s.View.Note("files were edited while the tests ran; tests that were built before do not show it")
		}
		s.View.Touched()
	}()
	start := time.Now()
	out, err := run.Run(ctx, run.Cmd{Args: args, Dir: s.View.Dir, Env: s.GoEnv, Memory: opt.memory, Sweep: true, MaxOutput: 4 << 20,
		Lines: func(line []byte) { o.line(line, opt.output, c, len(folders)) }})
	o.elapsed = time.Since(start)
	if errors.Is(err, errTimeout) {
		return nil, toolsets.Failf(toolsets.Timeout, "the tests took longer than %v and were stopped; %d had passed and %d failed; run fewer at once", opt.timeout, o.passed, o.failed)
	}
	if err != nil {
		return nil, err
	}
	o.stderr = strings.TrimSpace(string(out.Stderr))
	if out.Code != 0 && o.failed == 0 && len(o.fails) == 0 {
		return nil, toolsets.Failf(toolsets.CompileError, "go test could not run: %s", toolsets.Cut(o.stderr))
	}
	return o, nil
}

var errTimeout = errors.New("the time for testing is over")

func (o *outcome) line(line []byte, max int, c *toolsets.Call, total int) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		return
	}
	switch e.Action {
	case "build-output":
		add(o.builds, strings.Fields(e.ImportPath + " ")[0], e.Output, max)
	case "output":
		add(o.output, key(e.Package, e.Test), e.Output, max)
		if e.Test != "" {
			if parent, _, sub := strings.Cut(e.Test, "/"); sub {
				add(o.output, key(e.Package, parent), e.Output, max)
			}
		}
	case "pass", "fail", "skip":
		o.finished(e)
		c.Progress(o.passed+o.failed+o.skipped, 0, fmt.Sprintf("%d passed, %d failed, %d of %d packages", o.passed, o.failed, o.packages, total))
	}
}

func (o *outcome) finished(e event) {
	o.ran[key(e.Package, e.Test)] = e.Action
	if e.Test == "" {
		o.packages++
		if e.Action == "fail" && !slices.ContainsFunc(o.fails, func(f Failed) bool { return f.Package == e.Package }) {
			f := Failed{Package: e.Package, Seconds: e.Elapsed, Reason: "the package failed outside of a test"}
			if e.FailedBuild != "" {
				f.Reason = "does not build"
			}
			o.fails = append(o.fails, f)
		}
		return
	}
	switch e.Action {
	case "pass":
		o.passed++
	case "skip":
		o.skipped++
	case "fail":
		o.failed++
		reason := ""
		if b := o.output[key(e.Package, e.Test)]; b != nil {
			if lines := failureLines(b.String()); len(lines) > 0 {
				reason = lines[0].Text
			}
		}
		o.fails = append(o.fails, Failed{e.Package, e.Test, e.Elapsed, reason})
	}
}

func add(m map[string]*bytes.Buffer, k, text string, max int) {
	b := m[k]
	if b == nil {
		b = &bytes.Buffer{}
		m[k] = b
	}
	if room := max - b.Len(); len(text) > room {
		text = strings.ToValidUTF8(text[:room], "")
	}
	b.WriteString(text)
}

// buildFailure is the failure of kind compileError when something did not build,
// nil when everything did.
func (o *outcome) buildFailure() error {
	if len(o.builds) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("tests do not build:")
	var names []string
	for name := range o.builds {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteString("\n" + strings.TrimRight(o.builds[name].String(), "\n"))
	}
	return &toolsets.Failure{Kind: toolsets.CompileError, Text: toolsets.Cut(b.String()), Data: names}
}

// FailureLine is a line of a test's output that reports a failure.
type FailureLine struct {
	Position string `json:"position"`
	Text     string `json:"text"`
}

// failureLines finds the lines that the testing package prefixed with file:line.
func failureLines(output string) []FailureLine {
	var out []FailureLine
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " \t")
		if trimmed == line { // not indented: printed by the test itself
			continue
		}
		file, rest, ok := strings.Cut(trimmed, ":")
		num, text, ok2 := strings.Cut(rest, ": ")
		if _, err := strconv.Atoi(num); ok && ok2 && err == nil && strings.HasSuffix(file, ".go") {
			out = append(out, FailureLine{path.Base(file) + ":" + num, text})
		}
	}
	return out
}

package testing

import (
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

// outcome is what one run of go test came to. Of tests that have ended only
// counts and reasons are kept, but for the one that was asked for.
type outcome struct {
	passed, failed, skipped int
	packages                int
	fails                   []Failed // the first maxFailed, packages without a failed test among them
	unlisted                int      // failures that are not in fails
	builds                  map[string]*run.Bounded
	built                   int               // bytes in builds
	reasons                 map[string]string // by package and test: of those that run
	output                  *output           // of the test that was asked for; nil when it was all
	badPattern              string            // why the pattern is none
	stderr                  string
	elapsed                 time.Duration
}

// Bounds of what is kept of a run.
const (
	maxFailed = 10_000  // failures
	maxReason = 300     // bytes of a reason
	maxBuilds = 1 << 20 // bytes of what the compiler says
)

// output is what one test says, and its package besides: when a test ends the
// whole test binary, the package says why.
type output struct {
	test      string
	own, rest run.Bounded
	ended     bool
}

func (o *output) add(e event) {
	b := &o.rest
	if e.Test == o.test || strings.HasPrefix(e.Test, o.test+"/") {
		b = &o.own
	} else if e.Test != "" && !strings.HasPrefix(o.test, e.Test+"/") {
		return // of another test
	}
	_, _ = b.Write([]byte(e.Output))
}

func (o *output) String() string {
	s := string(o.own.Bytes())
	if !o.ended {
		s += string(o.rest.Bytes())
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Failed is a test that failed; Test is empty when the package as a whole did.
type Failed struct {
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`
	Seconds float64 `json:"seconds"`
	Reason  string  `json:"reason,omitempty" jsonschema:"the first line of output that looks like the reason"`
}

func key(pkg, test string) string { return pkg + "\x00" + test }

// gotest runs the tests of the given folders. The output of one test is kept when
// it is named. Tests may write files: the view is told to look again. Files may be
// edited meanwhile; then the answer says so.
func (t *toolset) gotest(ctx context.Context, c *toolsets.Call, s *workspace.Session, folders []string, pattern, test string) (*outcome, error) {
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
	o := newOutcome(test, opt.output)
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
		Lines: func(line []byte) { o.line(line, c, len(folders)) }})
	o.elapsed = time.Since(start)
	if errors.Is(err, errTimeout) {
		return nil, toolsets.Failf(toolsets.Timeout, "the tests took longer than %v and were stopped; %d had passed and %d failed; run fewer at once", opt.timeout, o.passed, o.failed)
	}
	if err != nil {
		return nil, err
	}
	if o.badPattern != "" {
		return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"pattern\": %s", toolsets.Cut(o.badPattern))
	}
	o.stderr = strings.TrimSpace(string(out.Stderr))
	if out.Code != 0 && o.failed == 0 && len(o.fails) == 0 {
		return nil, toolsets.Failf(toolsets.CompileError, "go test could not run: %s", toolsets.Cut(o.stderr))
	}
	return o, nil
}

var errTimeout = errors.New("the time for testing is over")

func newOutcome(test string, most int) *outcome {
	o := &outcome{builds: map[string]*run.Bounded{}, reasons: map[string]string{}}
	if test != "" {
		o.output = &output{test: strings.ReplaceAll(test, " ", "_"), own: run.Bounded{Max: most}, rest: run.Bounded{Max: most}}
	}
	return o
}

// line takes one line of what go test -json says of total packages.
func (o *outcome) line(line []byte, c *toolsets.Call, total int) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		return
	}
	switch e.Action {
	case "build-output":
		o.compiler(strings.Fields(e.ImportPath + " ")[0], e.Output)
	case "output":
		if o.output != nil {
			o.output.add(e)
		}
		o.reason(e)
		if v, ok := lostVerdict(e); ok {
			o.finished(v)
		}
	case "pass", "fail", "skip":
		o.finished(e)
		c.Progress(o.passed+o.failed+o.skipped, 0, fmt.Sprintf("%d passed, %d failed, %d of %d packages", o.passed, o.failed, o.packages, total))
	}
}

// verdictMark precedes what the testing package says of a test. The go command
// takes it out where it has understood that.
const verdictMark = "\x16"

// lostVerdict finds how a test ended that printed a multiple of 4096 bytes without
// a newline before: the go command takes that for output, and says nothing of its
// end.
func lostVerdict(e event) (event, bool) {
	line, ok := strings.CutPrefix(e.Output, verdictMark)
	if !ok {
		return event{}, false
	}
	line = strings.TrimLeft(line, " ")
	for _, action := range []string{"pass", "fail", "skip"} {
		if rest, ok := strings.CutPrefix(line, "--- "+strings.ToUpper(action)+": "); ok {
			test, _, _ := strings.Cut(rest, " (")
			return event{Action: action, Package: e.Package, Test: test}, e.Test != ""
		}
	}
	return event{}, false
}

// compiler keeps what the compiler says of a package.
func (o *outcome) compiler(pkg, text string) {
	b := o.builds[pkg]
	if b == nil {
		b = &run.Bounded{Max: toolsets.MaxValue}
		o.builds[pkg] = b
	}
	if o.built += len(text); o.built <= maxBuilds {
		_, _ = b.Write([]byte(text))
	}
}

// reason keeps the first line that looks like why a test fails, for it and for
// those that it is a part of.
func (o *outcome) reason(e event) {
	why := ""
	switch lines := failureLines(e.Output); {
	case len(lines) > 0:
		why = lines[0].Text
	case e.Test == "" && strings.HasPrefix(e.Output, "testing: invalid regexp"):
		o.badPattern = strings.TrimSpace(e.Output)
		return
	case strings.HasPrefix(e.Output, "panic: "):
		if why = strings.TrimSpace(e.Output); e.Test == "" {
			why = "the package failed outside of a test: " + why
		}
	default:
		return
	}
	if len(why) > maxReason {
		why = strings.ToValidUTF8(why[:maxReason], "") + "…"
	}
	for test := e.Test; ; {
		if k := key(e.Package, test); o.reasons[k] == "" && len(o.reasons) < maxFailed {
			o.reasons[k] = why
		}
		i := strings.LastIndexByte(test, '/')
		if i < 0 {
			return
		}
		test = test[:i]
	}
}

func (o *outcome) finished(e event) {
	k := key(e.Package, e.Test)
	reason := o.reasons[k]
	delete(o.reasons, k)
	if e.Test == "" {
		o.packages++
		if e.Action == "fail" && !slices.ContainsFunc(o.fails, func(f Failed) bool { return f.Package == e.Package }) {
			switch {
			case e.FailedBuild != "":
				reason = "does not build"
			case reason == "":
				reason = "the package failed outside of a test"
			}
			o.fail(Failed{Package: e.Package, Seconds: e.Elapsed, Reason: reason})
		}
		return
	}
	if o.output != nil && e.Test == o.output.test {
		o.output.ended = true
	}
	switch e.Action {
	case "pass":
		o.passed++
	case "skip":
		o.skipped++
	case "fail":
		o.failed++
		o.fail(Failed{e.Package, e.Test, e.Elapsed, reason})
	}
}

func (o *outcome) fail(f Failed) {
	if len(o.fails) >= maxFailed {
		o.unlisted++
		return
	}
	o.fails = append(o.fails, f)
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
		b.WriteString("\n" + strings.TrimRight(string(o.builds[name].Bytes()), "\n"))
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

// Package execution is the toolset that runs Go code inside the view's module.
// The code runs as the account and may do whatever the account may.
package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/workspace"
)

type toolset struct {
	ws      *workspace.Workspace
	options atomic.Pointer[options]
}

type options struct {
	timeout time.Duration // of the run, unless the call says otherwise
	most    time.Duration // that a call may ask for
	memory  uint64        // bytes, 0 for no bound
	output  int           // bytes kept of what is printed
}

// Default limits.
const (
	defaultTimeout = 30 * time.Second
	defaultMost    = 10 * time.Minute
	defaultMemory  = 4096    // MiB
	defaultOutput  = 200_000 // bytes
	buildTimeout   = 10 * time.Minute
)

// New returns the toolset over a workspace.
func New(ws *workspace.Workspace) toolsets.Toolset {
	t := &toolset{ws: ws}
	t.options.Store(&options{defaultTimeout, defaultMost, defaultMemory << 20, defaultOutput})
	return toolsets.Toolset{
		Name:    "execution",
		Summary: "Runs Go code inside the workspace's module.",
		Options: []toolsets.Option{
			{Name: "timeout", Type: toolsets.Duration, Default: defaultTimeout, Meaning: "How long code may run unless the call says otherwise."},
			{Name: "max_timeout", Type: toolsets.Duration, Default: defaultMost, Meaning: "The longest that a call may ask for."},
			{Name: "memory_mb", Type: toolsets.Integer, Default: defaultMemory, Meaning: "Most data that the code may have, in MiB; 0 for no limit."},
			{Name: "output", Type: toolsets.Integer, Default: defaultOutput, Meaning: "Most bytes of output that are kept."},
		},
		Configure: func(v toolsets.Values) error {
			o := &options{v.Duration("timeout"), v.Duration("max_timeout"), uint64(max(0, v.Int("memory_mb"))) << 20, v.Int("output")}
			if v.Int("memory_mb") < 0 || o.output < 1 || o.timeout <= 0 || o.most < o.timeout {
				return errors.New("memory_mb must not be negative, output at least 1, timeout more than 0 and max_timeout not less than timeout")
			}
			t.options.Store(o)
			return nil
		},
		Tools: []toolsets.Tool{{
			Name: "execute_code", Title: "Execute code", Viewed: true, Destructive: true, Output: toolsets.OutputOf[Result](), Call: t.execute,
			Description: "Runs Go statements, or an expression, inside the workspace's module, whose packages can be imported, internal ones too. Answers what was printed, then the value of a final expression. Missing imports are found.",
			Params: []toolsets.Param{
				{Name: "code", Type: toolsets.String, Required: true, Meaning: "Statements as they stand in a function's body, or one expression. No package clause and no imports."},
				{Name: "imports", Type: toolsets.Strings, Meaning: "Import paths that the code needs, each optionally with a name before it (\"str strings\"). Most are found without."},
				{Name: "timeout", Type: toolsets.Integer, Bounded: true, Min: 1, Max: 86_400, Meaning: "Seconds that the code may run."},
			},
		}},
	}
}

// Result is the answer of execute_code.
type Result struct {
	Stdout string   `json:"stdout"`
	Stderr string   `json:"stderr,omitempty"`
	Values []string `json:"values" jsonschema:"the values of the final expression, in Go's syntax"`
	Exit   int      `json:"exit" jsonschema:"exit code"`
	Cut    bool     `json:"cut,omitempty" jsonschema:"not all output was kept"`
}

func (r Result) text() string {
	var parts []string
	if s := strings.TrimRight(r.Stdout, "\n"); s != "" {
		parts = append(parts, s)
	}
	if s := strings.TrimRight(r.Stderr, "\n"); s != "" {
		parts = append(parts, "stderr:\n"+s)
	}
	if len(r.Values) > 0 {
		parts = append(parts, "=> "+strings.Join(r.Values, ", "))
	}
	if r.Cut {
		parts = append(parts, "(not all output was kept)")
	}
	if len(parts) == 0 {
		return "(no output)"
	}
	return toolsets.Cut(strings.Join(parts, "\n"))
}

func (t *toolset) execute(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	opt := t.options.Load()
	timeout := time.Duration(c.Int("timeout", int(opt.timeout.Seconds()))) * time.Second
	if timeout > opt.most {
		return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"timeout\" must be at most %d seconds here", int(opt.most.Seconds()))
	}
	p, err := parseCode(c.String("code"), c.Strings("imports"))
	if err != nil {
		return nil, err
	}
	s, snap, err := t.ws.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := p.place(ctx, snap, s); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "gatehouse-exec-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the program: %w", err)
	}
	defer os.RemoveAll(tmp)
	c.Progress(0, 0, "building")
	if err := p.build(ctx, s, tmp, true); err != nil {
		return nil, err
	}
	s.Release()
	c.Progress(1, 0, "running")
	defer s.View.Touched()
	return runProgram(ctx, s, p, tmp, timeout, opt)
}

var errTimeout = errors.New("the time for the code is over")

// runProgram runs what was built. Values of the final expression come over
// descriptor 3, so that the code's own output can't be taken for one.
func runProgram(ctx context.Context, s *workspace.Session, p *code, tmp string, timeout time.Duration, opt *options) (*toolsets.Result, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	values := make(chan []string, 1)
	go func() { values <- readValues(r) }()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	out, err := run.Run(ctx, run.Cmd{Args: []string{filepath.Join(tmp, "program")}, Dir: filepath.Join(s.View.Dir, filepath.FromSlash(p.moduleDir)),
		Env: s.GoEnv, Memory: opt.memory, MaxOutput: opt.output, Sweep: true, Extra: []*os.File{w}})
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(time.Second)) // a process that escaped may hold the other end
	stderr := valid(out.Stderr)
	why := ""
	if err == nil && out.Code != 0 {
		why, stderr = whyEnded(out, stderr)
	}
	res := Result{Stdout: toolsets.Cut(valid(out.Stdout)), Stderr: toolsets.Cut(stderr), Values: <-values, Exit: out.Code, Cut: out.Cut}
	if res.Values == nil {
		res.Values = []string{}
	}
	switch {
	case errors.Is(err, errTimeout):
		return nil, &toolsets.Failure{Kind: toolsets.Timeout, Data: res, Text: fmt.Sprintf("the code ran longer than %v and was stopped; until then it said:\n%s", timeout, res.text())}
	case err != nil:
		return nil, err
	case why != "":
		return nil, &toolsets.Failure{Kind: toolsets.Other, Data: res, Text: why + "\n" + res.text()}
	}
	return &toolsets.Result{Text: res.text(), Data: res}, nil
}

// whyEnded words why the code failed. A panic's report is shortened in what the
// code said.
func whyEnded(out run.Output, stderr string) (why, trimmed string) {
	if msg, trimmed, ok := trimPanic(stderr); ok {
		return "the code panicked: " + toolsets.Cut(msg), trimmed
	}
	if out.Signal != 0 {
		return fmt.Sprintf("the code was ended by a signal (%v)", out.Signal), stderr
	}
	return fmt.Sprintf("the code ended with exit code %d", out.Code), stderr
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// maxValues bounds how much of what comes over descriptor 3 is kept, in bytes.
const maxValues = 8 << 20

// readValues reads the JSON strings that the program's helper wrote, and drops
// what is too much, so that the program does not block.
func readValues(r *os.File) []string {
	defer func() { _, _ = io.Copy(io.Discard, r) }()
	var out []string
	dec := json.NewDecoder(io.LimitReader(r, maxValues))
	for {
		var v string
		if dec.Decode(&v) != nil {
			return out
		}
		if len(out) < 100 {
			out = append(out, toolsets.Cut(v))
		}
	}
}

// trimPanic takes out of a panic's report, the last thing that is said, the frames
// that are not of the given code. ok is false when there is no panic.
func trimPanic(stderr string) (msg, trimmed string, ok bool) {
	start := max(strings.LastIndex("\n"+stderr, "\npanic: "), strings.LastIndex("\n"+stderr, "\nfatal error: "))
	if start < 0 {
		return "", "", false
	}
	var keep []string
	lines := strings.Split(stderr[start:], "\n")
	i := 0
	for ; i < len(lines) && !strings.HasPrefix(lines[i], "goroutine "); i++ {
		if strings.TrimSpace(lines[i]) != "" {
			keep = append(keep, lines[i])
		}
	}
	if len(keep) == 0 {
		return "", "", false
	}
	_, msg, _ = strings.Cut(keep[0], ": ")
	for ; i < len(lines); i++ {
		if at := strings.Index(lines[i], codeFile+":"); at >= 0 {
			place, _, _ := strings.Cut(lines[i][at:], " ")
			keep = append(keep, "    at code"+strings.TrimPrefix(place, codeFile))
		}
	}
	return msg, stderr[:start] + strings.Join(keep, "\n"), true
}

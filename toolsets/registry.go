package toolsets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Registry holds the tools that a worker serves and runs their calls.
type Registry struct {
	served []Toolset
	tools  map[string]*Tool
	footer func(ctx context.Context, view string) []string
	onBug  func(tool string, fault any, stack []byte)

	mu      sync.Mutex // guards running, next
	running map[int]context.CancelCauseFunc
	next    int
	calls   sync.WaitGroup
}

// Config chooses what a Registry serves.
type Config struct {
	// Names are the toolsets to serve, in this order; nil serves all available.
	Names []string
	// Options are the operator's options, keyed by toolset.
	Options map[string]json.RawMessage
	// Footer returns the lines that end every result of a view, such as the
	// reminder of uncommitted changes. Nil for none.
	Footer func(ctx context.Context, view string) []string
	// OnBug is told of a tool that panicked. Nil ignores it.
	OnBug func(tool string, fault any, stack []byte)
}

// New selects among the available toolsets and configures them. Errors say what
// would be accepted: they are for the operator, at the start.
func New(available []Toolset, cfg Config) (*Registry, error) {
	if err := check(available); err != nil {
		panic("toolsets: " + err.Error())
	}
	served, err := choose(available, cfg.Names)
	if err != nil {
		return nil, err
	}
	r := &Registry{served: served, tools: map[string]*Tool{}, footer: cfg.Footer, onBug: cfg.OnBug,
		running: map[int]context.CancelCauseFunc{}}
	for name := range cfg.Options {
		if !slices.ContainsFunc(served, func(ts Toolset) bool { return ts.Name == name }) {
			return nil, fmt.Errorf("options given for toolset %q, which is not served; served are %s", name, names(served))
		}
	}
	for i := range served {
		ts := &served[i]
		values, err := ts.parseOptions(cfg.Options[ts.Name])
		if err != nil {
			return nil, err
		}
		if ts.Configure != nil {
			if err := ts.Configure(values); err != nil {
				return nil, fmt.Errorf("configure toolset %q: %w", ts.Name, err)
			}
		}
		for j := range ts.Tools {
			r.tools[ts.Tools[j].Name] = &ts.Tools[j]
		}
	}
	return r, nil
}

func choose(available []Toolset, want []string) ([]Toolset, error) {
	if want == nil {
		return slices.Clone(available), nil
	}
	var out []Toolset
	for _, name := range want {
		i := slices.IndexFunc(available, func(ts Toolset) bool { return ts.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no toolset %q; there are %s", name, names(available))
		}
		if slices.ContainsFunc(out, func(ts Toolset) bool { return ts.Name == name }) {
			return nil, fmt.Errorf("toolset %q is named twice", name)
		}
		out = append(out, available[i])
	}
	return out, nil
}

// check finds a programmer's mistakes in the declarations.
func check(all []Toolset) error {
	sets, tools := map[string]bool{}, map[string]bool{}
	for _, ts := range all {
		if !compiled(`^[a-z][a-z0-9-]*$`).MatchString(ts.Name) || sets[ts.Name] {
			return fmt.Errorf("toolset %q: bad or repeated name", ts.Name)
		}
		sets[ts.Name] = true
		for _, t := range ts.Tools {
			if !compiled(`^[a-z][a-z0-9_]*$`).MatchString(t.Name) || tools[t.Name] || t.Call == nil {
				return fmt.Errorf("tool %q: bad or repeated name, or nothing to call", t.Name)
			}
			tools[t.Name] = true
			seen := map[string]bool{}
			for _, p := range t.params() {
				if seen[p.Name] || p.Meaning == "" {
					return fmt.Errorf("tool %q: argument %q is repeated or has no meaning", t.Name, p.Name)
				}
				seen[p.Name] = true
			}
		}
	}
	return nil
}

func names(all []Toolset) string {
	var out []string
	for _, ts := range all {
		out = append(out, ts.Name)
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

// Toolsets returns what is served, in order.
func (r *Registry) Toolsets() []Toolset { return r.served }

// Tools returns all tools that are served, in order.
func (r *Registry) Tools() []*Tool {
	var out []*Tool
	for i := range r.served {
		for j := range r.served[i].Tools {
			out = append(out, &r.served[i].Tools[j])
		}
	}
	return out
}

// Answer is a finished call as the protocol wants it.
type Answer struct {
	Text    string
	Data    json.RawMessage // nil when there is none
	IsError bool
}

// ErrUnknownTool is returned by Run for a name that is not served.
var ErrUnknownTool = errors.New("unknown tool")

// Run checks the arguments and runs the tool. It fails with ErrUnknownTool
// alone; everything else that goes wrong is in the answer. progress may be nil.
func (r *Registry) Run(ctx context.Context, tool string, raw []byte, progress func(done, total int, message string)) (*Answer, error) {
	t, ok := r.tools[tool]
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrUnknownTool, tool)
	}
	args, f := parseArgs(t.params(), raw)
	if f != nil {
		return r.answer(ctx, t, DefaultView, nil, f), nil
	}
	c := &Call{Tool: tool, View: DefaultView, Limit: DefaultLimit, args: args, progress: progress}
	if v := c.String(viewParam.Name); t.Viewed && v != "" {
		c.View = v
	}
	if t.Paged {
		c.Limit, c.Offset = c.Int(limitParam.Name, DefaultLimit), c.Int(offsetParam.Name, 0)
	}
	ctx, done := r.track(ctx)
	defer done()
	res, err := r.guard(ctx, t, c)
	return r.answer(ctx, t, c.View, res, err), nil
}

// guard runs the tool; a panic in it costs the call and not the session.
func (r *Registry) guard(ctx context.Context, t *Tool, c *Call) (res *Result, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			if r.onBug != nil {
				r.onBug(t.Name, fault, debug.Stack())
			}
			res, err = nil, Failf(Other, "the tool %s has a fault and could not finish; nothing was reported as done", t.Name)
		}
	}()
	return t.Call(ctx, c)
}

func (r *Registry) answer(ctx context.Context, t *Tool, view string, res *Result, err error) *Answer {
	a := &Answer{}
	if f, ok := err.(*Failure); ok && f == nil {
		err = nil
	}
	switch {
	case err != nil:
		f := asFailure(ctx, err)
		a.IsError, a.Text = true, Cut(f.Text)
		a.Data = cutValues(marshal(errorBody{errorInfo{f.Kind, a.Text, f.Data}}))
	default:
		a.Text = res.Text
		if t.Output != nil {
			a.Data = cutValues(marshal(res.Data))
		}
	}
	if r.footer != nil {
		// The call's own context may have ended; the reminder is due all the same.
		for _, line := range r.footer(context.WithoutCancel(ctx), view) {
			a.Text += "\n" + line
		}
	}
	return a
}

func (r *Registry) track(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.next
	r.next++
	r.running[id] = cancel
	r.calls.Add(1)
	return ctx, func() {
		defer r.calls.Done()
		r.mu.Lock()
		delete(r.running, id)
		r.mu.Unlock()
		cancel(nil)
	}
}

// Interrupt gives up all running calls and keeps everything else. It reports how
// many there were.
func (r *Registry) Interrupt() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cancel := range r.running {
		cancel(ErrInterrupted)
	}
	return len(r.running)
}

// Drain waits until no call runs any more, or ctx ends. Nobody may start calls
// meanwhile. It reports whether all have ended.
func (r *Registry) Drain(ctx context.Context) bool {
	done := make(chan struct{})
	go func() {
		r.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

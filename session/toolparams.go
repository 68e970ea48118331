package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// toolParams knows which arguments of which tools clients mirror into headers
// (2026-07-28, basic/transports, "Custom Headers from Tool Parameters"). It asks the
// worker once, and again when the worker says that its tools changed. A worker that
// does not say which tools it has counts for a while as one that marks no arguments.
type toolParams struct {
	mu     sync.Mutex // guards what follows
	known  bool
	change uint64 // counts what the worker said
	of     map[string][]era.Param
	silent time.Time // until when a worker that did not say is not asked again
	warned bool
	asking *listing // the question under way; nil: none
}

// listing is one question; all who need the answer wait for it.
type listing struct {
	done chan struct{} // closed when err is set
	err  error
}

// Bounds of the question.
const (
	toolsLimit  = 10 * time.Second
	toolsSilent = time.Minute // after one that failed
	maxPages    = 64
)

func (p *toolParams) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.silent = false, time.Time{}
	p.change++
}

// changes counts what the worker said.
func (p *toolParams) changes() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.change
}

// keepTools keeps a response to tools/list for the next who asks, unless the worker has
// said since it was asked that its tools changed; known is what changes returned then.
func (s *Session) keepTools(response []byte, known uint64) {
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	if s.tools.change == known {
		s.t.answers.rememberTools(s.key, response, s.t.now())
	}
}

// ToolParams are the arguments of a tool that its clients mirror into headers.
//
// Errors: *Error of KindBusy when too many calls run to ask the worker; ctx.Err().
func (s *Session) ToolParams(ctx context.Context, tool []byte) ([]era.Param, error) {
	p := &s.tools
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known || s.t.now().Before(p.silent) {
		return p.of[string(tool)], nil
	}
	asking := p.asking
	if asking == nil {
		asking = &listing{done: make(chan struct{})}
		p.asking = asking
		go s.loadTools(asking, p.change)
	}
	p.mu.Unlock()
	select {
	case <-asking.done:
	case <-ctx.Done():
	}
	p.mu.Lock()
	return p.of[string(tool)], s.gone(cmp.Or(ctx.Err(), asking.err))
}

// loadTools asks the worker for its tools; change is what it had said before. It does
// not end with the request that needed it first, because others may wait as well.
func (s *Session) loadTools(asking *listing, change uint64) {
	ctx, cancel := context.WithTimeout(s.t.ctx, toolsLimit)
	defer cancel()
	found, err := s.listTools(ctx)
	p := &s.tools
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = nil
	defer close(asking.done)
	if errors.Is(err, bridge.ErrBusy) { // it was not asked
		asking.err = err
		return
	}
	p.of, p.known = found, err == nil && p.change == change
	if err == nil || s.b.Reason() != "" {
		return
	}
	p.silent = s.t.now().Add(toolsSilent)
	if !p.warned {
		p.warned = true
		s.log().Warn().Err(err).Msg("the worker does not list its tools: headers that mirror arguments are not compared")
	}
}

// errNoTools: the worker refused to list its tools.
var errNoTools = errors.New("session: the worker refused tools/list")

// listTools lists the worker's tools. After an error there are none.
func (s *Session) listTools(ctx context.Context) (map[string][]era.Param, error) {
	found := map[string][]era.Param{}
	complete := !s.server.Has("tools", "")
	var cursor []byte
	for page := 0; page < maxPages && !complete; page++ {
		answer, err := s.b.Ask(ctx, s.toolsRequest(cursor))
		if err != nil {
			return nil, err
		}
		m, err := jsonrpc.ParseWorker(answer)
		if err != nil {
			return nil, err
		}
		if !m.Result.Present() {
			return nil, errNoTools
		}
		result := m.Result.Of(m.Raw)
		era.ToolParams(found, jsonrpc.Value(result, "tools"))
		next := jsonrpc.Value(result, "nextCursor")
		if complete = jsonrpc.Unquote(next) == nil || bytes.Equal(next, cursor); !complete {
			cursor = bytes.Clone(next)
		}
	}
	return found, nil
}

// toolsRequest is our own request for a page of tools.
func (s *Session) toolsRequest(cursor []byte) *jsonrpc.Message {
	var more []jsonrpc.Member
	if cursor != nil {
		more = []jsonrpc.Member{{Name: "cursor", Value: cursor}}
	}
	m := mustParse(append(append([]byte(`{"jsonrpc":"2.0","id":"t","method":"tools/list","params":`), jsonrpc.AppendObject(nil, nil, nil, more...)...), '}'))
	if s.modern.Load() {
		m = mustParse(era.RequestToModern(nil, m, m.IDBytes(), era.Nobody))
	}
	return m
}

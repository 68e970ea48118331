package session

import (
	"bytes"
	"context"
	"sync"
	"time"

	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// toolParams knows which arguments of which tools clients mirror into headers
// (2026-07-28, basic/transports, "Custom Headers from Tool Parameters"). It asks the
// worker once, and again when the worker says that its tools changed.
type toolParams struct {
	loading sync.Mutex // one question at a time

	mu     sync.Mutex // guards what follows
	loaded bool
	change uint64 // counts what the worker said
	of     map[string][]era.Param
}

// Bounds of the question.
const (
	toolsLimit = 10 * time.Second
	maxPages   = 64
)

func (p *toolParams) changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loaded = false
	p.change++
}

func (p *toolParams) get(tool []byte) (params []era.Param, loaded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[string(tool)], p.loaded
}

// ToolParams are the arguments of a tool that its clients mirror into headers. A
// worker that can't be asked has none.
func (s *Session) ToolParams(ctx context.Context, tool []byte) []era.Param {
	params, loaded := s.tools.get(tool)
	if loaded {
		return params
	}
	s.tools.loading.Lock()
	defer s.tools.loading.Unlock()
	if params, loaded = s.tools.get(tool); !loaded {
		s.loadTools(ctx)
		params, _ = s.tools.get(tool)
	}
	return params
}

// loadTools lists the worker's tools.
func (s *Session) loadTools(ctx context.Context) {
	s.tools.mu.Lock()
	change := s.tools.change
	s.tools.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, toolsLimit)
	defer cancel()
	found := map[string][]era.Param{}
	complete := !s.server.Has("tools", "")
	var cursor []byte
	for page := 0; page < maxPages && !complete; page++ {
		answer, err := s.b.Ask(ctx, s.toolsRequest(cursor))
		if err != nil {
			break
		}
		m, err := jsonrpc.ParseWorker(answer)
		if err != nil || !m.Result.Present() {
			complete = true // it has none
			break
		}
		result := m.Result.Of(m.Raw)
		era.ToolParams(found, jsonrpc.Value(result, "tools"))
		next := jsonrpc.Value(result, "nextCursor")
		if complete = jsonrpc.Unquote(next) == nil || bytes.Equal(next, cursor); !complete {
			cursor = bytes.Clone(next)
		}
	}
	if !complete && ctx.Err() != nil {
		return // the next call asks again
	}
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	s.tools.of = found
	s.tools.loaded = s.tools.change == change
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

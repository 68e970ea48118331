package session

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// answers keeps what the workers of the modern era's clients said about themselves,
// for as long as they said it holds, so that nothing is started to say it again. An
// answer belongs to one principal with its scopes at one server.
type answers struct {
	mu    sync.Mutex
	of    map[key]*said
	bytes int // of all results
}

type said struct {
	discover, tools           []byte // results
	discoverUntil, toolsUntil time.Time
}

// For how many keys answers are kept, how long one may be to be kept, and how long all
// are, in bytes.
const (
	maxAnswers  = 1024
	answerRoom  = 1 << 20
	answersRoom = 32 << 20
)

// Answer returns the response to a request of the modern era that can be answered
// without a worker: server/discover and the first page of tools/list, while an
// earlier answer to the same principal holds.
func (t *Table) Answer(server uint16, c Caller, m *jsonrpc.Message) ([]byte, bool) {
	discover := m.Is("server/discover")
	if !discover && !(m.Is("tools/list") && firstPage(m)) {
		return nil, false
	}
	k := key{c.Principal, server, "", string(appendShared(nil, c))}
	t.mu.RLock()
	live := t.sessions[k]
	t.mu.RUnlock()
	if live != nil {
		if discover {
			live.seen(c)
			live.touch()
			return era.Result(m.IDBytes(), live.server.Discover()), true
		}
		return nil, false
	}
	t.answers.mu.Lock()
	defer t.answers.mu.Unlock()
	s := t.answers.of[k]
	switch now := t.now(); {
	case s == nil:
	case discover && now.Before(s.discoverUntil):
		return era.Result(m.IDBytes(), era.Lasting(s.discover, s.discoverUntil.Sub(now))), true
	case !discover && now.Before(s.toolsUntil):
		return era.Result(m.IDBytes(), era.Lasting(s.tools, s.toolsUntil.Sub(now))), true
	}
	return nil, false
}

// firstPage reports whether a list request names no cursor.
func firstPage(m *jsonrpc.Message) bool {
	return jsonrpc.Value(m.Params.Of(m.Raw), "cursor") == nil
}

// remember keeps the answer to server/discover or tools/list. ttl is in
// milliseconds; a day at most counts.
func (a *answers) remember(k key, discover bool, result []byte, ttl int, now time.Time) {
	if ttl <= 0 || len(result) > answerRoom {
		return
	}
	until := now.Add(time.Duration(min(ttl, 86_400_000)) * time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil || len(a.of) >= maxAnswers && a.of[k] == nil || a.bytes+len(result) > answersRoom {
		a.of, a.bytes = map[key]*said{}, 0
	}
	s := a.of[k]
	if s == nil {
		s = new(said)
		a.of[k] = s
	}
	old := &s.tools
	if discover {
		old, s.discoverUntil = &s.discover, until
	} else {
		s.toolsUntil = until
	}
	a.bytes += len(result) - len(*old)
	*old = bytes.Clone(result)
}

// rememberTools keeps a response to tools/list that says how long it holds.
func (a *answers) rememberTools(k key, response []byte, now time.Time) {
	m, err := jsonrpc.ParseWorker(response)
	if err != nil || !m.Result.Present() {
		return
	}
	result := m.Result.Of(m.Raw)
	ttl, err := strconv.Atoi(string(jsonrpc.Value(result, "ttlMs")))
	if err == nil {
		a.remember(k, false, result, ttl, now)
	}
}

// forget drops a list of tools that has changed.
func (a *answers) forget(k key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.of[k]; s != nil {
		a.bytes -= len(s.tools)
		s.tools, s.toolsUntil = nil, time.Time{}
	}
}

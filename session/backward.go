package session

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// legacyClient is what a legacy client's session at a modern worker keeps, because
// the worker keeps nothing (guarded by Session.backLock where it changes).
type legacyClient struct {
	client  *era.Client
	subs    []string
	lastAsk uint64
	asking  map[uint64]*backward // by the id of a question
}

// Bounds of a modern worker's questions: how often it may ask during one call, and how
// many wait for the answers of one client.
const (
	maxRetries = 32
	maxAsking  = 256
)

// backward is a request of a legacy client at a modern worker. An input_required
// result becomes requests to the client on the call's own stream, and what it
// answers becomes the retry.
type backward struct {
	s           *Session
	call        *bridge.Call
	request     jsonrpc.Message // a copy; what the client sent
	mode        Mode
	signal      chan struct{} // one token: look again; made when there is something to wait for
	retries     int
	translation era.Translation

	// Guarded by s.backLock.
	apart   bool              // the client lost its connection and may come back
	until   time.Time         // when the client has to have answered; zero: never
	queue   [][]byte          // questions on their way to the client
	waiting map[uint64]string // questions without an answer, by our id: the key
	kinds   map[uint64]string // their methods
	answers []jsonrpc.Member
	state   []byte // of the worker, as it stands in its result
	failed  []byte // why the call can't go on: an error response
	ended   error
	closed  bool
}

// toModern begins a legacy client's request at a modern worker.
func (s *Session) toModern(ctx context.Context, x *Exchange, m *jsonrpc.Message, mode Mode) error {
	switch string(m.Method()) {
	case "ping":
		x.other = &canned{Item{Bytes: era.Result(m.IDBytes(), []byte("{}")), Final: true}}
		return nil
	case "logging/setLevel":
		x.other = &canned{s.setLevel(m)}
		return nil
	case "resources/subscribe", "resources/unsubscribe":
		x.other = &canned{s.subscribe(ctx, m)}
		return nil
	case "server/discover", "subscriptions/listen":
		x.other = &canned{refused(m, jsonrpc.CodeMethodNotFound, "the method does not exist in this protocol version")}
		return nil
	}
	if era.Task(m.Method()) {
		x.other = &canned{refused(m, jsonrpc.CodeMethodNotFound, "tasks are not translated between protocol versions")}
		return nil
	}
	r := &backward{s: s, call: &x.call, request: m.Over(bytes.Clone(m.Raw)), mode: mode}
	if err := r.begin(ctx, r.call); err != nil {
		return err
	}
	x.other = r
	return nil
}

func refused(m *jsonrpc.Message, code int, text string) Item {
	return Item{Bytes: era.Error(m.IDBytes(), code, text, nil), Final: true, Code: code}
}

// setLevel keeps the level that the client's requests carry from now on.
func (s *Session) setLevel(m *jsonrpc.Message) Item {
	level := jsonrpc.Value(m.Params.Of(m.Raw), "level")
	if era.LogLevel(level) == 0 {
		return refused(m, jsonrpc.CodeInvalidParams, "unknown log level")
	}
	s.backLock.Lock()
	c := *s.legacy.client
	c.Level = bytes.Clone(level)
	s.legacy.client = era.NewClient(c)
	s.backLock.Unlock()
	return Item{Bytes: era.Result(m.IDBytes(), []byte("{}")), Final: true}
}

// subscribe adds a resource to the front end's subscription at the worker, or takes
// it out.
func (s *Session) subscribe(ctx context.Context, m *jsonrpc.Message) Item {
	uri := string(jsonrpc.Unquote(m.URI.Of(m.Raw)))
	switch {
	case uri == "":
		return refused(m, jsonrpc.CodeInvalidParams, `"uri" is missing`)
	case !s.server.Has("resources", "subscribe"):
		return refused(m, jsonrpc.CodeMethodNotFound, "the server has no resource subscriptions")
	}
	s.backLock.Lock()
	at := -1
	for i, have := range s.legacy.subs {
		if have == uri {
			at = i
		}
	}
	begin := m.Is("resources/subscribe") && at < 0
	end := m.Is("resources/unsubscribe") && at >= 0
	switch {
	case begin && len(s.legacy.subs) >= 256:
		s.backLock.Unlock()
		return refused(m, jsonrpc.CodeInvalidParams, "too many subscriptions")
	case begin:
		s.legacy.subs = append(s.legacy.subs, uri)
	case end:
		s.legacy.subs = append(s.legacy.subs[:at:at], s.legacy.subs[at+1:]...)
	}
	s.backLock.Unlock()
	switch {
	case begin:
		s.interests.add(ctx, s, []string{uri})
	case end:
		s.interests.drop(s, []string{uri})
	}
	return Item{Bytes: era.Result(m.IDBytes(), []byte("{}")), Final: true}
}

// begin starts the call, or its retry with the answers, as the call c of the worker.
func (r *backward) begin(ctx context.Context, c *bridge.Call) error {
	s := r.s
	s.backLock.Lock()
	client := s.legacy.client
	r.translation = era.ToModern(r.request.Method(), client)
	if r.retries > 0 {
		r.translation.More = []jsonrpc.Member{{Name: "inputResponses", Value: jsonrpc.AppendObject(nil, nil, nil, r.answers...)}, {Name: "requestState", Value: r.state}}
	}
	r.answers, r.state = nil, nil
	s.backLock.Unlock()
	return s.b.Begin(ctx, c, &r.request, bridge.Options{Single: r.mode == ModeSingle, Log: era.LogLevel(client.Level), Modern: true, Translation: &r.translation})
}

func (r *backward) next(ctx context.Context, wait time.Duration) (Item, error) {
	until := time.Now().Add(wait)
	for {
		left := time.Duration(0)
		if wait > 0 {
			left = max(time.Until(until), time.Millisecond)
		}
		if item, again, err := r.ask(ctx, wait > 0, left); !again {
			return item, err
		}
		b, final, err := r.call.Next(ctx, left)
		if err != nil {
			return Item{}, err
		}
		if !final || r.call.Translated() {
			return Item{Bytes: b, Final: final, Code: r.call.Code()}, nil
		}
		m, err := jsonrpc.ParseWorker(b)
		if err != nil {
			return Item{}, err
		}
		refusal := []byte(nil)
		if string(jsonrpc.Unquote(m.ResultType.Of(m.Raw))) == "input_required" {
			refusal = r.questions(&m)
		} else {
			refusal = era.Error(r.request.IDBytes(), jsonrpc.CodeInternal, "the worker's result is of a type that this protocol version has not", nil)
		}
		if refusal != nil {
			return Item{Bytes: refusal, Final: true, Code: jsonrpc.CodeInternal}, nil
		}
	}
}

// ask hands out the next question, waits for the answers, or starts the retry when
// there are all. again says that the call itself is to be looked at.
func (r *backward) ask(ctx context.Context, limited bool, left time.Duration) (_ Item, again bool, err error) {
	var timeout, late <-chan time.Time
	for {
		r.s.backLock.Lock()
		switch {
		case r.ended != nil:
			err = r.ended
		case r.failed != nil:
			b := r.failed
			r.s.backLock.Unlock()
			return Item{Bytes: b, Final: true, Code: jsonrpc.CodeInternal}, false, nil
		case len(r.queue) > 0:
			b := r.queue[0]
			r.queue = r.queue[1:]
			r.s.backLock.Unlock()
			return Item{Bytes: b}, false, nil
		case r.waiting == nil:
			r.s.backLock.Unlock()
			return Item{}, true, nil
		case len(r.waiting) == 0:
			r.waiting = nil
			r.s.backLock.Unlock()
			return Item{}, true, r.retry(context.WithoutCancel(ctx)) // which a lost connection does not end
		}
		until := r.until
		r.s.backLock.Unlock()
		if err != nil {
			return Item{}, false, err
		}
		if limited && timeout == nil {
			t := time.NewTimer(left)
			defer t.Stop()
			timeout = t.C
		}
		if !until.IsZero() && late == nil {
			t := time.NewTimer(time.Until(until))
			defer t.Stop()
			late = t.C
		}
		select {
		case <-r.signal:
		case <-timeout:
			return Item{}, false, ErrWait
		case <-late:
			return Item{}, false, bridge.ErrTimeout
		case <-r.s.b.Done():
			return Item{}, false, bridge.ErrGone
		case <-ctx.Done():
			return Item{}, false, ctx.Err()
		}
	}
}

// retry closes the answered call and begins the next.
func (r *backward) retry(ctx context.Context) error {
	r.call.Close()
	next := new(bridge.Call)
	err := r.begin(ctx, next)
	r.s.backLock.Lock()
	r.call = next
	apart := r.apart
	r.s.backLock.Unlock()
	if apart && err == nil {
		next.Detach()
	}
	return err
}

// detach says that the client lost its connection and may come back, or that it has.
func (r *backward) detach(apart bool) {
	r.s.backLock.Lock()
	r.apart = apart
	call := r.call
	r.s.backLock.Unlock()
	if apart {
		call.Detach()
	} else {
		call.Attach()
	}
}

// questions turns an input_required result into requests for the client. What it
// returns is the answer to the client when that can't be.
func (r *backward) questions(m *jsonrpc.Message) []byte {
	s, id := r.s, r.request.IDBytes()
	asks := jsonrpc.Value(m.Result.Of(m.Raw), "inputRequests")
	r.retries++
	switch {
	case r.retries > maxRetries:
		return era.Error(id, jsonrpc.CodeInternal, "the worker asks again and again", nil)
	case r.mode == ModeSingle && asks != nil:
		return era.Error(id, jsonrpc.CodeInternal, "the worker has questions, and Accept does not admit events", nil)
	case !era.Asks(r.request.Method()):
		return era.Error(id, jsonrpc.CodeInternal, "the worker asks during a request that allows no questions", nil)
	}
	s.backLock.Lock()
	defer s.backLock.Unlock()
	r.waiting, r.kinds, r.signal = map[uint64]string{}, map[uint64]string{}, make(chan struct{}, 1)
	r.state = bytes.Clone(m.RequestState.Of(m.Raw))
	if r.until = (time.Time{}); s.t.conf().Lifetime.RequestTimeout > 0 {
		r.until = time.Now().Add(s.t.conf().Lifetime.RequestTimeout)
	}
	if s.legacy.asking == nil {
		s.legacy.asking = map[uint64]*backward{}
	}
	can := inputsOf(s.legacy.client.Capabilities)
	for key, ask := range jsonrpc.Members(asks) {
		method, params := jsonrpc.Unquote(jsonrpc.Value(ask, "method")), jsonrpc.Value(ask, "params")
		needs := map[string]inputs{"sampling/createMessage": canSample, "roots/list": canRoots, "elicitation/create": canForm}[string(method)]
		url := needs == canForm && string(jsonrpc.Unquote(jsonrpc.Value(params, "mode"))) == "url"
		if url {
			needs = canURL
		}
		if can&needs == 0 || len(r.waiting) >= maxInputs || len(s.legacy.asking) >= maxAsking && !s.dropLost() {
			r.forget()
			return era.Error(id, jsonrpc.CodeInternal, "the worker asks for what the client does not support", nil)
		}
		s.legacy.lastAsk++
		n := s.legacy.lastAsk
		r.waiting[n], r.kinds[n] = key, string(method)
		s.legacy.asking[n] = r
		r.queue = append(r.queue, legacyQuestion(n, method, params, url))
	}
	if len(r.waiting) == 0 && r.retries > 3 {
		return era.Error(id, jsonrpc.CodeInternal, "the worker is busy: try again later", nil)
	}
	return nil
}

// legacyQuestion is one question as the legacy era has it: elicitations by URL have an id
// there.
func legacyQuestion(n uint64, method, params []byte, url bool) []byte {
	digits := strconv.AppendUint(nil, n, 10)
	if params == nil {
		params = []byte("{}")
	}
	if url {
		params = jsonrpc.AppendObject(nil, params, func(name []byte) bool { return string(name) == "elicitationId" },
			jsonrpc.Member{Name: "elicitationId", Value: []byte(`"` + string(digits) + `"`)})
	}
	out := jsonrpc.AppendObject(nil, nil, nil,
		jsonrpc.Member{Name: "jsonrpc", Value: []byte(`"2.0"`)}, jsonrpc.Member{Name: "id", Value: digits},
		jsonrpc.Member{Name: "method", Value: jsonrpc.Quote(string(method))}, jsonrpc.Member{Name: "params", Value: params})
	jsonrpc.FlattenLines(out)
	return out
}

// dropLost ends the oldest of the calls that wait for the answer of a client that lost its
// connection, to make room, s.backLock held; false: there is none.
func (s *Session) dropLost() bool {
	oldest := uint64(0)
	for n, r := range s.legacy.asking {
		if r.apart && (oldest == 0 || n < oldest) {
			oldest = n
		}
	}
	r := s.legacy.asking[oldest]
	if r != nil {
		r.unanswered()
	}
	return r != nil
}

// unanswered ends a call whose question the client does not answer, s.backLock held.
func (r *backward) unanswered() {
	r.forget()
	r.failed = era.Error(r.request.IDBytes(), jsonrpc.CodeInternal, "the client did not answer the worker's question", nil)
	r.wake()
}

// running is bridge.Running with the calls that wait for the answer of a legacy client,
// of which a modern worker knows nothing.
func (s *Session) running() (all, attended int) {
	all, attended = s.b.Running()
	s.backLock.Lock()
	defer s.backLock.Unlock()
	if len(s.legacy.asking) == 0 {
		return all, attended
	}
	counted := map[*backward]bool{}
	for _, r := range s.legacy.asking {
		if counted[r] {
			continue
		}
		counted[r] = true
		all++
		if !r.apart {
			attended++
		}
	}
	return all, attended
}

// forget drops the questions, s.backLock held.
func (r *backward) forget() {
	for n := range r.waiting {
		delete(r.s.legacy.asking, n)
	}
	r.waiting, r.queue = nil, nil
}

// answerModern takes a legacy client's answer to a question of a modern worker.
func (s *Session) answerModern(m *jsonrpc.Message) {
	n, err := strconv.ParseUint(string(m.IDBytes()), 10, 64)
	if err != nil {
		return
	}
	s.backLock.Lock()
	defer s.backLock.Unlock()
	r := s.legacy.asking[n]
	if r == nil {
		return
	}
	delete(s.legacy.asking, n)
	key, method := r.waiting[n], r.kinds[n]
	delete(r.waiting, n)
	switch {
	case m.Result.Present():
		quoted := jsonrpc.Quote(key)
		r.answers = append(r.answers, jsonrpc.Member{Name: string(quoted[1 : len(quoted)-1]), Value: bytes.Clone(m.Result.Of(m.Raw))})
	case method == "elicitation/create": // there is a way to say that nothing was entered
		quoted := jsonrpc.Quote(key)
		r.answers = append(r.answers, jsonrpc.Member{Name: string(quoted[1 : len(quoted)-1]), Value: []byte(`{"action":"cancel"}`)})
	default:
		r.unanswered()
	}
	r.wake()
}

func (r *backward) wake() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// notifyModern takes a legacy client's notification for a modern worker, which knows
// of none but cancellation.
func (s *Session) notifyModern(ctx context.Context, m *jsonrpc.Message) error {
	switch string(m.Method()) {
	case "notifications/cancelled":
		named := m.RequestID.Of(m.Raw)
		s.backLock.Lock()
		for _, r := range s.legacy.asking {
			if jsonrpc.SameToken(r.request.IDBytes(), named) {
				r.forget()
				r.ended = bridge.ErrCancelled
				r.wake()
				break
			}
		}
		s.backLock.Unlock()
	case "notifications/initialized", "notifications/progress", "notifications/roots/list_changed":
		return nil
	}
	return s.b.Notify(ctx, m)
}

// close leaves the call running, as the legacy era has it; what waits for answers
// ends.
func (r *backward) close() {
	r.s.backLock.Lock()
	again := r.closed
	r.closed = true
	r.forget()
	r.s.backLock.Unlock()
	if !again {
		r.call.Close()
	}
}

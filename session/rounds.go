package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"gatehouse/session/bridge"
	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// Bounds of calls that wait in a legacy worker for their client's next round.
const (
	quiet     = 50 * time.Millisecond // after which a round's questions are complete
	heldLimit = 10 * time.Minute      // how long a call waits
	maxHeld   = 16                    // of one worker
	maxInputs = 32                    // questions in one round
	inputRoom = 1 << 20               // bytes of them, however long the first is
	maxRounds = 64                    // of one call
)

// round is a request of the modern era in a legacy worker. What the worker asks
// meanwhile becomes an input_required result (2026-07-28, basic/patterns/mrtr), and
// the call stays alive in the worker until the client's next round brings answers.
type round struct {
	s      *Session
	call   *bridge.Call
	can    inputs
	digest [32]byte
	rounds int
	single bool // the client takes the response alone

	asks, lists bool   // the method allows questions; the answer may be kept for the next who asks
	known       uint64 // as in Exchange
	translation era.Translation

	given   map[string][]byte // answers that came before the questions, by key
	asked   map[string]int    // questions so far, by kind
	pending []question
	last    time.Time // when the last of them came
	parked  bool
	over    bool
	denied  inputs // what the worker wanted and the client has not
}

// question is a request of the worker that waits for the client.
type question struct {
	key            string
	id             uint64 // ours
	method, params []byte
}

// round begins a request at a legacy worker, or continues one that waits there.
func (s *Session) round(ctx context.Context, x *Exchange, m *jsonrpc.Message, mode Mode) (*round, error) {
	if m.RequestState.Present() {
		return s.resumeRound(ctx, m, mode)
	}
	r := &round{s: s, call: &x.call, single: mode == ModeSingle}
	r.asks, r.lists = era.Asks(m.Method()), m.Is("tools/list") && firstPage(m)
	if r.lists {
		r.known = s.tools.changes()
	}
	r.translation = era.ToLegacy(m.Method(), &s.server)
	o := r.take(m)
	if err := s.wantLog(ctx, o.Log); err != nil {
		if errors.Is(err, bridge.ErrGone) {
			err = bridge.ErrUnsent // as far as the request goes
		}
		return nil, err
	}
	return r, s.b.Begin(ctx, r.call, m, o)
}

// take makes m the client's current request, and says how its call is to be run.
func (r *round) take(m *jsonrpc.Message) bridge.Options {
	o := optionsOf(m, ModeStream)
	o.Translation = &r.translation
	if r.asks {
		r.digest = digest(m)
		r.can = inputsOf(m.MetaCapabilities.Of(m.Raw))
		o.Can = r.can.toBridge()
	}
	r.given = members(m.InputResponses.Of(m.Raw))
	return o
}

// members copies the values of an object that are objects themselves.
func members(object []byte) map[string][]byte {
	if object == nil {
		return nil
	}
	out := map[string][]byte{}
	for name, value := range jsonrpc.Members(object) {
		if len(value) > 0 && value[0] == '{' {
			out[name] = bytes.Clone(value)
		}
	}
	return out
}

// wantLog has the worker log at a level. It is never told to log less again: what a
// call did not ask for does not reach it.
func (s *Session) wantLog(ctx context.Context, level uint8) error {
	if level == 0 || !s.server.Has("logging", "") {
		return nil
	}
	s.logLock.Lock()
	defer s.logLock.Unlock()
	if s.logLevel != 0 && s.logLevel <= level {
		return nil
	}
	names := [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	limited, cancel := context.WithTimeout(ctx, tuneLimit)
	defer cancel()
	_, err := s.b.Ask(limited, mustParse([]byte(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"`+names[level-1]+`"}}`)))
	if ctx.Err() == nil && limited.Err() != nil && !errors.Is(err, bridge.ErrGone) {
		err = nil // it was told, and does not say so; others wait for their turn here
	}
	if err == nil {
		s.logLevel = level
	}
	return err
}

// resumeRound continues the call that a request's state names.
func (s *Session) resumeRound(ctx context.Context, m *jsonrpc.Message, mode Mode) (*round, error) {
	payload := s.unseal(m)
	if len(payload) != 9 || payload[0] != sealedHeld {
		return nil, &Error{Kind: KindState, Reason: "requestState is not one of ours for this request"}
	}
	r := s.held.take(binary.BigEndian.Uint64(payload[1:]))
	if r == nil {
		return nil, &Error{Kind: KindState, Reason: "the call that requestState names does not wait any more"}
	}
	r.parked, r.single = false, mode == ModeSingle
	o := r.take(m)
	r.call.Rebind(m.IDBytes(), m.MetaProgressToken.Of(m.Raw), o)
	waiting := r.pending
	r.pending = nil
	for _, q := range waiting {
		if err := r.settle(ctx, q); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// settle answers a question when its answer was given, else keeps it.
func (r *round) settle(ctx context.Context, q question) error {
	answer, ok := r.given[q.key]
	if !ok {
		r.pending, r.last = append(r.pending, q), time.Now()
		return nil
	}
	delete(r.given, q.key)
	return r.s.b.Answer(ctx, mustParse(era.Result(strconv.AppendUint(nil, q.id, 10), answer)))
}

func (r *round) next(ctx context.Context, wait time.Duration) (Item, error) {
	for {
		limit := wait
		if len(r.pending) > 0 {
			left := max(quiet-time.Since(r.last), time.Nanosecond)
			if limit == 0 || limit > left {
				limit = left
			}
		}
		b, final, err := r.call.Next(ctx, limit)
		switch {
		case errors.Is(err, ErrWait) && len(r.pending) > 0 && time.Since(r.last) >= quiet:
			return r.park()
		case err != nil:
			return Item{}, err
		case final:
			return r.answer(b)
		}
		m, err := jsonrpc.ParseWorker(b)
		switch {
		case err != nil:
			return Item{}, err
		case m.Kind == jsonrpc.Request:
			if err := r.question(ctx, &m); err != nil {
				return Item{}, err
			}
		case m.Is("notifications/progress"), m.Is("notifications/message"):
			if !r.single {
				return Item{Bytes: b}, nil
			}
		case m.Is("notifications/cancelled"):
			r.withdraw(&m)
		}
	}
}

// answer is the worker's response as the client gets it.
func (r *round) answer(b []byte) (Item, error) {
	r.over = true
	if r.lists {
		r.s.keepTools(b, r.known)
	}
	denied := r.denied | fromBridge(r.call.Denied())
	if r.call.Translated() && r.rounds == 0 && denied == 0 {
		return Item{Bytes: b, Final: true}, nil
	}
	m, err := jsonrpc.ParseWorker(b)
	if err != nil {
		return Item{}, err
	}
	if asks := era.URLFirst(&m); asks != nil && r.asks {
		if r.can&canURL != 0 {
			return r.urlFirst(asks), nil
		}
		denied |= canURL
	}
	id, code := r.call.ClientID(), 0
	switch {
	case denied != 0 && era.Failed(&m):
		data := append(append([]byte(`{"requiredCapabilities":`), denied.required()...), '}')
		code = era.CodeCapability
		b = era.Error(id, code, "the request needs a capability that the client did not declare", data)
	case r.call.Translated(): // under the id of the round in which it came
		b = jsonrpc.AppendEdited(nil, b, jsonrpc.Edit{Span: m.ID, With: id})
	default:
		b = era.ErrorToModern(&m, id)
		code, _ = strconv.Atoi(string(jsonrpc.Value(jsonrpc.Value(b, "error"), "code"))) // an error of ours has one
	}
	return Item{Bytes: b, Final: true, Code: code}, nil
}

// urlFirst turns the error that says "URL elicitation required" into a round of its
// own. Nothing waits in the worker: the next request is a new call.
func (r *round) urlFirst(asks [][]byte) Item {
	var requests []jsonrpc.Member
	for i, params := range asks {
		requests = append(requests, jsonrpc.Member{Name: "elicitation-" + strconv.Itoa(i+1), Value: request([]byte(`"elicitation/create"`), forModern(params))})
	}
	return Item{Bytes: era.Result(r.call.ClientID(), r.required(requests, "")), Final: true}
}

// question handles a request of the worker: it is answered with what was given,
// refused when the client can't, or kept for the next round.
func (r *round) question(ctx context.Context, m *jsonrpc.Message) error {
	id, err := strconv.ParseUint(string(m.IDBytes()), 10, 64)
	if err != nil {
		return nil // no question of ours
	}
	params := m.Params.Of(m.Raw)
	kind, needs := "", inputs(0)
	switch string(m.Method()) {
	case "sampling/createMessage":
		kind, needs = "sampling", canSample
	case "roots/list":
		kind, needs = "roots", canRoots
	case "elicitation/create":
		kind, needs = "elicitation", canForm
		if string(jsonrpc.Unquote(jsonrpc.Value(params, "mode"))) == "url" {
			needs = canURL
		}
	}
	if r.can&needs == 0 || !r.room(len(params)) || r.rounds >= maxRounds {
		r.denied |= needs &^ r.can
		return r.s.b.Answer(ctx, mustParse(era.Error(m.IDBytes(), jsonrpc.CodeMethodNotFound, "the client does not support this", nil)))
	}
	q := question{key: r.key(kind, m), id: id, method: jsonrpc.Quote(string(m.Method())), params: forModern(params)}
	return r.settle(ctx, q)
}

// room reports whether another question with params of that length can wait.
func (r *round) room(params int) bool {
	for i := range r.pending {
		params += len(r.pending[i].params)
	}
	return len(r.pending) == 0 || len(r.pending) < maxInputs && params <= inputRoom
}

// inputKey is how a worker says which key its question is to have.
const inputKey = "gatehouse/inputKey"

// key is the worker's own hint, else the kind and a number.
func (r *round) key(kind string, m *jsonrpc.Message) string {
	hint := string(jsonrpc.Unquote(jsonrpc.Value(m.Meta.Of(m.Raw), inputKey)))
	taken := func(k string) bool {
		return slices.ContainsFunc(r.pending, func(q question) bool { return q.key == k })
	}
	if hint != "" && len(hint) <= 128 && !taken(hint) {
		return hint
	}
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	for {
		r.asked[kind]++
		if k := kind + "-" + strconv.Itoa(r.asked[kind]); !taken(k) {
			return k
		}
	}
}

// forModern is a question's params as the modern era has them: without the hint and
// without the id that elicitations by URL had.
func forModern(params []byte) []byte {
	meta := jsonrpc.Value(params, "_meta")
	var more []jsonrpc.Member
	if meta != nil {
		if meta = jsonrpc.AppendObject(nil, meta, func(name []byte) bool { return string(name) == inputKey || string(name) == "progressToken" }); len(meta) > len("{}") {
			more = []jsonrpc.Member{{Name: "_meta", Value: meta}}
		}
	}
	return jsonrpc.AppendObject(nil, params, func(name []byte) bool { return string(name) == "_meta" || string(name) == "elicitationId" }, more...)
}

func request(method, params []byte) []byte {
	return jsonrpc.AppendObject(nil, nil, nil, jsonrpc.Member{Name: "method", Value: method}, jsonrpc.Member{Name: "params", Value: params})
}

// withdraw forgets a question that the worker took back.
func (r *round) withdraw(m *jsonrpc.Message) {
	named := string(m.RequestID.Of(m.Raw))
	r.pending = slices.DeleteFunc(r.pending, func(q question) bool { return strconv.FormatUint(q.id, 10) == named })
}

// park lets the call wait in the worker and asks the client.
func (r *round) park() (Item, error) {
	r.rounds++
	r.call.Park()
	number, err := r.s.held.put(r)
	if err != nil {
		return Item{}, err
	}
	payload := binary.BigEndian.AppendUint64([]byte{sealedHeld}, number)
	state, err := r.s.t.sealer.Seal(payload, r.s.binding(r.digest))
	if err != nil {
		r.s.held.take(number)
		return Item{}, err
	}
	var requests []jsonrpc.Member
	for _, q := range r.pending {
		quoted := jsonrpc.Quote(q.key)
		requests = append(requests, jsonrpc.Member{Name: string(quoted[1 : len(quoted)-1]), Value: request(q.method, q.params)})
	}
	r.parked = true
	return Item{Bytes: era.Result(r.call.ClientID(), r.required(requests, state)), Final: true}, nil
}

// required is an input_required result.
func (r *round) required(requests []jsonrpc.Member, state string) []byte {
	more := []jsonrpc.Member{
		{Name: "resultType", Value: []byte(`"input_required"`)},
		{Name: "inputRequests", Value: jsonrpc.AppendObject(nil, nil, nil, requests...)},
	}
	if state != "" {
		more = append(more, jsonrpc.Member{Name: "requestState", Value: jsonrpc.Quote(state)})
	}
	if r.s.server.Info != nil {
		more = append(more, jsonrpc.Member{Name: "_meta", Value: jsonrpc.AppendObject(nil, nil, nil,
			jsonrpc.Member{Name: "io.modelcontextprotocol/serverInfo", Value: r.s.server.Info})})
	}
	return jsonrpc.AppendObject(nil, nil, nil, more...)
}

// close ends the round's request. A call that waits for the next round stays.
func (r *round) close() {
	if r.parked {
		return
	}
	if !r.over {
		r.call.Cancel(closedStream)
	}
	r.call.Close()
}

// held are the calls of one worker that wait for their client's next round.
type held struct {
	mu   sync.Mutex // guards what follows
	of   map[uint64]*waitingRound
	over bool // the worker has ended
}

type waitingRound struct {
	r     *round
	timer *time.Timer
}

// put lets a round wait, for heldLimit at most. Its number is that of no other round
// of the table, so that the state of a call that was in an ended worker never names
// one in the next.
func (h *held) put(r *round) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return 0, bridge.ErrGone
	}
	if len(h.of) >= maxHeld {
		return 0, &Error{Kind: KindBusy, Reason: "too many calls wait for their client"}
	}
	if h.of == nil {
		h.of = map[uint64]*waitingRound{}
	}
	n := r.s.t.lastHeld.Add(1)
	h.of[n] = &waitingRound{r, time.AfterFunc(heldLimit, func() { h.abandon(n) })}
	return n, nil
}

// take is the only way back: each state is good for one round.
func (h *held) take(n uint64) *round {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.of[n]
	if w == nil {
		return nil
	}
	delete(h.of, n)
	w.timer.Stop()
	return w.r
}

// abandon cancels a call whose client did not come back.
func (h *held) abandon(n uint64) {
	if r := h.take(n); r != nil {
		r.call.Cancel("the client did not come back")
		r.call.Close()
	}
}

// end lets go of all that waits; the worker is gone.
func (h *held) end() {
	h.mu.Lock()
	all := h.of
	h.of, h.over = nil, true
	h.mu.Unlock()
	for _, w := range all {
		w.timer.Stop()
		w.r.call.Close()
	}
}

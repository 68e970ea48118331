package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/auth/identity"
	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"
	"gatehouse/session/spawn"
)

// everything is what the workers of these tests declare.
const everything = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{}}`

func worker(era string) *sessiontest.Spawner {
	return &sessiontest.Spawner{Worker: sessiontest.Server{Era: era, Capabilities: everything}.Run}
}

// modernTool is the text of a modern tools/call; more are further members of params.
func modernTool(id, name, args, capabilities, more string) string {
	return modernCall(id, "tools/call", capabilities, fmt.Sprintf(`,"name":%q,"arguments":{%s}%s`, name, args, more))
}

func modernCall(id, method, capabilities, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}%s}}`,
		id, method, capabilities, more)
}

func (w *world) modern(c session.Caller) *session.Session {
	w.Helper()
	s, _, err := w.Modern(context.Background(), 0, c)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// do does a modern request and returns its messages; the last one is the response.
func (w *world) do(s *session.Session, text string) (messages []string, err error) {
	w.Helper()
	x, err := s.BeginModern(context.Background(), parse(w, text), session.ModeStream)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	for {
		item, err := x.Next(context.Background(), 10*time.Second)
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(item.Bytes))
		if item.Final {
			return messages, nil
		}
	}
}

// final is the response alone.
func (w *world) final(s *session.Session, text string) string {
	w.Helper()
	messages, err := w.do(s, text)
	if err != nil {
		w.Fatalf("%s: %v", text, err)
	}
	return messages[len(messages)-1]
}

// result is what the tests look at in a modern response.
type result struct {
	ID     json.RawMessage
	Result struct {
		ResultType    string
		Content       []struct{ Text string }
		RequestState  string
		TTL           *int `json:"ttlMs"`
		InputRequests map[string]struct {
			Method string
			Params json.RawMessage
		}
	}
	Error struct {
		Code int
		Data struct{ RequiredCapabilities json.RawMessage }
	}
}

func read(t testing.TB, text string) (r result) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// A worker of either era serves clients of both, and the one process of a principal
// serves all its modern requests.
func TestErasMeet(t *testing.T) {
	for _, era := range []string{"legacy", "modern", "both"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{}, worker(era))
			s := w.modern(alice)
			if again := w.modern(alice); again != s {
				t.Error("the second request got another worker")
			}
			got := read(t, w.final(s, modernTool(`"a"`, "echo", `"text":"hi"`, "{}", "")))
			if string(got.ID) != `"a"` || got.Result.ResultType != "complete" || got.Result.Content[0].Text != "hi" {
				t.Errorf("%+v", got)
			}
			discover := w.final(s, modernCall("1", "server/discover", "{}", ""))
			contains(t, discover, `"supportedVersions":["2026-07-28"]`)
			contains(t, discover, `"io.modelcontextprotocol/serverInfo":{"name":"sessiontest","version":"1"}`)
			contains(t, discover, everything)

			old := w.open(alice)
			if old == s {
				t.Error("the session is the shared worker")
			}
			if got, err := w.call(old, tool("1", "echo", `"text":"ho"`)); err != nil || got != "ho" {
				t.Errorf("%q, %v", got, err)
			}
			if n := len(w.List()); n != 2 {
				t.Errorf("%d workers, want 2", n)
			}
			x := w.begin(old, `{"jsonrpc":"2.0","id":5,"method":"ping"}`)
			defer x.Close()
			if item, err := x.Next(context.Background(), time.Second); err != nil || string(item.Bytes) != `{"jsonrpc":"2.0","id":5,"result":{}}` {
				t.Errorf("ping: %s, %v", item.Bytes, err)
			}
		})
	}
}

// Requests that come together start one worker, narrow tokens have one of their own,
// and so has each principal.
func TestSharedWorkers(t *testing.T) {
	var started atomic.Int32
	sp := worker("both")
	sp.Fail = func(spawn.Request) error { started.Add(1); return nil }
	w := newWorld(t, session.Config{MaxSessions: 10}, sp)
	narrow, wide := alice, alice
	narrow.Scopes, wide.Scopes = identity.NewScopes("a"), identity.NewScopes("a", "b")
	var all sync.WaitGroup
	for range 8 {
		for _, c := range []session.Caller{alice, bob, narrow, wide} {
			all.Go(func() { w.final(w.modern(c), modernTool("1", "echo", `"text":"x"`, "{}", "")) })
		}
	}
	all.Wait()
	if n := started.Load(); n != 4 {
		t.Errorf("%d workers were started, want 4", n)
	}
	if s := w.modern(narrow); s == w.modern(wide) || s == w.modern(alice) {
		t.Error("a narrow token drives a wider worker")
	}
}

// What a worker said about itself is said again without it, to the same caller alone
// and for as long as it holds.
func TestAnswersWithoutAWorker(t *testing.T) {
	now := time.Now()
	var lock sync.Mutex
	w := newWorld(t, session.Config{Now: func() time.Time { lock.Lock(); defer lock.Unlock(); return now }}, worker("both"))
	list := parse(t, modernCall("7", "tools/list", "{}", ""))
	if _, ok := w.Answer(0, alice, &list); ok {
		t.Error("an answer came from nothing")
	}
	s := w.modern(alice)
	said := read(t, w.final(s, string(list.Raw)))
	s.End("for the test")
	w.eventually("the worker is gone", func() bool { return w.spawner.Alive() == 0 })
	got, ok := w.Answer(0, alice, &list)
	if again := read(t, string(got)); !ok || string(again.ID) != "7" || again.Result.ResultType != said.Result.ResultType {
		t.Errorf("%s, %v", got, ok)
	}
	wide := alice
	wide.Scopes = identity.NewScopes("more")
	paged := parse(t, modernCall("7", "tools/list", "{}", `,"cursor":"x"`))
	for name, c := range map[string]struct {
		server uint16
		caller session.Caller
		m      *jsonrpc.Message
	}{"another principal": {0, bob, &list}, "other scopes": {0, wide, &list}, "another server": {1, alice, &list}, "another page": {0, alice, &paged}} {
		if got, ok := w.Answer(c.server, c.caller, c.m); ok {
			t.Errorf("%s got %s", name, got)
		}
	}
	lock.Lock()
	now = now.Add(time.Minute)
	lock.Unlock()
	if got, ok := w.Answer(0, alice, &list); ok {
		t.Errorf("after its end: %s", got)
	}
}

const canAll = `{"sampling":{},"roots":{},"elicitation":{"form":{},"url":{}}}`

// A legacy worker's question becomes an input_required result, and the answer of the
// next round its answer. The state is good for one round, and for its own request.
func TestQuestionOfALegacyWorker(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("legacy"))
	s := w.modern(alice)
	ask := `"method":"elicitation/create","params":{"message":"m","elicitationId":"e","_meta":{"x.test/a":1}}`
	first := read(t, w.final(s, modernTool(`1`, "ask", ask, canAll, "")))
	q, ok := first.Result.InputRequests["elicitation-1"]
	if first.Result.ResultType != "input_required" || !ok || q.Method != "elicitation/create" || string(q.Params) != `{"message":"m","_meta":{"x.test/a":1}}` {
		t.Fatalf("%+v", first)
	}
	round := func(caller *session.Session, state, arguments, responses string) (string, error) {
		messages, err := w.do(caller, modernTool(`"next"`, "ask", arguments, canAll, fmt.Sprintf(`,"requestState":%q,"inputResponses":%s`, state, responses)))
		return strings.Join(messages, "\n"), err
	}
	state := first.Result.RequestState
	for name, c := range map[string]struct {
		s                *session.Session
		state, arguments string
	}{
		"another principal": {w.modern(bob), state, ask}, "another request": {s, state, `"method":"roots/list"`}, "tampered": {s, state + "-TAMPERED", ask}, "none of ours": {s, "round 1", ask},
	} {
		_, err := round(c.s, c.state, c.arguments, `{}`)
		w.wantKind(err, session.KindState)
		if t.Failed() {
			t.Fatalf("%s: %v", name, err)
		}
	}
	missing, err := round(s, state, ask, `{"other":{"action":"accept"},"elicitation-1":5}`)
	again := read(t, missing)
	if err != nil || again.Result.ResultType != "input_required" || again.Result.RequestState == state {
		t.Fatalf("%s, %v: want the question again, under a new state", missing, err)
	}
	_, err = round(s, state, ask, `{}`)
	w.wantKind(err, session.KindState) // it was used
	answer, err := round(s, again.Result.RequestState, ask, `{"elicitation-1":{"action":"accept","content":{"a":1.50}}}`)
	if err != nil || read(t, answer).Result.Content[0].Text != `{"action":"accept","content":{"a":1.50}}` || string(read(t, answer).ID) != `"next"` {
		t.Errorf("%s, %v", answer, err)
	}
}

// Answers that come without a state start a new call, whose questions they answer by
// the key that the worker names.
func TestAnswersBeforeTheQuestion(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("legacy"))
	ask := `"method":"elicitation/create","params":{"message":"m","_meta":{"gatehouse/inputKey":"name"}}`
	got := read(t, w.final(w.modern(alice), modernTool("1", "ask", ask, canAll, `,"inputResponses":{"name":{"action":"decline"},"extra":{}}`)))
	if got.Result.ResultType != "complete" || got.Result.Content[0].Text != `{"action":"decline"}` {
		t.Errorf("%+v", got)
	}
	got = read(t, w.final(w.modern(alice), modernTool("1", "ask", ask, canAll, "")))
	if q, ok := got.Result.InputRequests["name"]; !ok || strings.Contains(string(q.Params), "inputKey") {
		t.Errorf("%+v", got)
	}
}

// A worker is refused what the client of the call lacks, and the client is told only
// if the call failed for it.
func TestMissingCapability(t *testing.T) {
	w := newWorld(t, session.Config{}, &sessiontest.Spawner{Worker: sessiontest.Server{Capabilities: everything}.Run})
	s := w.modern(alice)
	for name, c := range map[string]struct{ method, params, can, want string }{
		"sampling":           {"sampling/createMessage", `{}`, `{"roots":{}}`, ""},
		"url without modes":  {"elicitation/create", `{"mode":"url"}`, `{"elicitation":{}}`, ""},
		"form where url can": {"elicitation/create", `{}`, `{"elicitation":{"url":{}}}`, ""},
		"unknown":            {"x/y", `{}`, canAll, ""},
	} {
		got := read(t, w.final(s, modernTool("1", "ask", fmt.Sprintf(`"method":%q,"params":%s`, c.method, c.params), c.can, "")))
		if got.Result.ResultType != "complete" || !strings.HasPrefix(got.Result.Content[0].Text, "error ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := read(t, w.final(s, modernTool("1", "need", `"method":"sampling/createMessage"`, `{"roots":{}}`, "")))
	if got.Error.Code != -32021 || string(got.Error.Data.RequiredCapabilities) != `{"sampling":{}}` {
		t.Errorf("%+v", got)
	}
	got = read(t, w.final(s, modernCall("1", "completion/complete", canAll, "")))
	if got.Error.Code != -32601 {
		t.Errorf("%+v", got)
	}
}

// A modern worker's input_required becomes requests on a legacy client's stream, and
// what the client answers becomes the retry.
func TestQuestionsForALegacyClient(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("modern"))
	s := w.open(alice)
	x := w.begin(s, tool(`"c"`, "input", `"n":2,"method":"roots/list"`))
	defer x.Close()
	for n := 1; n <= 2; n++ {
		item, err := x.Next(context.Background(), 5*time.Second)
		if err != nil || item.Final {
			t.Fatalf("question %d: %s, %v", n, item.Bytes, err)
		}
		q := parse(t, string(item.Bytes))
		if !q.Is("roots/list") || q.Kind != jsonrpc.Request {
			t.Fatalf("question %d: %s", n, item.Bytes)
		}
		if _, err := x.Next(context.Background(), 20*time.Millisecond); !errors.Is(err, session.ErrWait) {
			t.Errorf("before the answer: %v", err)
		}
		if err := s.Answer(context.Background(), parse(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///%d"}]}}`, q.IDBytes(), n))); err != nil {
			t.Fatal(err)
		}
	}
	item, err := x.Next(context.Background(), 5*time.Second)
	if err != nil || !item.Final || toolText(item.Bytes) != `round 2 {"k2":{"roots":[{"uri":"file:///2"}]}}` {
		t.Errorf("%s, %v", item.Bytes, err)
	}
	contains(t, string(item.Bytes), `"id":"c"`)
	if strings.Contains(string(item.Bytes), "resultType") {
		t.Errorf("the legacy client reads %s", item.Bytes)
	}
}

// The client that cancels during a question is obeyed, as is one that lacks what is
// asked for.
func TestQuestionEnds(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("modern"))
	s := w.open(alice)
	x := w.begin(s, tool("1", "input", `"method":"roots/list"`))
	defer x.Close()
	if item, err := x.Next(context.Background(), 5*time.Second); err != nil || item.Final {
		t.Fatalf("%s, %v", item.Bytes, err)
	}
	if err := s.Notify(context.Background(), parse(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Next(context.Background(), 5*time.Second); !errors.Is(err, session.ErrCancelled) {
		t.Errorf("%v, want cancelled", err)
	}
	if got, err := w.call(s, tool("2", "input", `"method":"sampling/createMessage"`)); err != nil || !strings.Contains(got, "does not support") {
		t.Errorf("%s, %v", got, err)
	}
}

// A modern worker's own state is wrapped, and nothing of it can be read or given to
// another request; it may be used again, because a client whose stream broke must.
func TestStateOfAModernWorker(t *testing.T) {
	w := newWorld(t, session.Config{}, worker("modern"))
	s := w.modern(alice)
	first := read(t, w.final(s, modernTool("1", "input", `"n":1`, canAll, "")))
	if first.Result.ResultType != "input_required" || strings.Contains(first.Result.RequestState, "round") {
		t.Fatalf("%+v", first)
	}
	next := modernTool("2", "input", `"n":1`, canAll, fmt.Sprintf(`,"requestState":%q,"inputResponses":{"k1":{}}`, first.Result.RequestState))
	for range 2 {
		if got := read(t, w.final(s, next)); got.Result.Content[0].Text != `round 1 {"k1":{}}` {
			t.Errorf("%+v", got)
		}
	}
	for name, text := range map[string]string{
		"the worker's own":  strings.Replace(next, first.Result.RequestState, "round 1", 1),
		"another request":   strings.Replace(next, `"n":1`, `"n":2`, 1),
		"where none can be": modernCall("3", "tools/list", "{}", fmt.Sprintf(`,"requestState":%q`, first.Result.RequestState)),
	} {
		_, err := w.do(s, text)
		if w.wantKind(err, session.KindState); t.Failed() {
			t.Fatal(name)
		}
	}
	_, err := w.do(w.modern(bob), next)
	w.wantKind(err, session.KindState)
}

// Closing a modern stream cancels the call in the worker, whatever its era.
func TestClosingCancels(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{}, worker(era))
			s := w.modern(alice)
			x, err := s.BeginModern(context.Background(), parse(t, modernTool("1", "never", "", "{}", "")), session.ModeStream)
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
			w.eventually("the worker hears of it", func() bool {
				return read(t, w.final(s, modernTool("2", "cancelled", "", "{}", ""))).Result.Content[0].Text != ""
			})
		})
	}
}

// Changes reach those who listen, each with the id of its own subscription and no
// more than it asked for, from workers of both eras.
func TestListen(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{}, worker(era))
			s := w.modern(alice)
			listen := func(id, filter string) *session.Exchange {
				x, err := s.BeginModern(context.Background(), parse(t, modernCall(id, "subscriptions/listen", "{}", `,"notifications":`+filter)), session.ModeStream)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			next := func(x *session.Exchange, want string) {
				t.Helper()
				item, err := x.Next(context.Background(), 5*time.Second)
				if err != nil || string(item.Bytes) != want {
					t.Errorf("%s, %v\nwant %s", item.Bytes, err, want)
				}
			}
			tools := listen(`"t"`, `{"toolsListChanged":true,"promptsListChanged":true}`)
			defer tools.Close()
			next(tools, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"t"},"notifications":{"toolsListChanged":true}}}`)
			narrow := listen(`2`, `{"resourcesListChanged":true}`)
			defer narrow.Close()
			next(narrow, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"notifications":{"resourcesListChanged":true}}}`)
			w.final(s, modernTool("9", "change", `"method":"notifications/tools/list_changed"`, "{}", ""))
			next(tools, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"t"}}}`)
			if item, err := narrow.Next(context.Background(), 30*time.Millisecond); !errors.Is(err, session.ErrWait) {
				t.Errorf("the other one gets %s, %v", item.Bytes, err)
			}
			s.End("for the test")
			for x, id := range map[*session.Exchange]string{tools: `"t"`, narrow: "2"} {
				item, err := x.Next(context.Background(), 5*time.Second)
				if want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`; err != nil || !item.Final || string(item.Bytes) != want {
					t.Errorf("%s, %v\nwant %s", item.Bytes, err, want)
				}
			}
		})
	}
}

// Two principals of two eras each, the same ids and progress tokens, all at once: no
// message ever crosses.
func TestNothingCrosses(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 1000
	}
	for _, era := range []string{"legacy", "modern", "both"} {
		t.Run(era, func(t *testing.T) {
			w := newWorld(t, session.Config{MaxCalls: 256}, worker(era))
			var all sync.WaitGroup
			for _, c := range []session.Caller{alice, bob} {
				old, shared := w.open(c), w.modern(c)
				for lane := range 4 {
					random := rand.New(rand.NewPCG(1, uint64(lane)))
					all.Go(func() {
						for n := range total / 16 {
							text := fmt.Sprintf("%s-%d-%d", c.Token, lane, n)
							id, token := fmt.Sprint(n%7), fmt.Sprint(n%5)
							for range 2 {
								if random.IntN(2) == 0 {
									check(t, w, c.Token, text, id, token, func() (*session.Exchange, error) {
										return old.Begin(context.Background(), parse(t, strings.Replace(tool(id, "who", fmt.Sprintf(`"text":%q`, text)), `"params":{`, `"params":{"_meta":{"progressToken":`+token+`},`, 1)), session.ModeStream)
									})
									continue
								}
								check(t, w, c.Token, text, id, token, func() (*session.Exchange, error) {
									return shared.BeginModern(context.Background(), parse(t, strings.Replace(modernTool(id, "who", fmt.Sprintf(`"text":%q`, text), "{}", ""), `"_meta":{`, `"_meta":{"progressToken":`+token+`,`, 1)), session.ModeStream)
								})
							}
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// check does one call and wants its own progress and its own answer.
func check(t *testing.T, w *world, owner, text, id, token string, begin func() (*session.Exchange, error)) {
	x, err := begin()
	if err != nil {
		t.Error(err)
		return
	}
	defer x.Close()
	for {
		item, err := x.Next(context.Background(), 20*time.Second)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		m := parse(t, string(item.Bytes))
		switch {
		case !item.Final && (!m.Is("notifications/progress") || string(m.ProgressToken.Of(m.Raw)) != token || !strings.Contains(string(item.Bytes), owner+" "+text+`"`)):
			t.Errorf("%s got %s", text, item.Bytes)
		case item.Final:
			if toolText(item.Bytes) != owner+" "+text || string(m.IDBytes()) != id {
				t.Errorf("%s got %s", text, item.Bytes)
			}
			return
		}
	}
}

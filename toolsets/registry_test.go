package toolsets

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type echoOut struct {
	Said string `json:"said"`
}

func testSet() Toolset {
	return Toolset{
		Name:    "demo",
		Options: []Option{{Name: "loud", Type: Boolean, Default: false, Meaning: "x"}, {Name: "wait", Type: Duration, Default: time.Second, Meaning: "x"}},
		Tools: []Tool{
			{Name: "echo", Viewed: true, Paged: true, Output: OutputOf[echoOut](),
				Params: []Param{
					{Name: "text", Type: String, Required: true, Meaning: "what to say"},
					{Name: "many", Type: Strings, Meaning: "more"},
					{Name: "hard", Type: Boolean, Meaning: "how"},
				},
				Call: func(_ context.Context, c *Call) (*Result, error) {
					return &Result{Text: c.View + ":" + c.String("text"), Data: echoOut{c.String("text")}}, nil
				}},
			{Name: "bug", Call: func(context.Context, *Call) (*Result, error) { panic("oops") }},
			{Name: "hang", Call: func(ctx context.Context, c *Call) (*Result, error) {
				c.Progress(1, 2, "waiting")
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			{Name: "wrong", Call: func(context.Context, *Call) (*Result, error) {
				return nil, &Failure{Kind: Conflict, Text: "both", Data: []string{"a"}}
			}},
		},
	}
}

func testRegistry(t *testing.T) *Registry {
	t.Helper()
	r, err := New([]Toolset{testSet()}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBadArgumentsAreNamedBeforeAnythingRuns(t *testing.T) {
	r := testRegistry(t)
	for _, c := range []struct{ args, want string }{
		{`{}`, `missing argument "text"`},
		{``, `missing argument "text"`},
		{`null`, `missing argument "text"`},
		{`{"text":"a","more":1}`, `unknown argument "more"`},
		{`{"text":1}`, `argument "text" must be a string`},
		{`{"text":null}`, `argument "text" must be a string`},
		{`{"text":"a\u0000b"}`, `argument "text" must be a string`},
		{`{"text":"a","limit":-1}`, `argument "limit" must be a whole number from 0`},
		{`{"text":"a","limit":1.5}`, `argument "limit" must be a whole number`},
		{`{"text":"a","limit":1e2}`, `argument "limit" must be a whole number`},
		{`{"text":"a","offset":-3}`, `argument "offset" must be a whole number`},
		{`{"text":"a","view":"Main"}`, `argument "view" must be 1 to 32 lower-case`},
		{`{"text":"a","view":"../x"}`, `argument "view" must be`},
		{`{"text":"a","many":"x"}`, `argument "many" must be a list of strings`},
		{`{"text":"a","many":[1]}`, `argument "many" must be a list of strings`},
		{`{"text":"a","hard":"yes"}`, `argument "hard" must be true or false`},
		{`{"text":"a","text":"b"}`, `duplicate`},
		{`[]`, `must be a JSON object`},
		{`{"text":"a"} {}`, `something follows`},
		{"{\"text\":\"\xff\"}", `read arguments`},
		{`{"text":`, `read arguments`},
	} {
		a, err := r.Run(t.Context(), "echo", []byte(c.args), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !a.IsError || !strings.Contains(a.Text, c.want) {
			t.Errorf("%s: got %q, want an error with %q", c.args, a.Text, c.want)
		}
		var body errorBody
		if err := json.Unmarshal(a.Data, &body); err != nil || body.Error.Kind != InvalidParams || body.Error.Message != a.Text {
			t.Errorf("%s: structured error %s", c.args, a.Data)
		}
	}
}

func TestRunAnswers(t *testing.T) {
	r := testRegistry(t)
	a, err := r.Run(t.Context(), "echo", []byte(`{"text":"hé","view":"two","many":["x"],"limit":0}`), nil)
	if err != nil || a.IsError || a.Text != "two:hé" || string(a.Data) != `{"said":"hé"}` {
		t.Errorf("echo: %+v, %v", a, err)
	}
	if _, err := r.Run(t.Context(), "nothing", nil, nil); !errors.Is(err, ErrUnknownTool) {
		t.Errorf("unknown tool: %v", err)
	}
	a, _ = r.Run(t.Context(), "wrong", nil, nil)
	if !a.IsError || string(a.Data) != `{"error":{"kind":"conflict","message":"both","details":["a"]}}` {
		t.Errorf("failure: %s", a.Data)
	}
}

func TestPanicCostsTheCallOnly(t *testing.T) {
	var bug any
	r, err := New([]Toolset{testSet()}, Config{OnBug: func(_ string, fault any, _ []byte) { bug = fault }})
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.Run(t.Context(), "bug", nil, nil)
	if err != nil || !a.IsError || strings.Contains(a.Text, "oops") || bug != "oops" {
		t.Errorf("got %+v, %v; reported %v", a, err, bug)
	}
	if a, _ := r.Run(t.Context(), "echo", []byte(`{"text":"still here"}`), nil); a.IsError {
		t.Error("the next call failed")
	}
}

func TestInterruptGivesUpRunningCalls(t *testing.T) {
	r := testRegistry(t)
	started, got := make(chan struct{}), make(chan *Answer)
	go func() {
		a, _ := r.Run(t.Context(), "hang", nil, func(int, int, string) { close(started) })
		got <- a
	}()
	<-started
	if n := r.Interrupt(); n != 1 {
		t.Errorf("interrupted %d calls", n)
	}
	a := <-got
	if !a.IsError || !strings.Contains(a.Text, "interrupted") || !strings.Contains(string(a.Data), `"timeout"`) {
		t.Errorf("answer %+v", a)
	}
	if n := r.Interrupt(); n != 0 {
		t.Errorf("%d calls still run", n)
	}
}

func TestSelectionAndOptions(t *testing.T) {
	for _, c := range []struct {
		names   []string
		options string
		want    string // of the error, empty for none
	}{
		{nil, `{}`, ""},
		{[]string{"demo"}, `{"demo":{"loud":true,"wait":"5m"}}`, ""},
		{[]string{"demo"}, `{"demo":{"wait":90}}`, ""},
		{[]string{"demos"}, `{}`, `there is no toolset "demos"; there are demo`},
		{[]string{"demo", "demo"}, `{}`, `named twice`},
		{[]string{}, `{"demo":{}}`, `which is not served; served are none`},
		{nil, `{"other":{}}`, `"other", which is not served; served are demo`},
		{nil, `{"demo":{"louder":true}}`, `has no option "louder"; it has loud, wait`},
		{nil, `{"demo":{"loud":"yes"}}`, `"loud" of toolset "demo" must be true or false`},
		{nil, `{"demo":{"wait":"soon"}}`, `must be a duration`},
		{nil, `{"demo":{"wait":-1}}`, `must be a duration`},
		{nil, `{"demo":[]}`, `must be a JSON object`},
	} {
		var options map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.options), &options); err != nil {
			t.Fatal(err)
		}
		var got Values
		ts := testSet()
		ts.Configure = func(v Values) error { got = v; return nil }
		_, err := New([]Toolset{ts}, Config{Names: c.names, Options: options})
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v %s: error %v, want %q", c.names, c.options, err, c.want)
		case c.want == "" && (got.Duration("wait") == 0 || len(got) != 2):
			t.Errorf("%v %s: values %v", c.names, c.options, got)
		}
	}
}

func TestPaging(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	id := func(s string) string { return s }
	for _, c := range []struct {
		limit, offset int
		want          string
	}{
		{200, 0, "(showing 1-5 of 5)\na\nb\nc\nd\ne"},
		{2, 0, "(showing 1-2 of 5; pass offset: 2 for the next page)\na\nb"},
		{2, 4, "(showing 5-5 of 5)\ne"},
		{2, 9, "(showing none of 5; offset 9 is past the end)"},
		{0, 0, "(5 in all)"},
	} {
		r := Paged(&Call{Limit: c.limit, Offset: c.offset}, all, id)
		if r.Text != c.want {
			t.Errorf("limit %d, offset %d: %q, want %q", c.limit, c.offset, r.Text, c.want)
		}
	}
	if r := Paged(&Call{Limit: 5}, nil, id); r.Text != "(none)" || string(marshal(r.Data)) != `{"total":0,"offset":0,"items":[],"more":false}` {
		t.Errorf("empty: %q %s", r.Text, marshal(r.Data))
	}
	r := PagedUpTo(&Call{Limit: 4}, all, id)
	if want := "(showing 1-4; there are more and the total is not known; pass offset: 4 for the next page)"; !strings.HasPrefix(r.Text, want) {
		t.Errorf("unknown total: %q", r.Text)
	}
}

func TestCutNeverSplitsACharacter(t *testing.T) {
	long := strings.Repeat("é", MaxValue+2)
	got := Cut(long)
	if want := "...[truncated: showing 50000 of 50002 characters]"; !strings.HasSuffix(got, want) || !utf8.ValidString(got) {
		t.Errorf("ends with %q", got[len(got)-60:])
	}
	if s := strings.Repeat("é", MaxValue); Cut(s) != s {
		t.Error("a value of exactly the limit was cut")
	}
}

func FuzzParseArgs(f *testing.F) {
	f.Add([]byte(`{"text":"a","limit":3}`))
	f.Add([]byte(`{"text":"\ud800","many":[]}`))
	ts := testSet()
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, fail := parseArgs(ts.Tools[0].params(), raw)
		if fail == nil && args["text"] == nil {
			t.Errorf("%q: accepted without the required argument", raw)
		}
		if fail != nil && fail.Kind != InvalidParams {
			t.Errorf("%q: kind %s", raw, fail.Kind)
		}
	})
}

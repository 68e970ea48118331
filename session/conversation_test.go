package session_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/session"
	"gatehouse/session/jsonrpc"
	"gatehouse/session/sessiontest"

	"golang.org/x/tools/txtar"
)

// TestConversations plays the files of testdata: those of legacy, where client and
// worker are of the legacy era, those of modern, and those of forward (a modern client
// at a legacy worker) and backward (a legacy client at a modern worker). They say what the client sends, what
// the worker must read, what it writes, what the client must get. One line a step:
//
//	client> JSON         the client posts a notification or a response
//	client NAME> JSON    the client posts a request; NAME stands for its connection
//	client NAME< JSON    what comes on that connection next
//	client NAME< kind K  the call ended with that kind: cancelled, sessionGone, …
//	client NAME< nothing nothing waits there
//	client NAME hangs up
//	worker< JSON         the next line that the worker reads
//	worker< nothing      there is none
//	worker> TEXT         the worker writes a line
//	worker exits
//	stream opens         the client opens a GET stream; the older one is left open
//	stream closes
//	stream< JSON         what comes on the newest GET stream next
//	stream< nothing
//	wait DURATION
//
// The requestState of an answer reads STATE, and STATE in a request is the last one. A
// line that begins with # says why. The worker's ids count from 1.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, name := range files {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "testdata/"), ".txtar"), func(t *testing.T) {
			if len(archive.Comment) < 40 || len(archive.Files) != 1 {
				t.Fatal("a conversation is one file with prose above it")
			}
			synctest.Test(t, func(t *testing.T) { play(t, string(archive.Files[0].Data)) })
		})
	}
}

// player is the state of one conversation.
type player struct {
	testing.TB
	table  *session.Table
	worker *puppet
	s      *session.Session
	calls  map[string]*session.Exchange
	opened chan opened
	stream *session.Stream

	mu    sync.Mutex // guards what follows, and calls
	state string     // the last requestState
	fault map[string]error
}

type opened struct {
	s      *session.Session
	answer []byte
	err    error
}

// puppet is a worker that the conversation moves.
type puppet struct {
	read  chan string
	write chan string
	exit  chan struct{}
}

func (p *puppet) run(pr *sessiontest.Process) int {
	go func() {
		in := bufio.NewScanner(pr.In)
		for in.Scan() {
			p.read <- in.Text()
		}
		close(p.read)
	}()
	for {
		select {
		case text := <-p.write:
			_, _ = io.WriteString(pr.Out, text+"\n")
		case <-p.exit:
			return 0
		case <-pr.Killed:
			return -1
		}
	}
}

// zeros makes the worker's ids count from 1.
type zeros struct{ n byte }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	if len(b) == 16 { // a session id
		z.n++
		b[0] = z.n
	}
	return len(b), nil
}

func play(t *testing.T, script string) {
	w := &puppet{read: make(chan string, 100), write: make(chan string), exit: make(chan struct{})}
	sp := &sessiontest.Spawner{Worker: w.run, InMemory: true}
	world := newWorld(t, session.Config{Rand: &zeros{}, Lifetime: session.Lifetime{StreamLossGrace: -1}}, sp)
	p := &player{TB: t, table: world.Table, worker: w, calls: map[string]*session.Exchange{}, opened: make(chan opened, 1), fault: map[string]error{}}
	for n, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		synctest.Wait()
		if err := p.step(line); err != nil {
			t.Errorf("line %d: %s\n%v", n+1, line, err)
			break
		}
	}
	for _, x := range p.calls {
		x.Close()
	}
	if p.stream != nil {
		p.stream.Close()
	}
}

func (p *player) step(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "client>":
		return p.post(rest)
	case "client":
		return p.call(rest)
	case "worker<":
		return same(rest, p.read())
	case "worker>":
		p.worker.write <- rest
	case "worker":
		close(p.worker.exit)
	case "stream":
		return p.turn(rest)
	case "stream<":
		return same(rest, p.next(func(ctx context.Context, d time.Duration) (session.Item, error) { return p.stream.Next(ctx, d) }))
	case "wait":
		d, err := time.ParseDuration(rest)
		time.Sleep(d)
		return err
	default:
		return errors.New("no such step")
	}
	return nil
}

func same(want, got string) error {
	if want != got {
		return fmt.Errorf("got %s", got)
	}
	return nil
}

// read is the next line that the worker has read.
func (p *player) read() string {
	select {
	case text, ok := <-p.worker.read:
		if ok {
			return text
		}
		return "nothing more"
	default:
		return "nothing"
	}
}

func (p *player) post(text string) error {
	m, err := jsonrpc.Parse([]byte(text))
	if err != nil {
		return err
	}
	if m.Kind == jsonrpc.Response {
		return p.s.Answer(context.Background(), m)
	}
	return p.s.Notify(context.Background(), m)
}

// call handles "NAME> JSON", "NAME< JSON" and "NAME hangs up".
func (p *player) call(rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if text == "hangs up" {
		p.calls[name].Close()
		delete(p.calls, name)
		return nil
	}
	name, dir := name[:len(name)-1], name[len(name)-1]
	if dir == '<' {
		switch x := p.calls[name]; {
		case p.fault[name] != nil:
			return same(text, kindOf(p.fault[name]))
		case x != nil:
			return same(text, p.next(x.Next))
		case p.s == nil && len(p.opened) > 0:
			return p.opening(text)
		}
		return same(text, "nothing")
	}
	text = strings.Replace(text, `"STATE"`, `"`+p.state+`"`, 1)
	m, err := jsonrpc.Parse([]byte(text))
	if err != nil {
		return err
	}
	if m.MetaProtocolVersion.Present() {
		go p.begun(name, func() (*session.Exchange, error) {
			s, _, err := p.table.Modern(context.Background(), 0, alice)
			if err != nil {
				return nil, err
			}
			return s.BeginModern(context.Background(), m, session.ModeStream)
		})
		return nil
	}
	if m.Is("initialize") {
		go func() {
			s, answer, err := p.table.Open(context.Background(), 0, alice, m)
			p.opened <- opened{s, answer, err}
		}()
		return nil
	}
	s := p.s
	go p.begun(name, func() (*session.Exchange, error) { return s.Begin(context.Background(), m, session.ModeStream) })
	return nil
}

// begun begins a call, which may wait for the worker, and keeps what came of it.
func (p *player) begun(name string, begin func() (*session.Exchange, error)) {
	x, err := begin()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[name], p.fault[name] = x, err; err != nil {
		delete(p.calls, name)
	}
}

// opening compares the answer to initialize.
func (p *player) opening(want string) error {
	o := <-p.opened
	p.s = o.s
	if o.err != nil {
		return same(want, kindOf(o.err))
	}
	return same(want, string(o.answer))
}

func (p *player) next(next func(context.Context, time.Duration) (session.Item, error)) string {
	item, err := next(context.Background(), time.Nanosecond)
	if err != nil {
		return kindOf(err)
	}
	return requestState.ReplaceAllStringFunc(string(item.Bytes), func(text string) string {
		p.state = strings.TrimSuffix(strings.TrimPrefix(text, `"requestState":"`), `"`)
		return `"requestState":"STATE"`
	})
}

var requestState = regexp.MustCompile(`"requestState":"[^"]*"`)

func kindOf(err error) string {
	var e *session.Error
	switch {
	case errors.Is(err, session.ErrWait):
		return "nothing"
	case errors.Is(err, session.ErrCancelled):
		return "kind cancelled"
	case errors.Is(err, session.ErrReplaced):
		return "kind replaced"
	case errors.As(err, &e):
		return "kind " + e.Kind.String()
	}
	return err.Error()
}

func (p *player) turn(what string) error {
	switch what {
	case "opens":
		old := p.stream
		st, err := p.s.Stream(context.Background(), "")
		p.stream = st
		if err != nil || old == nil {
			return err
		}
		defer old.Close()
		return same("kind replaced", p.next(old.Next))
	case "closes":
		p.stream.Close()
		p.stream = nil
	}
	return nil
}

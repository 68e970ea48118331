package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"gatehouse/toolsets"
)

func testProgram(closed *string) Program {
	return Program{Name: "test-worker", Version: "1", Build: func(in Input) (*Set, error) {
		if in.Catalogue && in.StateDir != "" {
			panic("a catalogue needs no state")
		}
		return &Set{
			Available: []toolsets.Toolset{{
				Name: "demo", Guide: "Say hello with hello.",
				Tools: []toolsets.Tool{
					{Name: "hello", Call: func(context.Context, *toolsets.Call) (*toolsets.Result, error) {
						return &toolsets.Result{Text: "hello " + in.Settings.Account}, nil
					}},
					{Name: "hang", Call: func(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
						c.Progress(1, 3, "hanging")
						<-ctx.Done()
						return nil, ctx.Err()
					}},
				}}},
			Default: []string{"demo"},
			Footer:  func(_ context.Context, view string) []string { return []string{"[footer] " + view} },
			Close:   func(reason string) { *closed = reason },
		}, nil
	}}
}

// started is a running program and a client connected to it.
type started struct {
	*mcp.ClientSession
	signals  chan os.Signal
	progress chan string
	code     func() int
	closed   *string
	said     stderr
}

// stderr keeps what is written to it; parts of the SDK may outlive the program's end.
type stderr struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (e *stderr) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

func (e *stderr) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

func start(t *testing.T, args ...string) *started {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &started{signals: make(chan os.Signal, 1), progress: make(chan string, 8), closed: new(string)}
	done := make(chan int, 1)
	go func() {
		done <- testProgram(s.closed).Run(context.Background(), World{Args: args, Stdin: inR, Stdout: outW, Stderr: &s.said,
			SettingsFD: -1, Account: "alice", Signals: s.signals, IsInterrupt: func(s os.Signal) bool { return s == syscall.SIGINT }})
		outW.Close()
	}()
	s.code = sync.OnceValue(func() int { return <-done })
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.progress <- r.Params.Message }})
	cs, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.ClientSession = cs
	t.Cleanup(func() { cs.Close(); s.code() })
	return s
}

func text(r *mcp.CallToolResult) string { return r.Content[0].(*mcp.TextContent).Text }

func TestSessionFromStartToEnd(t *testing.T) {
	s := start(t, "--title", "Here")
	if i := s.InitializeResult(); i.ServerInfo.Title != "Here" || i.Instructions != "Say hello with hello." {
		t.Errorf("initialize: %+v", i)
	}
	if _, err := s.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: "x"}); err == nil || !strings.Contains(err.Error(), "cursor") {
		t.Errorf("a cursor was not refused: %v", err)
	}
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"})
	if err != nil || text(r) != "hello alice\n[footer] main" {
		t.Errorf("hello: %v, %v", r, err)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "none"}); err == nil || !strings.Contains(err.Error(), `unknown tool "none"`) {
		t.Errorf("unknown tool: %v", err)
	}
	s.Close()
	if code := s.code(); code != 0 || !strings.Contains(*s.closed, "client's end") {
		t.Errorf("exit code %d, closed because %q", code, *s.closed)
	}
}

// TestEndsThatWereAskedForAreNoErrors: an operator who reads the log must not take the
// end of a session for a failure.
func TestEndsThatWereAskedForAreNoErrors(t *testing.T) {
	for name, end := range map[string]func(*started){
		"end of input": func(s *started) { s.Close() },
		"SIGTERM":      func(s *started) { s.signals <- syscall.SIGTERM },
	} {
		s := start(t)
		end(s)
		if code := s.code(); code != 0 || s.said.String() != "" {
			t.Errorf("%s: exit code %d, stderr %q", name, code, s.said.String())
		}
	}
}

func TestSigintGivesUpTheCallAndKeepsTheSession(t *testing.T) {
	s := start(t)
	go func() { <-s.progress; s.signals <- syscall.SIGINT }()
	p := &mcp.CallToolParams{Name: "hang"}
	p.SetProgressToken("t")
	r, err := s.CallTool(t.Context(), p)
	if err != nil || !r.IsError || !strings.Contains(text(r), "interrupted") {
		t.Fatalf("got %+v, %v", r, err)
	}
	if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"}); err != nil || r.IsError {
		t.Errorf("after the interrupt: %v", err)
	}
	s.signals <- syscall.SIGTERM
	if code := s.code(); code != 0 || !strings.Contains(*s.closed, "terminated") {
		t.Errorf("SIGTERM: exit code %d, closed because %q", code, *s.closed)
	}
}

func TestCancelStopsACall(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-s.progress; cancel() }()
	p := &mcp.CallToolParams{Name: "hang"}
	p.SetProgressToken("t")
	if _, err := s.CallTool(ctx, p); err == nil {
		t.Error("the cancelled call returned a result")
	}
	if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"}); err != nil || r.IsError {
		t.Errorf("after the cancel: %v", err)
	}
}

func TestRefusedStarts(t *testing.T) {
	long := t.TempDir() + "/long"
	if err := os.WriteFile(long, bytes.Repeat([]byte("x"), MaxInstructions+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--toolsets", "demo,nope"}, `there is no toolset "nope"; there are demo`},
		{[]string{"--options", `{"demo":{"x":1}}`}, `has no option "x"`},
		{[]string{"--options", `[]`}, `--options must be a JSON object`},
		{[]string{"--branch", "main"}, `--branch needs --workspace`},
		{[]string{"--instructions-file", long}, `at most 32768 are accepted`},
		{[]string{"--nope"}, `Try --help`},
		{[]string{"--check", "--options", `{"other":{}}`}, `"other", which is not served; served are demo`},
		{[]string{"--check", "--options", "-"}, `"piped", which is not served; served are demo`},
		{[]string{"--check", "--toolsets", "nope"}, `there is no toolset "nope"`},
		{[]string{"--check", "--instructions-file", long}, `at most 32768 are accepted`},
	} {
		var errs bytes.Buffer
		var closed string
		code := testProgram(&closed).Run(t.Context(), World{Args: c.args, Stdin: io.NopCloser(strings.NewReader(`{"piped":{}}`)),
			Stdout: io.Discard, Stderr: &errs, SettingsFD: -1, Account: "alice"})
		if code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: code %d, said %q", c.args, code, errs.String())
		}
	}
}

func TestCheckTouchesNothing(t *testing.T) {
	code := testProgram(nil).Run(t.Context(), World{Args: []string{"--check", "--toolsets", "demo"}, Stdout: io.Discard, Stderr: io.Discard, SettingsFD: -1, StateDir: "/nowhere"})
	if code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestListToolsetsIsJSON(t *testing.T) {
	var out bytes.Buffer
	code := testProgram(nil).Run(t.Context(), World{Args: []string{"--list-toolsets"}, Stdout: &out, Stderr: io.Discard, SettingsFD: -1, StateDir: "/nowhere"})
	var c toolsets.Catalogue
	if err := json.Unmarshal(out.Bytes(), &c); err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	if len(c.Toolsets) != 1 || !c.Toolsets[0].Default || len(c.Toolsets[0].Tools) != 2 {
		t.Errorf("catalogue %+v", c)
	}
}

func memfd(t *testing.T, content string, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("settings", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fd, []byte(content)); err != nil {
		t.Fatal(err)
	}
	if seals != 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
	}
	return fd
}

const sealed = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

func TestSettingsComeFromASealedMemoryFileOnly(t *testing.T) {
	good := `{"iss":"i","sub":"s","client_id":"c","scopes":null,"account":"alice","server":"/mcp"}`
	s, err := ReadSettings(memfd(t, good, sealed))
	if err != nil || s == nil || s.Account != "alice" || s.Subject != "s" {
		t.Fatalf("sealed: %+v, %v", s, err)
	}
	plain, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for name, fd := range map[string]int{
		"unsealed":      memfd(t, good, 0),
		"half sealed":   memfd(t, good, unix.F_SEAL_SEAL|unix.F_SEAL_WRITE),
		"ordinary file": int(plain.Fd()),
		"not open":      1 << 19,
	} {
		if s, err := ReadSettings(fd); s != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestSettingsAreDecodedStrictly(t *testing.T) {
	for _, bad := range []string{
		``, `null`, `{}`, `{"account":"a"}`,
		`{"account":"a","server":"/mcp","extra":1}`,
		`{"account":"a","server":"/mcp","account":"b"}`,
		`{"account":"a","server":"/mcp"} {}`,
		`{"account":1,"server":"/mcp"}`,
		`{"Account":"a","server":"/mcp"}`,
	} {
		if s, err := DecodeSettings([]byte(bad)); err == nil {
			t.Errorf("%q was accepted: %+v", bad, s)
		}
	}
}

func TestProgressRises(t *testing.T) {
	s := start(t)
	p := &mcp.CallToolParams{Name: "hang"}
	p.SetProgressToken(7)
	go func() { _, _ = s.CallTool(t.Context(), p) }()
	select {
	case m := <-s.progress:
		if m != "hanging" {
			t.Errorf("message %q", m)
		}
	case <-time.After(5 * time.Second):
		t.Error("no progress")
	}
	s.signals <- syscall.SIGTERM
}

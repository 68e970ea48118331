package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gatehouse/toolsets/toolsettest"
)

// stage is a host with a worker program, a shared repository and people.
type stage struct {
	t    *testing.T
	dir  string
	repo string
	bin  string
	warm string // a build cache to begin with, empty for none
}

// newStage builds the worker and the repository where other accounts reach them.
func newStage(t *testing.T, setup ...string) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("", "gatehouse-story-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: dir, repo: filepath.Join(dir, "shared.git"), bin: filepath.Join(dir, "gatehouse-worker")}
	build := exec.Command("go", "build", "-o", s.bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	s.script(append([]string{s.repo, "--sample"}, setup...)...)
	return s
}

func (s *stage) script(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("../../scripts/setup-workspace.sh", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("setup-workspace.sh %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *stage) git(args ...string) string {
	s.t.Helper()
	return toolsettest.Git(s.t, s.dir, append([]string{"-c", "safe.directory=*", "--git-dir=" + s.repo}, args...)...)
}

// person runs workers under an account of their own.
type person struct {
	*stage
	name  string
	cred  *syscall.Credential // nil for the test's own account
	home  string
	cache string // build cache
}

func (s *stage) person(name string, uid uint32, groups ...uint32) *person {
	s.t.Helper()
	p := &person{stage: s, name: name, home: filepath.Join(s.dir, name)}
	if err := os.MkdirAll(p.home, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if uid == 0 {
		p.cache = goCache(s.t)
		return p
	}
	p.cred = &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}
	p.cache = filepath.Join(p.home, "cache")
	if s.warm != "" {
		if out, err := exec.Command("cp", "-r", s.warm, p.cache).CombinedOutput(); err != nil {
			s.t.Fatalf("cp: %v\n%s", err, out)
		}
	}
	return p
}

func goCache(t *testing.T) string {
	for _, kv := range toolsettest.GoEnv(t) {
		if dir, ok := strings.CutPrefix(kv, "GOCACHE="); ok {
			return dir
		}
	}
	t.Fatal("no build cache")
	return ""
}

// warmUp compiles once what the accounts' tests need, instead of once for each.
func (s *stage) warmUp() {
	s.t.Helper()
	s.warm = filepath.Join(s.dir, "warm-cache")
	src := filepath.Join(s.dir, "warm")
	toolsettest.Git(s.t, s.dir, "clone", "--quiet", s.repo, src)
	cmd := exec.Command("go", "test", "-run=^$", "./greet")
	cmd.Dir, cmd.Env = src, append(toolsettest.GoEnv(s.t), "GOCACHE="+s.warm)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("warm up: %v\n%s", err, out)
	}
}

// own gives the person's files to the person.
func (p *person) own() {
	if p.cred == nil {
		return
	}
	id := fmt.Sprintf("%d:%d", p.cred.Uid, p.cred.Gid)
	if out, err := exec.Command("chown", "-R", id, p.home).CombinedOutput(); err != nil {
		p.t.Fatalf("chown: %v\n%s", err, out)
	}
}

// client is one worker with a client connected to it.
type client struct {
	*person
	*mcp.ClientSession
	cmd *exec.Cmd
	log *bytes.Buffer
}

func (p *person) start() *client {
	p.t.Helper()
	p.own()
	goenv := toolsettest.GoEnv(p.t)
	cmd := exec.Command(p.bin, "--workspace", p.repo, "--author-name", p.name, "--author-email", p.name+"@example.com")
	cmd.Dir, cmd.Env = p.home, []string{"HOME=" + p.home, "GOCACHE=" + p.cache, "GOPROXY=off", "CGO_ENABLED=0"}
	for _, kv := range goenv {
		if strings.HasPrefix(kv, "PATH=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred}
	s := &client{person: p, cmd: cmd, log: &bytes.Buffer{}}
	cmd.Stderr = s.log
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "story", Version: "1"}, nil).Connect(p.t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, err, s.log)
	}
	s.ClientSession = cs
	p.t.Cleanup(func() { cs.Close() })
	return s
}

func (s *client) call(tool string, args map[string]any) (text, kind string) {
	s.t.Helper()
	text, kind, _ = s.answer(tool, args)
	return text, kind
}

// answer calls a tool that must be answered, and returns the structure, too.
func (s *client) answer(tool string, args map[string]any) (text, kind string, data []byte) {
	s.t.Helper()
	text, kind, data, err := s.try(tool, args)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", s.name, tool, err, s.log)
	}
	return text, kind, data
}

// try calls a tool whose worker may die over it.
func (s *client) try(tool string, args map[string]any) (text, kind string, data []byte, err error) {
	r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", "", nil, err
	}
	if data, err = json.Marshal(r.StructuredContent); err != nil {
		return "", "", nil, err
	}
	if r.IsError {
		var body struct{ Error struct{ Kind string } }
		if err := json.Unmarshal(data, &body); err != nil || body.Error.Kind == "" {
			return "", "", nil, fmt.Errorf("a failure without a kind: %s", data)
		}
		kind = body.Error.Kind
	}
	return r.Content[0].(*mcp.TextContent).Text, kind, data, nil
}

// must runs a tool that must end with the given kind ("" for success) and say
// all of want.
func (s *client) must(kind, tool string, args map[string]any, want ...string) string {
	s.t.Helper()
	text, got := s.call(tool, args)
	if got != kind {
		s.t.Fatalf("%s %s %v: kind %q, want %q\n%s", s.name, tool, args, got, kind, text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			s.t.Errorf("%s %s %v does not say %q:\n%s", s.name, tool, args, w, text)
		}
	}
	return text
}

type args = map[string]any

func fn(source string) args { return args{"package": "greet", "source": source} }

const (
	usersGroup = 100 // "users" and "games", which every Debian has and nobody here needs
	gamesGroup = 60
)

// TestStoryOfThreeAccounts plays the story with workers alone: two people who
// write, one who may only read, and a stranger, each as an account of their own.
func TestStoryOfThreeAccounts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about half a minute")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: it runs workers as three accounts")
	}
	for _, tool := range []string{"setfacl", "getfacl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs the Debian package acl")
		}
	}
	rights := []string{"--write-group", "users", "--read-group", "games"}
	st := newStage(t, rights...)
	check := func() {
		t.Helper()
		if out := st.script(append([]string{st.repo, "--check"}, rights...)...); !strings.Contains(out, "is in order") {
			t.Errorf("check: %s", out)
		}
	}
	check()
	st.warmUp()
	alice := st.person("alice", 21001, usersGroup).start()
	bob := st.person("bob", 21002, usersGroup)
	alice.must("", "status", nil, "uid 21001", "groups [100]")
	st.person("mallory", 21004).start().must("refused", "list_packages", nil, "may not read the shared repository")
	st.play(cast{
		alice: alice, bob: bob.start, window: func(c *client) *client { return c },
		kill:  func(c *client) { _ = c.cmd.Process.Kill() },
		carol: st.person("carol", 21003, gamesGroup).start,
	})
	check()
}

// cast is who plays the story.
type cast struct {
	alice  *client
	bob    func() *client        // opens a session
	window func(*client) *client // opens another window of bob's, or returns the one he has
	kill   func(*client)         // ends the worker without a word
	carol  func() *client        // may read the repository and no more
}

// play is the life of a shared code base.
func (s *stage) play(who cast) {
	bob := who.bob()
	s.bothCommit(who.alice, bob)
	s.bothWant(who.alice, bob)
	s.unseen(who.alice, bob)
	s.twoWindows(bob, who.window(bob))
	s.lostWork(bob, who)
	s.mayRead(who.carol())
	s.git("fsck", "--strict")
}

// bothCommit: alice reads, edits and tests a function; bob does the same to
// another one of the same file; the merged file holds both.
func (s *stage) bothCommit(alice, bob *client) {
	t := s.t
	alice.must("", "get_function_source", args{"name": "greet.Short.Greet"}, "return \"Hi \" + name")
	alice.must("", "define_function", fn("func (Short) Greet(name string) string {\n\treturn \"Hey \" + name\n}"), "Replaced", "[session] 1 uncommitted change in 1 file")
	alice.must("testFailure", "run_tests", args{"package": "greet"}, "TestAll")
	alice.must("", "get_function_source", args{"name": "greet.TestAll"})
	alice.must("", "define_function", fn("func TestAll(t *testing.T) {\n\tif got := All(Short{}, \"Ada\"); got[0] != \"Hey Ada\" {\n\t\tt.Errorf(\"got %q\", got)\n\t}\n}"))
	alice.must("", "run_tests", args{"package": "greet"}, "1 passed, 0 failed")
	bob.must("", "get_function_source", args{"name": "greet.All"})
	bob.must("", "define_function", fn("func All(g Greeter, names ...string) []string {\n\tout := make([]string, 0, len(names))\n\tfor _, n := range names {\n\t\tout = append(out, g.Greet(n))\n\t}\n\treturn out\n}"))
	bob.must("", "run_tests", args{"package": "greet"}, "1 passed, 0 failed")
	alice.must("", "commit", args{"message": "Greet like friends"}, "Committed")
	bob.must("", "commit", nil, "Committed", "Merged with 1 commit of others")
	merged := s.git("show", "main:greet/greet.go")
	if !strings.Contains(merged, `return "Hey " + name`) || !strings.Contains(merged, "make([]string, 0, len(names))") {
		t.Errorf("merged:\n%s", merged)
	}
	if got := s.git("log", "--format=%an <%ae> %cn: %s", "-2", "main"); got != "bob <bob@example.com> bob: Change All\nalice <alice@example.com> alice: Greet like friends" {
		t.Errorf("authors:\n%s", got)
	}
}

// bothWant: both edit one function; the second commit is a conflict that names
// the first, and costs nothing.
func (s *stage) bothWant(alice, bob *client) {
	alice.must("", "refresh", nil)
	for who, c := range map[string]*client{"alice": alice, "bob": bob} {
		c.must("", "get_function_source", args{"name": "greet.Polite.Greet"})
		c.must("", "define_function", fn(fmt.Sprintf("func (p Polite) Greet(name string) string { return %q + p.Title + name }", who)))
	}
	alice.must("", "commit", nil)
	head := s.git("rev-parse", "main")
	bob.must("conflict", "commit", nil, "by alice", head[:10], "Polite.Greet", "[session] 1 uncommitted change")
	bob.must("conflict", "refresh", nil, "Polite.Greet")
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, `return "bob"`) // his work is kept
	bob.must("", "abort", nil, "Discarded greet/greet.go (Polite.Greet)")
	if now := s.git("rev-parse", "main"); now != head {
		s.t.Errorf("the branch moved from %s to %s", head, now)
	}
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, `return "alice"`) // and he is free
}

// unseen: a blind write is refused; after a refresh a stale read is, until the
// declaration is read again.
func (s *stage) unseen(alice, bob *client) {
	bob.must("refused", "delete_type", args{"type": "greet.Short"}, "has not read it")
	bob.must("refused", "define_function", fn("func (Short) Greet(name string) string { return name }"), "has not read it", "get_function_source")
	alice.must("", "define_function", fn("func (p Polite) Greet(name string) string { return \"Dear \" + name }"))
	alice.must("", "commit", nil)
	bob.must("", "refresh", nil, "[view] refresh changed 1 declaration that you had read", "Polite.Greet")
	bob.must("refused", "define_function", fn("func (p Polite) Greet(name string) string { return name }"), "read it again")
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, `return "Dear "`)
	bob.must("", "define_function", fn("func (p Polite) Greet(name string) string { return name }"))
}

// twoWindows: one person works in two views, in one function even, and neither
// sees the other's work.
func (s *stage) twoWindows(first, second *client) {
	in := func(a args) args { a["view"] = "second"; return a }
	second.must("", "get_function_source", in(args{"name": "greet.Polite.Greet"}), `opened a new view "second"`, `return "Dear "`)
	second.must("", "define_function", in(fn("func (p Polite) Greet(name string) string { return p.Title }")), `1 uncommitted change of view "second"`)
	second.must("", "define_function", in(fn("func Second() {}")), `2 uncommitted changes of view "second"`)
	first.must("notFound", "get_function_source", args{"name": "greet.Second"}, "[session] 1 uncommitted change in 1 file")
	first.must("", "status", nil, `view "main"`, `view "second"`)
	second.must("", "abort", in(args{}), "Discarded")
	first.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, "{ return name }") // untouched by the other's abort
	second.must("", "define_function", in(fn("func Second() {}")))
	second.must("", "commit", in(args{}), "Committed")
	first.must("notFound", "get_function_source", args{"name": "greet.Second"}) // no tool moves a view but its own
	first.must("", "refresh", nil)
	first.must("", "get_function_source", args{"name": "greet.Second"})
	first.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, "{ return name }")
}

// lostWork: a session that dies in mid-work leaves its work behind, and the next
// one says where.
func (s *stage) lostWork(bob *client, who cast) {
	t := s.t
	who.kill(bob)
	bob.Close()
	bob = who.bob()
	status := bob.must("", "status", nil, "lost work: Lost work in 1 file of view main", "git --git-dir=")
	_, rest, _ := strings.Cut(status, "--git-dir=")
	dir, rest, _ := strings.Cut(rest, " show ")
	ref := strings.Fields(rest)[0]
	show := func(what string) string {
		t.Helper()
		return toolsettest.Git(t, s.dir, "-c", "safe.directory=*", "--git-dir="+dir, "show", what)
	}
	// What is kept applies as a patch, and goes back through the tools.
	clone := filepath.Join(s.dir, "rescued")
	toolsettest.Git(t, s.dir, "-c", "safe.directory=*", "clone", "--quiet", s.repo, clone)
	patch := filepath.Join(s.dir, "lost.patch")
	if err := os.WriteFile(patch, []byte(show(ref)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	toolsettest.Git(t, clone, "apply", patch)
	src := show(ref + ":greet/greet.go")
	if got, err := os.ReadFile(filepath.Join(clone, "greet/greet.go")); err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(src) {
		t.Errorf("the patch makes of the file, %v:\n%s", err, got)
	}
	const lost = "func (p Polite) Greet(name string) string { return name }"
	if !strings.Contains(src, lost) {
		t.Fatalf("the lost work is not in %s %s:\n%s", dir, ref, src)
	}
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, `return "Dear "`)
	bob.must("", "define_function", fn(lost))
	bob.must("", "commit", args{"message": "Get it back"}, "Committed")
	if got := s.git("show", "main:greet/greet.go"); strings.TrimSpace(got) != strings.TrimSpace(src) {
		t.Errorf("what is committed is not what was lost:\n%s", got)
	}
}

// mayRead: carol browses, edits and tests, and the file system refuses her
// commit, and nothing else.
func (s *stage) mayRead(carol *client) {
	head := s.git("rev-parse", "main")
	carol.must("", "list_packages", nil, "example.com/sample/greet")
	carol.must("", "find_references_to", args{"name": "greet.All"}, "main.go")
	carol.must("", "get_function_source", args{"name": "greet.All"})
	carol.must("", "define_function", fn("func Carol() int { return 1 }"), "Added")
	carol.must("", "run_tests", args{"package": "greet"}, "passed")
	carol.must("refused", "commit", nil, "may not write to the shared repository", "Git said", "[session]")
	carol.must("", "get_function_source", args{"name": "greet.Carol"}) // kept
	carol.must("", "refresh", nil)
	if now := s.git("rev-parse", "main"); now != head {
		s.t.Errorf("the branch moved from %s to %s", head, now)
	}
}

// TestStoryThroughTheFrontEnd plays the same story over TLS with bearer tokens.
// scripts/test-toolsets.sh makes the accounts. Alice's client speaks the legacy
// era, everybody else's the modern one, where two windows share a worker.
func TestStoryThroughTheFrontEnd(t *testing.T) {
	repo := os.Getenv("GATEHOUSE_STORY_REPOSITORY")
	if repo == "" {
		t.Skip("scripts/test-toolsets.sh runs it")
	}
	h := newHost(t, repo)
	alice := h.connect("alice", legacy)
	list, err := alice.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 31 {
		t.Fatalf("%d tools, %v", len(list.Tools), err)
	}
	h.worker(alice)
	h.play(cast{
		alice: alice,
		bob:   func() *client { return h.connect("bob", modern) },
		window: func(bob *client) *client {
			second := h.connect("bob", modern)
			if a, b := h.worker(bob), h.worker(second); a != b {
				t.Errorf("bob's two windows have the workers %d and %d", a, b)
			}
			return second
		},
		kill:  func(bob *client) { h.end(h.worker(bob)) },
		carol: func() *client { return h.connect("carol", modern) },
	})
}

// TestEndsCleanly: whatever ends a worker, nothing of it is left.
func TestEndsCleanly(t *testing.T) {
	st := newStage(t)
	p := st.person("me", 0)
	for name, end := range map[string]func(*client){
		"end of input": func(s *client) { s.Close() },
		"SIGTERM":      func(s *client) { _ = s.cmd.Process.Signal(syscall.SIGTERM); s.Wait() },
	} {
		s := p.start()
		s.must("", "define_function", fn("func Undone() {}"))
		pid := s.cmd.Process.Pid
		end(s)
		s.Close()
		if s.cmd.ProcessState == nil || s.cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("%s: %v\n%s", name, s.cmd.ProcessState, s.log)
		}
		if !strings.Contains(s.log.String(), "uncommitted work was thrown away and can be got back") {
			t.Errorf("%s: the log does not say what was lost:\n%s", name, s.log)
		}
		if left, _ := filepath.Glob(filepath.Join(p.home, ".local/state/gatehouse-worker/sessions/*/*")); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
		if kids := children(pid); len(kids) != 0 {
			t.Errorf("%s: processes left: %v", name, kids)
		}
	}
}

// TestSigintKeepsTheSession: the interrupt that the front end sends gives the
// running call up and nothing else.
func TestSigintKeepsTheSession(t *testing.T) {
	st := newStage(t)
	s := st.person("me", 0).start()
	s.must("", "define_function", fn("func Kept() {}"))
	mark := filepath.Join(st.dir, "begun")
	go func() {
		for range 6000 {
			if _, err := os.Stat(mark); err == nil {
				_ = s.cmd.Process.Signal(syscall.SIGINT)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	s.must("timeout", "execute_code", args{"code": fmt.Sprintf("os.WriteFile(%q, nil, 0o600); time.Sleep(time.Minute)", mark)}, "interrupted", "[session] 1 uncommitted change")
	s.must("", "get_function_source", args{"name": "greet.Kept"})
}

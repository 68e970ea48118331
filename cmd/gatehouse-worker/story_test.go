package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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
	r, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", s.name, tool, err, s.log)
	}
	if r.IsError {
		raw, _ := json.Marshal(r.StructuredContent)
		var body struct{ Error struct{ Kind string } }
		if err := json.Unmarshal(raw, &body); err != nil || body.Error.Kind == "" {
			s.t.Fatalf("%s %s: a failure without a kind: %s", s.name, tool, raw)
		}
		kind = body.Error.Kind
	}
	return r.Content[0].(*mcp.TextContent).Text, kind
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
	st.play(alice, bob.start,
		func(c *client) { _ = c.cmd.Process.Kill() },
		st.person("carol", 21003, gamesGroup).start)
	if log := st.git("log", "--format=%an <%ae>", "-2", "main"); log != "alice <alice@example.com>\nalice <alice@example.com>" {
		t.Errorf("authors:\n%s", log)
	}
	check()
}

// play is the life of a shared code base. kill ends a worker without a word;
// reader opens a session of an account that may read the repository and no more.
func (s *stage) play(alice *client, asBob func() *client, kill func(*client), reader func() *client) {
	t := s.t
	bob := asBob()
	// Alice reads, edits and tests a function; bob does the same to another one of the same file.
	alice.must("", "get_function_source", args{"name": "greet.Short.Greet"}, "return \"Hi \" + name")
	alice.must("", "define_function", fn("func (Short) Greet(name string) string {\n\treturn \"Hey \" + name\n}"), "Replaced", "[session] 1 uncommitted change in 1 file")
	alice.must("testFailure", "run_tests", args{"package": "greet"}, "TestAll")
	alice.must("", "get_function_source", args{"name": "greet.TestAll"})
	alice.must("", "define_function", fn("func TestAll(t *testing.T) {\n\tif got := All(Short{}, \"Ada\"); got[0] != \"Hey Ada\" {\n\t\tt.Errorf(\"got %q\", got)\n\t}\n}"))
	alice.must("", "run_tests", args{"package": "greet"}, "1 passed, 0 failed")
	bob.must("", "get_function_source", args{"name": "greet.All"})
	bob.must("", "define_function", fn("func All(g Greeter, names ...string) []string {\n\tout := make([]string, 0, len(names))\n\tfor _, n := range names {\n\t\tout = append(out, g.Greet(n))\n\t}\n\treturn out\n}"))
	alice.must("", "commit", args{"message": "Greet like friends"}, "Committed")
	bob.must("", "commit", nil, "Committed", "Merged with 1 commit of others")
	merged := s.git("show", "main:greet/greet.go")
	if !strings.Contains(merged, `return "Hey " + name`) || !strings.Contains(merged, "make([]string, 0, len(names))") {
		t.Errorf("merged:\n%s", merged)
	}
	authors := strings.Split(s.git("log", "--format=%an: %s", "-2", "main"), "\n")
	if !strings.HasPrefix(strings.ToLower(authors[0]), "bob") || !strings.HasSuffix(authors[0], ": Change All") ||
		!strings.HasPrefix(strings.ToLower(authors[1]), "alice") || !strings.HasSuffix(authors[1], ": Greet like friends") {
		t.Errorf("authors: %q", authors)
	}

	// Both edit one function: the second commit is a conflict that names the first.
	alice.must("", "refresh", nil)
	for who, c := range map[string]*client{"alice": alice, "bob": bob} {
		c.must("", "get_function_source", args{"name": "greet.Polite.Greet"})
		c.must("", "define_function", fn(fmt.Sprintf("func (p Polite) Greet(name string) string { return %q + p.Title + name }", who)))
	}
	alice.must("", "commit", nil)
	head := s.git("rev-parse", "main")
	author, _, _ := strings.Cut(authors[1], ":")
	bob.must("conflict", "commit", nil, "by "+author, head[:10], "Polite.Greet", "[session] 1 uncommitted change")
	bob.must("conflict", "refresh", nil, "Polite.Greet")
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, `return "bob"`) // his work is kept
	bob.must("", "abort", nil, "Discarded greet/greet.go (Polite.Greet)")

	// A blind write is refused; after a refresh a stale read is, until it is read again.
	bob.must("refused", "define_function", fn("func (p Polite) Greet(name string) string { return name }"), "read it again")
	bob.must("refused", "delete_type", args{"type": "greet.Short"}, "has not read it")
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"})
	alice.must("", "define_function", fn("func (p Polite) Greet(name string) string { return \"Dear \" + name }"))
	alice.must("", "commit", nil)
	bob.must("", "refresh", nil, "[view] refresh changed 1 declaration that you had read", "Polite.Greet")
	bob.must("refused", "define_function", fn("func (p Polite) Greet(name string) string { return name }"))
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"})
	bob.must("", "define_function", fn("func (p Polite) Greet(name string) string { return name }"))

	// Two windows of one person in two views.
	bob.must("", "define_function", args{"package": "greet", "source": "func Second() {}", "view": "second"}, `opened a new view "second"`)
	bob.must("notFound", "get_function_source", args{"name": "greet.Second"})
	bob.must("", "abort", args{"view": "second"})
	bob.must("", "get_function_source", args{"name": "greet.Polite.Greet"}, "return name") // untouched by the other's abort

	// A session that dies in mid-work leaves its work behind.
	kill(bob)
	bob.Close()
	status := asBob().must("", "status", nil, "lost work: Lost work in 1 file of view main", "git --git-dir=")
	dir, rest, _ := strings.Cut(status[strings.Index(status, "--git-dir=")+len("--git-dir="):], " show ")
	ref := strings.Fields(rest)[0]
	if got := toolsettest.Git(t, s.dir, "-c", "safe.directory=*", "--git-dir="+dir, "show", ref+":greet/greet.go"); !strings.Contains(got, "{ return name }") {
		t.Errorf("the lost work is not in %s %s:\n%s", dir, ref, got)
	}

	// Carol may only read: she browses, edits and tests, and the file system refuses her commit.
	carol := reader()
	carol.must("", "list_packages", nil, "example.com/sample/greet")
	carol.must("", "define_function", fn("func Carol() int { return 1 }"), "Added")
	carol.must("", "run_tests", args{"package": "greet"}, "passed")
	carol.must("refused", "commit", nil, "may not write to the shared repository", "Git said", "[session]")
	carol.must("", "get_function_source", args{"name": "greet.Carol"}) // kept
	s.git("fsck", "--strict")
}

// TestStoryThroughTheFrontEnd plays the same story over TLS with bearer tokens.
// scripts/test-toolsets.sh starts the server and sets the environment.
func TestStoryThroughTheFrontEnd(t *testing.T) {
	url := os.Getenv("GATEHOUSE_STORY_URL")
	if url == "" {
		t.Skip("scripts/test-toolsets.sh runs it")
	}
	pem, err := os.ReadFile(os.Getenv("GATEHOUSE_STORY_CA"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	st := &stage{t: t, dir: t.TempDir(), repo: os.Getenv("GATEHOUSE_STORY_REPOSITORY")}
	connect := func(name string) *client {
		t.Helper()
		c := &client{person: &person{stage: st, name: name}, log: &bytes.Buffer{}}
		tr := http.DefaultTransport.(*http.Transport).Clone()
		tr.TLSClientConfig = &tls.Config{RootCAs: roots}
		hc := &http.Client{Transport: bearer{os.Getenv("GATEHOUSE_STORY_TOKEN_" + name), tr}}
		c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "story", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: hc}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	alice := connect("alice")
	list, err := alice.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 31 {
		t.Fatalf("%d tools, %v", len(list.Tools), err)
	}
	alice.must("", "status", nil, "account gatehouse-alice")
	asBob := func() *client { return connect("bob") }
	st.play(alice, asBob, endWorker, func() *client { // from now on bob may only read
		for _, change := range [][]string{{"-d", "gatehouse-bob", "users"}, {"-a", "gatehouse-bob", "games"}} {
			if out, err := exec.Command("gpasswd", change...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		// A worker gets its groups when it starts, and requests of the modern era share one.
		old := asBob()
		endWorker(old)
		old.Close()
		return asBob()
	})
}

// endWorker kills the worker behind a session and waits until the monitor has
// reaped it and told the front end.
func endWorker(c *client) {
	m := regexp.MustCompile(`worker pid (\d+)`).FindStringSubmatch(c.must("", "status", nil, "account gatehouse-"+c.name))
	pid, err := strconv.Atoi(m[1])
	if err != nil {
		c.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	for range 200 {
		if syscall.Kill(pid, 0) != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
}

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
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

// children lists the processes whose parent is pid.
func children(pid int) []string {
	var out []string
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		stat, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue
		}
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(out, string(stat))
		}
	}
	return out
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

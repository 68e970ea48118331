// Package toolsettest runs tools on small workspaces made for a test.
package toolsettest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/tools/txtar"

	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/view"
	"gatehouse/toolsets/workspace"
)

// Bench is one session on a shared repository.
type Bench struct {
	T     testing.TB
	Repo  string // the shared repository, bare
	Set   *view.Set
	WS    *workspace.Workspace
	Reg   *toolsets.Registry
	State string
}

// GoEnv is the environment that tests give to the go command: the module and
// build caches of whoever runs them, no network.
func GoEnv(t testing.TB) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Split(strings.TrimSpace(string(out)), "\n")
	return run.Env([]string{"PATH=" + filepath.Join(f[2], "bin") + ":" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOMODCACHE=" + f[0], "GOCACHE=" + f[1],
		"GOPROXY=off", "GOENV=off", "GOFLAGS=-buildvcs=false", "GOTOOLCHAIN=local", "CGO_ENABLED=0"})
}

// Git runs git for a test and returns what it says.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Seed", "GIT_AUTHOR_EMAIL=seed@example.com",
		"GIT_COMMITTER_NAME=Seed", "GIT_COMMITTER_EMAIL=seed@example.com", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.autocrlf", "GIT_CONFIG_VALUE_0=false"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// Seed makes a bare repository whose branch main holds the files of a folder.
func Seed(t testing.TB, dir string) string {
	t.Helper()
	repo := filepath.Join(t.TempDir(), "shared.git")
	Git(t, dir, "init", "--quiet", "--bare", "--initial-branch=main", repo)
	Git(t, dir, "init", "--quiet", "--initial-branch=main")
	Git(t, dir, "add", "--all", "--force")
	Git(t, dir, "commit", "--quiet", "-m", "Seed")
	Git(t, dir, "push", "--quiet", repo, "HEAD:refs/heads/main")
	return repo
}

// Unpack writes a txtar archive below a new folder and returns it.
func Unpack(t testing.TB, archive string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// New opens a session on a repository that holds the files of a txtar archive.
func New(t testing.TB, archive string, sets func(*workspace.Workspace) []toolsets.Toolset) *Bench {
	t.Helper()
	return Join(t, Seed(t, Unpack(t, archive)), "alice", sets)
}

// Join opens a session of its own for account on an existing repository.
func Join(t testing.TB, repo, account string, sets func(*workspace.Workspace) []toolsets.Toolset) *Bench {
	t.Helper()
	b := &Bench{T: t, Repo: repo, State: t.TempDir()}
	b.Set = view.NewSet(view.Config{Repository: repo, StateDir: b.State, Account: account, Env: []string{"PATH=" + os.Getenv("PATH")}, Now: time.Now})
	b.WS = workspace.New(b.Set, GoEnv(t))
	var err error
	b.Reg, err = toolsets.New(sets(b.WS), toolsets.Config{Footer: b.Set.Footer,
		OnBug: func(tool string, fault any, stack []byte) { t.Errorf("%s panicked: %v\n%s", tool, fault, stack) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Set.Close("the test ended") })
	return b
}

// Call runs a tool and checks that its structured answer fits its schema.
func (b *Bench) Call(tool string, args map[string]any) *toolsets.Answer {
	b.T.Helper()
	return b.CallContext(context.Background(), tool, args)
}

// CallContext is Call under a context.
func (b *Bench) CallContext(ctx context.Context, tool string, args map[string]any) *toolsets.Answer {
	b.T.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.T.Fatal(err)
	}
	a, err := b.Reg.Run(ctx, tool, raw, nil)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, t := range b.Reg.Tools() {
		if t.Name == tool {
			CheckAnswer(b.T, t, a)
		}
	}
	return a
}

// OK runs a tool that must succeed and returns its text.
func (b *Bench) OK(tool string, args map[string]any) string {
	b.T.Helper()
	a := b.Call(tool, args)
	if a.IsError {
		b.T.Fatalf("%s %v failed: %s", tool, args, a.Text)
	}
	return a.Text
}

// Fails runs a tool that must fail with the given kind and returns its text.
func (b *Bench) Fails(kind toolsets.Kind, tool string, args map[string]any) string {
	b.T.Helper()
	a := b.Call(tool, args)
	if !a.IsError || Kind(a) != kind {
		b.T.Fatalf("%s %v: want kind %s, got error %v, %s\n%s", tool, args, kind, a.IsError, Kind(a), a.Text)
	}
	return a.Text
}

// Kind is the kind of a failed answer.
func Kind(a *toolsets.Answer) toolsets.Kind {
	var body struct {
		Error struct {
			Kind toolsets.Kind `json:"kind"`
		} `json:"error"`
	}
	if json.Unmarshal(a.Data, &body) != nil {
		return ""
	}
	return body.Error.Kind
}

// Decode reads the structured answer.
func Decode[T any](t testing.TB, a *toolsets.Answer) T {
	t.Helper()
	var v T
	if a.IsError {
		t.Fatalf("the call failed: %s", a.Text)
	}
	if err := json.Unmarshal(a.Data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// CheckAnswer checks an answer against the tool's own output schema.
func CheckAnswer(t testing.TB, tool *toolsets.Tool, a *toolsets.Answer) {
	t.Helper()
	schema := tool.OutputSchema()
	if schema == nil {
		if !a.IsError && a.Data != nil {
			t.Errorf("%s: structured content without a schema", tool.Name)
		}
		return
	}
	r, err := schema.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		t.Fatalf("%s: output schema: %v", tool.Name, err)
	}
	var v any
	if err := json.Unmarshal(a.Data, &v); err != nil {
		t.Fatalf("%s: %v", tool.Name, err)
	}
	if err := r.Validate(v); err != nil {
		t.Errorf("%s: the answer does not fit the schema: %v\n%s", tool.Name, err, a.Data)
	}
	if a.IsError && Kind(a) == "" {
		t.Errorf("%s: a failure without a kind", tool.Name)
	}
	if n := longest(v); n > toolsets.MaxValue+100 {
		t.Errorf("%s: the answer holds a value of %d characters, which should have been cut", tool.Name, n)
	}
}

// longest is the length of the longest string in a JSON value, in characters.
func longest(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case []any:
		for _, x := range v {
			n = max(n, longest(x))
		}
	case map[string]any:
		for _, x := range v {
			n = max(n, longest(x))
		}
	}
	return n
}

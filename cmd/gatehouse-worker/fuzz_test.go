package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
)

// words are what arguments are made of: names that exist, names that do not, and
// what has broken others.
var words = []string{
	"m", "m.Say", "m.English", "m.Greeter", "example.com/m", "example.com/m/util", "m.English.Greet", "util", "TestSay", "Greet", "",
	".", "..", "../../etc/passwd", "/etc/passwd", "-", "--", "--exec=touch pwned", "-c core.fsmonitor=touch${IFS}pwned", "--upload-pack=touch pwned", "--output=/tmp/pwned",
	"$(touch pwned)", "`touch pwned`", ";touch pwned", "a\nb", "a b", "é", "\u202e", "x\x7f", "\U0001F600", strings.Repeat("x", 5000), "%s%n", "*", "**/*", ":(top)", ":!x", "HEAD", "refs/heads/main", "@{u}",
	"/(/", "/a{1000}{1000}/", "/(a*)*b/", "/./", "//", "func F() {}", "func (t English) X() {}", "func (", "type T struct{}", "type T[", "type T = T", "// c", "/* c */", "/* c",
	"func F() {}\x00", "}", "{", "func init() {}", "func _() {}", "type _ int", "func main() {}", "package x", "import \"os\"", "import \"C\"", "C", "unsafe", "1", "panic(1)", "for { break }",
	"func Say(g Greeter) string { return g.Greet() }", "vendor/x", "testdata", "internal/x", ".git/hooks", "a/b/c", "CON", "x.go", "a.go", "a_test.go", "../a.go", "go.mod",
}

// randomValue is a value for an argument, sometimes of another type.
func randomValue(r *rand.Rand, p toolsets.Param) any {
	switch {
	case r.IntN(20) == 0:
		return []any{nil, 1.5, true, map[string]any{"a": 1}, []any{}, "x", -1}[r.IntN(7)]
	case p.Type == toolsets.Integer:
		return []int{0, 1, 2, 200, -1, 1 << 40}[r.IntN(6)]
	case p.Type == toolsets.Strings:
		n := r.IntN(3)
		out := make([]string, n)
		for i := range out {
			out[i] = words[r.IntN(len(words))]
		}
		return out
	}
	w := words[r.IntN(len(words))]
	if r.IntN(4) == 0 {
		w += words[r.IntN(len(words))]
	}
	return w
}

func randomArgs(r *rand.Rand, t *toolsets.Tool) []byte {
	if r.IntN(10) == 0 {
		raw := []string{`{`, `[]`, `null`, `"x"`, `{"a":1,"a":2}`, "{\"\xff\":1}", `{"name":"\ud800"}`, strings.Repeat("[", 10000)}
		return []byte(raw[r.IntN(len(raw))])
	}
	args := map[string]any{}
	for _, p := range t.Params {
		if p.Required || r.IntN(2) == 0 {
			args[p.Name] = randomValue(r, p)
		}
	}
	if t.Viewed && r.IntN(10) == 0 {
		args["view"] = []string{"main", "second", "..", "-x", "A"}[r.IntN(5)]
	}
	if t.Paged && r.IntN(3) == 0 {
		args["limit"], args["offset"] = r.IntN(5)-1, r.IntN(5)-1
	}
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return raw
}

// watchedBench opens a session whose home, temporary folder and working folder are
// its own, and watches these, /etc and what of the shared repository no commit
// writes.
func watchedBench(t *testing.T) (*toolsettest.Bench, *watch) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	caches := strings.Fields(string(out))
	t.Setenv("GOCACHE", caches[0])
	t.Setenv("GOMODCACHE", caches[1])
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(t.TempDir())
	b := toolsettest.New(t, module, sets)
	b.OK("list_packages", nil)
	in := func(name string) string { return filepath.Join(b.Repo, name) }
	return b, newWatch(t, []string{filepath.Dir(home), "/etc"}, b.State, in("objects"), in("refs"), in("logs"), in("packed-refs"),
		filepath.Join(home, ".config", "go")) // the go command's own
}

// TestRandomArguments calls every tool with arguments made to break it: nothing
// panics, every answer fits its schema, no process is left, nothing outside of
// the view and the shared repository is written, and nothing that was named like
// an option or a command took effect. GATEHOUSE_FUZZ_SECONDS is the time for
// each tool (default 0.3).
func TestRandomArguments(t *testing.T) {
	each := 300 * time.Millisecond
	if s := os.Getenv("GATEHOUSE_FUZZ_SECONDS"); s != "" {
		d, err := time.ParseDuration(s + "s")
		if err != nil {
			t.Fatal(err)
		}
		each = d
	}
	b, w := watchedBench(t)
	s1, s2 := rand.Uint64(), rand.Uint64()
	t.Logf("random seed %d, %d", s1, s2)
	r := rand.New(rand.NewPCG(s1, s2))
	calls := 0
	for _, tool := range b.Reg.Tools() {
		for end := time.Now().Add(each); time.Now().Before(end); calls++ {
			raw := randomArgs(r, tool)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			a, err := b.Reg.Run(ctx, tool.Name, raw, nil)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			toolsettest.CheckAnswer(t, tool, a)
			if t.Failed() {
				t.Fatalf("%s %q: %s", tool.Name, raw, a.Text)
			}
		}
	}
	b.OK("abort", nil)
	b.OK("list_packages", nil)
	for _, name := range w.changes(t) {
		t.Errorf("%s was written", name)
	}
	if _, err := os.Lstat("/tmp/pwned"); err == nil {
		t.Error("/tmp/pwned was made")
	}
	for name := range newWatch(t, []string{b.State, b.Repo}).before {
		if strings.Contains(filepath.Base(name), "pwned") {
			t.Errorf("%s was made", name)
		}
	}
	if kids := children(os.Getpid()); len(kids) > 0 {
		t.Errorf("processes left: %v", kids)
	}
	toolsettest.Git(t, b.State, "--git-dir="+b.Repo, "fsck", "--strict")
	t.Logf("%d calls", calls)
}

package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
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

// accounts are files that the machine's own programs write at any time.
var accounts = func() map[string]bool {
	out := map[string]bool{}
	for _, n := range []string{"passwd", "group", "shadow", "gshadow", "subuid", "subgid"} {
		out["/etc/"+n], out["/etc/"+n+"-"], out["/etc/"+n+".lock"] = true, true, true
	}
	out["/etc/.pwd.lock"] = true
	return out
}()

// snapshot is every file below the given folders, with size and time.
func snapshot(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || accounts[name] {
				return nil
			}
			if fi, err := d.Info(); err == nil {
				out[name] = fi.ModTime().String() + " " + fi.Mode().String()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
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
	b := toolsettest.New(t, module, sets)
	b.OK("list_packages", nil)
	outside := t.TempDir()
	t.Chdir(outside)
	watched := []string{outside, "/etc", filepath.Dir(b.Repo) + "/hooks"}
	before := snapshot(t, watched...)
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
	for name, now := range snapshot(t, watched...) {
		if before[name] != now {
			t.Errorf("%s was written", name)
		}
	}
	for name := range snapshot(t, b.Set.Views()[0].Dir, b.Repo, os.TempDir()) {
		if strings.Contains(filepath.Base(name), "pwned") {
			t.Errorf("%s was made", name)
		}
	}
	if kids := children(os.Getpid()); len(kids) > 0 {
		t.Errorf("processes left: %v", kids)
	}
	toolsettest.Git(t, outside, "--git-dir="+b.Repo, "fsck", "--strict")
	t.Logf("%d calls", calls)
}

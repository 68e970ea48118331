// Command toolsets measures gatehouse-worker beside gopls on one module, in one
// run: the first answer after the start, warm references and implementations,
// the same after an edit, memory, and the search beside ripgrep.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// first is the question that includes the start of the program.
const first = "first answer after the start (references)"

// question is a symbol that both are asked about.
type question struct {
	name string // for the tools
	file string // for gopls, relative to the module
	line int    // 0-based
	col  int
}

func main() {
	worker := flag.String("worker", "", "gatehouse-worker")
	repo := flag.String("repo", "", "bare repository of the module")
	dir := flag.String("dir", "", "checkout of the same, for gopls and rg; it is edited")
	rounds := flag.Int("rounds", 15, "questions of each kind")
	open := flag.Bool("open", false, "measure the opening of a view alone")
	flag.Parse()
	if *open {
		measureOpening(*worker, *repo)
		return
	}
	refs := find(*dir, "go/analysis.Analyzer", "go/analysis/analysis.go", "type Analyzer struct", len("type "))
	impl := find(*dir, "go/types/objectpath.Path", "go/ssa/ssa.go", "type Instruction interface", len("type "))
	impl.name = "golang.org/x/tools/go/ssa.Instruction"
	refs.name = "golang.org/x/tools/go/analysis.Analyzer"
	edited := find(*dir, "", "go/ast/astutil/util.go", "func Unparen(", len("func "))

	// Both keep what they find out between starts; the first of each begins without.
	oursCold := measureOurs(*worker, *repo, refs, impl, 1).times[first]
	theirsCold := measureGopls(*dir, refs, impl, edited, 1).times[first]
	ours := measureOurs(*worker, *repo, refs, impl, *rounds)
	theirs := measureGopls(*dir, refs, impl, edited, *rounds)
	fmt.Print("| | worker | beside it | ratio | wanted |\n|---|---|---|---|---|\n")
	for _, k := range []string{first, "warm references (median)", "warm implementations (median)", warmAgain, editAndWarm} {
		row(k+", gopls", ours.times[k], theirs.times[k], 1)
	}
	row("the first start of all, nothing kept, gopls", oursCold, theirsCold, 1)
	fmt.Printf("| peak memory, gopls | %d MiB | %d MiB | %.2f | ≤ 1 |\n", ours.rss>>10, theirs.rss>>10, float64(ours.rss)/float64(theirs.rss))
	searchTable(ours, *dir, *rounds)
}

// row prints one line of the table: what was measured and beside what, and the ratio
// that is wanted at most.
func row(what string, ours, theirs time.Duration, most float64) {
	const unit = 10 * time.Microsecond
	fmt.Printf("| %s | %v | %v | %.2f | ≤ %v |\n", what, ours.Round(unit), theirs.Round(unit), float64(ours)/float64(theirs), most)
}

// The questions after each edit of one function, without the edit and with it.
const (
	warmAgain   = "references after an edit (median)"
	editAndWarm = "the edit itself and references after it (median)"
)

type figures struct {
	times  map[string]time.Duration
	rss    int // KiB
	search func(pattern string) time.Duration
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// find locates a symbol in a file.
func find(dir, name, file, text string, skip int) question {
	b, err := os.ReadFile(filepath.Join(dir, file))
	check(err)
	for i, line := range strings.Split(string(b), "\n") {
		if at := strings.Index(line, text); at >= 0 {
			return question{name, file, i, at + skip}
		}
	}
	log.Fatalf("%s does not hold %q", file, text)
	return question{}
}

func median(n int, f func(i int) time.Duration) time.Duration {
	var all []time.Duration
	for i := range n {
		all = append(all, f(i))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func peak(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			check(err)
			return n
		}
	}
	return 0
}

func measureOurs(worker, repo string, refs, impl question, rounds int) figures {
	ctx := context.Background()
	start := time.Now()
	cmd := exec.Command(worker, "--workspace", repo, "--state", filepath.Join(filepath.Dir(repo), "state"))
	cmd.Stderr = os.Stderr
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	check(err)
	call := func(tool string, args map[string]any) time.Duration {
		at := time.Now()
		r, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		check(err)
		if r.IsError {
			log.Fatalf("%s: %s", tool, r.Content[0].(*mcp.TextContent).Text)
		}
		return time.Since(at)
	}
	f := figures{times: map[string]time.Duration{}}
	call("find_references_to", map[string]any{"name": refs.name})
	f.times[first] = time.Since(start)
	f.times["warm references (median)"] = median(rounds, func(int) time.Duration { return call("find_references_to", map[string]any{"name": refs.name}) })
	f.times["warm implementations (median)"] = median(rounds, func(int) time.Duration { return call("find_implementors", map[string]any{"name": impl.name}) })
	call("get_function_source", map[string]any{"name": "golang.org/x/tools/go/ast/astutil.Unparen"})
	var after []time.Duration
	f.times[editAndWarm] = median(rounds, func(i int) time.Duration {
		// The edit checks what depends on it and lists new errors.
		edit := call("define_function", map[string]any{"package": "golang.org/x/tools/go/ast/astutil", "source": fmt.Sprintf("func Unparen(e ast.Expr) ast.Expr { _ = %d; return ast.Unparen(e) }", i)})
		after = append(after, call("find_references_to", map[string]any{"name": refs.name}))
		return edit + after[i]
	})
	f.times[warmAgain] = median(rounds, func(i int) time.Duration { return after[i] })
	f.rss = peak(cmd.Process.Pid)
	if rounds == 1 {
		check(cs.Close())
		return f
	}
	f.search = func(p string) time.Duration {
		return median(rounds, func(int) time.Duration { return call("search_source", map[string]any{"pattern": p, "limit": 10000}) })
	}
	return f
}

// measureOpening compares the opening of views with plain clones.
func measureOpening(worker, repo string) {
	ctx := context.Background()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx,
		&mcp.CommandTransport{Command: exec.Command(worker, "--workspace", repo, "--state", filepath.Join(filepath.Dir(repo), "state"))}, nil)
	check(err)
	defer cs.Close()
	dir, err := os.MkdirTemp(filepath.Dir(repo), "clones")
	check(err)
	var ours, clones []time.Duration
	for i := range 5 {
		at := time.Now()
		r, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "search_source", Arguments: map[string]any{"pattern": "package", "view": fmt.Sprint("v", i)}})
		check(err)
		if r.IsError {
			log.Fatal(r.Content[0].(*mcp.TextContent).Text)
		}
		ours = append(ours, time.Since(at))
		at = time.Now()
		check(exec.Command("git", "clone", "--quiet", "--shared", repo, filepath.Join(dir, fmt.Sprint(i))).Run())
		clones = append(clones, time.Since(at))
	}
	slices.Sort(ours)
	slices.Sort(clones)
	row("opening a view of 10,000 files, `git clone --shared`", ours[2], clones[2], 2)
}

func searchTable(ours figures, dir string, rounds int) {
	for _, p := range []struct{ tool, rg string }{{"fmt.Sprintf", "fmt.Sprintf"}, {`/func \(\w+ \*\w+\) String/`, `func \(\w+ \*\w+\) String`}} {
		args := []string{"-n", "--column", "--no-heading", "-g", "*.go", "--hidden", "--no-ignore"}
		if p.tool == p.rg {
			args = append(args, "-F")
		}
		rg := median(rounds, func(int) time.Duration {
			at := time.Now()
			cmd := exec.Command("rg", append(args, "--", p.rg, ".")...)
			cmd.Dir = dir
			_, err := cmd.Output()
			check(err)
			return time.Since(at)
		})
		o := ours.search(p.tool)
		row("`search_source` for `"+p.rg+"`, ripgrep", o, rg, 2)
	}
}

// lsp is a minimal client of a language server over stdio.
type lsp struct {
	in  io.Writer
	out *bufio.Reader
	id  int
}

func (l *lsp) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	b, err := json.Marshal(m)
	check(err)
	_, err = fmt.Fprintf(l.in, "Content-Length: %d\r\n\r\n%s", len(b), b)
	check(err)
}

func (l *lsp) notify(method string, params any) {
	l.send(map[string]any{"method": method, "params": params})
}

func (l *lsp) call(method string, params any) (json.RawMessage, time.Duration) {
	l.id++
	at := time.Now()
	l.send(map[string]any{"id": l.id, "method": method, "params": params})
	for {
		n := 0
		for {
			line, err := l.out.ReadString('\n')
			check(err)
			if line = strings.TrimSpace(line); line == "" {
				break
			}
			if v, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				n, err = strconv.Atoi(v)
				check(err)
			}
		}
		b := make([]byte, n)
		_, err := io.ReadFull(l.out, b)
		check(err)
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  json.RawMessage
		}
		check(json.Unmarshal(b, &m))
		switch {
		case m.Method == "workspace/configuration":
			var p struct{ Items []any }
			check(json.Unmarshal(m.Params, &p))
			l.send(map[string]any{"id": m.ID, "result": make([]any, len(p.Items))})
		case m.Method != "" && m.ID != nil:
			l.send(map[string]any{"id": m.ID, "result": nil})
		case m.Method == "" && string(m.ID) == strconv.Itoa(l.id):
			if m.Error != nil {
				log.Fatalf("gopls %s: %s", method, m.Error)
			}
			return m.Result, time.Since(at)
		}
	}
}

func measureGopls(dir string, refs, impl, edited question, rounds int) figures {
	start := time.Now()
	cmd := exec.Command("gopls", "serve")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	l := &lsp{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	l.call("initialize", map[string]any{"processId": nil, "rootUri": "file://" + dir, "capabilities": map[string]any{},
		"workspaceFolders": []any{map[string]any{"uri": "file://" + dir, "name": "x"}}})
	l.notify("initialized", map[string]any{})
	at := func(q question) map[string]any {
		return map[string]any{"textDocument": map[string]any{"uri": "file://" + dir + "/" + q.file},
			"position": map[string]any{"line": q.line, "character": q.col}, "context": map[string]any{"includeDeclaration": false}}
	}
	ask := func(method string, q question) time.Duration {
		res, d := l.call(method, at(q))
		if len(res) < 10 {
			log.Fatalf("gopls %s %v: %s", method, q, res)
		}
		return d
	}
	f := figures{times: map[string]time.Duration{}}
	ask("textDocument/references", refs)
	f.times[first] = time.Since(start)
	f.times["warm references (median)"] = median(rounds, func(int) time.Duration { return ask("textDocument/references", refs) })
	f.times["warm implementations (median)"] = median(rounds, func(int) time.Duration { return ask("textDocument/implementation", impl) })
	src, err := os.ReadFile(filepath.Join(dir, edited.file))
	check(err)
	doc := map[string]any{"uri": "file://" + dir + "/" + edited.file, "languageId": "go", "version": 1, "text": string(src)}
	l.notify("textDocument/didOpen", map[string]any{"textDocument": doc})
	f.times[editAndWarm] = median(rounds, func(i int) time.Duration {
		text := strings.Replace(string(src), "{ return ast.Unparen(e) }", fmt.Sprintf("{ _ = %d; return ast.Unparen(e) }", i), 1)
		l.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": doc["uri"], "version": i + 2}, "contentChanges": []any{map[string]any{"text": text}}})
		return ask("textDocument/references", refs)
	})
	f.times[warmAgain] = f.times[editAndWarm] // gopls is only told of an edit, and works when it is asked
	f.rss = peak(cmd.Process.Pid)
	return f
}

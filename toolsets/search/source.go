package search

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"gatehouse/toolsets"
	"gatehouse/toolsets/view"
)

// matcher finds the next match at or after a position; -1 for none.
type matcher func(src []byte, from int) (start, end int)

func newMatcher(pattern string) (matcher, error) {
	if len(pattern) > 2 && strings.HasPrefix(pattern, "/") && strings.HasSuffix(pattern, "/") {
		re, err := regexp.Compile("(?m)" + pattern[1:len(pattern)-1])
		if err != nil {
			return nil, toolsets.Failf(toolsets.InvalidParams, "argument \"pattern\": %v", err)
		}
		return func(src []byte, from int) (int, int) {
			// A match must not be found by cutting off what precedes it: ^ and \b look there.
			for at := from; at <= len(src); {
				line := bytes.LastIndexByte(src[:at], '\n') + 1
				loc := re.FindIndex(src[line:])
				if loc == nil {
					return -1, -1
				}
				if s := line + loc[0]; s >= from {
					return s, line + loc[1]
				}
				next := bytes.IndexByte(src[at:], '\n')
				if next < 0 {
					return -1, -1
				}
				at += next + 1
			}
			return -1, -1
		}, nil
	}
	text := []byte(pattern)
	return func(src []byte, from int) (int, int) {
		i := bytes.Index(src[from:], text)
		if i < 0 {
			return -1, -1
		}
		return from + i, from + i + len(text)
	}, nil
}

func (s search) source(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	match, err := newMatcher(c.String("pattern"))
	if err != nil {
		return nil, err
	}
	w, err := s.ws.Open(ctx, c, view.Read)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var files []string
	tooLarge := 0
	if c.Has("package") {
		snap, err := w.Load(ctx, c)
		if err != nil {
			return nil, err
		}
		q, err := snap.Package(c.String("package"))
		if err != nil {
			return nil, err
		}
		files, tooLarge, err = goFiles(filepath.Join(w.View.Dir, filepath.FromSlash(q.Dir)), false)
		if err != nil {
			return nil, err
		}
	} else if files, tooLarge, err = goFiles(w.View.Dir, true); err != nil {
		return nil, err
	}
	need := c.Offset + c.Limit + 1
	if c.Limit == 0 {
		need = int(^uint(0) >> 1) // the count was asked for
	}
	found, err := grep(ctx, w.View.Dir, files, match, need)
	if err != nil {
		return nil, err
	}
	r := toolsets.PagedUpTo(c, found, Hit.String)
	if tooLarge > 0 {
		r.Text += fmt.Sprintf("\n(%s of more than %d MiB not searched)", toolsets.Count(tooLarge, "file"), maxFile>>20)
	}
	return r, nil
}

// maxFile bounds a file that is searched, in bytes.
const maxFile = 32 << 20

// goFiles lists the Go files of a folder in order, and below it when deep is
// set, but for those that are too large. Links are not followed.
func goFiles(root string, deep bool) (out []string, tooLarge int, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == root:
			return err
		case err != nil:
			return nil
		case d.IsDir():
			if name != root && (!deep || d.Name() == ".git") {
				return filepath.SkipDir
			}
		case d.Type().IsRegular() && strings.HasSuffix(name, ".go"):
			if fi, err := d.Info(); err == nil && fi.Size() > maxFile {
				tooLarge++
				return nil
			}
			out = append(out, name)
		}
		return nil
	})
	return out, tooLarge, err
}

const batch = 64 // files that are searched at once

// grep searches the files in order until need hits are found.
func grep(ctx context.Context, root string, files []string, match matcher, need int) ([]Hit, error) {
	var out []Hit
	for len(files) > 0 && len(out) < need {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n := min(batch, len(files))
		results := make([][]Hit, n)
		next := make(chan int, n)
		for i := range n {
			next <- i
		}
		close(next)
		var wg sync.WaitGroup
		for range min(n, runtime.GOMAXPROCS(0)) {
			wg.Go(func() {
				for i := range next {
					results[i] = grepFile(root, files[i], match, need-len(out))
				}
			})
		}
		wg.Wait()
		for _, r := range results {
			out = append(out, r...)
		}
		files = files[n:]
	}
	return out[:min(len(out), need)], nil
}

// grepFile finds the lines of one file, each once.
func grepFile(root, name string, match matcher, need int) []Hit {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil // gone meanwhile, or not readable
	}
	var out []Hit
	rel, _ := filepath.Rel(root, name)
	line, counted := 1, 0
	for from := 0; from <= len(src) && len(out) < need; {
		start, end := match(src, from)
		if start < 0 || start == len(src) && start > 0 && src[start-1] == '\n' {
			break // what follows the last newline is no line
		}
		line += bytes.Count(src[counted:start], []byte("\n"))
		counted = start
		lineStart := bytes.LastIndexByte(src[:start], '\n') + 1
		out = append(out, Hit{
			Position: fmt.Sprintf("%s:%d:%d", filepath.ToSlash(rel), line, start-lineStart+1),
			Line:     trimLine(lineAt(src, start)),
		})
		after := bytes.IndexByte(src[max(start, end-1):], '\n')
		if after < 0 {
			break
		}
		from = max(start, end-1) + after + 1
	}
	return out
}

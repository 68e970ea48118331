package view

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gatehouse/toolsets/run"
)

// git runs the git program for one repository with a built environment: no user
// or system configuration, no hooks, no prompts, no protocol but files.
type git struct {
	env    []string // of every call
	dir    string   // working folder
	gitDir string
	tree   string // working tree, empty for none
	most   int    // bytes that a command may print; 0 means maxBlob
}

// gitError is a git command that failed.
type gitError struct {
	what   string
	code   int
	stderr string
}

func (e *gitError) Error() string {
	return fmt.Sprintf("%s: git ended with %d: %s", e.what, e.code, e.stderr)
}

// maxBlob bounds what one git command may print: the largest file that is merged.
const maxBlob = 64 << 20

var errTooMuch = errors.New("git said more than is read of it")

// run runs one git command. what says what is being done, for errors. Arguments
// that name refs are full names, paths follow "--" or come by standard input.
func (g git) run(ctx context.Context, what string, stdin []byte, args ...string) ([]byte, error) {
	out, err := g.try(ctx, stdin, nil, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if out.Cut {
		return nil, fmt.Errorf("%s: %w", what, errTooMuch)
	}
	if out.Code != 0 {
		return out.Stdout, &gitError{what, out.Code, plain(out.Stderr)}
	}
	return out.Stdout, nil
}

func (g git) try(ctx context.Context, stdin []byte, env []string, args ...string) (run.Output, error) {
	argv := append([]string{"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, args...)
	e := append([]string{"GIT_DIR=" + g.gitDir}, env...)
	if g.tree != "" {
		e = append(e, "GIT_WORK_TREE="+g.tree)
	}
	return run.Run(ctx, run.Cmd{Args: argv, Dir: g.dir, Env: run.Env(g.env, e), Stdin: bytes.NewReader(stdin), MaxOutput: cmp.Or(g.most, maxBlob)})
}

// line is run for commands that print one line.
func (g git) line(ctx context.Context, what string, args ...string) (string, error) {
	out, err := g.run(ctx, what, nil, args...)
	return strings.TrimRight(string(out), "\n"), err
}

// plain makes what git printed fit for one line of text.
func plain(stderr []byte) string {
	var parts []string
	for line := range strings.Lines(string(bytes.ToValidUTF8(stderr, []byte("?")))) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' {
				return ' '
			}
			return r
		}, line))
		line = strings.TrimPrefix(line, "remote: ")
		if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "To ") {
			parts = append(parts, line)
		}
	}
	s := strings.Join(parts, "; ")
	if len(s) > 600 {
		s = strings.ToValidUTF8(s[:600], "") + "…"
	}
	return s
}

// gitEnv is the environment of every git command: its home is below the folder
// state, its only configuration the given file.
func gitEnv(state, config string, base []string) []string {
	return run.Env(base, []string{
		"HOME=" + filepath.Join(state, "home"),
		"XDG_CONFIG_HOME=" + filepath.Join(state, "home"),
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + config,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=/bin/false",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1", // by a program that the repository names
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_ALLOW_PROTOCOL=file",
		"GIT_EDITOR=/bin/false",
		"GIT_PAGER=cat",
	})
}

// writeConfig writes the only git configuration there is beside the
// repositories' own. A repository of another account is refused as "dubious
// ownership" unless safe.directory names it, and only a configuration file of
// the "global" kind may do so. Each repository has a file of its own, because an
// account may have workers on several.
func writeConfig(state, repository string) (string, error) {
	var b strings.Builder
	b.WriteString("[core]\n\tautocrlf = false\n\tattributesFile = /dev/null\n\texcludesFile = /dev/null\n\tuntrackedCache = false\n" +
		"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n[push]\n\tgpgSign = false\n" +
		"[submodule]\n\trecurse = false\n[fetch]\n\trecurseSubmodules = false\n[advice]\n\tdetachedHead = false\n[safe]\n")
	for _, r := range []string{repository, filepath.Join(repository, ".git")} {
		b.WriteString("\tdirectory = " + quoteConfig(r) + "\n")
	}
	if err := os.MkdirAll(filepath.Join(state, "home"), 0o700); err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(state, ".gitconfig-*")
	if err != nil {
		return "", err
	}
	_, err = tmp.WriteString(b.String())
	if err = errors.Join(err, tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	name := filepath.Join(state, "gitconfig-"+nameOf(repository))
	return name, os.Rename(tmp.Name(), name)
}

// nameOf makes a short file name of a path.
func nameOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}

func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// entry is one path that differs between two trees.
type entry struct {
	path             string
	oldMode, newMode string // "000000" for none
	oldID, newID     string
}

func (e entry) deleted() bool { return e.newMode == noMode }
func (e entry) added() bool   { return e.oldMode == noMode }

const (
	noMode    = "000000"
	submodule = "160000" // its object is in another repository
)

// regular reports whether mode is that of an ordinary file.
func regular(mode string) bool { return strings.HasPrefix(mode, "100") }

// diff lists the paths that differ between two trees or commits.
func (g git) diff(ctx context.Context, a, b string) ([]entry, error) {
	out, err := g.run(ctx, "compare trees", nil, "diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", a, b, "--")
	if err != nil {
		return nil, err
	}
	return parseRaw(out)
}

func parseRaw(out []byte) ([]entry, error) {
	var all []entry
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		f := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(f) != 5 {
			return nil, fmt.Errorf("compare trees: git printed %q", fields[i])
		}
		all = append(all, entry{path: fields[i+1], oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3]})
	}
	return all, nil
}

// blobs reads objects by their ids. The null id gives nil.
func (g git) blobs(ctx context.Context, ids ...string) ([][]byte, error) {
	var ask bytes.Buffer
	for _, id := range ids {
		if strings.Trim(id, "0") != "" {
			ask.WriteString(id + "\n")
		}
	}
	out, err := g.run(ctx, "read objects", ask.Bytes(), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	result := make([][]byte, len(ids))
	for i, id := range ids {
		if strings.Trim(id, "0") == "" {
			continue
		}
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		f := strings.Fields(string(head))
		if len(f) != 3 || f[0] != id {
			return nil, fmt.Errorf("read object %s: git printed %q", id, head)
		}
		n, err := strconv.Atoi(f[2])
		if err != nil || n+1 > len(rest) {
			return nil, fmt.Errorf("read object %s: git printed %q", id, head)
		}
		result[i], out = rest[:n:n], rest[n+1:]
	}
	return result, nil
}

// shared is what is known about the shared repository.
type shared struct {
	git
	path    string // as configured, absolute
	branch  string // full ref name
	objects string // its object folder
	format  string // "sha1" or "sha256"
	// patience is how long a lock file may stay: deadAfter.
	patience time.Duration
}

// openShared looks at the repository without running anything of it.
func openShared(ctx context.Context, env []string, path, branch string) (*shared, error) {
	s := &shared{path: path, patience: deadAfter}
	s.git = git{env: env, dir: path, gitDir: path}
	if fi, err := os.Stat(filepath.Join(path, ".git")); err == nil {
		s.gitDir = filepath.Join(path, ".git")
		if !fi.IsDir() {
			return nil, fmt.Errorf("%s is a linked working tree or a submodule; name the repository itself", path)
		}
	}
	out, err := s.line(ctx, "open the shared repository", "rev-parse", "--path-format=absolute", "--git-path", "objects", "--show-object-format")
	if err != nil {
		return nil, err
	}
	var ok bool
	if s.objects, s.format, ok = strings.Cut(out, "\n"); !ok || strings.ContainsAny(s.format, "\n\r") {
		return nil, fmt.Errorf("open the shared repository: a newline in its path is not supported")
	}
	if branch == "" {
		if s.branch, err = s.line(ctx, "find the shared branch", "symbolic-ref", "HEAD"); err != nil {
			return nil, fmt.Errorf("%w; the repository's HEAD names no branch: configure one", err)
		}
	} else {
		s.branch = "refs/heads/" + branch
		if _, err = s.run(ctx, "check the shared branch's name", nil, "check-ref-format", s.branch); err != nil {
			return nil, fmt.Errorf("%q is no name for a branch", branch)
		}
	}
	return s, nil
}

// head returns the commit that the shared branch is at.
func (s *shared) head(ctx context.Context) (string, error) {
	id, err := s.line(ctx, "find the head of the shared branch", "rev-parse", "--verify", "--quiet", "--end-of-options", s.branch+"^{commit}")
	var ge *gitError
	if errors.As(err, &ge) {
		return "", fmt.Errorf("the shared repository has no branch %s with a commit on it", s.short())
	}
	return id, err
}

func (s *shared) short() string { return strings.TrimPrefix(s.branch, "refs/heads/") }

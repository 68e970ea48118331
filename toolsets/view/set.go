// Package view gives each session working copies of a shared Git repository
// ("views") and the transactions on them. A view borrows the shared objects
// read-only, lies in a private folder of the account, and moves only by Commit,
// Abort and Refresh. The account's own rights on the shared repository are the
// only gate.
package view

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"gatehouse/toolsets"
)

// MaxViews is how many views one worker may have.
const MaxViews = 8

// Config says what the views are of and for whom.
type Config struct {
	// Repository is the absolute path of the shared repository; empty means that
	// there is none, and every view is refused.
	Repository string
	Branch     string // empty: what the repository's HEAD names
	// StateDir is the account's private folder; made with mode 0700.
	StateDir string
	Account  string
	// Name and Email are author and committer; empty ones follow the account.
	Name, Email string
	// Env is the environment of git beside what the package sets: PATH, TMPDIR.
	Env []string
	// IdleEnd says in words how long an idle session lives, empty for for ever.
	IdleEnd string
	Now     func() time.Time
	// Log is told what a human may want to know: lost work, orphans.
	Log func(message string, args ...any)
}

// Set is the views of one worker.
type Set struct {
	cfg Config

	opening chan struct{} // held (one token) while views are opened or closed

	mu       sync.Mutex // guards what follows
	views    []*View
	shared   *shared
	dir      string   // the session's own folder
	lock     *os.File // held as long as the session lives
	runHooks bool
	keepLost time.Duration
	check    Checker
	closed   bool
}

// Checker returns the type errors of what a view holds at present.
type Checker func(ctx context.Context, v *View) ([]string, error)

// NewSet returns a set without views; it touches nothing.
func NewSet(cfg Config) *Set {
	if cfg.Log == nil {
		cfg.Log = func(string, ...any) {}
	}
	return &Set{cfg: cfg, opening: make(chan struct{}, 1), keepLost: 7 * 24 * time.Hour}
}

// SetPolicy sets the operator's choices: whether hooks of the shared repository
// run when a commit is adopted, and how long lost work is kept.
func (s *Set) SetPolicy(runHooks bool, keepLost time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runHooks, s.keepLost = runHooks, keepLost
}

// SetChecker sets what type-checks a merged tree before it is adopted.
func (s *Set) SetChecker(c Checker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check = c
}

// Configured reports whether there is a repository to have views of.
func (s *Set) Configured() bool { return s.cfg.Repository != "" }

// StateDir is the account's private folder.
func (s *Set) StateDir() string { return s.cfg.StateDir }

// Views returns the views that are open, in the order of their opening.
func (s *Set) Views() []*View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.views)
}

// Branch returns the name of the shared branch, empty before the first view.
func (s *Set) Branch() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared == nil {
		return s.cfg.Branch
	}
	return s.shared.short()
}

func (s *Set) find(name string) *View {
	for _, v := range s.Views() {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Open returns the view of that name and opens it at the shared branch's head
// when there is none yet.
func (s *Set) Open(ctx context.Context, name string) (*View, error) {
	if !s.Configured() {
		return nil, toolsets.Failf(toolsets.Refused, "no workspace is configured for this server, so there is nothing to work on; the operator sets workspace.repository")
	}
	if v := s.find(name); v != nil {
		return v, nil
	}
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if v := s.find(name); v != nil {
		return v, nil
	}
	if n := len(s.Views()); n >= MaxViews {
		return nil, toolsets.Failf(toolsets.Refused, "there are %d views already, which is the most a session may have; use one of them (status lists them)", n)
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	v, err := s.newView(ctx, name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the session has ended")
	}
	s.views = append(s.views, v)
	return v, nil
}

// prepare makes the session's folder, opens the shared repository and takes in
// what crashed workers left behind. It does its work once.
func (s *Set) prepare(ctx context.Context) error {
	s.mu.Lock()
	ready := s.shared != nil
	s.mu.Unlock()
	if ready {
		return nil
	}
	sh, err := s.open(ctx)
	if err != nil {
		return err
	}
	dir, lock, err := newSessionDir(s.sessions(sh))
	if err != nil {
		return fmt.Errorf("make a private folder for views: %w", err)
	}
	s.mu.Lock()
	s.shared, s.dir, s.lock = sh, dir, lock
	s.mu.Unlock()
	s.recoverOrphans(ctx, sh)
	s.pruneLost(ctx, sh)
	return nil
}

// open looks at the shared repository and writes the git configuration.
func (s *Set) open(ctx context.Context) (*shared, error) {
	if s.cfg.StateDir == "" || !filepath.IsAbs(s.cfg.StateDir) {
		return nil, errors.New("there is no private folder for views: the account has no home folder")
	}
	path, err := filepath.EvalSymlinks(s.cfg.Repository)
	if errors.Is(err, fs.ErrPermission) {
		return nil, s.mayNotRead()
	}
	if err != nil {
		return nil, fmt.Errorf("open the shared repository: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the private folder: %w", err)
	}
	config, err := writeConfig(s.cfg.StateDir, path)
	if err != nil {
		return nil, fmt.Errorf("write the git configuration: %w", err)
	}
	if f, err := os.Open(path); errors.Is(err, fs.ErrPermission) {
		return nil, s.mayNotRead()
	} else if err == nil {
		f.Close()
	}
	return openShared(ctx, gitEnv(s.cfg.StateDir, config, s.cfg.Env), path, s.cfg.Branch)
}

func (s *Set) mayNotRead() error {
	return toolsets.Failf(toolsets.Refused, "this account (%s) may not read the shared repository; whoever owns it decides who may", s.cfg.Account)
}

// newSessionDir makes a folder with a lock that lives as long as this process.
// Whoever finds the folder without the lock knows that its worker is gone.
func newSessionDir(sessions string) (string, *os.File, error) {
	if err := os.MkdirAll(sessions, 0o700); err != nil {
		return "", nil, err
	}
	tmp, err := os.MkdirTemp(sessions, newPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(filepath.Join(tmp, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	dir := filepath.Join(sessions, fmt.Sprintf("%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:10])))
	if err := os.Rename(tmp, dir); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return dir, lock, nil
}

const (
	newPrefix = ".new-"
	lockName  = "lock"
)

func (s *Set) newView(ctx context.Context, name string) (*View, error) {
	sh := s.shared
	head, err := sh.head(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, name)
	v := &View{Name: name, Dir: dir, set: s, base: head, reads: map[declKey][32]byte{}, rw: semaphore.NewWeighted(writers), runs: semaphore.NewWeighted(writers),
		git: git{env: sh.env, dir: dir, gitDir: filepath.Join(dir, ".git"), tree: dir}}
	fail := func(err error) (*View, error) {
		return nil, errors.Join(fmt.Errorf("open view %q: %w", name, err), os.RemoveAll(dir))
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fail(err)
	}
	if err := v.makeRepository(ctx); err != nil {
		return fail(err)
	}
	if err := v.moveTo(ctx, head, head); err != nil {
		return fail(err)
	}
	if v.root, err = os.OpenRoot(dir); err != nil {
		return fail(err)
	}
	v.Note(fmt.Sprintf("opened a new view %q at commit %s, the head of %s", name, abbrev(head), sh.short()))
	return v, nil
}

func abbrev(id string) string { return id[:min(len(id), 10)] }

// Footer returns the lines that end every result of a view: what it has to tell
// once, and the reminder of uncommitted changes.
func (s *Set) Footer(ctx context.Context, name string) []string {
	v := s.find(name)
	if v == nil {
		return nil
	}
	lines := v.takeNotes()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ch, err := v.Changes(ctx)
	if err != nil {
		return append(lines, "[session] the uncommitted changes could not be counted: "+err.Error())
	}
	if len(ch) == 0 {
		return lines
	}
	n := 0
	for _, c := range ch {
		n += c.count()
	}
	line := fmt.Sprintf("[session] %d uncommitted %s in %d %s (commit to keep, abort to discard)", n, plural(n, "change"), len(ch), plural(len(ch), "file"))
	if name != toolsets.DefaultView {
		line = strings.Replace(line, " in ", fmt.Sprintf(" of view %q in ", name), 1)
	}
	if s.cfg.IdleEnd != "" {
		line += "; idle sessions end after " + s.cfg.IdleEnd
	}
	return append(lines, line)
}

func plural(n int, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

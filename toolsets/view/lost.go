package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lost is uncommitted work of an ended session that can be got back.
type Lost struct {
	Ref        string    `json:"ref"`
	Repository string    `json:"repository" jsonschema:"the private repository that holds the ref"`
	Commit     string    `json:"commit"`
	Time       time.Time `json:"time"`
	Subject    string    `json:"subject"`
}

const lostPrefix = "refs/gatehouse/lost/"

// lostRepo is the account's private repository for lost work on a shared one.
func (s *Set) lostRepo(sh *shared) git {
	dir := filepath.Join(s.cfg.StateDir, "lost", nameOf(sh.path)+".git")
	return git{env: sh.env, dir: dir, gitDir: dir}
}

func (s *Set) makeLostRepo(ctx context.Context, sh *shared) (git, error) {
	g := s.lostRepo(sh)
	if _, err := os.Stat(filepath.Join(g.gitDir, "objects")); err == nil {
		return g, nil
	}
	if err := os.MkdirAll(filepath.Join(g.gitDir, "objects", "info"), 0o700); err != nil {
		return g, err
	}
	if _, err := g.run(ctx, "make the folder for lost work", nil, "init", "--quiet", "--bare", "--template=", "--object-format="+sh.format); err != nil {
		return g, err
	}
	return g, os.WriteFile(filepath.Join(g.gitDir, "objects", "info", "alternates"), []byte(sh.objects+"\n"), 0o600)
}

// Lost lists what can be got back, the newest first. It is cheap: without lost
// work it runs nothing, and it opens no view.
func (s *Set) Lost(ctx context.Context) ([]Lost, error) {
	if !s.Configured() || s.cfg.StateDir == "" {
		return nil, nil
	}
	state := os.DirFS(s.cfg.StateDir)
	orphans, err := fs.Glob(state, "sessions/*/*-*")
	if err != nil {
		return nil, err
	}
	kept, err := fs.Glob(state, "lost/*.git")
	if err != nil || len(orphans)+len(kept) == 0 {
		return nil, err
	}
	s.mu.Lock()
	sh := s.shared
	s.mu.Unlock()
	if sh == nil {
		if sh, err = s.open(ctx); err != nil {
			return nil, err
		}
	}
	s.recoverOrphans(ctx, sh)
	g := s.lostRepo(sh)
	if _, err := os.Stat(g.gitDir); err != nil {
		return nil, nil
	}
	out, err := g.run(ctx, "list lost work", nil, "for-each-ref", "--sort=-refname", "--format=%(refname)%00%(objectname)%00%(creatordate:unix)%00%(subject)", lostPrefix)
	if err != nil {
		return nil, err
	}
	var all []Lost
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), "\x00", 4)
		if len(f) != 4 {
			continue
		}
		var sec int64
		if _, err := fmt.Sscan(f[2], &sec); err != nil {
			continue
		}
		all = append(all, Lost{Ref: f[0], Repository: g.gitDir, Commit: f[1], Time: time.Unix(sec, 0).UTC(), Subject: strings.ToValidUTF8(f[3], "?")})
	}
	return all, nil
}

var notRefName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// keep saves the uncommitted state of a working copy as a ref. It returns the
// ref's name, empty when there was nothing to save.
func (s *Set) keep(ctx context.Context, sh *shared, g git, name, reason string) (string, error) {
	tree, err := g.uncommitted(ctx)
	if err != nil {
		return "", err
	}
	base, err := g.line(ctx, "find the base", "rev-parse", "--verify", "--quiet", "--end-of-options", asideRef+"^1")
	if err != nil {
		base, err = g.line(ctx, "find the base", "rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}")
	}
	if err != nil {
		return "", err
	}
	diff, err := g.diff(ctx, base, tree)
	if err != nil || len(diff) == 0 {
		return "", err
	}
	message := fmt.Sprintf("Lost work in %d %s of view %s: %s\n", len(diff), plural(len(diff), "file"), name, plain([]byte(reason)))
	out, err := g.try(ctx, []byte(message), s.identity(), "commit-tree", "--no-gpg-sign", "-p", base, "-F", "-", tree)
	if err != nil {
		return "", err
	}
	if out.Code != 0 {
		return "", &gitError{"keep the changes", out.Code, plain(out.Stderr)}
	}
	if _, err := s.makeLostRepo(ctx, sh); err != nil {
		return "", err
	}
	commit := strings.TrimSpace(string(out.Stdout))
	ref := lostPrefix + s.cfg.Now().UTC().Format("20060102T150405.000000Z") + "-" + strings.Trim(notRefName.ReplaceAllString(s.cfg.Account, "-"), "-")
	ref = strings.ReplaceAll(ref, ".", "-")
	_, err = g.run(ctx, "keep the changes", nil, "push", "--quiet", "--no-verify", "--", s.lostRepo(sh).gitDir, commit+":"+ref)
	return ref, err
}

// uncommitted is the tree of a working copy with its changes.
func (g git) uncommitted(ctx context.Context) (string, error) {
	aside, err := g.try(ctx, nil, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", asideRef+"^{tree}")
	if err == nil && aside.Code == 0 {
		return strings.TrimSpace(string(aside.Stdout)), nil
	}
	if _, err := g.run(ctx, "collect the changes", nil, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	return g.line(ctx, "collect the changes", "write-tree")
}

// sessions is the folder of all sessions of this account on a shared repository.
func (s *Set) sessions(sh *shared) string {
	return filepath.Join(s.cfg.StateDir, "sessions", nameOf(sh.path))
}

// recoverOrphans takes in the folders of workers that ended without cleaning up.
func (s *Set) recoverOrphans(ctx context.Context, sh *shared) {
	sessions := s.sessions(sh)
	dirs, err := os.ReadDir(sessions)
	if err != nil {
		return
	}
	s.mu.Lock()
	own := s.dir
	s.mu.Unlock()
	for _, d := range dirs {
		dir := filepath.Join(sessions, d.Name())
		if dir == own {
			continue
		}
		if strings.HasPrefix(d.Name(), newPrefix) {
			if fi, err := d.Info(); err == nil && s.cfg.Now().Sub(fi.ModTime()) > time.Hour {
				_ = os.RemoveAll(dir)
			}
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			s.takeIn(ctx, sh, dir, "the worker ended without a word")
		}
		lock.Close()
	}
}

// takeIn keeps the uncommitted work of every view below dir and removes it all.
// What could not be kept is left where it is, and said.
func (s *Set) takeIn(ctx context.Context, sh *shared, dir, reason string) {
	views, err := os.ReadDir(dir)
	if err != nil {
		s.cfg.Log("look at an ended session", "folder", dir, "error", err.Error())
		return
	}
	for _, e := range views {
		if !e.IsDir() {
			continue
		}
		wd := filepath.Join(dir, e.Name())
		_ = os.Remove(filepath.Join(wd, ".git", "index.lock")) // of a git that was killed
		if _, err := os.Stat(filepath.Join(wd, ".git", "HEAD")); err != nil {
			continue
		}
		ref, err := s.keep(ctx, sh, git{env: sh.env, dir: wd, gitDir: filepath.Join(wd, ".git"), tree: wd}, e.Name(), reason)
		var ge *gitError
		switch {
		case errors.As(err, &ge) && ge.what == "find the base":
			// The view was never finished: there is nothing in it.
		case err != nil:
			s.cfg.Log("uncommitted work could not be kept", "view", wd, "reason", reason, "error", err.Error())
			return
		case ref != "":
			s.cfg.Log("uncommitted work was thrown away and can be got back", "ref", ref, "repository", s.lostRepo(sh).gitDir, "view", e.Name(), "reason", reason)
		}
	}
	if err := removeAll(dir); err != nil {
		s.cfg.Log("remove an ended session's folder", "folder", dir, "error", err.Error())
	}
}

// removeAll removes a tree even where tests took the right to write away.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	makeWritable(dir)
	return os.RemoveAll(dir)
}

// pruneLost forgets lost work that is older than the operator keeps it.
func (s *Set) pruneLost(ctx context.Context, sh *shared) {
	s.mu.Lock()
	keep := s.keepLost
	s.mu.Unlock()
	g := s.lostRepo(sh)
	if _, err := os.Stat(g.gitDir); err != nil || keep <= 0 {
		return
	}
	all, err := s.Lost(ctx)
	if err != nil {
		return
	}
	for _, l := range all {
		if s.cfg.Now().Sub(l.Time) > keep {
			if _, err := g.run(ctx, "forget old lost work", nil, "update-ref", "-d", l.Ref, l.Commit); err != nil {
				s.cfg.Log("forget old lost work", "ref", l.Ref, "error", err.Error())
			}
		}
	}
}

// Close ends the session: uncommitted work is kept as lost work, the views are
// removed. No view may be in use any more.
func (s *Set) Close(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s.opening <- struct{}{}
	defer func() { <-s.opening }()
	s.mu.Lock()
	sh, dir, lock, views := s.shared, s.dir, s.lock, s.views
	s.closed, s.views = true, nil
	s.mu.Unlock()
	if sh == nil {
		return
	}
	for _, v := range views {
		v.root.Close()
	}
	if dir != "" {
		s.takeIn(ctx, sh, dir, reason)
	}
	if lock != nil {
		lock.Close()
	}
}

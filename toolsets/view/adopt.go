package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatehouse/toolsets"
)

// attempts is how often a commit is tried again when others commit meanwhile.
const attempts = 25

// Committed is what Commit did.
type Committed struct {
	Commit  string   `json:"commit" jsonschema:"the new commit, empty when there was nothing to adopt"`
	Branch  string   `json:"branch"`
	Changes []Change `json:"changes"`
	// Merged is how many commits of others were merged in.
	Merged int `json:"merged" jsonschema:"commits of others that the result was merged with"`
}

// Commit adopts the view's changes on the shared branch as one commit. Changes
// of others that touch nothing that the view changed are merged. Otherwise it
// fails with kind conflict; when the repository may not be written, with kind
// refused. A failed commit leaves the view as it was. The caller holds the view
// for writing.
func (v *View) Commit(ctx context.Context, message string) (*Committed, error) {
	v.clearLocks()
	v.Touched() // what is adopted is for git to say
	changes, err := v.Changes(ctx)
	if err != nil {
		return nil, err
	}
	res := &Committed{Branch: v.set.shared.short(), Changes: changes}
	if len(changes) == 0 {
		res.Changes = []Change{}
		return res, nil
	}
	v.gitMu.Lock()
	defer v.gitMu.Unlock()
	base := v.Base()
	written, err := v.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.checkNested(ctx, base, written); err != nil {
		return nil, err
	}
	ours, renewed, err := v.normal(ctx, base, written)
	if err != nil {
		return nil, err
	}
	if message == "" {
		message = summary(changes)
	}
	for try := range attempts {
		head, err := v.set.shared.head(ctx)
		if err != nil {
			return nil, err
		}
		tree := ours
		if head != base {
			if tree, err = v.mergeChecked(ctx, base, ours, head, written); err != nil {
				return nil, err
			}
		}
		if head != base || renewed != nil {
			same, err := v.git.line(ctx, "look at the head", "rev-parse", "--verify", "--quiet", "--end-of-options", head+"^{tree}")
			if err != nil {
				return nil, err
			}
			if same == tree { // others made the very same changes, or it is no change as stored
				return res, v.moveTo(context.WithoutCancel(ctx), head, head)
			}
		}
		commit, err := v.writeCommit(ctx, tree, head, message)
		if err != nil {
			return nil, err
		}
		again, err := v.adopt(ctx, head, commit)
		if err != nil {
			return nil, err
		}
		if again {
			time.Sleep(time.Duration(try) * 5 * time.Millisecond)
			continue
		}
		// The commit is made: what follows must not fail because the client left.
		ctx = context.WithoutCancel(ctx)
		res.Commit = commit
		if head != base {
			if n, err := v.git.line(ctx, "count commits", "rev-list", "--count", base+".."+head, "--"); err == nil {
				_, _ = fmt.Sscan(n, &res.Merged)
			}
		}
		if err := v.moveTo(ctx, commit, commit); err != nil {
			return nil, fmt.Errorf("the changes are committed as %s, but the view could not follow (abort repairs it): %w", abbrev(commit), err)
		}
		if renewed != nil {
			v.Note("stored with LF as the line end and $Id$ not expanded, as .gitattributes wants it: " + strings.Join(renewed, ", "))
		}
		if head != base {
			_ = v.noteStale(ctx, ours, commit, "the merge") // a note is not worth a failed commit
		}
		return res, nil
	}
	return nil, toolsets.Failf(toolsets.Conflict, "others committed to %s all the time; nothing was adopted, your changes are kept; try again", v.set.shared.short())
}

// checkNested refuses to commit a repository that something made in the view: Git
// would adopt a commit of it that nobody else has, and no file.
func (v *View) checkNested(ctx context.Context, base, tree string) error {
	diff, err := v.git.diff(ctx, base, tree)
	if err != nil {
		return err
	}
	for _, e := range diff {
		if e.newMode == submodule {
			// What Git has seen as one it would take for one even without its .git.
			if _, err := v.git.run(ctx, "forget a repository", nil, "update-index", "--force-remove", "--", e.path); err != nil {
				return err
			}
			return toolsets.Failf(toolsets.Refused, "Not committed: %s is a Git repository of its own, whose files would not be committed. "+
				"Your changes are kept in the view. Remove %s/.git to have its files committed, or the folder", e.path, e.path)
		}
	}
	return nil
}

func summary(changes []Change) string {
	var names []string
	for _, c := range changes {
		if len(c.Declarations) == 0 {
			names = append(names, c.Path)
			continue
		}
		for _, d := range c.Declarations {
			if plainName(d) && !strings.Contains(d, "#") {
				names = append(names, d)
			}
		}
	}
	names = slices.Compact(names)
	if len(names) > 4 {
		return fmt.Sprintf("Change %s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	if len(names) == 0 {
		return "Change " + changes[0].Path
	}
	return "Change " + strings.Join(names, ", ")
}

func conflictFailure(what, way string, clashes []Clash) *toolsets.Failure {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: the shared branch changed the same since this view's base. %s", what, way)
	for _, c := range clashes {
		b.WriteString("\n- " + c.String())
	}
	return &toolsets.Failure{Kind: toolsets.Conflict, Text: b.String(), Data: clashes}
}

// mergeChecked merges and, when nothing clashes, type-checks the result. written
// is what the view's folder holds: ours, but for what normal changed.
func (v *View) mergeChecked(ctx context.Context, base, ours, head, written string) (string, error) {
	const way = "Nothing was adopted and your changes are kept. Look at the other side's version, note what you need of your own, then abort (which discards your changes) and do them again on top."
	tree, clashes, err := v.merge(ctx, base, ours, head)
	if err != nil {
		return "", err
	}
	if len(clashes) > 0 {
		return "", conflictFailure("Not committed", way, clashes)
	}
	v.set.mu.Lock()
	check := v.set.check
	v.set.mu.Unlock()
	if check == nil {
		return tree, nil
	}
	broken, err := v.breaks(ctx, check, base, written, head, tree)
	if err != nil {
		return "", err
	}
	if len(broken) > 0 {
		return "", &toolsets.Failure{Kind: toolsets.Conflict, Data: broken, Text: "Not committed: your changes and those of the shared branch each type-check, but not together. " +
			"Nothing was adopted and your changes are kept; refresh brings the other side's changes in, then fix:\n- " + strings.Join(broken, "\n- ")}
	}
	return tree, nil
}

// breaks returns the type errors of the merged tree that neither side has. It
// puts the trees into the view one after the other and ours back at the end.
func (v *View) breaks(ctx context.Context, check Checker, base, ours, head, merged string) (broken []string, err error) {
	before, err := check(ctx, v)
	if err != nil {
		return nil, err
	}
	// Should we die here, our own tree is what was lost, and not what is looked at.
	if err := v.setAside(ctx, base, ours); err != nil {
		return nil, err
	}
	defer func() {
		after := context.WithoutCancel(ctx)
		e := v.checkout(after, ours)
		if e == nil {
			e = v.forgetAside(after)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("put the view's changes back: %w", e))
		}
	}()
	look := func(tree string) ([]string, error) {
		if err := v.checkout(ctx, tree); err != nil {
			return nil, err
		}
		return check(ctx, v)
	}
	after, err := look(merged)
	if err != nil {
		return nil, err
	}
	fresh := without(after, before)
	if len(fresh) == 0 {
		return nil, nil
	}
	theirs, err := look(head)
	if err != nil {
		return nil, err
	}
	return without(fresh, theirs), nil
}

// without returns the errors of a that b does not have, wherever they stand.
func without(a, b []string) []string {
	text := func(s string) string {
		file, rest, _ := strings.Cut(s, ":")
		_, rest, _ = strings.Cut(rest, " ") // line:column:
		return file + rest
	}
	seen := map[string]bool{}
	for _, s := range b {
		seen[text(s)] = true
	}
	var out []string
	for _, s := range a {
		if !seen[text(s)] {
			out = append(out, s)
		}
	}
	return out
}

// checkout puts a tree into the view's folder and index; HEAD stays.
func (v *View) checkout(ctx context.Context, tree string) error {
	v.Touched()
	return v.insist(ctx, "put files into the view", "read-tree", "--reset", "-u", tree)
}

// moveTo puts a tree into the view and makes commit its base.
func (v *View) moveTo(ctx context.Context, tree, commit string) error {
	if err := v.checkout(ctx, tree); err != nil {
		return err
	}
	if _, err := v.git.run(ctx, "move the view", nil, "update-ref", "--no-deref", "HEAD", commit); err != nil {
		return err
	}
	if err := v.forgetAside(ctx); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.base = commit
	v.known, v.changes, v.written, v.originals, v.added = tree == commit, nil, nil, nil, nil
	return nil
}

// clean takes out what may not stand in a commit's header.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

func (s *Set) identity() []string {
	name, email := clean(s.cfg.Name), clean(s.cfg.Email)
	if name == "" {
		name = clean(s.cfg.Account)
	}
	if email == "" {
		email = strings.ReplaceAll(clean(s.cfg.Account), " ", "-") + "@localhost"
	}
	when := fmt.Sprintf("%d +0000", s.cfg.Now().Unix())
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email, "GIT_COMMITTER_DATE=" + when}
}

func (v *View) writeCommit(ctx context.Context, tree, parent, message string) (string, error) {
	out, err := v.git.try(ctx, []byte(message+"\n"), v.set.identity(), "commit-tree", "--no-gpg-sign", "-p", parent, "-F", "-", tree)
	if err != nil {
		return "", err
	}
	if out.Code != 0 {
		return "", &gitError{"write the commit", out.Code, plain(out.Stderr)}
	}
	return strings.TrimSpace(string(out.Stdout)), nil
}

// adopt makes commit the head of the shared branch, which must be at head: one
// compare-and-swap, done by receive-pack under the ref's lock. again reports that
// somebody else was faster.
func (v *View) adopt(ctx context.Context, head, commit string) (again bool, err error) {
	sh := v.set.shared
	v.set.mu.Lock()
	hooks := v.set.runHooks
	v.set.mu.Unlock()
	receive := "git -c core.fsmonitor=false -c core.alternateRefsCommand=true -c receive.autogc=false -c receive.denyCurrentBranch=updateInstead"
	if !hooks {
		receive += " -c core.hooksPath=/dev/null"
	}
	out, err := v.git.try(ctx, nil, nil, "push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-thin",
		"--receive-pack="+receive+" receive-pack", "--force-with-lease="+sh.branch+":"+head,
		"--", sh.path, commit+":"+sh.branch)
	if err == nil && out.Code == 0 {
		return false, nil
	}
	// Whatever was said: the branch itself tells whether the commit was adopted.
	after := context.WithoutCancel(ctx)
	now, headErr := sh.head(after)
	if headErr == nil && now != head {
		if in, e := v.git.try(after, nil, nil, "merge-base", "--is-ancestor", commit, now); e == nil && in.Code == 0 {
			return false, nil
		}
		if err == nil {
			return true, nil
		}
	}
	if err != nil {
		return false, err
	}
	if strings.Contains(string(out.Stderr)+string(out.Stdout), "cannot lock ref") && headErr == nil {
		return true, sh.awaitLocks(ctx) // another commit holds the lock at this moment, or died over it
	}
	return false, v.refusal(out.Stdout, out.Stderr)
}

// refusal words why the shared repository did not take the commit.
func (v *View) refusal(stdout, stderr []byte) error {
	said := plain(stderr)
	for line := range strings.Lines(string(stdout)) {
		if rest, ok := strings.CutPrefix(line, "!"); ok {
			said += "; " + strings.TrimSpace(plain([]byte(rest)))
		}
	}
	why := "the shared repository did not take the commit"
	switch {
	case strings.Contains(said, "unable to create temporary object directory"), strings.Contains(said, "ermission denied"), strings.Contains(said, "insufficient permission"):
		why = fmt.Sprintf("this account (%s) may not write to the shared repository", v.set.cfg.Account)
	case strings.Contains(said, "hook declined"):
		why = "a hook of the shared repository declined the commit"
	case strings.Contains(said, "orking directory has"), strings.Contains(said, "orking tree has"):
		why = "the shared repository's own working tree holds changes of its owner"
	}
	return toolsets.Failf(toolsets.Refused, "Not committed: %s. Your changes are kept in the view. Git said: %s", why, said)
}

// Moved is what Refresh or Abort did.
type Moved struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Changes []Change `json:"changes" jsonschema:"uncommitted changes: kept by refresh, discarded by abort"`
}

// Refresh moves the view's base to the head of the shared branch and keeps the
// uncommitted changes. When both sides changed the same declaration it fails
// with kind conflict and moves nothing. The caller holds the view for writing.
func (v *View) Refresh(ctx context.Context) (*Moved, error) {
	v.clearLocks()
	v.Touched()
	changes, err := v.Changes(ctx)
	if err != nil {
		return nil, err
	}
	v.gitMu.Lock()
	defer v.gitMu.Unlock()
	base := v.Base()
	head, err := v.set.shared.head(ctx)
	if err != nil {
		return nil, err
	}
	res := &Moved{From: base, To: head, Changes: changes}
	if changes == nil {
		res.Changes = []Change{}
	}
	if head == base {
		return res, nil
	}
	ours, err := v.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	tree := head
	if len(changes) > 0 {
		var clashes []Clash
		if tree, clashes, err = v.merge(ctx, base, ours, head); err != nil {
			return nil, err
		}
		if len(clashes) > 0 {
			return nil, conflictFailure("Not refreshed", "The view was not moved and your changes are kept. Note what you need of them, then abort (which discards them) and do them again on top.", clashes)
		}
	}
	ctx = context.WithoutCancel(ctx)
	if len(changes) > 0 {
		if err := v.setAside(ctx, base, ours); err != nil {
			return nil, err
		}
	}
	if err := v.moveTo(ctx, tree, head); err != nil {
		return nil, err
	}
	_ = v.noteStale(ctx, ours, tree, "refresh") // the view has moved: that is no failure any more
	return res, nil
}

// Abort discards all uncommitted changes, and what else is new in the view's
// folder, and moves to the head of the shared branch. It is the way out of every stuck state. The caller holds the view for
// writing.
func (v *View) Abort(ctx context.Context) (*Moved, error) {
	v.clearLocks()
	v.Touched()
	changes, err := v.Changes(ctx)
	if err != nil {
		changes = nil // a stuck view must still be freed
	}
	v.gitMu.Lock()
	defer v.gitMu.Unlock()
	head, err := v.set.shared.head(ctx)
	if err != nil {
		return nil, err
	}
	base := v.Base()
	ctx = context.WithoutCancel(ctx)
	if err := v.moveTo(ctx, head, head); err != nil {
		if e := v.remake(ctx, head); e != nil {
			return nil, errors.Join(err, e)
		}
	}
	if err := v.insist(ctx, "remove what is new", "clean", "-ffdx", "--quiet"); err != nil {
		return nil, err
	}
	if err := v.removeSpecial(); err != nil {
		return nil, err
	}
	if changes == nil {
		changes = []Change{}
	}
	_ = v.noteStale(ctx, base, head, "abort") // the view has moved: that is no failure any more
	return &Moved{From: base, To: head, Changes: changes}, nil
}

package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// asideRef names a commit of the view's own tree on its base while another tree
// is in its folder, or on its way there.
const asideRef = "refs/gatehouse/aside"

// setAside notes the view's own changes: should we die before forgetAside, they
// are what was lost, and not what is in the folder then.
func (v *View) setAside(ctx context.Context, base, ours string) error {
	commit, err := v.writeCommit(ctx, ours, base, "Uncommitted changes")
	if err != nil {
		return err
	}
	_, err = v.git.run(ctx, "note the view's changes", nil, "update-ref", "--no-deref", asideRef, commit)
	return err
}

// forgetAside removes the note if there is one.
func (v *View) forgetAside(ctx context.Context) error {
	if _, err := os.Lstat(filepath.Join(v.git.gitDir, filepath.FromSlash(asideRef))); err != nil {
		return nil
	}
	_, err := v.git.run(ctx, "forget the note of the view's changes", nil, "update-ref", "--no-deref", "-d", asideRef)
	return err
}

// clearLocks removes the lock files of a git that was killed. The caller holds
// the view so that nothing runs in it.
func (v *View) clearLocks() {
	v.gitMu.Lock()
	defer v.gitMu.Unlock()
	for _, name := range []string{"index.lock", "HEAD.lock", asideRef + ".lock"} {
		_ = os.Remove(filepath.Join(v.git.gitDir, filepath.FromSlash(name))) // mostly there is none
	}
}

// insist runs a git command that changes the view's files, and once more when it
// failed: tests may have taken the right to write from folders.
func (v *View) insist(ctx context.Context, what string, args ...string) error {
	_, err := v.git.run(ctx, what, nil, args...)
	if err == nil || ctx.Err() != nil || !makeWritable(v.Dir) {
		return err
	}
	_, err = v.git.run(ctx, what, nil, args...)
	return err
}

// removeSpecial removes pipes, sockets and devices from the view: Git does not see
// them, but programs wait for what they say.
func (v *View) removeSpecial() error {
	err := fs.WalkDir(v.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == ".git":
			return fs.SkipDir
		case d.Type()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0:
			return v.root.Remove(name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove what is new: %w", err)
	}
	return nil
}

// makeWritable gives the account all rights on the folders of a tree. It reports
// whether some were missing.
func makeWritable(dir string) (changed bool) {
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if d == nil || !d.IsDir() {
			return nil
		}
		if fi, e := d.Info(); e == nil && fi.Mode().Perm()&0o700 != 0o700 && os.Chmod(p, 0o700) == nil {
			changed = true
		}
		return nil
	})
	return changed
}

// makeRepository makes the view's own repository, which borrows the shared
// objects.
func (v *View) makeRepository(ctx context.Context) error {
	sh := v.set.shared
	if _, err := v.git.run(ctx, "make the view", nil, "init", "--quiet", "--template=", "--object-format="+sh.format); err != nil {
		return err
	}
	info := filepath.Join(v.git.gitDir, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return errors.Join(v.storeAsIs(), os.WriteFile(filepath.Join(info, "alternates"), []byte(sh.objects+"\n"), 0o600))
}

// remake makes the view's repository anew, at a commit: what was in the old one,
// which git could not work with any more, is gone.
func (v *View) remake(ctx context.Context, commit string) error {
	if err := errors.Join(removeAll(v.git.gitDir), v.makeRepository(ctx)); err != nil {
		return fmt.Errorf("make the view's repository anew: %w", err)
	}
	return v.moveTo(ctx, commit, commit)
}

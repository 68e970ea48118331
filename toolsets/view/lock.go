package view

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/toolsets"
)

// deadAfter is how long the lock file of a ref has to stay as it is until it
// counts as left behind by a process that was killed. Git holds one for
// milliseconds.
const deadAfter = 10 * time.Second

// lockPoll is how often a lock file is looked at.
const lockPoll = 50 * time.Millisecond

// awaitLocks waits until the shared branch can be locked again. A lock file that
// does not change for deadAfter is removed: without that one commit that was
// killed in a bad moment would end all commits. The time is measured here, since
// a file's own tells nothing after a host was suspended or its clock was set.
func (s *shared) awaitLocks(ctx context.Context) error {
	for _, name := range []string{s.branch, "HEAD"} {
		if err := awaitLock(ctx, filepath.Join(s.gitDir, filepath.FromSlash(name)+".lock"), s.patience); err != nil {
			return err
		}
	}
	return nil
}

func awaitLock(ctx context.Context, name string, patience time.Duration) error {
	first, err := os.Lstat(name)
	if err != nil {
		return nil // free, or git will say what is wrong
	}
	dead := time.NewTimer(patience)
	defer dead.Stop()
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
			if !unchanged(name, first) {
				return nil
			}
		case <-dead.C:
			return takeOver(name, first)
		}
	}
}

// unchanged reports whether a file is the same as before. A number of a file can
// be given again, so that its time counts, too.
func unchanged(name string, before os.FileInfo) bool {
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(before, now) && now.ModTime().Equal(before.ModTime())
}

// takeOver removes a dead lock file. Of several that wait for it one does, while
// it holds the folder's own lock, which ends with its process.
func takeOver(name string, dead os.FileInfo) error {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return nil
	}
	defer dir.Close()
	if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !unchanged(name, dead) {
		return nil // somebody else was faster
	}
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return toolsets.Failf(toolsets.Refused, "Not committed: %s has been there for more than %v, left by a process that died, and this account can't remove it (%v). "+
			"Your changes are kept in the view. Somebody who may write to the shared repository has to remove that file", name, deadAfter, err)
	}
	return nil
}

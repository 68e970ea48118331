package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// emptyKeyring gives this thread a session keyring with nothing in it, for the next
// child of another account to inherit (session-keyring(7)). A change of the user keeps
// the keyring, and with it the right to all keys in it, so ours would be everybody's: a
// service manager gives the whole service one, and root's shell has what root put there.
//
// Where the system has no keyrings, or lets us have none, nobody below us has any.
func emptyKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // 0: without a name
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("make an empty keyring: %w", err)
	}
	return nil
}

package folder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mounts says who made the file systems that are mounted, by the kernel's own list
// (proc_pid_mountinfo(5)), which is read again only when it has changed.
type mounts struct {
	mu     sync.Mutex        // guards what follows
	fd     int               // of the list; 0: not opened yet
	owners map[uint64]uint32 // by number of the mount; nil: must be read
	stale  bool              // it changed while it was read, again and again
	quick  map[string]bool   // by place: whether all that is mounted there is this machine's own
}

// mounted is the list of this process.
var mounted mounts

// owner is the uid of whoever made the file system of a mount: 0 for all but FUSE. It
// is false for a mount that is not in the list.
func (t *mounts) owner(id uint64) (uid uint32, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.look(); err != nil {
		return 0, false, err
	}
	uid, ok = t.owners[id]
	return uid, ok, nil
}

// local reports whether all file systems on the way along a path without symbolic links
// are this machine's own, which have nobody to wait for.
func (t *mounts) local(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.look() != nil || !t.quick["/"] {
		return false
	}
	for i := 1; i < len(path); i++ {
		end := i + 1 // of the name that ends here
		if path[i] == '/' {
			end = i
		} else if end < len(path) {
			continue
		}
		if quick, mount := t.quick[path[:end]]; mount && !quick {
			return false
		}
	}
	return true
}

// look sees to it that owners holds every mount that was there when it was called.
func (t *mounts) look() error {
	if t.fd == 0 {
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.fd = fd
	}
	changed, err := t.changed()
	if err == nil && (changed || t.stale || t.owners == nil) {
		err = t.refresh()
	}
	if err != nil {
		t.owners = nil
	}
	return err
}

// refresh reads the list, again when it changed meanwhile.
func (t *mounts) refresh() error {
	for range maxReads {
		list, err := t.read()
		if err != nil {
			return err
		}
		t.owners, t.quick = parseMounts(list)
		if t.stale, err = t.changed(); err != nil || !t.stale {
			return err
		}
	}
	return nil
}

// maxReads is how often the list is read for one look: users can have it change all the
// time. What is in the last one is true; the rest is found by the next look.
const maxReads = 8

// changed reports whether the list has changed since it was opened or this was last
// asked.
func (t *mounts) changed() (bool, error) {
	p := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			return p[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0, err
		}
	}
}

func (t *mounts) read() ([]byte, error) {
	var list bytes.Buffer
	for chunk := make([]byte, 64<<10); ; {
		n, err := unix.Pread(t.fd, chunk, int64(list.Len()))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return list.Bytes(), nil
		default:
			list.Write(chunk[:n])
		}
	}
}

// unknownOwner is nobody: a FUSE mount whose line does not say who made it.
const unknownOwner = ^uint32(0)

// ours are the types of file systems that this machine has on disks and in memory.
var ours = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "tmpfs", "overlay"}

// parseMounts reads lines of proc_pid_mountinfo(5), in which blanks within a field are
// escaped: the number first, the place as the fifth, and after a lone hyphen the type, the
// source, and the options of the file system.
func parseMounts(list []byte) (owners map[uint64]uint32, quick map[string]bool) {
	owners, quick = map[uint64]uint32{}, map[string]bool{}
	for line := range strings.Lines(string(list)) {
		about, rest, _ := strings.Cut(line, " - ")
		where, kind := strings.Fields(about), strings.Fields(rest)
		if len(where) < 5 || len(kind) < 3 {
			continue
		}
		id, err := strconv.ParseUint(where[0], 10, 64)
		if err != nil {
			continue
		}
		owners[id] = 0
		if name, _, _ := strings.Cut(kind[0], "."); name == "fuse" || name == "fuseblk" {
			owners[id] = userOf(kind[2])
		}
		place := blanks.Replace(where[4])
		before, twice := quick[place]
		quick[place] = (before || !twice) && slices.Contains(ours, kind[0])
	}
	return owners, quick
}

// blanks puts back what the list escapes.
var blanks = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// userOf is the user_id of a FUSE file system's options.
func userOf(options string) uint32 {
	for o := range strings.SplitSeq(options, ",") {
		if v, ok := strings.CutPrefix(o, "user_id="); ok {
			if uid, err := strconv.ParseUint(v, 10, 32); err == nil {
				return uint32(uid)
			}
		}
	}
	return unknownOwner
}

// mountID is the number of the mount that a descriptor is on. Its file system is asked
// for nothing.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	return mountIDByProc(fd) // Linux before 5.8
}

func mountIDByProc(fd int) (uint64, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(info), "mnt_id:")
	f := strings.Fields(rest)
	if !ok || len(f) == 0 {
		return 0, errors.New("descriptor without a mount")
	}
	return strconv.ParseUint(f[0], 10, 64)
}

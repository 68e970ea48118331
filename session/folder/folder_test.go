package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/folder/foldertest"
)

// TestOpen names what is opened and what is not.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
	os.Symlink(dir, filepath.Join(dir, "link"))
	os.Symlink("loop", filepath.Join(dir, "loop"))
	for path, want := range map[string]error{
		dir: nil, "/": nil, "/proc": nil, filepath.Join(dir, "link"): nil,
		filepath.Join(dir, "none"): unix.ENOENT, filepath.Join(dir, "file"): unix.ENOTDIR,
		filepath.Join(dir, "loop"): unix.ELOOP, "": unix.ENOENT,
	} {
		fd, err := Open(path)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
		if err == nil {
			unix.Close(fd)
		} else if _, ok := errors.AsType[*fs.PathError](err); !ok {
			t.Errorf("%q: %v does not name the path", path, err)
		}
	}
}

// TestQuick: what may have to be waited for is not opened quickly.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	os.Symlink("/", filepath.Join(dir, "link"))
	if !Local(dir) {
		t.Skipf("SKIPPED: %s is not on a disk or in memory", dir)
	}
	for path, want := range map[string]error{
		dir: nil, filepath.Join(dir, "link"): ErrMayWait, dir + "/": ErrMayWait, "tmp": ErrMayWait, "": ErrMayWait,
		"/proc": ErrMayWait, "/proc/self": ErrMayWait, filepath.Join(dir, "none"): unix.ENOENT,
	} {
		fd, err := OpenQuick(path)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
}

func TestParseMounts(t *testing.T) {
	owners, quick := parseMounts([]byte(`27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:40 / /home rw shared:3 master:1 - nfs4 server:/home rw,vers=4.2,hard
31 30 0:41 / /home/alice rw,nosuid shared:9 - fuse.sshfs a\040-\040fuse\040x:/ rw,user_id=1001,group_id=1001,allow_other
32 30 0:42 / /srv rw - fuse.glusterfs host:/v rw,user_id=0,group_id=0,allow_other
33 30 8:17 / /mnt/a\040b rw - fuseblk /dev/sdb1 rw,user_id=7,group_id=7
34 30 0:43 / /odd rw - fuse odd rw
35 27 0:44 / /tmp rw - tmpfs tmpfs rw
36 35 0:45 / /tmp/x rw - ext4 /dev/vdb rw
37 36 0:46 / /tmp/x rw - cifs //host/x rw
broken
38 27 0:47
`))
	for id, want := range map[uint64]uint32{27: 0, 30: 0, 31: 1001, 32: 0, 33: 7, 34: unknownOwner, 35: 0, 37: 0} {
		if got, ok := owners[id]; !ok || got != want {
			t.Errorf("mount %d: owner %d, %v, want %d", id, got, ok, want)
		}
	}
	if _, ok := owners[38]; ok || len(owners) != 9 {
		t.Errorf("%d mounts", len(owners))
	}
	for place, want := range map[string]bool{"/": true, "/home": false, "/home/alice": false, "/srv": false, "/mnt/a b": false, "/tmp": true, "/tmp/x": false} {
		if got, ok := quick[place]; !ok || got != want {
			t.Errorf("%s: %v, %v, want %v", place, got, ok, want)
		}
	}
}

// TestMountsAreReadWhenTheyChange: a new one is seen at once, and one that is gone is
// nobody's.
func TestMountsAreReadWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	for _, mount := range []func(int) (uint64, error){mountID, mountIDByProc} {
		fd, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		id, err := mount(fd)
		if uid, ok, err2 := mounted.owner(id); err != nil || err2 != nil || !ok || uid != 0 {
			t.Errorf("mount %d of %s: %v, %d, %v, %v", id, dir, err, uid, ok, err2)
		}
		unix.Close(fd)
	}
	f := foldertest.Mount(t, dir, 4711)
	f.Hang(foldertest.GetAttr, foldertest.Access)
	for range 2 {
		_, err := Open(dir)
		if e, ok := errors.AsType[*Foreign](err); !ok || e.UID != 4711 || e.Path != dir {
			t.Errorf("a user's file system: %v", err)
		}
	}
	place, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(place)
	if n := f.Asked(); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
	f.Unmount()
	if err := mounted.judge(place, dir); !errors.Is(err, errMoved) {
		t.Errorf("a place on a file system that is gone: %v", err)
	}
	if fd, err := Open(dir); err != nil {
		t.Errorf("the folder below it: %v", err)
	} else {
		unix.Close(fd)
	}
}

// TestRootsOwn: a file system that root mounted, by FUSE or not, is asked and waited for.
func TestRootsOwn(t *testing.T) {
	dir := t.TempDir()
	f := foldertest.Mount(t, dir, 0)
	var turns Turns
	if st, err := turns.Stat(dir); err != nil || st.Mode != unix.S_IFDIR|0o700 {
		t.Fatalf("%v, %v", st, err)
	}
	f.Hang(foldertest.GetAttr)
	begin := time.Now()
	_, err := turns.Stat(dir)
	if _, ok := errors.AsType[*Silent](err); !ok || time.Since(begin) < Limit {
		t.Errorf("a folder that hangs: %v after %v", err, time.Since(begin))
	}
	begin = time.Now()
	if _, err := turns.Stat(dir); err == nil || time.Since(begin) > Limit/2 || f.Waiting() != 1 {
		t.Errorf("the second look: %v after %v, %d wait", err, time.Since(begin), f.Waiting())
	}
	f.Answer()
	for i := 0; ; i++ {
		if _, err = turns.Stat(dir); err == nil {
			break
		}
		if i > 500 {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if turns.late != 0 || len(turns.taken) != 0 {
		t.Errorf("%d late, %d taken", turns.late, len(turns.taken))
	}
}

// TestTurns: looks at one folder follow one another, looks at others do not wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		answers := make(chan struct{})
		hang := func() (int, error) { <-answers; return 1, nil }
		now := func() (int, error) { return 2, nil }
		begin := time.Now()
		var all sync.WaitGroup
		for range 3 { // the first hangs, the others wait for it
			all.Go(func() {
				if _, err := Do(&turns, "/a", hang); err == nil || time.Since(begin) != Limit {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
			})
		}
		synctest.Wait()
		if v, err := Do(&turns, "/b", now); v != 2 || err != nil || time.Since(begin) != 0 {
			t.Errorf("another folder: %d, %v after %v", v, err, time.Since(begin))
		}
		all.Wait()
		if _, err := Do(&turns, "/a", now); err == nil || time.Since(begin) != Limit {
			t.Errorf("a folder that is late: %v after %v", err, time.Since(begin))
		}
		close(answers)
		synctest.Wait()
		if v, err := Do(&turns, "/a", now); v != 2 || err != nil {
			t.Errorf("a folder that has answered: %d, %v", v, err)
		}
	})
}

// TestTurnIsHandedOn: who waits is next, and within the limit.
func TestTurnIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		begin := time.Now()
		slow := func() (int, error) { time.Sleep(Limit / 3); return 1, nil }
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if _, err := Do(&turns, "/a", slow); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if d := time.Since(begin); d != Limit/3*2 {
			t.Errorf("two looks took %v", d)
		}
	})
}

// TestLateLooksAreBounded: with MaxLate threads lost nothing is looked at, until one of
// them is back.
func TestLateLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		answers := make(chan struct{})
		var all sync.WaitGroup
		for i := range MaxLate {
			all.Go(func() {
				Do(&turns, "/home/"+string(rune('a'+i)), func() (int, error) { <-answers; return 0, nil })
			})
		}
		all.Wait()
		_, err := turns.Take("/one/more")
		if e, ok := errors.AsType[*Silent](err); !ok || e.Others != MaxLate {
			t.Errorf("one more: %v", err)
		}
		answers <- struct{}{}
		synctest.Wait()
		u, err := turns.Take("/one/more")
		if err != nil {
			t.Fatal(err)
		}
		u.Done()
		close(answers)
		synctest.Wait()
		if turns.late != 0 || len(turns.taken) != 0 {
			t.Errorf("%d late, %d taken", turns.late, len(turns.taken))
		}
	})
}

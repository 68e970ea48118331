// Package foldertest mounts file systems that do not answer, for tests that run as root:
// FUSE, served by a process of its own, so that a test which hangs can be ended.
package foldertest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FS is a mounted file system: an empty folder that belongs to whom the folder below it
// belongs to. Nobody but its root is in it.
type FS struct {
	t     testing.TB
	dir   string
	in    io.WriteCloser
	out   *bufio.Reader
	child *exec.Cmd
	once  sync.Once
}

// Operations of FUSE (linux/fuse.h) that a test has hang.
const (
	GetAttr = 3
	Access  = 34
)

// helperEnv has the test program be the server: folder, uid of who mounted it.
const helperEnv = "GATEHOUSE_TEST_FUSE"

func init() {
	if what, ok := os.LookupEnv(helperEnv); ok {
		if err := serve(what); err != nil {
			fmt.Fprintln(os.Stderr, "test file system:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Mount mounts one over a folder as a user would that is allowed to let others in; 0:
// as root. It answers until Hang. The test is skipped, aloud, where FUSE is missing.
func Mount(t testing.TB, dir string, uid int) *FS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("SKIPPED: needs /dev/fuse")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &FS{t: t, dir: dir, child: exec.Command(self)}
	f.child.Env = []string{fmt.Sprintf("%s=%s %d", helperEnv, dir, uid)}
	f.child.Stderr = os.Stderr
	f.child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if f.in, err = f.child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := f.child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.out = bufio.NewReader(out)
	if err := f.child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Unmount)
	if line, err := f.out.ReadString('\n'); line != "mounted\n" {
		t.Fatalf("test file system: %q, %v", line, err)
	}
	return f
}

// say sends a command and returns the answer.
func (f *FS) say(command string) string {
	f.t.Helper()
	fmt.Fprintln(f.in, command)
	line, err := f.out.ReadString('\n')
	if err != nil {
		f.t.Fatalf("test file system: %v", err)
	}
	return strings.TrimSpace(line)
}

// Hang has these operations wait from now on.
func (f *FS) Hang(ops ...int) { f.say("hang " + strings.Trim(fmt.Sprint(ops), "[]")) }

// FailOnce has the next Access fail.
func (f *FS) FailOnce(why syscall.Errno) { f.say(fmt.Sprint("fail ", int(why))) }

// Answer answers what waits, and all that comes.
func (f *FS) Answer() { f.say("hang") }

// Waiting is how many operations wait.
func (f *FS) Waiting() int { n, _ := strconv.Atoi(f.say("waiting")); return n }

// Asked is how many operations there were so far.
func (f *FS) Asked() int { n, _ := strconv.Atoi(f.say("asked")); return n }

// Await waits until something waits.
func (f *FS) Await() {
	f.t.Helper()
	for range 1000 {
		if f.Waiting() > 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	f.t.Fatal("the test file system is asked for nothing")
}

// Unmount takes it away; what waits is told that it is gone.
func (f *FS) Unmount() {
	f.once.Do(func() {
		unix.Unmount(f.dir, unix.MNT_DETACH)
		f.in.Close() // ends the server
		f.child.Wait()
	})
}

// server is the other end.
type server struct {
	fd int

	mu      sync.Mutex // guards what follows
	uid     uint32     // of the folder
	hang    []int
	access  syscall.Errno // what the next one is answered with
	waiting []request
	asked   int
}

type request struct {
	op     int
	unique uint64
}

// serve mounts the file system, says so, and follows commands until stdin ends.
func serve(what string) error {
	dir, who, _ := strings.Cut(what, " ")
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40700,user_id=%s,group_id=0,allow_other", fd, who)
	if err := unix.Mount("ghtest", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	s := &server{fd: fd, uid: st.Sys().(*syscall.Stat_t).Uid}
	go s.read()
	time.AfterFunc(2*time.Minute, func() { os.Exit(1) }) // whatever became of the test
	fmt.Println("mounted")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(s.obey(strings.Fields(lines.Text())))
	}
	return nil
}

func (s *server) obey(command []string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch command[0] {
	case "waiting":
		return len(s.waiting)
	case "asked":
		return s.asked
	}
	if command[0] == "fail" {
		n, _ := strconv.Atoi(command[1])
		s.access = syscall.Errno(n)
		return 0
	}
	s.hang = nil
	for _, op := range command[1:] {
		n, _ := strconv.Atoi(op)
		s.hang = append(s.hang, n)
	}
	waiting := s.waiting
	s.waiting = nil
	for _, r := range waiting {
		s.take(r)
	}
	return 0
}

// read takes requests: a header of 40 bytes with length, operation and number.
func (s *server) read() {
	for b := make([]byte, 1<<18); ; {
		n, err := unix.Read(s.fd, b)
		switch {
		case err == unix.EINTR, err == unix.EAGAIN, err == unix.ENOENT:
			continue
		case err != nil || n < 40:
			return
		}
		s.mu.Lock()
		r := request{int(binary.NativeEndian.Uint32(b[4:])), binary.NativeEndian.Uint64(b[8:])}
		if r.op != opInit {
			s.asked++
		}
		s.take(r)
		s.mu.Unlock()
	}
}

// From linux/fuse.h.
const (
	opForget      = 2
	opInit        = 26
	opOpenDir     = 27
	opReleaseDir  = 29
	opInterrupt   = 36
	opBatchForget = 42
)

// take answers a request, or has it wait. s.mu is held.
func (s *server) take(r request) {
	if slices.Contains(s.hang, r.op) {
		s.waiting = append(s.waiting, r)
		return
	}
	word := binary.NativeEndian.AppendUint32
	switch r.op {
	case opForget, opBatchForget, opInterrupt:
	case opInit: // version 7.31, and no wish
		s.answer(r, 0, append(word(word(nil, 7), 31), make([]byte, 56)...))
	case GetAttr:
		b := make([]byte, 16, 104) // valid for no time
		b = binary.NativeEndian.AppendUint64(b, 1)
		b = append(b, make([]byte, 52)...) // size, blocks and times
		b = word(word(word(word(b, unix.S_IFDIR|0o700), 2), s.uid), s.uid)
		s.answer(r, 0, append(b, make([]byte, 12)...))
	case Access:
		s.answer(r, s.access, nil)
		s.access = 0
	case opReleaseDir:
		s.answer(r, 0, nil)
	case opOpenDir:
		s.answer(r, 0, make([]byte, 16))
	default:
		s.answer(r, unix.ENOENT, nil)
	}
}

// answer writes a header of 16 bytes and what follows it.
func (s *server) answer(r request, failed syscall.Errno, body []byte) {
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.NativeEndian.AppendUint32(b, uint32(-int32(failed)))
	b = binary.NativeEndian.AppendUint64(b, r.unique)
	unix.Write(s.fd, append(b, body...))
}

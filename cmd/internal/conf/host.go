package conf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"gatehouse/session/safepath"
)

// Host is what Load asks of the machine, so that tests can answer instead.
type Host struct {
	EUID     int
	Account  string // name of the account that EUID belongs to
	WorkDir  string
	BinDir   string // where the programs of this module lie
	Now      time.Time
	ReadFile func(path string) ([]byte, error)
	Stat     func(path string) (FileInfo, error)
	LookPath func(program string) (string, error)
	// Trust fails when someone other than root and uid could change the file;
	// with folders also when they could put another in its place.
	Trust func(path string, uid int, folders bool) error
	// LookupUser finds an account by its exact name.
	LookupUser func(name string) (uid, gid int, err error)
}

// FileInfo is the part of a file's status that decides who may use it.
type FileInfo struct{ Mode fs.FileMode }

// ThisHost is the machine itself.
func ThisHost() (Host, error) {
	wd, err := os.Getwd()
	if err != nil {
		return Host{}, err
	}
	exe, err := os.Executable()
	if err != nil {
		return Host{}, err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return Host{}, err
	}
	name := strconv.Itoa(os.Geteuid())
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return Host{
		EUID: os.Geteuid(), Account: name, WorkDir: wd, BinDir: filepath.Dir(exe), Now: time.Now(),
		ReadFile: readFile, Stat: stat, Trust: trust, LookPath: exec.LookPath, LookupUser: lookupUser,
	}, nil
}

// maxRead bounds every file that is read, in bytes.
const maxRead = 4 << 20

// readFile reads a regular file of at most maxRead bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not hold us up
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("is no regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(b) > maxRead {
		err = fmt.Errorf("is larger than %d bytes", maxRead)
	}
	return b, err
}

func stat(path string) (FileInfo, error) {
	st, err := os.Stat(path)
	if err != nil {
		return FileInfo{}, err
	}
	return FileInfo{Mode: st.Mode()}, nil
}

func trust(path string, uid int, folders bool) error {
	if folders {
		_, err := safepath.File(path, uid)
		return err
	}
	f, err := safepath.Open(path, uid, 1<<40)
	if err != nil {
		if safepath.IsUnsafe(err) {
			return err
		}
		return nil // it can't be read, which whoever reads it reports
	}
	return f.Close()
}

func lookupUser(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	if u.Username != name {
		return 0, 0, user.UnknownUserError(name)
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		return 0, 0, err
	}
	return uid, gid, nil
}

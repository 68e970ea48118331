package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/session/privdrop"
)

// The test binary is also the front end and the keykeeper, under their names.

// report is what one of our processes says about itself.
type report struct {
	PID, PPID int
	UIDs      [3]int
	Status    map[string]string
	Env       []string
	Part      string
	FDs       map[string]string
	Proof     string
	Session   bool // it leads a session of its own
}

// runFake plays a part if the program's name says so.
func runFake() {
	switch filepath.Base(os.Args[0]) {
	case "gatehouse":
		fakeFront()
	case "gatehouse-keykeeper":
		fakeKeykeeper()
	}
}

// fakeFront gives its sockets away to whoever connects to its listener, so that
// the test can be the front end.
func fakeFront() {
	var part struct {
		IgnoreTerm bool
		Deaf       bool // says nothing to nobody and ends at once
		FDs        int  // where the listener is
	}
	b := readPart()
	json.Unmarshal(b, &part)
	if part.Deaf || len(os.Args) != 2 || os.Args[1] != "front" {
		os.Exit(3)
	}
	if part.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	f := os.NewFile(uintptr(part.FDs), "listener")
	ln, err := net.FileListener(f)
	if err != nil {
		os.Exit(4)
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			os.Exit(5)
		}
		fds := []int{4}
		if part.FDs > 5 {
			fds = append(fds, 5)
		}
		c.(*net.UnixConn).WriteMsgUnix(describeSelf(b), unix.UnixRights(fds...), nil)
		c.Close()
	}
}

// fakeKeykeeper sends the message in a file to the monitor whenever it changes.
func fakeKeykeeper() {
	var part struct{ File, Report string }
	b := readPart()
	json.Unmarshal(b, &part)
	os.WriteFile(part.Report, describeSelf(b), 0o644)
	var last []byte
	for {
		if msg, err := os.ReadFile(part.File); err == nil && len(msg) > 0 && !bytes.Equal(msg, last) {
			if _, err := unix.Write(4, msg); err != nil {
				os.Exit(6)
			}
			last = msg
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func readPart() []byte {
	b := make([]byte, 1<<16)
	n, err := unix.Pread(3, b, 0)
	if err != nil {
		os.Exit(7)
	}
	return b[:n]
}

func describeSelf(part []byte) []byte {
	r := report{PID: os.Getpid(), PPID: os.Getppid(), Part: string(part), Env: os.Environ(), Status: map[string]string{}, FDs: map[string]string{}}
	r.UIDs[0], r.UIDs[1], r.UIDs[2] = unix.Getresuid()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			r.Status[k] = strings.Join(strings.Fields(v), " ")
		}
	}
	for fd := range 10 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			r.FDs[string(rune('0'+fd))], _ = os.Readlink("/proc/self/fd/" + string(rune('0'+fd)))
		}
	}
	if err := privdrop.ProveNone(); err != nil {
		r.Proof = err.Error()
	}
	sid, _ := unix.Getsid(0)
	r.Session = sid == r.PID
	out, _ := json.Marshal(r)
	return out
}

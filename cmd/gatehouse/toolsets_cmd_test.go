package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestToolsetsPrintsTheCatalogueOfAWorker(t *testing.T) {
	worker := filepath.Join(t.TempDir(), "worker")
	for dir := filepath.Dir(worker); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // root asks as nobody
			t.Fatal(err)
		}
	}
	write := func(answer string) {
		if err := os.WriteFile(worker, []byte("#!/bin/sh\ncat <<'E'\n"+answer+"\nE\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ask := func() (int, string, string) {
		var out, complaint bytes.Buffer
		code := run([]string{"toolsets", "--worker", worker}, streams{out: &out, err: &complaint})
		return code, out.String(), complaint.String()
	}
	write(`{"toolsets":[
		{"name":"a","summary":"First.","default":true,"tools":[{"name":"t","title":"Do it"}]},
		{"name":"b","summary":"Second.","options":[{"name":"o","type":"integer","default":3,"meaning":"How many."}]}]}`)
	code, out, complaint := ask()
	want := "a: First.\n  t                        Do it\n\nb (only when named): Second.\n  option o (integer, default 3): How many.\n"
	if code != exitDone || out != want || complaint != "" {
		t.Errorf("%d, %q, %q; want %q", code, out, complaint, want)
	}
	write("hello")
	if code, out, complaint := ask(); code != exitFailed || out != "" || !strings.Contains(complaint, "no catalogue") {
		t.Errorf("a worker that prints something else: %d, %q, %q", code, out, complaint)
	}
	if err := os.Remove(worker); err != nil {
		t.Fatal(err)
	}
	if code, _, complaint := ask(); code != exitFailed || !strings.Contains(complaint, "ask gatehouse-worker for its toolsets") {
		t.Errorf("no worker: %d, %q", code, complaint)
	}
	if code := run([]string{"toolsets", "--bogus"}, streams{out: io.Discard, err: io.Discard}); code != exitUsage {
		t.Errorf("a wrong flag: %d", code)
	}
}

// TestWorkerThatLeavesSomebodyBehind: what it started and left holds its output open, and
// is not waited for.
func TestWorkerThatLeavesSomebodyBehind(t *testing.T) {
	dir := t.TempDir()
	program, pid := filepath.Join(dir, "worker"), filepath.Join(dir, "pid")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsetsid sleep 300 &\necho $! >"+pid+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b, _ := os.ReadFile(pid)
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			syscall.Kill(n, syscall.SIGKILL)
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := runWorker(program, nil, "")
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, exec.ErrWaitDelay) {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("waits for what is left of the worker")
	}
}

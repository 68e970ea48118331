package main

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gatehouse/toolsets/run"
	"gatehouse/toolsets/toolsettest"
)

// hostile is a module that asks in every way for something of it to be run.
const hostile = `
-- go.mod --
module example.com/m

go 1.24

toolchain go1.99.7
-- a.go --
package m

//go:generate touch pwned

// #cgo CFLAGS: -fplugin=/tmp/evil.so
// #cgo LDFLAGS: -Wl,-evil
// #cgo pkg-config: --define-variable=x=y evil
// static int one() { return 1; }
import "C"

func A() int { return int(C.one()) }
-- b.go --
package m

// T is a type.
type T struct{ F int }

// M is a method.
func (T) M() int { return B() }

// I is an interface.
type I interface{ M() int }

// B is fine.
func B() int { return 1 }
-- .gitattributes --
*.go filter=evil diff=evil merge=evil
*.bin filter=lfs diff=lfs merge=lfs -text
-- .gitmodules --
[submodule "x"]
	path = x
	url = ext::sh -c touch% /tmp/pwned
-- .gitconfig --
[core]
	fsmonitor = false
-- lfs.bin --
version https://git-lfs.github.com/spec/v1
oid sha256:0000000000000000000000000000000000000000000000000000000000000000
size 12345
`

// looks are all tools that look and change nothing, with the names above.
var looks = map[string]args{
	"status": nil, "refresh": nil,
	"list_packages": nil, "list_package_entries": {"package": "m"}, "list_types": {"package": "m"}, "list_all_types": nil, "list_tests": nil,
	"describe_type": {"type": "m.T"}, "get_type_definition": {"type": "m.T"}, "get_type_hierarchy": {"type": "m.I"}, "list_methods": {"type": "m.T"},
	"get_function_source": {"name": "m.B"}, "export_type_source": {"type": "m.T"},
	"find_implementors": {"name": "m.I"}, "find_references_to": {"name": "m.B"}, "find_callers": {"name": "m.B"}, "search_source": {"pattern": "func"},
}

// traps makes programs that leave a mark, and returns a PATH that has them first.
func traps(t *testing.T, mark string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"cc", "gcc", "clang", "c++", "g++", "pkg-config", "git-lfs", "hg", "svn", "bzr", "fossil", "touch", "ssh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n: >'"+mark+"'\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir + ":" + os.Getenv("PATH")
}

// TestHostileRepository: looking at a repository runs nothing from it, whatever
// its files and its configuration ask for, and downloads no toolchain.
func TestHostileRepository(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pwned")
	dir := toolsettest.Unpack(t, hostile)
	for link, to := range map[string]string{"link.go": "/etc/passwd", "etc": "/etc", "up": "../.."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	repo := toolsettest.Seed(t, dir)
	setTraps(t, repo, mark)
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "toolchain") {
			asked.Add(1)
		}
		http.NotFound(w, r)
	}))
	defer proxy.Close()
	t.Setenv("PATH", traps(t, mark))
	b := toolsettest.Join(t, repo, "alice", sets)
	// As the worker has it, with cgo on, which it is where there is a compiler.
	b.WS.SetGoEnv(run.Env(goEnv(""), []string{"CGO_ENABLED=1", "GOPROXY=" + proxy.URL, "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GOCACHE=" + goCache(t)}))
	for tool, a := range looks {
		if got := b.OK(tool, a); strings.Contains(got, "root:x:") {
			t.Errorf("%s shows a file outside of the view:\n%s", tool, got)
		}
	}
	b.OK("define_function", args{"package": "m", "source": "// B is fine.\nfunc B() int { return 2 }"})
	b.OK("commit", nil)
	b.OK("abort", nil)
	if _, err := os.Stat(mark); err == nil {
		t.Error("something of the repository was run")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a toolchain was asked for %d times", n)
	}
	if got := b.OK("get_function_source", args{"name": "m.B"}); !strings.Contains(got, "return 2") {
		t.Errorf("after the commit: %s", got)
	}
	if got := toolsettest.Git(t, repo, "-c", "core.fsmonitor=false", "show", "main:lfs.bin"); !strings.HasPrefix(got, "version https://git-lfs") {
		t.Errorf("the LFS pointer is now:\n%s", got)
	}
}

// setTraps configures a shared repository so that whoever trusts it runs something.
func setTraps(t *testing.T, repo, mark string) {
	t.Helper()
	evil := ": >'" + mark + "'"
	included := filepath.Join(repo, "included")
	if err := os.WriteFile(included, []byte("[core]\n\tfsmonitor = \""+evil+"\"\n\tpager = \""+evil+"\"\n[alias]\n\tpush = \"!"+evil+"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"core.fsmonitor": evil, "core.sshCommand": evil, "core.editor": evil, "core.pager": evil, "core.hooksPath": filepath.Join(repo, "hooks"),
		"filter.evil.clean": evil, "filter.evil.smudge": evil, "filter.evil.process": evil, "diff.evil.textconv": evil, "diff.external": evil, "merge.evil.driver": evil,
		"filter.lfs.clean": evil, "filter.lfs.smudge": evil, "filter.lfs.process": evil, "filter.lfs.required": "true", "diff.lfs.textconv": evil,
		"uploadpack.packObjectsHook": evil, "gpg.program": evil, "credential.helper": "!" + evil, "alias.log": "!" + evil, "include.path": included,
	} {
		toolsettest.Git(t, repo, "config", k, v)
	}
	for _, hook := range []string{"post-checkout", "pre-receive", "update", "post-receive", "reference-transaction", "pre-push", "post-update", "proc-receive", "pre-commit", "post-index-change", "fsmonitor-watchman"} {
		name := filepath.Join(repo, "hooks", hook)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"+evil+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheTrapsCatch: a Git that trusts the repository does run something of it,
// so that the test above can fail.
func TestTheTrapsCatch(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "pwned")
	repo := toolsettest.Seed(t, toolsettest.Unpack(t, hostile))
	setTraps(t, repo, mark)
	cmd := exec.Command("git", "-C", repo, "update-ref", "refs/heads/other", "main")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1")
	_ = cmd.Run()
	if _, err := os.Stat(mark); err != nil {
		t.Error("a hook of the repository leaves no mark")
	}
}

// TestTreesThatLeadOut: a tree that names files outside of itself, or Git's own
// folder, makes no view, and nothing is written.
func TestTreesThatLeadOut(t *testing.T) {
	for _, name := range []string{"..", ".git", ".GIT", "."} {
		repo := toolsettest.Seed(t, toolsettest.Unpack(t, module))
		blob := toolsettest.Git(t, repo, "rev-parse", "main:a.go")
		sub := rawTree(t, repo, "100644", "pwned.go", blob)
		tree := rawTree(t, repo, "40000", name, sub)
		commit := toolsettest.Git(t, repo, "commit-tree", "-m", "Lead out", tree)
		toolsettest.Git(t, repo, "update-ref", "refs/heads/main", commit)
		b := toolsettest.Join(t, repo, "alice", sets)
		a := b.Call("list_packages", nil)
		if !a.IsError {
			t.Errorf("a tree with %q: %s", name, a.Text)
		}
		found := newWatch(t, []string{b.State, filepath.Dir(repo)}).before
		for file := range found {
			if strings.HasSuffix(file, "pwned.go") {
				t.Errorf("a tree with %q wrote %s", name, file)
			}
		}
	}
}

// rawTree writes a tree object of one entry as it stands, checked by nobody.
func rawTree(t *testing.T, repo, mode, name, object string) string {
	t.Helper()
	id, err := hex.DecodeString(object)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "-C", repo, "hash-object", "-t", "tree", "-w", "--literally", "--stdin")
	cmd.Stdin = bytes.NewReader(append([]byte(mode+" "+name+"\x00"), id...))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

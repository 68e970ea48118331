package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gatehouse/toolsets/run"
)

// inherited is what git and the go command get of our own environment.
func inherited() []string {
	var out []string
	for _, name := range []string{"HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return append(out, "PATH="+path())
}

// path is our PATH, with the place where Go is usually installed behind it when
// it holds no Go.
func path() string {
	p := os.Getenv("PATH")
	if p == "" {
		p = "/usr/local/bin:/usr/bin:/bin"
	}
	if _, err := exec.LookPath("go"); err != nil {
		p += ":/usr/local/go/bin"
	}
	return p
}

// goEnv is the environment of the go command. The operator's GO… variables pass;
// without them no toolchain is downloaded, modules come from Go's default proxy
// (GOVCS keeps version control systems that a module names from being run), and
// no configuration file of the account counts.
func goEnv(state string) []string {
	defaults := []string{"GOTOOLCHAIN=local", "GOENV=off", "GOFLAGS=-buildvcs=false", "GOVCS=*:off"}
	if os.Getenv("HOME") == "" && state != "" {
		defaults = append(defaults, "GOPATH="+filepath.Join(state, "go"), "GOCACHE="+filepath.Join(state, "go-build"))
	}
	var operator []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "GO") || strings.HasPrefix(kv, "CGO_ENABLED=") {
			operator = append(operator, kv)
		}
	}
	return run.Env(inherited(), defaults, operator)
}

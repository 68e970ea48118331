package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"gatehouse/cmd/internal/conf"
)

// catalogue is what "gatehouse-worker --list-toolsets" prints. This program
// links no toolset, and a worker of somebody else's making may have others.
type catalogue struct {
	Toolsets []struct {
		Name    string `json:"name"`
		Summary string `json:"summary"`
		Default bool   `json:"default"`
		Tools   []struct {
			Name  string `json:"name"`
			Title string `json:"title"`
		} `json:"tools"`
		Options []struct {
			Name    string          `json:"name"`
			Type    string          `json:"type"`
			Default json.RawMessage `json:"default"`
			Meaning string          `json:"meaning"`
		} `json:"options"`
	} `json:"toolsets"`
}

// checkToolsets refuses toolsets and options that the worker does not know. It
// asks the worker only when a server names some.
func checkToolsets(c *conf.Config) conf.Problems {
	asks := func(s conf.Server) bool { return len(s.Toolsets) > 0 || len(s.ToolsetOptions) > 0 }
	if !slices.ContainsFunc(c.Servers, asks) {
		return nil
	}
	cat, err := askWorker(c)
	if err != nil {
		return conf.Problems{{Text: err.Error()}}
	}
	var out conf.Problems
	for i, s := range c.Servers {
		for _, name := range s.Toolsets {
			if !slices.Contains(cat.names(), name) {
				out = append(out, problem(c, "servers[].toolsets", i, "there is no toolset %q; accepted: %s", name, strings.Join(cat.names(), ", ")))
			}
		}
		out = append(out, checkOptions(c, cat, i)...)
	}
	return out
}

// checkOptions refuses options that no toolset declares.
func checkOptions(c *conf.Config, cat catalogue, i int) conf.Problems {
	const key = "servers[].toolset_options"
	given := map[string]map[string]json.RawMessage{}
	if raw := c.Servers[i].ToolsetOptions; len(raw) == 0 || json.Unmarshal(raw, &given) != nil {
		return nil
	}
	var out conf.Problems
	for _, toolset := range sorted(given) {
		known, ok := cat.options(toolset)
		if !ok {
			out = append(out, problem(c, key, i, "there is no toolset %q; accepted: %s", toolset, strings.Join(cat.names(), ", ")))
			continue
		}
		for _, option := range sorted(given[toolset]) {
			if !slices.Contains(known, option) {
				accepted := "it has none"
				if len(known) > 0 {
					accepted = "accepted: " + strings.Join(known, ", ")
				}
				out = append(out, problem(c, key, i, "toolset %q has no option %q; %s", toolset, option, accepted))
			}
		}
	}
	return out
}

func problem(c *conf.Config, key string, i int, format string, a ...any) conf.Problem {
	where, written := c.Where(key, i)
	return conf.Problem{Where: where, Text: written + ": " + fmt.Sprintf(format, a...)}
}

func (c catalogue) names() []string {
	var out []string
	for _, t := range c.Toolsets {
		out = append(out, t.Name)
	}
	return out
}

func (c catalogue) options(toolset string) (names []string, ok bool) {
	for _, t := range c.Toolsets {
		if t.Name == toolset {
			for _, o := range t.Options {
				names = append(names, o.Name)
			}
			return names, true
		}
	}
	return nil, false
}

// askWorker asks gatehouse-worker which toolsets it has. No worker ever runs as
// root, so root asks as the front end's user.
func askWorker(c *conf.Config) (catalogue, error) {
	var as *syscall.Credential
	if c.Root() {
		uid, gid, err := c.Lookup(conf.FrontUser)
		if err != nil {
			return catalogue{}, fmt.Errorf("look up %s: %w", conf.FrontUser, err)
		}
		as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}
	}
	return readCatalogue(filepath.Join(c.BinDir(), "gatehouse-worker"), as)
}

// readCatalogue runs a worker program for its catalogue, as another account if
// one is given.
func readCatalogue(program string, as *syscall.Credential) (catalogue, error) {
	var cat catalogue
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "--list-toolsets")
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = &limited{b: &out, left: 1 << 20}, &limited{b: &complaint, left: 4 << 10}
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	if err := cmd.Run(); err != nil {
		return cat, fmt.Errorf("ask gatehouse-worker for its toolsets: %w %s", err, strings.TrimSpace(complaint.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &cat); err != nil || len(cat.Toolsets) == 0 {
		return cat, errors.New("ask gatehouse-worker for its toolsets: the answer is no catalogue")
	}
	return cat, nil
}

// limited keeps the first bytes of an output and fails a writer that goes on.
type limited struct {
	b    *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errors.New("too much output")
	}
	l.left -= len(p)
	return l.b.Write(p)
}

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

// checkToolsets refuses toolsets and options that the worker does not know, and
// values of options that it would not take. It asks the worker only when a server
// names some.
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
	if len(out) > 0 {
		return out
	}
	for i, s := range c.Servers {
		if !asks(s) {
			continue
		}
		if err := tryOptions(c, s); err != nil {
			out = append(out, problem(c, "servers[].toolset_options", i, "%v", err))
		}
	}
	return out
}

// tryOptions has the worker itself read the toolsets and options of a server: it
// alone knows which values it takes.
func tryOptions(c *conf.Config, s conf.Server) error {
	as, err := asker(c)
	if err != nil {
		return err
	}
	options := string(s.ToolsetOptions)
	if options == "" {
		options = "{}"
	}
	args := []string{"--check", "--options=-"}
	if len(s.Toolsets) > 0 {
		args = append(args, "--toolsets="+strings.Join(s.Toolsets, ","))
	}
	_, err = runWorker(filepath.Join(c.BinDir(), "gatehouse-worker"), as, options, args...)
	return err
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

// asker is as whom the worker is asked: no worker ever runs as root, so root
// asks as the front end's user. Nil for ourselves.
func asker(c *conf.Config) (*syscall.Credential, error) {
	if !c.Root() {
		return nil, nil
	}
	uid, gid, err := c.Lookup(conf.FrontUser)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", conf.FrontUser, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}, nil
}

// askWorker asks gatehouse-worker which toolsets it has.
func askWorker(c *conf.Config) (catalogue, error) {
	as, err := asker(c)
	if err != nil {
		return catalogue{}, err
	}
	return readCatalogue(filepath.Join(c.BinDir(), "gatehouse-worker"), as)
}

// readCatalogue runs a worker program for its catalogue, as another account if
// one is given.
func readCatalogue(program string, as *syscall.Credential) (catalogue, error) {
	var cat catalogue
	out, err := runWorker(program, as, "", "--list-toolsets")
	if err != nil {
		return cat, fmt.Errorf("ask gatehouse-worker for its toolsets: %w", err)
	}
	if err := json.Unmarshal(out, &cat); err != nil || len(cat.Toolsets) == 0 {
		return cat, errors.New("ask gatehouse-worker for its toolsets: the answer is no catalogue")
	}
	return cat, nil
}

// runWorker runs a worker program to its end and returns what it printed. The
// error of one that says why it refuses is what it says.
func runWorker(program string, as *syscall.Credential, input string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	cmd.WaitDelay = time.Second // for what it may leave behind, its output open
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout, cmd.Stderr = &limited{b: &out, left: 1 << 20}, &limited{b: &complaint, left: 4 << 10}
	if as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	err := cmd.Run()
	said := strings.TrimPrefix(strings.TrimSpace(complaint.String()), filepath.Base(program)+": ")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 && said != "" {
		return nil, errors.New(said)
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s", err, said)
	}
	return out.Bytes(), nil
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

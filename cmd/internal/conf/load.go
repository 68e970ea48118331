package conf

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Input is where values come from.
type Input struct {
	// Flags holds the given flags by name, as they were written.
	Flags map[string]string
	// Environ is the environment as os.Environ returns it.
	Environ []string
	// File is the configuration file; empty for none.
	File string
}

// EnvFile is the variable that names the configuration file when no flag does.
const EnvFile = "MCP_CONFIG"

// Kind says where a value comes from.
type Kind uint8

// The kinds, from the weakest to the strongest.
const (
	FromDefault Kind = iota
	FromFile
	FromEnvironment
	FromFlag
)

// Origin is where a value comes from.
type Origin struct {
	Kind  Kind
	Where string // "gatehouse.yaml:3:7", "MCP_PORT", "--port"; empty for a default
}

// String names the origin for people.
func (o Origin) String() string {
	switch o.Kind {
	case FromFile:
		return o.Where
	case FromEnvironment:
		return "environment " + o.Where
	case FromFlag:
		return "flag " + o.Where
	}
	return "default"
}

// slot is one value: a setting, and for a member of a list the item.
type slot struct {
	key string
	i   int
}

// loader merges the sources into c.
type loader struct {
	report
	c      *Config
	dir    string // of the configuration file
	broken bool   // the configuration file says nothing that can be judged
	wrong  map[slot]bool
}

// Load merges flags over environment over file over defaults and validates the
// whole. It returns what it has even when err is not nil, for "check" to print.
// err is of type Problems. Warnings do not stop a start.
func Load(in Input, h Host) (c *Config, warnings []string, err error) {
	l := &loader{c: &Config{origins: map[slot]Origin{}, host: h}, wrong: map[slot]bool{}}
	env := l.environment(in.Environ)
	file := in.File
	if file == "" {
		file = env[EnvFile]
	}
	if file != "" {
		l.file(file)
	}
	l.items(in.Flags, env)
	l.variables(env)
	l.flags(in.Flags)
	l.defaults()
	l.derive(env)
	if !l.broken {
		l.validate()
	}
	if len(l.problems) > 0 {
		err = l.problems
	}
	return l.c, l.warnings, err
}

// Path of the list's length in c.
func (c *Config) count(list string) int {
	switch list {
	case "servers":
		return len(c.Servers)
	case "issuers":
		return len(c.Issuers)
	}
	return 1
}

// grow makes room for item i of a list.
func (c *Config) grow(list string, i int) {
	switch list {
	case "servers":
		for len(c.Servers) <= i {
			c.Servers = append(c.Servers, Server{})
		}
	case "issuers":
		for len(c.Issuers) <= i {
			c.Issuers = append(c.Issuers, Issuer{})
		}
	}
}

// items makes the first server, and the first issuer when a flag or variable
// sets one of its members.
func (l *loader) items(flags, env map[string]string) {
	l.c.grow("servers", 0)
	for _, s := range rows {
		_, inFlags := flags[s.Flag]
		if s.list() != "" && (inFlags && s.Flag != "" || s.Env != "" && env[s.Env] != "") {
			l.c.grow(s.list(), 0)
		}
	}
}

// put stores a parsed value and where it comes from.
func (l *loader) put(s *Setting, i int, v any, o Origin) {
	if p, ok := v.(string); ok && s.Type.Name == "path" && !(p == "none" && s.Key == "operators.socket") {
		base := l.c.host.WorkDir
		if o.Kind == FromFile {
			base = l.dir
		}
		if strings.HasPrefix(p, "~") {
			l.bad(s, i, o, fmt.Sprintf("%q begins with ~, which no shell expands here", clip(p)))
			return
		}
		if !filepath.IsAbs(p) {
			v = filepath.Join(base, p)
		} else {
			v = filepath.Clean(p)
		}
	}
	l.c.origins[slot{s.Key, i}] = o
	reflect.ValueOf(s.at(l.c, i)).Elem().Set(reflect.ValueOf(v))
}

// variables reads the environment's settings. An empty variable counts as unset.
func (l *loader) variables(env map[string]string) {
	for _, s := range rows {
		text := env[s.Env]
		if s.Env == "" || text == "" {
			continue
		}
		l.text(s, text, Origin{FromEnvironment, s.Env})
	}
}

// flags reads the settings given as flags. An empty flag is refused.
func (l *loader) flags(given map[string]string) {
	for _, s := range rows {
		text, ok := given[s.Flag]
		if s.Flag == "" || !ok {
			continue
		}
		if text == "" {
			l.bad(s, 0, Origin{FromFlag, "--" + s.Flag}, "is empty")
			continue
		}
		l.text(s, text, Origin{FromFlag, "--" + s.Flag})
	}
}

// text parses a value of a flag or variable.
func (l *loader) text(s *Setting, text string, o Origin) {
	v, err := s.Type.parse(text)
	if err != nil {
		l.bad(s, 0, o, complaint(s, text, err))
		return
	}
	l.put(s, 0, v, o)
}

// complaint words what is wrong with a value, quoting it where it holds no secret.
func complaint(s *Setting, text string, err error) string {
	switch s.Type.form {
	case formTable, formObject, formList:
		return err.Error()
	}
	return fmt.Sprintf("%q %v", clip(text), err)
}

// bad refuses a value, says what is accepted, and remembers that there was one.
func (l *loader) bad(s *Setting, i int, o Origin, what string) {
	l.c.origins[slot{s.Key, i}] = o
	l.wrong[slot{s.Key, i}] = true
	l.refuse(o.Where, "%s: %s; accepted: %s", keyOf(s.Key, i), what, s.Type.Accepts)
}

// defaults fills what nothing has set.
func (l *loader) defaults() {
	for _, s := range rows {
		if s.Default == "" {
			continue
		}
		v, err := s.Type.parse(s.Default)
		if err != nil {
			panic("conf: default of " + s.Key + ": " + err.Error())
		}
		for i := range l.c.count(s.list()) {
			if _, set := l.c.origins[slot{s.Key, i}]; set || i > 0 && s.Key == "servers[].path" {
				continue
			}
			l.put(s, i, v, Origin{})
		}
	}
}

// derive fills the defaults that depend on other values.
func (l *loader) derive(env map[string]string) {
	c := l.c
	if c.Listen.Port == 0 && !l.isSet("listen.port", 0) {
		c.Listen.Port = 8443
		if c.Mode == ModeLoopback {
			c.Listen.Port = 8000
		}
	}
	if c.RunAs == "" && c.Authenticated() && c.Root() && !l.isSet("run_as", 0) {
		c.RunAs = "monitor"
	}
	if c.Accounts.WorkerUser == "" && c.Root() && (InLoopback | InShared).has(c.Way()) {
		c.Accounts.WorkerUser = "gatehouse-worker"
	}
	if c.StateDir == "" {
		c.StateDir = StateDir(c.Root(), func(name string) string { return env[name] })
	}
	c.runtimeDir = env["XDG_RUNTIME_DIR"]
	l.shorter("lifetime.probe_timeout", &c.Lifetime.ProbeTimeout, c.Lifetime.ProbeInterval)
	l.shorter("lifetime.reaper_interval", &c.Lifetime.ReaperInterval, c.Lifetime.Idle, c.Lifetime.Streamless, c.Lifetime.MaxLifetime, c.Lifetime.StreamLossGrace, c.Lifetime.ProbeInterval)
	if m := &c.Limits; !l.isSet("limits.max_sessions_per_principal", 0) {
		m.MaxSessionsPerPrincipal = min(8, m.MaxSessions)
	}
	if m := &c.Limits; !l.isSet("limits.max_workers", 0) {
		m.MaxWorkers = 2 * m.MaxSessions
	}
	if m := &c.Limits; !l.isSet("limits.max_workers_per_token", 0) {
		m.MaxWorkersPerToken = 2 * m.MaxSessionsPerPrincipal
	}
	for i := range c.Issuers {
		if !l.isSet("issuers[].profile", i) {
			c.Issuers[i].Profile = "rfc9068"
		}
	}
	for i := range c.Servers {
		if w := &c.Servers[i].Worker; !l.isSet("servers[].worker.interrupt", i) {
			w.Interrupt = "none"
			if len(w.Command) == 0 {
				w.Interrupt = "sigint"
			}
		}
	}
}

// shorter lowers a time that nobody set to the least of the others that are on.
func (l *loader) shorter(key string, d *time.Duration, others ...time.Duration) {
	for _, o := range others {
		if !l.isSet(key, 0) && o > 0 && o < *d {
			*d = o
		}
	}
}

// StateDir is the default of state_dir, empty when no home is known.
func StateDir(root bool, env func(string) string) string {
	switch {
	case root:
		return "/var/lib/gatehouse"
	case filepath.IsAbs(env("XDG_STATE_HOME")):
		return filepath.Join(env("XDG_STATE_HOME"), "gatehouse")
	case filepath.IsAbs(env("HOME")):
		return filepath.Join(env("HOME"), ".local/state/gatehouse")
	}
	return ""
}

// isSet reports whether a source, and not a default, gave the value.
func (l *loader) isSet(key string, i int) bool { return l.c.origins[slot{key, i}].Kind != FromDefault }

// deny refuses the value of a setting, at the place where it was given.
func (l *loader) deny(key string, i int, format string, a ...any) {
	l.refuse(l.where(key, i), "%s: %s", keyOf(key, i), fmt.Sprintf(format, a...))
}

// caution warns about the value of a setting.
func (l *loader) caution(key string, i int, format string, a ...any) {
	l.warn("%s: %s", keyOf(key, i), fmt.Sprintf(format, a...))
}

// where is the place that a message about a value starts with.
func (l *loader) where(key string, i int) string { return l.c.origins[slot{key, i}].Where }

// keyOf is a key as a message writes it: "issuers[1].issuer".
func keyOf(key string, i int) string {
	return strings.Replace(key, "[]", "["+strconv.Itoa(i)+"]", 1)
}

// name is how a message refers to a setting that may be set anywhere:
// "listen.port (MCP_PORT)". Variables set the first item of a list only.
func name(key string, i int) string {
	if s := find(key); s.Env != "" && i == 0 {
		return keyOf(key, i) + " (" + s.Env + ")"
	}
	return keyOf(key, i)
}

// reason is the cause of a failed file operation, without the path again.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

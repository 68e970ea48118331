package conf

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gatehouse/cmd/internal/plan"
)

// maxInstructions bounds the instructions, in characters.
const maxInstructions = 32768

var serverPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// reserved are paths that are answered without a server.
var reserved = []string{"/healthz", "/readyz", "/register", "/.well-known"}

// servers checks paths, resource identifiers, audiences and the settings of the
// built-in worker.
func (l *loader) servers() {
	paths, resources := map[string]bool{}, map[string]bool{}
	for i := range l.c.Servers {
		s := &l.c.Servers[i]
		l.path(i, s.Path, paths)
		l.resource(i, s)
		if s.Resource != "" && resources[s.Resource] && l.c.Authenticated() {
			l.deny("servers[].resource", i, "%s stands there twice; a token for one server would open the other", clip(s.Resource))
		}
		resources[s.Resource] = true
		for _, a := range s.ExtraAudiences {
			if err := isAudience(a); err != nil && l.c.Authenticated() {
				l.deny("servers[].extra_audiences", i, "%q %v", clip(a), err)
			}
		}
		if s.Instructions != "" {
			l.instructions(i, s)
		}
		if l.isSet("servers[].workspace.branch", i) && s.Workspace == "" {
			l.refuse(l.where("servers[].workspace.branch", i), "%s needs %s", name("servers[].workspace.branch", i), name("servers[].workspace.repository", i))
		}
		l.options(i, s)
	}
}

// path checks one server's path.
func (l *loader) path(i int, p string, seen map[string]bool) {
	const key = "servers[].path"
	switch {
	case p == "":
		return // reported as missing
	case !serverPath.MatchString(p) || strings.Contains(p+"/", "/./") || strings.Contains(p+"/", "/../"):
		l.deny(key, i, "%q is not accepted; a path such as /mcp is, made of letters, digits and . _ ~ - between slashes, without a slash at its end", clip(p))
	case slices.ContainsFunc(reserved, func(r string) bool { return p == r || strings.HasPrefix(p, r+"/") }):
		l.deny(key, i, "%s is answered by the front end itself; choose another", p)
	case seen[p]:
		l.deny(key, i, "%s stands there twice", p)
	}
	seen[p] = true
}

// isAudience refuses audiences that do not stand for this server.
func isAudience(a string) error {
	switch {
	case a == "account":
		return errors.New("is in most tokens of a Keycloak realm, whoever they were made for, and is never accepted; add an audience mapper for the resource identifier instead")
	case strings.ContainsAny(a, "*"):
		return errors.New("looks like a pattern; audiences are compared byte for byte")
	}
	return nil
}

// instructions reads the file that replaces the built-in text.
func (l *loader) instructions(i int, s *Server) {
	const key = "servers[].instructions_file"
	b := l.readable(key, i, "the instructions", s.Instructions)
	if b == nil {
		return
	}
	l.guard(key, i, s.Instructions)
	switch {
	case !utf8.Valid(b):
		l.deny(key, i, "%s is not UTF-8", s.Instructions)
	case utf8.RuneCount(b) > maxInstructions:
		l.deny(key, i, "%s has %d characters; at most %d are accepted", s.Instructions, utf8.RuneCount(b), maxInstructions)
	}
	text := string(b)
	s.instructionText = &text
}

// options checks that the built-in worker's settings are not given to another
// one, and that options are keyed by toolset.
func (l *loader) options(i int, s *Server) {
	if l.isSet("servers[].worker.command", i) {
		for _, key := range []string{"servers[].title", "servers[].instructions_file", "servers[].toolsets", "servers[].toolset_options",
			"servers[].workspace.repository", "servers[].workspace.branch"} {
			if l.isSet(key, i) {
				l.refuse(l.where(key, i), "%s is for the built-in worker, and %s names another program; set one of them", name(key, i), name("servers[].worker.command", i))
			}
		}
		return
	}
	members := map[string]json.RawMessage{}
	if len(s.ToolsetOptions) == 0 || json.Unmarshal(s.ToolsetOptions, &members) != nil {
		return
	}
	for _, toolset := range sortedKeys(members) {
		if raw := members[toolset]; len(raw) == 0 || raw[0] != '{' {
			l.deny("servers[].toolset_options", i, "the options of %q are no object", clip(toolset))
		}
		if len(s.Toolsets) > 0 && !slices.Contains(s.Toolsets, toolset) {
			l.deny("servers[].toolset_options", i, "there are options for %q, which %s does not name", clip(toolset), name("servers[].toolsets", i))
		}
	}
}

// workers checks what is run for each server.
func (l *loader) workers() {
	for i := range l.c.Servers {
		w := &l.c.Servers[i].Worker
		if len(w.Command) > 0 {
			l.command(i, w)
		}
		if err := checkEnviron(w.Env); err != nil {
			l.deny("servers[].worker.env", i, "%v", err)
		}
		if w.EnvFile != "" {
			l.envFile(i, w)
		}
	}
}

// command checks the worker's program and makes its path absolute.
func (l *loader) command(i int, w *Worker) {
	const key = "servers[].worker.command"
	h := &l.c.host
	program := w.Command[0]
	resolved := program
	switch {
	case filepath.IsAbs(program):
	case strings.ContainsRune(program, '/'):
		resolved = filepath.Join(h.WorkDir, program)
	default:
		found, err := h.LookPath(program)
		if err != nil {
			l.deny(key, i, "there is no program %q in PATH; write its absolute path", clip(program))
			return
		}
		if resolved = found; !filepath.IsAbs(resolved) {
			resolved = filepath.Join(h.WorkDir, resolved)
		}
	}
	if resolved != program && l.c.Way() == plan.RunMonitor {
		l.deny(key, i, "%q is not an absolute path, which run_as monitor needs, since every account runs it; write %s", clip(program), encode(append([]string{resolved}, maskArgv(w.Command)[1:]...)))
		return
	}
	w.Command = append([]string{resolved}, w.Command[1:]...)
	l.program(key, i, resolved)
}

// program checks that a worker's program is there, can be executed, and can't
// be changed by those who are not meant to.
func (l *loader) program(key string, i int, file string) {
	st, err := l.c.host.Stat(file)
	switch {
	case err != nil:
		l.deny(key, i, "%s: %s", file, reason(err))
	case !st.Mode.IsRegular():
		l.deny(key, i, "%s is not a file", file)
	case st.Mode.Perm()&0o111 == 0:
		l.deny(key, i, "%s can't be executed; run: chmod +x %s", file, file)
	case l.c.Way() == plan.RunMonitor:
		l.guard(key, i, file)
	case l.c.Root():
		if err := l.c.host.exposed(file); err != nil {
			l.caution(key, i, "others could change this file: %v", err)
		}
	}
	if err != nil || !l.c.Root() {
		return
	}
	if dir := l.c.host.closed(file); dir != "" {
		l.caution(key, i, "%s: others may not enter or execute %s, so most accounts can't run it", file, dir)
	}
}

var environName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fromAccount are variables that the monitor sets from the account.
var fromAccount = []string{"HOME", "USER", "LOGNAME", "SHELL"}

// checkEnviron checks names and values of environment variables.
func checkEnviron(env map[string]string) error {
	for _, n := range sortedKeys(env) {
		if err := checkVariable(n, env[n]); err != nil {
			return err
		}
	}
	return nil
}

func checkVariable(n, v string) error {
	switch {
	case !environName.MatchString(n):
		return fmt.Errorf("%q is no name of an environment variable", clip(n))
	case slices.Contains(fromAccount, n):
		return fmt.Errorf("%s comes from the account and can't be set", n)
	case strings.ContainsRune(v, 0):
		return fmt.Errorf("the value of %s has a NUL byte", n)
	}
	return nil
}

// envFile checks the file with the worker's secrets. Values are never shown.
func (l *loader) envFile(i int, w *Worker) {
	const key = "servers[].worker.env_file"
	b := l.readable(key, i, "the worker's environment", w.EnvFile)
	if b == nil {
		return
	}
	l.guard(key, i, w.EnvFile)
	if st, err := l.c.host.Stat(w.EnvFile); err == nil && st.Mode.IsRegular() && st.Mode.Perm()&0o077 != 0 {
		l.deny(key, i, "%s holds secrets and has mode %04o; run: chmod 600 %s", w.EnvFile, st.Mode.Perm(), w.EnvFile)
	}
	if err := ParseEnvFile(b, func(n, _ string) {
		if _, twice := w.Env[n]; twice {
			l.deny(key, i, "%s is set in %s as well", n, name("servers[].worker.env", i))
		}
	}); err != nil {
		l.deny(key, i, "%s:%v", w.EnvFile, err)
	}
}

// ParseEnvFile reads NAME=value lines and hands each to set. Empty lines and
// lines that begin with # are skipped; a value is everything up to the line's
// end. Quotes around it, which other tools would take off, are refused. The error
// begins with the line's number and never holds a value.
func ParseEnvFile(b []byte, set func(name, value string)) error {
	if !utf8.Valid(b) {
		return errors.New("1: is not UTF-8")
	}
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		n, v, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%d: is no line of the form NAME=value", number)
		}
		if strings.ContainsRune(line, '\r') || quoted(v) {
			return fmt.Errorf("%d: ends with a carriage return or has quotes around its value, which would be part of it", number)
		}
		if err := checkVariable(n, v); err != nil {
			if !environName.MatchString(n) {
				err = errors.New("does not begin with the name of an environment variable (no export, no blanks around =)")
			}
			return fmt.Errorf("%d: %w", number, err)
		}
		if seen[n] {
			return fmt.Errorf("%d: sets %s for the second time", number, n)
		}
		seen[n] = true
		set(n, v)
	}
	return nil
}

func quoted(v string) bool {
	return len(v) >= 2 && v[0] == v[len(v)-1] && (v[0] == '"' || v[0] == '\'')
}

// readable reads a file that a setting names, nil when it can't be read.
func (l *loader) readable(key string, i int, what, file string) []byte {
	b, err := l.c.host.ReadFile(file)
	if err != nil {
		l.deny(key, i, "read %s: %s: %s", what, file, reason(err))
		return nil
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

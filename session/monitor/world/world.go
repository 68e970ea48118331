// Package world builds what a worker finds when it starts: environment, working
// folder, standard descriptors and settings. Nothing of it is inherited, and
// nothing of it comes from a token but the settings of our own worker.
package world

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gatehouse/session/accounts"
	"gatehouse/session/safepath"
)

// Path is the constant search path of workers.
const Path = "/usr/local/bin:/usr/bin:/bin"

// Lang is the constant locale of workers.
const Lang = "C.UTF-8"

// Command is one configured worker.
type Command struct {
	// Argv is the constant command line; Argv[0] is an absolute path.
	Argv []string
	// Env is added to the fixed environment, and EnvFile, if set, after it.
	Env     map[string]string
	EnvFile string
	// Cwd is the working folder; "": the account's home.
	Cwd string
	// Strict demands that nobody but root could change the program or a folder
	// above it.
	Strict bool
	// UID is whose files are trusted beside root's.
	UID int
}

// Check looks at everything that can be known before a worker is started. It is
// called when the service starts and again before each worker.
func (c *Command) Check() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("worker command is empty")
	}
	for _, a := range c.Argv {
		if strings.ContainsRune(a, 0) {
			return errors.New("worker command holds a NUL byte")
		}
	}
	if !filepath.IsAbs(c.Argv[0]) {
		return fmt.Errorf("worker command %q is not an absolute path", c.Argv[0])
	}
	if c.Strict {
		if _, err := safepath.Program(c.Argv[0], 0); err != nil {
			return fmt.Errorf("worker command %s: %w", c.Argv[0], err)
		}
	}
	if c.Cwd != "" && !filepath.IsAbs(c.Cwd) {
		return fmt.Errorf("worker working folder %q is not an absolute path", c.Cwd)
	}
	for name, value := range c.Env {
		if err := checkVariable(name, value); err != nil {
			return fmt.Errorf("worker environment: %w", err)
		}
	}
	_, err := c.envFile()
	return err
}

// Place is where and as whom one worker runs.
type Place struct {
	Account accounts.Account
	TmpDir  string // "": TMPDIR is not set
	TZ      string // "": TZ is not set
}

// Dir is the worker's working folder.
func (c *Command) Dir(p Place) string {
	if c.Cwd != "" {
		return c.Cwd
	}
	return p.Account.Home
}

// Environ is the worker's whole environment, sorted: the fixed names, then what
// the operator configured, which wins.
func (c *Command) Environ(p Place) ([]string, error) {
	env := map[string]string{
		"PATH":    Path,
		"HOME":    p.Account.Home,
		"USER":    string(p.Account.Name),
		"LOGNAME": string(p.Account.Name),
		"SHELL":   p.Account.Shell,
		"LANG":    Lang,
	}
	if p.TmpDir != "" {
		env["TMPDIR"] = p.TmpDir
	}
	if p.TZ != "" {
		env["TZ"] = p.TZ
	}
	maps.Copy(env, c.Env)
	more, err := c.envFile()
	if err != nil {
		return nil, err
	}
	maps.Copy(env, more)
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.ContainsRune(env[name], 0) {
			return nil, fmt.Errorf("worker environment: value of %s holds a NUL byte", name)
		}
		out = append(out, name+"="+env[name])
	}
	return out, nil
}

// fromAccount are the names whose values the account decides.
var fromAccount = []string{"HOME", "USER", "LOGNAME", "SHELL"}

// checkVariable: a name of letters, digits and underscores (POSIX 8.1), a value
// that a C string can hold.
func checkVariable(name, value string) error {
	if name == "" || len(name) > 255 {
		return fmt.Errorf("%q is no variable name", name)
	}
	if slices.Contains(fromAccount, name) {
		return fmt.Errorf("%s comes from the account and can't be set", name)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("%q is no variable name", name)
		}
	}
	if strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
		return fmt.Errorf("value of %s is not UTF-8 or holds a NUL byte", name)
	}
	return nil
}

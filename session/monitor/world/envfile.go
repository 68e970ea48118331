package world

import (
	"fmt"
	"io"
	"strings"

	"gatehouse/session/safepath"
)

// maxEnvFile is the largest env_file in bytes.
const maxEnvFile = 64 << 10

// envFile reads the operator's env_file anew, so that a changed key is used by
// the next worker. The file belongs to root or to the service's account, and
// nobody else may write it.
func (c *Command) envFile() (map[string]string, error) {
	if c.EnvFile == "" {
		return nil, nil
	}
	f, err := safepath.Open(c.EnvFile, c.UID, maxEnvFile)
	if err != nil {
		return nil, fmt.Errorf("open worker env_file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEnvFile))
	if err != nil {
		return nil, fmt.Errorf("read worker env_file: %w", err)
	}
	env, err := ParseEnvFile(string(b))
	if err != nil {
		return nil, fmt.Errorf("worker env_file %s: %w", c.EnvFile, err)
	}
	return env, nil
}

// ParseEnvFile reads NAME=value lines. A value is everything up to the end of the
// line, byte for byte. Empty lines and lines that begin with # are skipped. What
// other tools read in other ways is refused: quotes around a value, "export",
// blanks around a name, carriage returns, a name twice. Errors name the line and
// never hold a value.
func ParseEnvFile(s string) (map[string]string, error) {
	env := make(map[string]string)
	for i, line := range strings.Split(s, "\n") {
		n := i + 1
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
			continue
		case strings.ContainsRune(line, '\r'):
			return nil, fmt.Errorf("line %d ends with a carriage return", n)
		}
		name, value, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d is not NAME=value", n)
		case quoted(value):
			return nil, fmt.Errorf("line %d: quotes would be part of the value; leave them out", n)
		}
		if err := checkVariable(name, value); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := env[name]; twice {
			return nil, fmt.Errorf("line %d: %s stands there twice", n, name)
		}
		env[name] = value
	}
	return env, nil
}

func quoted(v string) bool {
	return len(v) >= 2 && v[0] == v[len(v)-1] && (v[0] == '"' || v[0] == '\'')
}

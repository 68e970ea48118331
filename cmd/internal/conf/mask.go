package conf

import (
	"regexp"
	"strings"
)

// hidden stands for a value that "check" must not print.
const hidden = "(hidden)"

// secretName matches names whose values are likely secrets. Settings that are
// secrets have files of their own (worker.env_file); this catches what people
// put elsewhere all the same.
var secretName = regexp.MustCompile(`(?i)(key|token|secret|passw|pwd|auth|cred|cookie|dsn|conn|bearer|sig)`)

// secretValue matches values that are secrets wherever they stand: user names
// with passwords in URLs, JSON web tokens, common key prefixes.
var secretValue = regexp.MustCompile(`(?i)(://[^/\s:@]+:[^/\s@]+@|eyJ[a-z0-9_-]{8,}\.|\b(sk|ghp|gho|github_pat|xox[abp]|glpat|AKIA)[-_a-z0-9]{8,}|bearer\s)`)

// maskArgv hides the values of arguments such as --api-key=V and --api-key V.
func maskArgv(argv []string) []string {
	out := make([]string, len(argv))
	hideNext := false
	for i, a := range argv {
		name, _, inline := strings.Cut(a, "=")
		switch {
		case hideNext:
			out[i] = hidden
		case i > 0 && inline && secretName.MatchString(name):
			out[i] = name + "=" + hidden
		case secretValue.MatchString(a):
			out[i] = hidden
		default:
			out[i] = a
		}
		hideNext = i > 0 && !inline && strings.HasPrefix(a, "-") && secretName.MatchString(a)
	}
	return out
}

// maskValue hides the values of members whose names look like secrets.
func maskValue(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			if secretName.MatchString(k) {
				x[k] = hidden
			} else {
				x[k] = maskValue(e)
			}
		}
	case []any:
		for i, e := range x {
			x[i] = maskValue(e)
		}
	case string:
		if secretValue.MatchString(x) {
			return hidden
		}
	}
	return v
}

package conf

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// FuzzYAML: no file makes Load panic, every problem says where it is, and what
// is accepted is accepted again.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{ExampleLoopback, ExampleMonitor, secretsFile, precedenceFile,
		"mode: loopback\nservers:\n  - toolset_options: {a: {b: [1, 2.5, null, true, {c: d}]}}\n",
		"a: &x 1\nb: *x\n<<: {c: d}\n", "? a\n: b\n", "- 1\n", "\"mode\": 'loopback'\n", "mode: !!str x\n", "---\n---\n", "\t", "mode: |\n  x\n", "{mode: loopback, listen: {port: 1}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, yaml string) {
		if yaml == "" {
			return
		}
		_, _, err := loadCase(t, "alice", "", yaml, "", "")
		ps, ok := errors.AsType[Problems](err)
		if err != nil && (!ok || len(ps) == 0) {
			t.Fatalf("err is %T", err)
		}
		for _, p := range ps {
			if p.Text == "" {
				t.Errorf("a problem without a text at %q", p.Where)
			}
		}
		if _, _, again := loadCase(t, "alice", "", yaml, "", ""); !reflect.DeepEqual(err, again) {
			t.Errorf("first %v, then %v", err, again)
		}
	})
}

// FuzzDuration: what is parsed is written and parsed to the same.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{"90", "8h", "1h30m", "500ms", "2d", "none", "-1", "1m1h", "99999999999999999999d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d < 0 || d > maxDuration {
			t.Errorf("%q gives %v", s, d)
		}
		if again, err := ParseDuration(FormatDuration(d)); err != nil || again != d {
			t.Errorf("%q gives %v, written %q, which gives %v, %v", s, d, FormatDuration(d), again, err)
		}
	})
}

// FuzzArgv: what is accepted is a JSON array of strings without NUL that names
// a program, and survives being written.
func FuzzArgv(f *testing.F) {
	for _, s := range []string{`["/usr/bin/tool","--x"]`, `[]`, `["a",1]`, `["a"] x`, `"a"`, `["a\u0000"]`, `[["a"]]`, `["\ud800"]`, ` [ "a" ] `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		argv, err := ParseArgv(s)
		if err != nil {
			return
		}
		if len(argv) == 0 || argv[0] == "" || strings.ContainsRune(strings.Join(argv, ""), 0) {
			t.Errorf("%q gives %q", s, argv)
		}
		if again, err := ParseArgv(encode(argv)); err != nil || !reflect.DeepEqual(again, argv) {
			t.Errorf("%q gives %q, then %q, %v", s, argv, again, err)
		}
	})
}

// FuzzEnvFile: no value is ever part of an error.
func FuzzEnvFile(f *testing.F) {
	for _, s := range []string{"A=1\n", "# c\n\nA=b=c\n", "export A=1", "A", "=x", "A='x'", "A=1\r\n", "HOME=/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		values := 0
		err := ParseEnvFile([]byte(s), func(n, v string) {
			values++
			if !environName.MatchString(n) || strings.ContainsAny(v, "\x00\n\r") {
				t.Errorf("%q gives %q=%q", s, n, v)
			}
		})
		if err == nil && values > strings.Count(s, "\n")+1 {
			t.Errorf("%q gives %d values", s, values)
		}
	})
}

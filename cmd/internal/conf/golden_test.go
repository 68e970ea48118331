package conf

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write what the golden cases print")

// goldenCase is one start: what is given and what comes of it.
type goldenCase struct{ name, who, like, host, yaml, env, flags, want string }

// bases are environments that a case can begin with; its own lines win.
var bases = map[string]string{
	"":         "",
	"loopback": "MCP_MODE=loopback\n",
	"auth": "MCP_MODE=authenticated\nMCP_ISSUER=https://id.example.com\nMCP_AUDIENCE=https://mcp.example.com/mcp\n" +
		"MCP_TLS_CERT=/etc/gw/server.pem\nMCP_TLS_KEY=/etc/gw/server.key\nMCP_ACCOUNTS_FILE=/etc/gw/accounts.yaml\n",
	"shared": "MCP_MODE=authenticated\nMCP_ISSUER=https://id.example.com\nMCP_AUDIENCE=https://mcp.example.com/mcp\n" +
		"MCP_TLS_CERT=/etc/gw/server.pem\nMCP_TLS_KEY=/etc/gw/server.key\nMCP_RUN_AS=shared-account\n",
}

// readCases reads an archive whose files are called CASE/PART.
func readCases(t *testing.T, a *txtar.Archive) []goldenCase {
	t.Helper()
	var cases []goldenCase
	for _, f := range a.Files {
		name, part, ok := strings.Cut(f.Name, "/")
		if !ok {
			t.Fatalf("%s: want CASE/PART", f.Name)
		}
		if len(cases) == 0 || cases[len(cases)-1].name != name {
			cases = append(cases, goldenCase{name: name})
		}
		c, text := &cases[len(cases)-1], string(f.Data)
		switch part {
		case "who":
			c.who = strings.TrimSpace(text)
		case "like":
			c.like = strings.TrimSpace(text)
		case "host":
			c.host = text
		case "yaml":
			c.yaml = text
		case "env":
			c.env = text
		case "flags":
			c.flags = text
		case "want":
			c.want = text
		default:
			t.Fatalf("%s: no such part", f.Name)
		}
	}
	return cases
}

// outcome is what a start says: each problem, then each warning.
func outcome(err error, warnings []string) string {
	var b strings.Builder
	if ps, ok := errors.AsType[Problems](err); ok {
		for _, p := range ps {
			b.WriteString("refused: " + p.String() + "\n")
		}
	}
	for _, w := range warnings {
		b.WriteString("warning: " + w + "\n")
	}
	if b.Len() == 0 {
		return "starts\n"
	}
	return b.String()
}

// TestGolden starts with good and bad files, variables and flags, and compares
// every message to the letter.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden cases", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, c := range readCases(t, a) {
				if _, twice := got[c.name]; twice {
					t.Fatalf("case %s stands there twice", c.name)
				}
				base, ok := bases[c.like]
				if !ok {
					t.Fatalf("case %s: no base %q", c.name, c.like)
				}
				_, warnings, err := loadCase(t, c.who, c.host, c.yaml, c.env+base, c.flags)
				got[c.name] = outcome(err, warnings)
				if !*update && got[c.name] != c.want {
					t.Errorf("%s:\n got: %s\nwant: %s", c.name, got[c.name], c.want)
				}
			}
			if *update {
				rewrite(t, file, a, got)
			}
		})
	}
}

// rewrite puts the outcomes into the archive.
func rewrite(t *testing.T, file string, a *txtar.Archive, got map[string]string) {
	t.Helper()
	out := &txtar.Archive{Comment: a.Comment}
	for i, f := range a.Files {
		name, part, _ := strings.Cut(f.Name, "/")
		if part == "want" {
			continue
		}
		out.Files = append(out.Files, f)
		last := i+1 == len(a.Files)
		if !last {
			next, _, _ := strings.Cut(a.Files[i+1].Name, "/")
			last = next != name || strings.HasSuffix(a.Files[i+1].Name, "/want")
		}
		if last {
			out.Files = append(out.Files, txtar.File{Name: name + "/want", Data: []byte(got[name])})
		}
	}
	if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

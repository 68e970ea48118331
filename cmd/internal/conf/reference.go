package conf

import (
	"fmt"
	"strings"
)

// sections are the parts of the reference; a setting belongs to the first whose
// prefix its key has.
var sections = []struct{ title, prefix, intro string }{
	{"Mode and place", "", ""},
	{"Listening", "listen.", ""},
	{"TLS", "tls.", "Certificate and key are followed: replace the files and the server takes the new ones within 20 s. For as long as it can't, because one is missing, half written or not valid yet, it tries again every 10 s, says once what is wrong, and serves with the ones before."},
	{"Issuers", "issuers[].", "`issuers` is a list. A flag or variable sets its first item."},
	{"Keys", "keys.", ""},
	{"Servers", "servers[].", "`servers` is a list of MCP endpoints. A flag or variable sets its first item; without any there is one at `/mcp`."},
	{"Accounts", "accounts.", ""},
	{"HTTP", "http.", ""},
	{"Limits", "limits.", ""},
	{"Session lifetime", "lifetime.", "Combinations that cannot work are refused, naming the two settings."},
	{"Operators", "operators.", ""},
	{"Log", "log.", ""},
}

const referenceHead = `# Configuration

<!-- Made by "go generate ./cmd/internal/conf" from the table of settings; a test compares. Change the table, not this page. -->

Each setting can stand in a YAML file (` + "`gatehouse serve --config FILE`" + ` or ` + "`" + EnvFile + "`" + `), in an environment variable, and most in a flag of
` + "`gatehouse serve`" + ` and ` + "`gatehouse check`" + `. A flag wins over the environment, the environment over the file, the file over the default.
` + "`gatehouse check`" + ` prints every value with its origin, and tests the outside.

The file is read strictly. An unknown or repeated key, a wrong type or a combination that is not accepted stops the start, with file,
line and column and what is accepted. There are no anchors, aliases, tags and no second document. All problems are reported together,
before anything is opened.

* An empty variable counts as unset. An empty flag is refused.
* A variable whose name is a slip of one of ours (` + "`MCP_REQUIRED_SCOPE`" + `) stops the start; any other unknown ` + "`MCP_`" + ` name is warned about, since
  other programs use that prefix too.
* A setting that has no meaning in the chosen way of running is refused in the file and among the flags. In the environment, which other
  starts may share, it is warned about, unless it was meant to keep people out.
* Durations are ` + "`90s`" + `, ` + "`5m`" + `, ` + "`8h`" + `, ` + "`1h30m`" + ` or a plain number of seconds; ` + "`none`" + ` switches off where that is allowed. Sizes are ` + "`16MiB`" + `, ` + "`8KiB`" + ` or bytes.
* Lists are YAML lists; in a flag or variable the items are parted by commas or blanks, and ` + "`none`" + ` is the empty list.
* Relative paths start at the file's folder when they stand in the file, else at the working directory.
* Secrets do not belong here: keys lie in files, and a worker's in its ` + "`env_file`" + `. Files that decide over others (this one, accounts, key sets,
  authorities, instructions, the workers' environment and, with run_as ` + "`monitor`" + `, their programs) must belong to root or to the server's account
  and be writable by nobody else; when root starts the server, the same holds for every folder above them.

"Meaning" says in which way of running a setting has one: loopback, or authenticated with run_as ` + "`monitor`, `same-account`, `shared-account`" + `.
**needed** means that the start is refused without it.
`

// Reference is docs/config.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, sec := range sections {
		fmt.Fprintf(&b, "\n## %s\n", sec.title)
		if sec.intro != "" {
			b.WriteString("\n" + sec.intro + "\n")
		}
		for _, s := range rows {
			if section(s.Key) == sec.prefix {
				entryOf(&b, s)
			}
		}
	}
	b.WriteString(referenceTail)
	return b.String()
}

// section is the prefix of the section that a key belongs to.
func section(key string) string {
	for _, sec := range sections[1:] {
		if strings.HasPrefix(key, sec.prefix) {
			return sec.prefix
		}
	}
	return ""
}

func entryOf(b *strings.Builder, s *Setting) {
	fmt.Fprintf(b, "\n**`%s`**", s.Key)
	if s.Env != "" {
		fmt.Fprintf(b, " · `%s`", s.Env)
	}
	if s.Flag != "" {
		fmt.Fprintf(b, " · `--%s`", s.Flag)
	}
	fmt.Fprintf(b, "  \n%s  \n*%s*", s.Help, s.Type.Name)
	if s.Type.Range != "" {
		b.WriteString(", " + s.Type.Range)
	}
	b.WriteString(". ")
	switch {
	case s.Default != "":
		fmt.Fprintf(b, "Default: `%s`", strings.ReplaceAll(s.Default, ",", ", "))
		if s.Derived != "" {
			b.WriteString(", " + s.Derived)
		}
		b.WriteString(". ")
	case s.Derived != "":
		fmt.Fprintf(b, "Default: %s. ", s.Derived)
	default:
		b.WriteString("Default: unset. ")
	}
	fmt.Fprintf(b, "Meaning: %s", s.Ways)
	if s.Needed != 0 {
		b.WriteString(", **needed**")
	}
	b.WriteString(".\n")
}

const referenceTail = `
## Examples

A loopback server for the people of this machine:

` + "```yaml\n" + ExampleLoopback + "```" + `

An authenticated one behind Keycloak, started by root:

` + "```yaml\n" + ExampleMonitor + "```" + `

The same by variables:

` + "```sh" + `
MCP_MODE=authenticated MCP_RUN_AS=monitor MCP_BIND_ADDRESS=0.0.0.0 \
MCP_ISSUER=https://id.example.com/realms/staff MCP_TOKEN_PROFILE=keycloak \
MCP_AUDIENCE=https://mcp.example.com:8443/mcp \
MCP_TLS_CERT=/etc/gatehouse/tls/server.pem MCP_TLS_KEY=/etc/gatehouse/tls/server.key \
MCP_ACCOUNTS_FILE=/etc/gatehouse/accounts.yaml gatehouse serve
` + "```\n"

// ExampleLoopback and ExampleMonitor are the files that the reference shows.
const (
	ExampleLoopback = `mode: loopback
listen:
  port: 8000
servers:
  - path: /mcp
    worker:
      command: ["/usr/local/bin/my-mcp-server", "--stdio"]
`
	ExampleMonitor = `mode: authenticated
run_as: monitor
listen:
  port: 8443
  bind_address: ["0.0.0.0"]
tls:
  cert: /etc/gatehouse/tls/server.pem
  key: /etc/gatehouse/tls/server.key
issuers:
  - issuer: https://id.example.com/realms/staff
    profile: keycloak
accounts:
  file: /etc/gatehouse/accounts.yaml
servers:
  - path: /mcp
    resource: https://mcp.example.com:8443/mcp
  - path: /tickets
    resource: https://mcp.example.com:8443/tickets
    required_scopes: ["mcp:use", "tickets"]
    worker:
      command: ["/opt/tickets/bin/tickets-mcp"]
      env:
        TICKETS_URL: https://tickets.example.com
      env_file: /etc/gatehouse/tickets.env
limits:
  max_sessions: 64
lifetime:
  idle_timeout: 4h
  request_timeout: 10m
`
)

package conf

import (
	"slices"
	"strings"
)

// foreign are variables of other programs whose names start with MCP_ too:
// clients, inspectors and scripts that people run on the same machine.
var foreign = []string{
	"MCP_TIMEOUT", "MCP_TOOL_TIMEOUT", "MCP_OAUTH_CALLBACK_PORT", "MCP_CLIENT_SECRET",
	"MCP_CONNECTION_NONBLOCKING", "MCP_SERVER_CONNECTION_BATCH_SIZE", "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE",
	"MCP_SERVER_REQUEST_TIMEOUT", "MCP_REQUEST_MAX_TOTAL_TIMEOUT", "MCP_REQUEST_TIMEOUT_RESET_ON_PROGRESS",
	"MCP_AUTO_OPEN_ENABLED", "MCP_PROXY_FULL_ADDRESS", "MCP_PROXY_PORT", "MCP_PROXY_AUTH_TOKEN",
	"MCP_DEMO_PORT", "MCP_DEMO_TOKEN_LIFE", // of scripts/run-auth-server.sh
	"MCP_INSPECTOR_API_TOKEN", "MCP_REMOTE_CONFIG_DIR", "MCP_ENV_VARS",
}

// otherNames are names under which similar servers know a setting of ours.
var otherNames = map[string]string{
	"MCP_HOST": "MCP_BIND_ADDRESS", "MCP_ADDRESS": "MCP_BIND_ADDRESS", "MCP_LISTEN": "MCP_BIND_ADDRESS",
	"MCP_SCOPES": "MCP_REQUIRED_SCOPES", "MCP_SCOPE": "MCP_REQUIRED_SCOPES",
	"MCP_RESOURCE": "MCP_AUDIENCE", "MCP_RESOURCE_URL": "MCP_AUDIENCE", "MCP_SERVER_URL": "MCP_AUDIENCE", "MCP_BASE_URL": "MCP_AUDIENCE",
	"MCP_ISSUER_URL": "MCP_ISSUER", "MCP_OIDC_ISSUER": "MCP_ISSUER", "MCP_AUTH_ISSUER": "MCP_ISSUER",
	"MCP_CERT": "MCP_TLS_CERT", "MCP_KEY": "MCP_TLS_KEY", "MCP_TLS_CA": "MCP_ISSUER_CA",
	"MCP_COMMAND": "MCP_WORKER_COMMAND", "MCP_ACCOUNTS": "MCP_ACCOUNTS_FILE", "MCP_PROFILE": "MCP_TOKEN_PROFILE",
	"MCP_CONFIG_FILE": EnvFile,
}

// clientCA is read by the subcommands that are clients.
const clientCA = "MCP_CA"

// environment splits the environment into names and values and judges the
// names. A name that is a slip of one of ours stops the start, because a
// setting that was meant to narrow would silently not be there. Any other
// unknown MCP_ name is only warned about, since other programs use that prefix.
func (l *loader) environment(environ []string) map[string]string {
	ours := []string{EnvFile}
	for _, s := range rows {
		if s.Env != "" {
			ours = append(ours, s.Env)
		}
	}
	env := map[string]string{}
	var strange []string
	for _, kv := range environ {
		k, v, ok := strings.Cut(kv, "=")
		if _, twice := env[k]; !ok || twice {
			continue
		}
		env[k] = v
		if strings.HasPrefix(strings.ToUpper(k), "MCP_") && !slices.Contains(ours, k) && !slices.Contains(foreign, k) {
			strange = append(strange, k)
		}
	}
	slices.Sort(strange)
	for _, k := range strange {
		if k == clientCA { // another subcommand's
			if env["MCP_ISSUER"] != "" && env["MCP_ISSUER_CA"] == "" {
				l.warn("%s is for gatehouse login, token and check --keycloak; the authority of the server's issuer is MCP_ISSUER_CA", k)
			}
			continue
		}
		l.strange(k, ours)
	}
	return env
}

// strange judges one unknown name.
func (l *loader) strange(k string, ours []string) {
	upper := strings.ToUpper(k)
	if slices.Contains(ours, upper) {
		l.refuse(k, "is not a setting; names of settings are in capitals: %s", upper)
		return
	}
	if other := otherNames[upper]; other != "" {
		l.warn("%s is not a setting of this program and is ignored; what it means elsewhere is %s here", k, other)
		return
	}
	suffixes := make([]string, len(ours))
	for i, o := range ours {
		suffixes[i] = strings.TrimPrefix(o, "MCP_")
	}
	if near := nearest(strings.TrimPrefix(upper, "MCP_"), suffixes); near != "" {
		l.refuse(k, "is not a setting; did you mean MCP_%s? Unset it if it belongs to another program", near)
		return
	}
	l.warn("%s is not a setting of this program and is ignored", k)
}

// Package settings is the document that a gatehouse-worker finds on file
// descriptor 3: a sealed memory file holding one JSON object. The monitor
// writes it, the worker reads it; other worker commands never get one.
package settings

import "encoding/json"

// FD is the descriptor on which a gatehouse-worker finds its settings.
const FD = 3

// Settings tells a worker whom it serves. It never holds a token.
type Settings struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
	Account  string   `json:"account"`
	// Name and Email are what the operator maps the principal to for commits.
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`

	// Server is the configured server's path, such as "/mcp".
	Server string `json:"server"`
	// Title names this instance; empty means unset.
	Title string `json:"title,omitempty"`
	// Instructions replaces the built-in instructions when not nil; an empty
	// string sends none.
	Instructions *string `json:"instructions,omitempty"`
	// Toolsets are the names of the toolsets to serve; nil means the default.
	Toolsets []string `json:"toolsets,omitempty"`
	// Options are the options of each toolset, keyed by its name.
	Options map[string]json.RawMessage `json:"options,omitempty"`
	// Workspace is the code base that the workspace tools work on; nil for none.
	Workspace *Workspace `json:"workspace,omitempty"`
	// IdleEnd is how long an idle session lives, as the operator configured it,
	// for the reminder that tools print; empty means never.
	IdleEnd string `json:"idle_end,omitempty"`
}

// Workspace names a Git repository on this host.
type Workspace struct {
	// Repository is the absolute path of the repository, bare or not.
	Repository string `json:"repository"`
	// Branch is the shared branch; empty means what the repository's HEAD names.
	Branch string `json:"branch,omitempty"`
}

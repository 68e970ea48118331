// Package session is the toolset that says who the session is and holds its
// transactions: status, commit, abort and refresh.
package session

import (
	"context"
	"fmt"
	"strings"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
)

// Identity is whom the worker serves and as what it runs. Every figure is read
// from the operating system by whoever makes it, never taken from a token.
type Identity struct {
	Account string `json:"account" jsonschema:"the operating-system account the worker runs as"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Groups  []int  `json:"groups" jsonschema:"supplementary groups"`
	PID     int    `json:"pid"`
	Cwd     string `json:"cwd" jsonschema:"the worker's working folder"`
	Server  string `json:"server" jsonschema:"the configured server's path"`
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	Client  string `json:"client,omitempty" jsonschema:"the OAuth client the session belongs to"`
}

// NewIdentity joins what the settings say with what the process is.
func NewIdentity(s settings.Settings, account string, uid, gid, pid int, groups []int, cwd string) Identity {
	if groups == nil {
		groups = []int{}
	}
	return Identity{Account: account, UID: uid, GID: gid, Groups: groups, PID: pid, Cwd: cwd,
		Server: s.Server, Issuer: s.Issuer, Subject: s.Subject, Client: s.ClientID}
}

// Status is the answer of the tool "status".
type Status struct {
	Identity
}

// New returns the toolset.
func New(id Identity) toolsets.Toolset {
	return toolsets.Toolset{
		Name:    "session",
		Summary: "Who the session is, and its transactions.",
		Tools: []toolsets.Tool{{
			Name: "status", Title: "Session status",
			Description: "Says which account this session runs as, and where.",
			ReadOnly:    true, Idempotent: true,
			Output: toolsets.OutputOf[Status](),
			Call: func(context.Context, *toolsets.Call) (*toolsets.Result, error) {
				st := Status{Identity: id}
				return &toolsets.Result{Text: st.text(), Data: st}, nil
			},
		}},
	}
}

func (s Status) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "account %s (uid %d, gid %d, groups %v)\nworker pid %d, working folder %s\nserver %s",
		s.Account, s.UID, s.GID, s.Groups, s.PID, s.Cwd, s.Server)
	if s.Issuer != "" {
		fmt.Fprintf(&b, "\nprincipal: issuer %s, subject %s, client %s", s.Issuer, s.Subject, s.Client)
	}
	return b.String()
}

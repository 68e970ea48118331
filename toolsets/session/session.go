// Package session is the toolset that says who the session is and holds its
// transactions: status, commit, abort and refresh.
package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
	"gatehouse/toolsets/run"
	"gatehouse/toolsets/view"
	"gatehouse/toolsets/workspace"
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
	IdleEnd string `json:"idle_end,omitempty" jsonschema:"how long an idle session lives"`
}

// NewIdentity joins what the settings say with what the process is.
func NewIdentity(s settings.Settings, account string, uid, gid, pid int, groups []int, cwd string) Identity {
	if groups == nil {
		groups = []int{}
	}
	return Identity{Account: account, UID: uid, GID: gid, Groups: groups, PID: pid, Cwd: cwd,
		Server: s.Server, Issuer: s.Issuer, Subject: s.Subject, Client: s.ClientID, IdleEnd: s.IdleEnd}
}

// Status is the answer of the tool "status".
type Status struct {
	Identity
	Workspace bool        `json:"workspace" jsonschema:"whether a workspace is configured"`
	Branch    string      `json:"branch,omitempty" jsonschema:"the shared branch"`
	Views     []view.Info `json:"views" jsonschema:"the views that are open"`
	MaxViews  int         `json:"max_views"`
	Lost      []view.Lost `json:"lost" jsonschema:"uncommitted work of ended sessions that can be got back"`
	// Problems are what could not be found out; the rest is still true.
	Problems []string `json:"problems,omitempty"`
}

// busyWait is how long status waits for a view that a long call holds.
const busyWait = time.Second

type toolset struct {
	id  Identity
	ws  *workspace.Workspace
	now func() time.Time
}

const guide = `This server works on a shared Go code base. Your session has a view of it: a working copy of your own, at one commit of the shared branch. What you change is seen by nobody else until you commit; commit adopts all your changes as one commit, merges changes of others that touch other declarations, and fails with kind "conflict" when somebody changed the same declaration. refresh brings in what others committed and keeps your changes; abort discards your changes and is the way out of every stuck state. Nothing else moves the view. Before you change or delete a declaration, read it; a declaration that changed since must be read again. Uncommitted changes are thrown away when the session ends. For work that must not mix, give tools a "view" name of your choice.`

// New returns the toolset.
func New(id Identity, ws *workspace.Workspace, now func() time.Time) toolsets.Toolset {
	t := toolset{id, ws, now}
	return toolsets.Toolset{
		Name:    "session",
		Summary: "Who the session is, and its transactions on the workspace.",
		Guide:   guide,
		Options: []toolsets.Option{
			{Name: "run_hooks", Type: toolsets.Boolean, Default: false, Meaning: "Run the shared repository's hooks when a commit is adopted. They run as the account."},
			{Name: "keep_lost", Type: toolsets.Duration, Default: 7 * 24 * time.Hour, Meaning: "How long uncommitted work of ended sessions is kept."},
			{Name: "go_env", Type: toolsets.Strings, Default: []string{}, Meaning: "Environment of the go command and of what is built, as NAME=value: GOFLAGS, GOPROXY and the like."},
		},
		Configure: func(v toolsets.Values) error {
			for _, kv := range v.Strings("go_env") {
				if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
					return fmt.Errorf("option \"go_env\": %q is not NAME=value", kv)
				}
			}
			ws.Views.SetPolicy(v.Bool("run_hooks"), v.Duration("keep_lost"))
			ws.SetGoEnv(run.Env(ws.GoEnv(), v.Strings("go_env")))
			return nil
		},
		Tools: []toolsets.Tool{
			{Name: "status", Title: "Session status", ReadOnly: true, Idempotent: true, Output: toolsets.OutputOf[Status](), Call: t.status,
				Description: "Says which account this session runs as, where its views stand, what is uncommitted, and which lost work of earlier sessions can be got back."},
			{Name: "commit", Title: "Commit", Viewed: true, Output: toolsets.OutputOf[view.Committed](), Call: t.commit,
				Params:      []toolsets.Param{{Name: "message", Type: toolsets.String, Meaning: "The commit's message; made from the changed names when it is absent."}},
				Description: "Adopts all uncommitted changes of the view on the shared branch as one commit of yours. Changes of others to other declarations are merged. Fails with kind conflict when others changed the same, with kind refused when this account may not write."},
			{Name: "abort", Title: "Abort", Viewed: true, Destructive: true, Idempotent: true, Output: toolsets.OutputOf[view.Moved](), Call: t.abort,
				Description: "Discards all uncommitted changes of the view and moves it to the head of the shared branch."},
			{Name: "refresh", Title: "Refresh", Viewed: true, Idempotent: true, Output: toolsets.OutputOf[view.Moved](), Call: t.refresh,
				Description: "Moves the view to the head of the shared branch and keeps the uncommitted changes. Fails with kind conflict, and moves nothing, when others changed the same declarations."},
		},
	}
}

func (t toolset) status(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	st := Status{Identity: t.id, Workspace: t.ws.Views.Configured(), Branch: t.ws.Views.Branch(), Views: []view.Info{}, MaxViews: view.MaxViews, Lost: []view.Lost{}}
	for _, v := range t.ws.Views.Views() {
		wait, cancel := context.WithTimeout(ctx, busyWait)
		unlock, err := v.Lock(wait, view.Read)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, err
		case err != nil:
			st.Problems = append(st.Problems, fmt.Sprintf("view %q is busy with another call", v.Name))
			continue
		}
		info, err := v.Info(ctx)
		unlock()
		if err != nil {
			st.Problems = append(st.Problems, fmt.Sprintf("look at view %q: %v", v.Name, err))
			continue
		}
		st.Views = append(st.Views, info)
	}
	lost, err := t.ws.Views.Lost(ctx)
	if err != nil {
		st.Problems = append(st.Problems, fmt.Sprintf("look for lost work: %v", err))
	}
	st.Lost = append(st.Lost, lost...)
	return &toolsets.Result{Text: st.text(t.now()), Data: st}, nil
}

func (s Status) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "account %s (uid %d, gid %d, groups %v)\nworker pid %d, working folder %s\nserver %s",
		s.Account, s.UID, s.GID, s.Groups, s.PID, s.Cwd, s.Server)
	if s.Issuer != "" {
		fmt.Fprintf(&b, "\nprincipal: issuer %s, subject %s", s.Issuer, s.Subject)
		if s.Client != "" {
			b.WriteString(", client " + s.Client)
		}
	}
	if s.IdleEnd != "" {
		fmt.Fprintf(&b, "\nidle sessions end after %s", s.IdleEnd)
	}
	switch {
	case !s.Workspace:
		b.WriteString("\nno workspace is configured")
	case len(s.Views) == 0:
		b.WriteString("\nno view is open yet; the first tool that needs one opens it")
	}
	for _, v := range s.Views {
		fmt.Fprintf(&b, "\nview %q: at commit %.10s (%s, %q), %d behind %s, %s changed",
			v.Name, v.Base, age(now.Sub(v.Time)), v.Subject, v.Behind, s.Branch, toolsets.Count(len(v.Changes), "file"))
		for _, c := range v.Changes {
			fmt.Fprintf(&b, "\n  %s %s", c.Status, c.Path)
			if len(c.Declarations) > 0 {
				b.WriteString(": " + strings.Join(c.Declarations, ", "))
			}
		}
	}
	for _, l := range s.Lost {
		fmt.Fprintf(&b, "\nlost work: %s (%s); to look at it: git --git-dir=%s show %s", l.Subject, age(now.Sub(l.Time)), l.Repository, l.Ref)
	}
	for _, p := range s.Problems {
		b.WriteString("\nproblem: " + p)
	}
	return toolsets.Cut(b.String())
}

func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

func (t toolset) commit(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, err := t.ws.Open(ctx, c, view.Move)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	message := strings.TrimSpace(c.String("message"))
	if c.Has("message") && message == "" {
		return nil, toolsets.Failf(toolsets.InvalidParams, `argument "message" must not be empty; leave it out to have one made`)
	}
	res, err := s.View.Commit(ctx, message)
	if err != nil {
		return nil, err
	}
	text := "Nothing to commit: the view has no uncommitted changes."
	if res.Commit == "" && len(res.Changes) > 0 {
		text = "Nothing to commit: the shared branch holds the same changes already. The view is at its head."
	}
	if res.Commit != "" {
		text = fmt.Sprintf("Committed %s as %.10s on %s.", names(res.Changes), res.Commit, res.Branch)
		if res.Merged > 0 {
			text += fmt.Sprintf(" Merged with %s of others.", toolsets.Count(res.Merged, "commit"))
		}
	}
	return &toolsets.Result{Text: text, Data: res}, nil
}

func names(changes []view.Change) string {
	var out []string
	for _, c := range changes {
		n := c.Path
		if len(c.Declarations) > 0 {
			n += " (" + strings.Join(c.Declarations, ", ") + ")"
		}
		out = append(out, n)
	}
	return toolsets.Cut(strings.Join(slices.Compact(out), ", "))
}

func (t toolset) abort(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, err := t.ws.Open(ctx, c, view.Move)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	res, err := s.View.Abort(ctx)
	if err != nil {
		return nil, err
	}
	text := "Nothing was uncommitted."
	if len(res.Changes) > 0 {
		text = "Discarded " + names(res.Changes) + "."
	}
	return &toolsets.Result{Text: text + moved(res), Data: res}, nil
}

func (t toolset) refresh(ctx context.Context, c *toolsets.Call) (*toolsets.Result, error) {
	s, err := t.ws.Open(ctx, c, view.Move)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	res, err := s.View.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(moved(res))
	if len(res.Changes) > 0 && res.From != res.To {
		text += " Your uncommitted changes are kept: " + names(res.Changes) + "."
	}
	return &toolsets.Result{Text: text, Data: res}, nil
}

func moved(m *view.Moved) string {
	if m.From == m.To {
		return fmt.Sprintf(" The view is at %.10s, the head of the shared branch.", m.To)
	}
	return fmt.Sprintf(" The view moved from %.10s to %.10s, the head of the shared branch.", m.From, m.To)
}

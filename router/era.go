package router

import (
	"encoding/json"
	"net/http"
	"slices"

	"gatehouse/session/era"
	"gatehouse/session/jsonrpc"
)

// The legacy protocol versions that clients are served, newest first. 2025-03-26 is
// not among them: it would oblige the server to take batches.
var supported = []string{"2025-11-25", "2025-06-18"}

// firstModern is the first version without a handshake, and the one that is served:
// it and later ones carry their version in each message.
const firstModern = era.Modern

// What an error about an unknown version lists: to a client that begins with
// initialize all versions, to one that does not the one it can be served with.
var (
	supportedJSON = versions(append([]string{firstModern}, supported...)...)
	modernJSON    = versions(firstModern)
)

func versions(list ...string) []byte {
	b, err := json.Marshal(list)
	if err != nil {
		panic("router: " + err.Error())
	}
	return b
}

// asked is what the choice of the era looks at.
type asked struct {
	method   string   // of HTTP
	versions []string // the MCP-Protocol-Version fields
	sessions []string // the Mcp-Session-Id fields
	message  *jsonrpc.Message
}

func (v *visit) ask(r *http.Request, m *jsonrpc.Message) *asked {
	v.asked = asked{r.Method, r.Header["Mcp-Protocol-Version"], r.Header["Mcp-Session-Id"], m}
	return &v.asked
}

// way is where a request goes.
type way uint8

const (
	wayRefuse     way = iota
	wayInitialize     // a new session, whatever the other headers say
	wayIgnore         // 202, and nothing happens
	waySession        // to the session that Mcp-Session-Id names
	wayModern         // a request that brings all it needs
)

// rule is one step of the choice: it fits or the next one is tried.
type rule struct {
	name string
	fits func(*asked) bool
	way  way
	kind kind // with wayRefuse
}

// rules choose the era of a request and where it goes; the first that fits
// decides. The order is that of the specification's compatibility rules
// (2026-07-28, Versioning, "Backward Compatibility").
var rules = []rule{
	{"modern: notification", both((*asked).modern, (*asked).notifies), wayIgnore, 0},
	{"modern: _meta carries a version", (*asked).modern, wayModern, 0},
	{"legacy: initialize", (*asked).initializes, wayInitialize, 0},
	{"modern header, no stream there", both((*asked).modernHeader, (*asked).noPost), wayRefuse, kindPostOnly},
	{"modern header, notification", both((*asked).modernHeader, (*asked).notifies), wayIgnore, 0},
	{"modern header without _meta", (*asked).modernHeader, wayRefuse, kindNoMeta},
	{"unknown or malformed version", (*asked).badVersion, wayRefuse, kindVersion},
	{"several session ids", (*asked).twoSessions, wayRefuse, kindTwoSessions},
	{"GET without a session", both((*asked).noSession, (*asked).gets), wayRefuse, kindNoStream},
	{"no session", (*asked).noSession, wayRefuse, kindNoSession},
	{"legacy: in a session", func(*asked) bool { return true }, waySession, 0},
}

// choose applies the rules.
func (a *asked) choose() (way, *refusal) {
	for i := range rules {
		if r := &rules[i]; r.fits(a) {
			if r.way != wayRefuse {
				return r.way, nil
			}
			return wayRefuse, a.refusal(r)
		}
	}
	return wayRefuse, &refusal{reason: "no rule fits"}
}

func (a *asked) refusal(r *rule) *refusal {
	out := &refusal{kind: r.kind, reason: r.name, allow: http.MethodPost}
	if a.message != nil {
		out.id = a.message.IDBytes()
	}
	if r.kind == kindVersion && len(a.versions) > 0 {
		out.requested = printable(a.versions[0])
	}
	return out
}

func both(f, g func(*asked) bool) func(*asked) bool {
	return func(a *asked) bool { return f(a) && g(a) }
}

// modern: a response is never of that era, whatever its result's _meta says.
func (a *asked) modern() bool {
	return a.message != nil && a.message.Kind != jsonrpc.Response && a.message.MetaProtocolVersion.Present()
}

func (a *asked) initializes() bool { return a.message != nil && a.message.Is("initialize") }
func (a *asked) notifies() bool {
	return a.message != nil && a.message.Kind == jsonrpc.Notification
}
func (a *asked) gets() bool        { return a.method == http.MethodGet }
func (a *asked) noPost() bool      { return a.method != http.MethodPost }
func (a *asked) noSession() bool   { return len(a.sessions) == 0 }
func (a *asked) twoSessions() bool { return len(a.sessions) > 1 }

func (a *asked) modernHeader() bool { return modernHeader(a.versions) }

func modernHeader(versions []string) bool {
	return len(versions) == 1 && isDate(versions[0]) && versions[0] >= firstModern
}

func (a *asked) badVersion() bool {
	switch len(a.versions) {
	case 0:
		return false
	case 1:
		return !slices.Contains(supported, a.versions[0])
	}
	return true
}

// isDate reports the form of a protocol version: YYYY-MM-DD.
func isDate(s string) bool {
	if len(s) != len("2026-07-28") {
		return false
	}
	for i := range len(s) {
		if dash := i == 4 || i == 7; dash && s[i] != '-' || !dash && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

// printable cuts what a client sent to what can be said back to it.
func printable(s string) string {
	s = s[:min(len(s), 32)]
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return s[:i]
		}
	}
	return s
}

package router

import (
	"net/http"
	"testing"

	"gatehouse/session/jsonrpc"
)

// TestEra is the specification's choice of the era as one table.
func TestEra(t *testing.T) {
	const (
		call         = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		note         = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		response     = `{"jsonrpc":"2.0","id":"w1","result":{}}`
		opening      = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		modern       = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		discover     = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		later        = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}`
		older        = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}}`
		removed      = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		metaNote     = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		metaResponse = `{"jsonrpc":"2.0","id":"w1","result":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
		bare         = `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`
		named        = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"server/discover"}}`
	)
	session := []string{"abc"}
	v := func(s ...string) []string { return s }
	for _, c := range []struct {
		name     string
		method   string
		message  string
		versions []string
		sessions []string
		way      way
		kind     kind
	}{
		{"modern request", "POST", modern, v("2026-07-28"), nil, wayModern, 0},
		{"modern request with a legacy header", "POST", modern, v("2025-11-25"), nil, wayModern, 0},
		{"modern request without the header", "POST", modern, nil, nil, wayModern, 0},
		{"modern request with a session id", "POST", modern, v("2026-07-28"), session, wayModern, 0},
		{"a later version in _meta", "POST", later, v("2099-01-01"), nil, wayModern, 0},
		{"a legacy version in _meta", "POST", older, v("2025-11-25"), session, wayModern, 0},
		{"modern initialize", "POST", removed, v("2026-07-28"), nil, wayModern, 0},
		{"modern notification with _meta", "POST", metaNote, v("2026-07-28"), nil, wayIgnore, 0},
		{"response whose result has such _meta", "POST", metaResponse, v("2025-11-25"), session, waySession, 0},
		{"probe", "POST", discover, v("2026-07-28"), nil, wayModern, 0},
		{"probe without _meta", "POST", bare, nil, nil, wayRefuse, kindNoSession},
		{"a tool of that name", "POST", named, nil, session, waySession, 0},

		{"initialize", "POST", opening, nil, nil, wayInitialize, 0},
		{"initialize with a version header", "POST", opening, v("2025-11-25"), nil, wayInitialize, 0},
		{"initialize with a future version header", "POST", opening, v("2099-01-01"), nil, wayInitialize, 0},
		{"initialize with nonsense", "POST", opening, v("x", "y"), nil, wayInitialize, 0},
		{"initialize with a stale session", "POST", opening, nil, session, wayInitialize, 0},
		{"initialize with two sessions", "POST", opening, nil, v("a", "b"), wayInitialize, 0},

		{"modern header without _meta", "POST", call, v("2026-07-28"), nil, wayRefuse, kindNoMeta},
		{"modern header without _meta, in a session", "POST", call, v("2026-07-28"), session, wayRefuse, kindNoMeta},
		{"later header without _meta", "POST", call, v("2027-01-01"), nil, wayRefuse, kindNoMeta},
		{"modern notification", "POST", note, v("2026-07-28"), nil, wayIgnore, 0},
		{"modern response", "POST", response, v("2026-07-28"), nil, wayRefuse, kindNoMeta},
		{"modern GET", "GET", "", v("2026-07-28"), nil, wayRefuse, kindPostOnly},
		{"modern GET in a session", "GET", "", v("2026-07-28"), session, wayRefuse, kindPostOnly},
		{"modern DELETE", "DELETE", "", v("2026-07-28"), session, wayRefuse, kindPostOnly},

		{"unknown old version", "POST", call, v("1900-01-01"), session, wayRefuse, kindVersion},
		{"version that would need batches", "POST", call, v("2025-03-26"), session, wayRefuse, kindVersion},
		{"first version", "POST", call, v("2024-11-05"), session, wayRefuse, kindVersion},
		{"no version at all", "POST", call, v("not-a-version"), session, wayRefuse, kindVersion},
		{"empty version", "POST", call, v(""), session, wayRefuse, kindVersion},
		{"two versions", "POST", call, v("2025-11-25", "2025-11-25"), session, wayRefuse, kindVersion},
		{"two modern versions", "POST", call, v("2026-07-28", "2026-07-28"), session, wayRefuse, kindVersion},
		{"space around a version", "POST", call, v("2025-11-25 "), session, wayRefuse, kindVersion},
		{"unknown version comes before no session", "POST", call, v("1900-01-01"), nil, wayRefuse, kindVersion},
		{"GET with an unknown version", "GET", "", v("1900-01-01"), session, wayRefuse, kindVersion},
		{"DELETE with an unknown version", "DELETE", "", v("1900-01-01"), session, wayRefuse, kindVersion},

		{"POST without a session", "POST", call, nil, nil, wayRefuse, kindNoSession},
		{"notification without a session", "POST", note, v("2025-11-25"), nil, wayRefuse, kindNoSession},
		{"response without a session", "POST", response, nil, nil, wayRefuse, kindNoSession},
		{"GET without a session", "GET", "", v("2025-11-25"), nil, wayRefuse, kindNoStream},
		{"DELETE without a session", "DELETE", "", nil, nil, wayRefuse, kindNoSession},
		{"two sessions", "POST", call, nil, v("a", "b"), wayRefuse, kindTwoSessions},

		{"call", "POST", call, v("2025-11-25"), session, waySession, 0},
		{"call with the older version", "POST", call, v("2025-06-18"), session, waySession, 0},
		{"call without a version", "POST", call, nil, session, waySession, 0},
		{"notification", "POST", note, nil, session, waySession, 0},
		{"response", "POST", response, nil, session, waySession, 0},
		{"GET", "GET", "", v("2025-06-18"), session, waySession, 0},
		{"DELETE", "DELETE", "", nil, session, waySession, 0},
	} {
		a := &asked{method: c.method, versions: c.versions, sessions: c.sessions}
		if c.message != "" {
			m, err := jsonrpc.Parse([]byte(c.message))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			a.message = &m
		}
		got, ref := a.choose()
		switch {
		case got != c.way:
			t.Errorf("%s: way %d, want %d", c.name, got, c.way)
		case (ref != nil) != (c.way == wayRefuse):
			t.Errorf("%s: refusal %+v", c.name, ref)
		case ref != nil && ref.kind != c.kind:
			t.Errorf("%s: kind %s, want %s", c.name, words[ref.kind].name, words[c.kind].name)
		case ref != nil && a.message != nil && string(ref.id) != string(a.message.IDBytes()):
			t.Errorf("%s: id %s, want the request's", c.name, ref.id)
		case ref != nil && words[ref.kind].status == http.StatusMethodNotAllowed && ref.allow != "POST":
			t.Errorf("%s: Allow %q, want POST", c.name, ref.allow)
		}
	}
}

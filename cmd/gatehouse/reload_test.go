package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/cmd/internal/plan"
	"gatehouse/session/spawn"
)

// hand gives the front end a plan, as the monitor does at a reload.
func (f *frontProcess) hand(doc []byte) {
	f.t.Helper()
	name := filepath.Join(f.t.TempDir(), "plan")
	if err := os.WriteFile(name, doc, 0o600); err != nil {
		f.t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	f.send(spawn.Plan{}, int(file.Fd()))
}

// TestFrontReload: scopes and caps of a newer plan hold, sessions live on, and a plan
// that is not understood changes nothing.
func TestFrontReload(t *testing.T) {
	p := frontPlan(true)
	f := startFront(t, p, spawn.KindInternal)
	f.ready()
	f.publish()
	raw := f.issuer.Mint()
	await(t, "keys", func() bool { status, _ := f.get("/readyz"); return status == 200 })
	status, session, body := f.post(raw, "", initMessage)
	if status != 200 {
		t.Fatalf("initialize: %d %s", status, body)
	}
	f.hand([]byte(`{"auth":true,"nonsense":1}`))
	await(t, "a complaint", func() bool { return strings.Contains(f.stderr.String(), "the new configuration is not used") })
	if status, _, body := f.post(raw, session, listMessage); status != 200 {
		t.Errorf("after a bad plan: %d %s", status, body)
	}
	p.MaxSessions = 1
	p.Trace, p.TraceLimit = true, 64
	f.hand(encode(t, p))
	await(t, "the new plan", func() bool { return strings.Contains(f.stderr.String(), "taken over") })
	if _, _, body := f.post(raw, "", initMessage); !strings.Contains(body, `"kind":"sessionLimit"`) {
		t.Errorf("the old cap holds: %s", body)
	}
	if status, _, body := f.post(raw, session, listMessage); status != 200 {
		t.Errorf("the session did not live through the reload: %d %s", status, body)
	}
	await(t, "the trace", func() bool { return strings.Contains(f.stderr.String(), `"dir":"in"`) })
	p.Servers[0].RequiredScopes = []string{"mcp:use", "more"}
	f.hand(encode(t, p))
	await(t, "the new scopes", func() bool { status, _, _ := f.post(raw, session, listMessage); return status == 403 })
	p.Servers[0].RequiredScopes = []string{"mcp:use"}
	f.hand(encode(t, p))
	await(t, "the old scopes", func() bool { status, _, _ := f.post(raw, session, listMessage); return status == 200 })
}

func encode(t *testing.T, p plan.Front) []byte {
	t.Helper()
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// await waits, 10 s at most, for something that another process brings about.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("not in 10 s: %s", what)
}

// TestResolvePrintsWarnings, one a line, beside the plan.
func TestResolvePrintsWarnings(t *testing.T) {
	w := newWorld(t)
	code, out, complaint := w.gatehouse(t, "", []string{"MCP_MODE=loopback", "MCP_NONSENSE=1"}, "resolve", "--addresses=127.0.0.1:1")
	if want := "MCP_NONSENSE is not a setting of this program and is ignored\n"; code != exitDone || complaint != want {
		t.Errorf("exit code %d, %q; want %q", code, complaint, want)
	}
	var p plan.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

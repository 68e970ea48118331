package session

import (
	"os"
	"strings"
	"testing"
	"time"

	"gatehouse/session/settings"
	"gatehouse/toolsets"
	"gatehouse/toolsets/toolsettest"
	"gatehouse/toolsets/view"
	"gatehouse/toolsets/workspace"
)

func sets(account string) func(ws *workspace.Workspace) []toolsets.Toolset {
	return func(ws *workspace.Workspace) []toolsets.Toolset {
		s := settings.Settings{Issuer: "https://issuer", Subject: "sub-1", ClientID: "claude", Server: "/mcp", IdleEnd: "30 m"}
		return []toolsets.Toolset{New(NewIdentity(s, account, 1001, 1002, 77, []int{5, 6}, "/home/"+account), ws, time.Now)}
	}
}

const module = `
-- go.mod --
module example.com/m

go 1.24
-- a.go --
package m

func A() int { return 1 }

func B() int { return 2 }
`

func edit(t *testing.T, b *toolsettest.Bench, name, old, new string) {
	t.Helper()
	v, err := b.Set.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	src, err := v.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.WriteFile(t.Context(), name, []byte(strings.Replace(string(src), old, new, 1))); err != nil {
		t.Fatal(err)
	}
}

// TestStatusNamesNoClientWhereThereIsNone: in loopback mode nobody registered one.
func TestStatusNamesNoClientWhereThereIsNone(t *testing.T) {
	st := Status{Identity: Identity{Issuer: "loopback", Subject: "alice"}}
	if got := st.text(time.Now()); !strings.Contains(got, "\nprincipal: issuer loopback, subject alice\n") {
		t.Errorf("status says:\n%s", got)
	}
}

func TestStatusIsCheapAndSaysWhoItIs(t *testing.T) {
	b := toolsettest.New(t, module, sets("alice"))
	got := b.OK("status", nil)
	for _, w := range []string{"account alice (uid 1001, gid 1002, groups [5 6])", "worker pid 77, working folder /home/alice", "server /mcp",
		"principal: issuer https://issuer, subject sub-1, client claude", "idle sessions end after 30 m", "no view is open yet"} {
		if !strings.Contains(got, w) {
			t.Errorf("status lacks %q:\n%s", w, got)
		}
	}
	if len(b.Set.Views()) != 0 {
		t.Error("status opened a view")
	}
	none := workspace.New(view.NewSet(view.Config{}), nil)
	reg, err := toolsets.New(sets("bob")(none), toolsets.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := reg.Run(t.Context(), "status", nil, nil); a.IsError || !strings.Contains(a.Text, "no workspace is configured") {
		t.Errorf("without a workspace: %s", a.Text)
	}
	if a, _ := reg.Run(t.Context(), "commit", nil, nil); toolsettest.Kind(a) != toolsets.Refused {
		t.Errorf("commit without a workspace: %s", a.Text)
	}
}

func TestTransactions(t *testing.T) {
	alice := toolsettest.New(t, module, sets("alice"))
	bob := toolsettest.Join(t, alice.Repo, "bob", sets("bob"))
	if got := alice.OK("commit", nil); !strings.HasPrefix(got, "Nothing to commit") {
		t.Error(got)
	}
	edit(t, alice, "a.go", "return 1", "return 11")
	edit(t, bob, "a.go", "return 2", "return 22")
	if got := alice.OK("status", nil); !strings.Contains(got, "modified a.go: A") || !strings.Contains(got, "[session] 1 uncommitted change in 1 file") {
		t.Errorf("status:\n%s", got)
	}
	if got := alice.OK("commit", map[string]any{"message": "Eleven"}); !strings.Contains(got, "Committed a.go (A) as ") {
		t.Error(got)
	}
	if got := bob.OK("status", nil); !strings.Contains(got, "1 behind main") {
		t.Errorf("bob's status:\n%s", got)
	}
	if got := bob.OK("refresh", nil); !strings.Contains(got, "The view moved from") || !strings.Contains(got, "kept: a.go (B)") {
		t.Error(got)
	}
	edit(t, bob, "a.go", "return 11", "return 111")
	edit(t, alice, "a.go", "return 11", "return 1111")
	alice.OK("commit", nil)
	if got := bob.Fails(toolsets.Conflict, "commit", nil); !strings.Contains(got, "a.go: A, changed in") || !strings.Contains(got, "by alice") {
		t.Error(got)
	}
	bob.Fails(toolsets.Conflict, "refresh", nil)
	if got := bob.OK("abort", nil); !strings.Contains(got, "Discarded a.go (A, B)") || strings.Contains(got, "uncommitted changes in") {
		t.Error(got)
	}
	if got := bob.OK("abort", nil); !strings.Contains(got, "Nothing was uncommitted") {
		t.Error(got)
	}
	bob.Fails(toolsets.InvalidParams, "commit", map[string]any{"message": " \n"})
}

func TestStatusSurvivesALostRepository(t *testing.T) {
	b := toolsettest.New(t, module, sets("alice"))
	edit(t, b, "a.go", "return 1", "return 11")
	if err := os.RemoveAll(b.Repo); err != nil {
		t.Fatal(err)
	}
	if got := b.OK("status", nil); !strings.Contains(got, "account alice") || !strings.Contains(got, "problem: look at view") {
		t.Errorf("status: %s", got)
	}
}

func TestStatusDoesNotWaitForALongCall(t *testing.T) {
	b := toolsettest.New(t, module, sets("alice"))
	v, err := b.Set.Open(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := v.Lock(t.Context(), view.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if got := b.OK("status", nil); !strings.Contains(got, "view \"main\" is busy with another call") {
		t.Errorf("status: %s", got)
	}
}

func TestOptions(t *testing.T) {
	ws := workspace.New(view.NewSet(view.Config{}), []string{"GOFLAGS=-x", "PATH=/bin"})
	ts := sets("alice")(ws)[0]
	v := toolsets.Values{"run_hooks": true, "keep_lost": time.Hour, "go_env": []string{"GOFLAGS=-mod=mod"}}
	if err := ts.Configure(v); err != nil || strings.Join(ws.GoEnv(), " ") != "GOFLAGS=-mod=mod PATH=/bin" {
		t.Errorf("%v, %v", ws.GoEnv(), err)
	}
	v["go_env"] = []string{"nonsense"}
	if err := ts.Configure(v); err == nil {
		t.Error("a setting without a value was accepted")
	}
}

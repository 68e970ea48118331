package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/auth/logtest"
	"gatehouse/session/spawn"
)

const (
	initMessage = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	listMessage = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
)

func echoMessage(ms int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"done","ms":%d}}}`, ms)
}

func TestFrontLoopback(t *testing.T) {
	f := startFront(t, frontPlan(false), spawn.KindInternal)
	f.ready()
	status, session, body := f.post("", "", initMessage)
	if status != 200 || session == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	if q := <-f.spawned; q.Server != 0 || q.Token != "" {
		t.Errorf("SPAWN %+v, want server 0 and no token", q)
	}
	if status, _, body := f.post("", session, echoMessage(0)); status != 200 || !strings.Contains(body, `"text":"done"`) {
		t.Errorf("call: %d %s", status, body)
	}
	if status, _ := f.get("/.well-known/oauth-protected-resource"); status != 404 {
		t.Errorf("metadata in loopback mode: %d", status)
	}
	f.cmd.Process.Signal(syscall.SIGHUP) // a reload is none of its business
	if status, body := f.get("/readyz"); status != 200 {
		t.Errorf("readyz: %d %s", status, body)
	}
	f.cmd.Process.Signal(syscall.SIGTERM)
	if code := f.code(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if strings.Contains(f.stderr.String(), session) {
		t.Error("the log has the whole session id")
	}
}

func TestFrontAuthenticated(t *testing.T) {
	f := startFront(t, frontPlan(true), spawn.KindInternal)
	f.ready()
	if !f.closed() {
		t.Error("a process of the same account could read tokens in its memory")
	}
	raw := f.issuer.Mint()
	if status, body := f.get("/readyz"); status != 503 {
		t.Errorf("readyz without keys: %d %s", status, body)
	}
	if status, _, body := f.post(raw, "", initMessage); status != 503 {
		t.Errorf("initialize without keys: %d %s", status, body)
	}
	f.publish()
	eventually(t, "ready", func() bool { status, _ := f.get("/readyz"); return status == 200 })
	if status, body := f.get("/.well-known/oauth-protected-resource/mcp"); status != 200 || !strings.Contains(body, `"scopes_supported":["mcp:use","offline_access"]`) {
		t.Errorf("metadata: %d %s", status, body)
	}
	if status, _, _ := f.post("", "", initMessage); status != 401 {
		t.Errorf("without a token: %d", status)
	}
	status, session, body := f.post(raw, "", initMessage)
	if status != 200 || session == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	if q := <-f.spawned; q.Server != 0 || q.Token != raw {
		t.Errorf("SPAWN for server %d, and with the client's token: %t", q.Server, q.Token == raw)
	}
	if status, _, body := f.post(raw, session, listMessage); status != 200 {
		t.Errorf("list: %d %s", status, body)
	}

	// The issuer withdraws the key: the session under it ends, a new key's token
	// begins another.
	old := f.issuer.Current()
	f.issuer.Rotate("ES256")
	f.issuer.Withdraw(old)
	f.publish()
	newer := f.issuer.Mint()
	eventually(t, "the session under the withdrawn key ends", func() bool { status, _, _ := f.post(newer, session, listMessage); return status == 404 })
	if status, _, _ := f.post(raw, session, listMessage); status != 401 && status != 503 {
		t.Errorf("with the old token: %d", status)
	}
	if status, session, body := f.post(newer, "", initMessage); status != 200 || session == "" {
		t.Errorf("with the new key: %d %s", status, body)
	}

	// A reload: new connections get the new certificate.
	cert, key := f.trust(t.TempDir())
	f.send(spawn.Cert{}, int(cert.Fd()), int(key.Fd()))
	eventually(t, "the new certificate", func() bool {
		resp, err := f.client.Get(f.base + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	f.cmd.Process.Signal(syscall.SIGTERM)
	if code := f.code(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if log := f.stderr.String(); strings.Contains(log, raw) || strings.Contains(log, newer) {
		t.Error("the log has a token")
	}
}

func TestFrontRefusedByTheMonitor(t *testing.T) {
	f := startFront(t, frontPlan(true), spawn.KindNoAccount)
	f.ready()
	f.publish()
	eventually(t, "ready", func() bool { status, _ := f.get("/readyz"); return status == 200 })
	if status, session, body := f.post(f.issuer.Mint(), "", initMessage); status != 403 || session != "" || !strings.Contains(body, `"kind":"noAccount"`) {
		t.Errorf("got %d %q %s", status, session, body)
	}
	if strings.Contains(f.stderr.String(), "panic") {
		t.Error("a panic")
	}
	eventually(t, "the monitor's reason in the log", func() bool { return strings.Contains(f.stderr.String(), "the test says so") })
}

// A stop waits for the running call and for nothing else.
func TestFrontDrains(t *testing.T) {
	f := startFront(t, frontPlan(false), spawn.KindInternal)
	f.ready()
	_, session, body := f.post("", "", initMessage)
	if session == "" {
		t.Fatal(body)
	}
	answer := make(chan string, 1)
	go func() {
		_, _, body := f.post("", session, echoMessage(1500))
		answer <- body
	}()
	time.Sleep(300 * time.Millisecond) // the call is on its way
	start := time.Now()
	f.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, "initialize is refused", func() bool { status, _, _ := f.post("", "", initMessage); return status == 503 })
	if got := <-answer; !strings.Contains(got, `"text":"done"`) {
		t.Errorf("the running call's answer: %q", got)
	}
	if code := f.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("stopped after %v", took)
	}
}

// A second signal is obeyed at once.
func TestFrontSecondSignal(t *testing.T) {
	f := startFront(t, frontPlan(false), spawn.KindInternal)
	f.ready()
	_, session, _ := f.post("", "", initMessage)
	go func() {
		req, _ := http.NewRequest("POST", f.base+"/mcp", strings.NewReader(echoMessage(60000)))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
		if resp, err := f.client.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	time.Sleep(300 * time.Millisecond)
	f.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, "draining", func() bool { return strings.Contains(f.stderr.String(), "draining") })
	start := time.Now()
	f.cmd.Process.Signal(syscall.SIGTERM)
	f.code()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("ended %v after the second signal", took)
	}
}

func TestFrontEndsWithItsMonitor(t *testing.T) {
	f := startFront(t, frontPlan(false), spawn.KindInternal)
	f.ready()
	f.monitor.Close()
	if code := f.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

func TestFrontRefusesAPlanItDoesNotKnow(t *testing.T) {
	for name, doc := range map[string]string{
		"no JSON":       `{`,
		"unknown field": `{"auth":false,"admin":true}`,
		"more after it": `{"auth":false}{"auth":false}`,
		"no server":     `{"auth":false}`,
		"too long":      `{"log_level":"` + strings.Repeat("x", maxPlan) + `"}`,
	} {
		f := &frontProcess{t: t, stderr: new(logtest.Log), exited: make(chan error, 1)}
		ours, theirs := socketpair(t)
		defer ours.Close()
		f.run([]byte(doc), []*os.File{nil, theirs})
		if code := f.code(); code != 1 {
			t.Errorf("%s: exit code %d, want 1", name, code)
		}
		if f.stderr.String() == "" {
			t.Errorf("%s: nothing is said", name)
		}
	}
}

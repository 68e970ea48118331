package router

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"gatehouse/auth"
)

// TestDoorLoopback: where nobody is asked for a token, a name that was rebound to
// this machine gets nothing on any route.
func TestDoorLoopback(t *testing.T) {
	r := newRig(t, nobody, loopback)
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	local := ours("null", "host", "this server answers on localhost only: use localhost, 127.0.0.1 or [::1] with its port in the URL")
	var rows []doorRow
	for _, path := range []string{"/mcp", "/mcp/", "/healthz", "/readyz", auth.WellKnown, "/nowhere"} {
		for _, host := range []string{"evil.test:" + port, "localhost.evil.test:" + port, "127.0.0.1.nip.io:" + port, "0.0.0.0:" + port, "localhost:1", "localhost"} {
			rows = append(rows, doorRow{"GET " + path + " at " + host, request{method: "GET", path: path, host: host}, 403, "", local, nil})
			rows = append(rows, doorRow{"POST " + path + " at " + host, request{method: "POST", path: path, host: host, body: initBody, header: headers("")}, 403, "", local, nil})
		}
	}
	for _, path := range []string{auth.WellKnown, auth.WellKnown + "/mcp", "/.well-known/oauth-authorization-server", "/register"} {
		rows = append(rows, doorRow{"no document at " + path, request{method: "GET", path: path}, 404, "", `{"error":"not found"}`, nil})
	}
	origin := ours("null", "origin", "this Origin is not allowed")
	rows = append(rows,
		doorRow{"foreign Origin", post("/mcp", initBody, headers("", "Origin", "http://evil.test:"+port)), 403, "", origin, nil},
		doorRow{"opaque Origin", post("/mcp", initBody, headers("", "Origin", "null")), 403, "", origin, nil},
		doorRow{"foreign Host comes before a foreign Origin", request{method: "POST", path: "/mcp", host: "evil.test", header: headers("", "Origin", "http://evil.test")}, 403, "", local, nil},
		doorRow{"no session", post("/mcp", listBody, headers("")), 400, "", ours("7", "noSession", "Mcp-Session-Id is missing: begin with initialize"), nil},
		doorRow{"credentials are no matter", post("/mcp", listBody, headers("x", "Authorization", "Bearer a b")), 400, "", ours("7", "noSession", "Mcp-Session-Id is missing: begin with initialize"), nil},
	)
	r.refusesAll(t, rows)
	for _, host := range []string{"localhost:" + port, "LOCALHOST:" + port, "127.0.0.1:" + port, "[::1]:" + port} {
		if resp, body := r.do("HTTP/1.1", request{method: "GET", path: "/healthz", host: host}); resp.StatusCode != 200 {
			t.Errorf("Host %s: %d %s", host, resp.StatusCode, body)
		}
	}
}

// The peer counts as well: a listener that should not be there changes nothing.
func TestLoopbackPeer(t *testing.T) {
	r := newRig(t, nobody, loopback)
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}
	for remote, want := range map[string]int{
		"127.0.0.1:5000": 200, "[::1]:5000": 200, "[::ffff:127.0.0.1]:5000": 200,
		"192.0.2.7:5000": 403, "[2001:db8::1]:5000": 403, "": 403, "@": 403, "127.0.0.1": 403,
	} {
		if got := r.direct(addr, remote); got != want {
			t.Errorf("peer %q: %d, want %d", remote, got, want)
		}
	}
	if got := r.direct(nil, "127.0.0.1:5000"); got != 403 {
		t.Errorf("no address of the listener: %d, want 403", got)
	}
}

// direct asks the door for its health as if from another address.
func (r *rig) direct(local *net.TCPAddr, remote string) int {
	req := httptest.NewRequest("GET", "http://localhost:8000/healthz", nil)
	req.RemoteAddr = remote
	if local != nil {
		req = req.WithContext(withLocalAddr(req.Context(), local))
	}
	rec := httptest.NewRecorder()
	r.door.ServeHTTP(rec, req)
	return rec.Code
}

// The two modes never share sessions, and the loopback gate asks nobody; but the
// authenticated door has no way around its gate.
func TestAuthenticatedDoorTakesAnyHost(t *testing.T) {
	r := newRig(t, nobody)
	for version := range r.clients {
		resp, _ := r.do(version, request{method: "POST", path: "/mcp", host: "proxy.test", header: headers(""), body: initBody})
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", version, resp.StatusCode)
		}
	}
}

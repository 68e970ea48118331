package router

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// quiet is how long a server that has no more to say is listened to.
const quiet = 150 * time.Millisecond

// raw sends bytes over a new connection and returns the answers until the server
// closes it or says nothing for a while, and whether it closed. The first answer may
// be long in coming on a busy machine.
func (r *rig) raw(t *testing.T, text string) (answers []*http.Response, bodies []string, closed bool) {
	t.Helper()
	return r.rawWithin(t, text, 5*time.Second)
}

// rawWithin is raw with another time for the first answer.
func (r *rig) rawWithin(t *testing.T, text string, first time.Duration) (answers []*http.Response, bodies []string, closed bool) {
	t.Helper()
	var c net.Conn
	var err error
	if strings.HasPrefix(r.base, "https") {
		pool := r.clients["HTTP/1.1"].Transport.(*http.Transport).TLSClientConfig.RootCAs
		c, err = tls.Dial("tcp", r.addr, &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
	} else {
		c, err = net.Dial("tcp", r.addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(first))
	in := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers, bodies, err == io.EOF || err == io.ErrUnexpectedEOF
		}
		b, _ := io.ReadAll(resp.Body)
		answers, bodies = append(answers, resp), append(bodies, string(b))
		c.SetReadDeadline(time.Now().Add(quiet))
	}
}

// request1 is an HTTP/1.1 request with a body.
func request1(line, body string, fields ...string) string {
	fields = append([]string{line}, fields...)
	fields = append(fields, "Content-Type: application/json", "Accept: application/json, text/event-stream", fmt.Sprintf("Content-Length: %d", len(body)))
	return strings.Join(fields, "\r\n") + "\r\n\r\n" + body
}

func TestRawAuthenticated(t *testing.T) {
	r := newRig(t, nobody)
	good := r.mint()
	auth := "Authorization: Bearer " + good
	noSession := `"kind":"noSession"`
	for _, c := range []struct {
		name, text string
		status     int
		has        string
	}{
		{"one field", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, auth), 400, noSession},
		{"two fields", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, auth, auth), 400, "more than one Authorization header"},
		{"two fields, other case", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, auth, "authorization: Basic x"), 400, "more than one Authorization header"},
		{"folded", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "Authorization: Bearer\r\n "+good), 400, noSession},
		{"folded into two tokens", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, auth+"\r\n other"), 400, "one token"},
		{"a folded line hides no field", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "X-Other: a\r\n "+auth), 401, "authorization required"},
		{"underscores are no dashes", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "X_Forwarded_User: root", "Authorization_: Bearer "+good), 401, "authorization required"},
		{"space before the colon", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "Authorization : Bearer "+good), 400, ""},
		{"absolute form", request1("POST https://evil.test/mcp HTTP/1.1\r\nHost: x", listBody), 401, "authorization required"},
		{"absolute form to a document", request1("GET https://evil.test/.well-known/oauth-protected-resource HTTP/1.1\r\nHost: x", ""), 200, `"resource":"https://mcp.test:8443/mcp"`},
		{"asterisk form", request1("OPTIONS * HTTP/1.1\r\nHost: x", ""), 404, "not found"},
		{"tunnel", request1("CONNECT evil.test:443 HTTP/1.1\r\nHost: x", ""), 404, "not found"},
		{"fragment", request1("POST /mcp#/healthz HTTP/1.1\r\nHost: x", listBody), 404, "not found"},
		{"forwarded path", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "X-Forwarded-Uri: /healthz", "X-Original-Url: /healthz"), 401, "authorization required"},
		{"two Hosts", request1("POST /mcp HTTP/1.1\r\nHost: x\r\nHost: y", listBody, auth), 400, ""},
		{"no Host", request1("POST /mcp HTTP/1.1", listBody, auth), 400, ""},
		{"NUL in a field", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "Authorization: Bearer \x00"+good), 400, ""},
		{"another transfer coding", "POST /mcp HTTP/1.1\r\nHost: x\r\n" + auth + "\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, ""},
		{"two lengths", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, auth, "Content-Length: 3"), 400, ""},
		{"header too large", request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, "X-Long: "+strings.Repeat("a", 40<<10)), 431, ""},
		{"body shorter than said", strings.TrimSuffix(request1("POST /mcp HTTP/1.1\r\nHost: x", listBody, auth, "Connection: close"), "}"), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := 5 * time.Second
			if c.status == 0 {
				first = quiet
			}
			answers, bodies, _ := r.rawWithin(t, c.text, first)
			switch {
			case c.status == 0 && len(answers) != 0:
				t.Errorf("answered with %d %s", answers[0].StatusCode, bodies[0])
			case c.status == 0:
			case len(answers) != 1:
				t.Errorf("%d answers, want 1", len(answers))
			case answers[0].StatusCode != c.status || !strings.Contains(bodies[0], c.has):
				t.Errorf("got %d %s, want %d with %q", answers[0].StatusCode, bodies[0], c.status, c.has)
			}
		})
	}
	if n := r.spawner.n.Load(); n != 0 {
		t.Errorf("%d workers were started", n)
	}
}

// With Content-Length and Transfer-Encoding both, two readers may see two
// different requests: what stands behind the first one is never taken for another.
func TestRawTwoFramings(t *testing.T) {
	r := newRig(t, nobody)
	smuggled := request1("GET /healthz HTTP/1.1\r\nHost: x", "")
	answers, _, closed := r.raw(t, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "+r.mint()+
		"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+smuggled)
	if len(answers) != 1 || !closed {
		t.Errorf("%d answers, closed %t; want one, and the connection closed", len(answers), closed)
	}
}

func TestRawLoopback(t *testing.T) {
	r := newRig(t, nobody, loopback)
	for _, c := range []struct {
		name, text string
		status     int
	}{
		{"localhost", "GET /healthz HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n", 200},
		{"foreign Host", "GET /healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403},
		{"HTTP/1.0 without Host", "GET /healthz HTTP/1.0\r\n\r\n", 403},
		{"empty Host", "GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", 403},
		{"absolute form decides", "GET http://evil.test/healthz HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n", 403},
		{"absolute form decides, the other way", "GET http://" + r.addr + "/healthz HTTP/1.1\r\nHost: evil.test\r\n\r\n", 200},
		{"asterisk form with a foreign Host", "OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n\r\n", 403},
	} {
		answers, bodies, _ := r.raw(t, c.text)
		if len(answers) == 0 {
			t.Errorf("%s: no answer", c.name)
		} else if answers[0].StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, answers[0].StatusCode, bodies[0], c.status)
		}
	}
}

func TestPlaintextOnTheTLSPort(t *testing.T) {
	r := newRig(t, nobody)
	resp, err := http.Get("http://" + r.addr + "/mcp")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 400 || !strings.Contains(string(b), "HTTPS") {
		t.Errorf("got %d %q, want a sentence that names HTTPS", resp.StatusCode, b)
	}
}

func TestTLSVersions(t *testing.T) {
	r := newRig(t, nobody)
	pool := r.clients["HTTP/1.1"].Transport.(*http.Transport).TLSClientConfig.RootCAs
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c, err := tls.Dial("tcp", r.addr, &tls.Config{RootCAs: pool, MinVersion: version, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			c.Close()
		}
	}
}

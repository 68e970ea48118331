package router

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/auth/authtest"
	"gatehouse/auth/keys"
	"gatehouse/session/spawn"
)

var quietLog = log.New(io.Discard, "", 0)

const (
	initBody = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	listBody = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	metaURL  = `https://mcp.test:8443/.well-known/oauth-protected-resource/mcp`
	asks     = `resource_metadata="` + metaURL + `", scope="mcp:use offline_access"`
)

// ours is the body of a refusal that is told apart by its kind.
func ours(id, kind, text string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32001,"message":"` + text + `","data":{"kind":"` + kind + `"}}}`
}

// invalid is the challenge for a token that was refused.
func invalid(description string) string {
	return `Bearer error="invalid_token", error_description="` + description + `", ` + asks
}

// doorRow is one request and the whole of its answer.
type doorRow struct {
	name      string
	q         request
	status    int
	challenge string
	body      string // "" where there must be none
	header    map[string]string
}

// refusesAll checks that every row gets its answer byte for byte over each
// version of HTTP, that no session id is in any and that nothing is spawned.
func (r *rig) refusesAll(t *testing.T, rows []doorRow) {
	t.Helper()
	for version := range r.clients {
		for _, row := range rows {
			t.Run(version+"/"+row.name, func(t *testing.T) {
				r.t = t
				resp, body := r.do(version, row.q)
				if resp.StatusCode != row.status {
					t.Errorf("status %d, want %d", resp.StatusCode, row.status)
				}
				if got := strings.Join(resp.Header.Values("WWW-Authenticate"), "|"); got != row.challenge {
					t.Errorf("WWW-Authenticate\n got %s\nwant %s", got, row.challenge)
				}
				if body != row.body {
					t.Errorf("body\n got %s\nwant %s", body, row.body)
				}
				want := map[string]string{"Mcp-Session-Id": "", "Location": "", "Set-Cookie": ""}
				if row.body != "" {
					want["Content-Type"] = "application/json"
				}
				for k, v := range row.header {
					want[k] = v
				}
				for k, v := range want {
					if got := resp.Header.Get(k); got != v {
						t.Errorf("%s: %q, want %q", k, got, v)
					}
				}
			})
		}
	}
	if n := r.spawner.n.Load(); n != 0 {
		t.Errorf("%d workers were started", n)
	}
}

func post(path, body string, h http.Header) request {
	return request{method: "POST", path: path, header: h, body: body}
}

// TestDoorAuthenticated is the table of statuses and error codes, and the order
// of the checks: each row passes all checks before its own.
func TestDoorAuthenticated(t *testing.T) {
	r := newRig(t, refusingSpawner{&spawn.Error{Kind: spawn.KindInternal}})
	good := r.mint()
	past := time.Now().Add(-time.Hour).Unix()
	bearer := func(v string) http.Header { return headers("", "Authorization", v) }
	none := ours("null", "unauthorized", "authorization required: send a bearer token")
	refused := func(text string) string { return ours("null", "unauthorized", "token refused: "+text) }
	notFound := `{"error":"not found"}`
	r.refusesAll(t, []doorRow{
		{"no credentials", post("/mcp", initBody, headers("")), 401, `Bearer ` + asks, none, nil},
		{"no credentials, slash", post("/mcp/", initBody, headers("")), 401, `Bearer ` + asks, none, nil},
		{"no credentials, GET", request{method: "GET", path: "/mcp", header: headers("")}, 401, `Bearer ` + asks, none, nil},
		{"no credentials, DELETE", request{method: "DELETE", path: "/mcp", header: headers("")}, 401, `Bearer ` + asks, none, nil},
		{"another server's challenge", post("/other", initBody, headers("")), 401,
			`Bearer resource_metadata="https://mcp.test:8443/.well-known/oauth-protected-resource/other", scope="files mcp:use offline_access"`, none, nil},
		{"another scheme", post("/mcp", initBody, bearer("Basic dXNlcjpwYXNz")), 401, `Bearer ` + asks, none, nil},
		{"token in the query", post("/mcp?access_token="+good, initBody, headers("")), 401, `Bearer ` + asks, none, nil},
		{"token in a form", post("/mcp", "access_token="+good, headers("", "Content-Type", "application/x-www-form-urlencoded")), 401, `Bearer ` + asks, none, nil},
		{"user named by a header", post("/mcp", initBody, headers("", "X_Forwarded_User", "root", "X-Forwarded-User", "root")), 401, `Bearer ` + asks, none, nil},

		{"two Authorization fields", post("/mcp", initBody, http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}), 400,
			`Bearer error="invalid_request", error_description="more than one Authorization header", ` + asks,
			ours("null", "unauthorized", "more than one Authorization header"), nil},
		{"two tokens", post("/mcp", initBody, bearer("Bearer a b")), 400,
			`Bearer error="invalid_request", error_description="the Authorization header must be the word Bearer, a space and one token", ` + asks,
			ours("null", "unauthorized", "the Authorization header must be the word Bearer, a space and one token"), nil},
		{"no token after the scheme", post("/mcp", initBody, bearer("Bearer")), 400,
			`Bearer error="invalid_request", error_description="the Authorization header must be the word Bearer, a space and one token", ` + asks,
			ours("null", "unauthorized", "the Authorization header must be the word Bearer, a space and one token"), nil},

		{"no scheme", post("/mcp", initBody, bearer(good)), 401, invalid("the token has no scheme: put Bearer and a space before it"),
			ours("null", "unauthorized", "the token has no scheme: put Bearer and a space before it"), nil},
		{"scheme twice", post("/mcp", initBody, bearer("Bearer Bearer "+good)), 401, invalid("the scheme stands twice: send Bearer once"),
			ours("null", "unauthorized", "the scheme stands twice: send Bearer once"), nil},
		{"quoted", post("/mcp", initBody, bearer(`Bearer "`+good+`"`)), 401, invalid("the token stands in quotation marks: remove them"),
			ours("null", "unauthorized", "the token stands in quotation marks: remove them"), nil},
		{"not expanded", post("/mcp", initBody, bearer("Bearer ${TOKEN}")), 401, invalid("a variable was sent instead of a token: it was not expanded"),
			ours("null", "unauthorized", "a variable was sent instead of a token: it was not expanded"), nil},

		{"malformed", post("/mcp", initBody, headers("x.y.z")), 401, invalid("malformed token"), refused("malformed token"), nil},
		{"too long", post("/mcp", initBody, headers(strings.Repeat("a", 9000)+".b.c")), 401, invalid("malformed token"), refused("malformed token"), nil},
		{"foreign signature", post("/mcp", initBody, headers(r.mint(authtest.SignedAs(authtest.NewKey("ES256"))))), 401, invalid("unverifiable token"), refused("unverifiable token"), nil},
		{"expired", post("/mcp", initBody, headers(r.mint(authtest.Claim("iat", past-60), authtest.Claim("exp", past)))), 401, invalid("expired"), refused("expired"), nil},
		{"not yet valid", post("/mcp", initBody, headers(r.mint(authtest.Claim("nbf", time.Now().Add(time.Hour).Unix())))), 401, invalid("not yet valid"), refused("not yet valid"), nil},
		{"wrong audience", post("/mcp", initBody, headers(r.mint(authtest.Claim("aud", "account")))), 401, invalid("wrong audience"), refused("wrong audience"), nil},
		{"a sibling server's token", post("/mcp", initBody, headers(r.mint(authtest.Claim("aud", "https://mcp.test:8443/other")))), 401, invalid("wrong audience"), refused("wrong audience"), nil},
		{"wrong type", post("/mcp", initBody, headers(r.mint(authtest.Header("typ", "logout+jwt")))), 401, invalid("wrong token type"), refused("wrong token type"), nil},
		{"scope missing", post("/mcp", initBody, headers(r.mint(authtest.Claim("scope", "profile")))), 403,
			`Bearer error="insufficient_scope", error_description="the token lacks a scope that this server requires", ` + asks,
			ours("null", "scope", "the token lacks a scope that this server requires"), nil},
		{"one of two scopes missing", post("/other", initBody, headers(r.mint(authtest.Claim("aud", "https://mcp.test:8443/other")))), 403,
			`Bearer error="insufficient_scope", error_description="the token lacks a scope that this server requires", resource_metadata="https://mcp.test:8443/.well-known/oauth-protected-resource/other", scope="files mcp:use offline_access"`,
			ours("null", "scope", "the token lacks a scope that this server requires"), nil},

		{"foreign Origin", post("/mcp", initBody, headers(good, "Origin", "https://evil.test")), 403, "", ours("null", "origin", "this Origin is not allowed"), nil},
		{"foreign Origin comes before everything", request{method: "PUT", path: "/nowhere", header: headers("", "Origin", "null")}, 403, "", ours("null", "origin", "this Origin is not allowed"), nil},
		{"two Origins", post("/mcp", initBody, http.Header{"Origin": {"https://app.test", "https://app.test"}}), 403, "", ours("null", "origin", "this Origin is not allowed"), nil},
		{"a refusal that a web page can read", post("/mcp", initBody, headers("", "Origin", "https://app.test")), 401, `Bearer ` + asks, none,
			map[string]string{"Access-Control-Allow-Origin": "https://app.test", "Access-Control-Expose-Headers": "Mcp-Session-Id, WWW-Authenticate", "Vary": "Origin"}},
		{"preflight comes before the token", request{method: "OPTIONS", path: "/mcp", header: http.Header{"Origin": {"http://localhost:6274"},
			"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type,mcp-protocol-version"}}}, 204, "", "",
			map[string]string{"Access-Control-Allow-Origin": "http://localhost:6274", "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
				"Access-Control-Allow-Headers": "authorization,content-type,mcp-protocol-version", "Access-Control-Max-Age": "600"}},
		{"preflight of a foreign Origin", request{method: "OPTIONS", path: "/mcp", header: http.Header{"Origin": {"https://evil.test"},
			"Access-Control-Request-Method": {"POST"}}}, 403, "", ours("null", "origin", "this Origin is not allowed"), map[string]string{"Access-Control-Allow-Origin": ""}},

		{"no such path", post("/nowhere", initBody, headers(good)), 404, "", notFound, nil},
		{"root", request{method: "GET", path: "/", header: headers("")}, 404, "", notFound, nil},
		{"registration", post("/register", `{"redirect_uris":[]}`, headers("")), 404, "", notFound, nil},
		{"authorization server document", request{method: "GET", path: "/.well-known/oauth-authorization-server"}, 404, "", notFound, nil},
		{"authorization server document of the endpoint", request{method: "GET", path: "/.well-known/oauth-authorization-server/mcp"}, 404, "", notFound, nil},
		{"openid document", request{method: "GET", path: "/.well-known/openid-configuration"}, 404, "", notFound, nil},
		{"openid document of the endpoint", request{method: "GET", path: "/.well-known/openid-configuration/mcp"}, 404, "", notFound, nil},
		{"nonsense document", request{method: "GET", path: "/.well-known/nonsense"}, 404, "", notFound, nil},
		{"another resource's document", request{method: "GET", path: "/.well-known/oauth-protected-resource/none"}, 404, "", notFound, nil},
		{"document below the endpoint", request{method: "GET", path: "/mcp/.well-known/oauth-authorization-server"}, 404, "", notFound, nil},
		{"openid document below the endpoint", request{method: "GET", path: "/mcp/.well-known/openid-configuration"}, 404, "", notFound, nil},
		{"encoded path", post("/%6dcp", initBody, headers(good)), 404, "", notFound, nil},
		{"two slashes", post("//mcp", initBody, headers(good)), 404, "", notFound, nil},
		{"dots", post("/x/../mcp", initBody, headers(good)), 404, "", notFound, nil},

		{"method comes before the token", request{method: "PUT", path: "/mcp", header: headers("")}, 405, "", ours("null", "method", "method not allowed"), map[string]string{"Allow": "DELETE, GET, POST"}},
		{"OPTIONS that is no preflight", request{method: "OPTIONS", path: "/mcp"}, 405, "", ours("null", "method", "method not allowed"), map[string]string{"Allow": "DELETE, GET, POST"}},
		{"HEAD", request{method: "HEAD", path: "/mcp"}, 405, "", "", map[string]string{"Allow": "DELETE, GET, POST", "Content-Type": "application/json"}},
		{"method of another protocol", request{method: "PROPFIND", path: "/mcp"}, 405, "", ours("null", "method", "method not allowed"), map[string]string{"Allow": "DELETE, GET, POST"}},
		{"method nobody knows", request{method: "BREW", path: "/mcp"}, 405, "", ours("null", "method", "method not allowed"), map[string]string{"Allow": "DELETE, GET, POST"}},
		{"method nobody knows, nowhere", request{method: "BREW", path: "/nowhere"}, 404, "", notFound, nil},
		{"POST to a document", post("/.well-known/oauth-protected-resource", "{}", headers("")), 405, "", ours("null", "method", "method not allowed"), map[string]string{"Allow": "GET, HEAD, OPTIONS"}},
		{"POST to health", post("/healthz", "{}", headers("")), 405, "", ours("null", "method", "method not allowed"), map[string]string{"Allow": "GET, HEAD"}},

		{"token comes before content type", post("/mcp", initBody, headers("", "Content-Type", "text/plain")), 401, `Bearer ` + asks, none, nil},
		{"content type", post("/mcp", initBody, headers(good, "Content-Type", "text/plain", "Accept", "text/html")), 415, "", ours("null", "contentType", "Content-Type must be application/json"), nil},
		{"content encoding", post("/mcp", initBody, headers(good, "Content-Encoding", "gzip")), 415, "", ours("null", "contentEncoding", "an encoded body is not taken: send it without Content-Encoding"), nil},
		{"accept", post("/mcp", strings.Repeat("x", 2<<20), headers(good, "Accept", "text/html")), 406, "", ours("null", "accept", "Accept must admit application/json or text/event-stream"), nil},
		{"too large", post("/mcp", strings.Repeat("{", 2<<20), headers(good)), 413, "", ours("null", "tooLarge", "the message is larger than this server takes"), nil},
		{"too large, length not said", request{method: "POST", path: "/mcp", header: headers(good), body: strings.Repeat(" ", 1<<20+1), unknown: true}, 413, "", ours("null", "tooLarge", "the message is larger than this server takes"), nil},

		{"batch", post("/mcp", "["+initBody+"]", headers(good)), 400, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported: send one message in each request"}}`, nil},
		{"initialize without id", post("/mcp", `{"jsonrpc":"2.0","method":"initialize","params":{}}`, headers(good)), 400, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"initialize must be a request with an id"}}`, nil},

		{"probe for the modern era", post("/mcp", `{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			headers(good, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")), 400, "",
			`{"jsonrpc":"2.0","id":"server-discover-probe-1","error":{"code":-32602,"message":"_meta: io.modelcontextprotocol/clientCapabilities must be an object"}}`, nil},
		{"modern call without its header", post("/mcp", `{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			headers(good, "Mcp-Protocol-Version", "2026-07-28")), 400, "",
			`{"jsonrpc":"2.0","id":0,"error":{"code":-32020,"message":"header mismatch: Mcp-Method must be there once and equal the method"}}`, nil},
		{"modern header without _meta", post("/mcp", listBody, headers(good, "Mcp-Protocol-Version", "2026-07-28")), 400, "",
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"this protocol version wants its version in _meta as well"}}`, nil},
		{"modern GET", request{method: "GET", path: "/mcp", header: headers(good, "Mcp-Protocol-Version", "2026-07-28")}, 405, "", strings.Replace(ours("null", "method", "this protocol version has no such request: send a POST"), "-32001", "1001", 1), map[string]string{"Allow": "POST"}},
		{"modern notification", post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, headers(good, "Mcp-Protocol-Version", "2026-07-28")), 202, "", "", nil},
		{"unknown version", post("/mcp", listBody, headers(good, "Mcp-Protocol-Version", "1900-01-01", "Mcp-Session-Id", "x")), 400, "",
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18"],"requested":"1900-01-01"}}}`, nil},
		{"version that says more", post("/mcp", listBody, headers(good, "Mcp-Protocol-Version", `"},"x":<b>`, "Mcp-Session-Id", "x")), 400, "",
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18"],"requested":"\"},\"x\":\u003cb\u003e"}}}`, nil},

		{"no session", post("/mcp", listBody, headers(good)), 400, "", ours("7", "noSession", "Mcp-Session-Id is missing: begin with initialize"), nil},
		{"GET without session", request{method: "GET", path: "/mcp", header: headers(good, "Accept", "text/event-stream")}, 405, "", ours("null", "noStream", "no stream without a session: begin with initialize"), map[string]string{"Allow": "POST"}},
		{"DELETE without session", request{method: "DELETE", path: "/mcp", header: headers(good)}, 400, "", ours("null", "noSession", "Mcp-Session-Id is missing: begin with initialize"), nil},
		{"unknown session", post("/mcp", listBody, headers(good, "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA")), 404, "", ours("7", "sessionUnknown", "session not found: begin again with initialize"), nil},
		{"session of no form", post("/mcp", listBody, headers(good, "Mcp-Session-Id", "../../x")), 404, "", ours("7", "sessionUnknown", "session not found: begin again with initialize"), nil},
		{"unknown session, notification", post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers(good, "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA")), 404, "", ours("null", "sessionUnknown", "session not found: begin again with initialize"), nil},
		{"unknown session, GET", request{method: "GET", path: "/mcp", header: headers(good, "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA")}, 404, "", ours("null", "sessionUnknown", "session not found: begin again with initialize"), nil},
		{"unknown session, DELETE", request{method: "DELETE", path: "/mcp", header: headers(good, "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA")}, 404, "", ours("null", "sessionUnknown", "session not found: begin again with initialize"), nil},
		{"wrong Accept comes before the session, GET", request{method: "GET", path: "/mcp", header: headers(good, "Accept", "application/json", "Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAA")}, 406, "", ours("null", "accept", "Accept must admit application/json or text/event-stream"), nil},
	})
	if strings.Contains(r.audit.String(), good) || strings.Contains(r.audit.String(), "access_token") {
		t.Error("the audit log has a token or a query string")
	}
}

// TestDoorUndecided: where the issuer can't be asked nobody is told that a token
// is bad, because clients throw such tokens away.
func TestDoorUndecided(t *testing.T) {
	r := newRig(t, refusingSpawner{&spawn.Error{Kind: spawn.KindInternal}})
	good := r.mint()
	undecided := ours("null", "undecided", "the token can't be checked at present: try again later")
	wait := map[string]string{"Retry-After": "5"}
	unknown := r.mint(authtest.SignedBy(authtest.NewKey("ES256")))
	r.refusesAll(t, []doorRow{{"unknown key, issuer down", post("/mcp", initBody, headers(unknown)), 503, "", undecided, wait}})
	r.keys.change(func(k *staticKeys) { k.answer = keys.Absent })
	r.refusesAll(t, []doorRow{{"unknown key, issuer up", post("/mcp", initBody, headers(unknown)), 401, invalid("unverifiable token"), ours("null", "unauthorized", "token refused: unverifiable token"), nil}})
	r.keys.change(func(k *staticKeys) { k.down, k.set = true, nil })
	r.refusesAll(t, []doorRow{
		{"no keys at all", post("/mcp", initBody, headers(good)), 503, "", undecided, wait},
		{"no keys and no token", post("/mcp", initBody, headers("")), 401, `Bearer ` + asks, ours("null", "unauthorized", "authorization required: send a bearer token"), nil},
	})
}

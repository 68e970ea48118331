package router

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// local guards the loopback mode against names that were rebound to this machine
// and against connections from elsewhere: the Host must be localhost or a
// loopback address with the port that was connected to (or none, where that is
// the default port), and the peer must be on this machine. It trusts the
// connection's addresses as net/http tells them and refuses when there are none.
// In the authenticated modes every Host will do: the token is what counts.
func (d *Door) local(next http.Handler) http.Handler {
	if !d.cfg.Loopback {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ref := foreign(r); ref != nil {
			w.(*visit).refuse(ref)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign says why a request is not of this machine; nil when it is. It is not inlined:
// see Door.openStream.
//
//go:noinline
func foreign(r *http.Request) *refusal {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if addr == nil || !localHost(r.Host, addr.Port) {
		return &refusal{kind: kindHost, reason: "Host is not this listener on a loopback address"}
	}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
		return &refusal{kind: kindPeer, reason: "peer is not on a loopback address"}
	}
	return nil
}

// localHost reports whether a Host field names a loopback address with this port.
func localHost(host string, port int) bool {
	name, p, ok := splitPort(host)
	if !ok || !loopbackName(name) {
		return false
	}
	if p < 0 {
		return port == 80 || port == 443
	}
	return p == port
}

// splitPort cuts host[:port] apart. The port is -1 when there is none; an IPv6
// address stands in brackets, and is returned without them.
func splitPort(s string) (name string, port int, ok bool) {
	rest := ""
	if strings.HasPrefix(s, "[") {
		i := strings.IndexByte(s, ']')
		if i < 0 {
			return "", 0, false
		}
		name, rest = s[1:i], s[i+1:]
		if !strings.Contains(name, ":") {
			return "", 0, false
		}
	} else {
		name = s
		if i := strings.IndexByte(s, ':'); i >= 0 {
			name, rest = s[:i], s[i:]
		}
	}
	if name == "" {
		return "", 0, false
	}
	if rest == "" {
		return name, -1, true
	}
	port, ok = decimalPort(strings.TrimPrefix(rest, ":"))
	return name, port, ok && rest[0] == ':'
}

func decimalPort(s string) (int, bool) {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, n <= 65535
}

// loopbackName reports whether a name, without brackets, is localhost or a
// loopback address in any spelling. Names below localhost are not among them:
// not every resolver keeps them on this machine.
func loopbackName(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Zone() == "" && a.Unmap().IsLoopback()
}

// origin refuses requests that a web page of another origin caused (MCP
// Transports, "Security Warning"). An absent Origin is no browser's; a present
// one must be a loopback one or configured. To allowed ones it opens the headers
// that clients in browsers read.
func (d *Door) origin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := r.Header["Origin"]
		if len(fields) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if len(fields) > 1 || !d.allowed(fields[0]) {
			w.(*visit).refuse(foreignOrigin())
			return
		}
		h := w.Header()
		h["Access-Control-Allow-Origin"] = fields
		h["Access-Control-Expose-Headers"] = exposed
		h["Vary"] = varyOrigin
		next.ServeHTTP(w, r)
	})
}

var (
	exposed    = []string{"Mcp-Session-Id, WWW-Authenticate"}
	varyOrigin = []string{"Origin"}
)

func foreignOrigin() *refusal {
	return &refusal{kind: kindOrigin, reason: "Origin is neither loopback nor configured"}
}

// allowed is not inlined: see Door.openStream.
//
//go:noinline
func (d *Door) allowed(origin string) bool {
	return loopbackOrigin(origin) || slices.Contains(d.cfg.AllowedOrigins, origin)
}

// loopbackOrigin reports whether an origin (RFC 6454 section 6.2) is http or
// https on a loopback name, whatever the port.
func loopbackOrigin(origin string) bool {
	rest, ok := strings.CutPrefix(origin, "http://")
	if !ok {
		if rest, ok = strings.CutPrefix(origin, "https://"); !ok {
			return false
		}
	}
	name, _, ok := splitPort(rest)
	return ok && loopbackName(name)
}

// preflight answers the question that a browser asks before a request of an
// allowed origin (Fetch, "CORS-preflight request"). It comes before the token
// check, because browsers send no credentials with it.
func (d *Door) preflight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions || len(r.Header["Origin"]) == 0 || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		v := w.(*visit)
		h := v.Header()
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS")
		h.Set("Access-Control-Allow-Headers", allowHeaders(r.Header["Access-Control-Request-Headers"]))
		h.Set("Access-Control-Max-Age", "600")
		v.empty(http.StatusNoContent)
	})
}

// requestHeaders are those that clients send.
const requestHeaders = "Authorization, Content-Type, Accept, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, Last-Event-ID"

// allowHeaders gives leave for what was asked for when that is a plain list of
// names: the origin is trusted, and clients have headers of their own.
func allowHeaders(asked []string) string {
	if len(asked) != 1 || asked[0] == "" || len(asked[0]) > 1024 {
		return requestHeaders
	}
	for i := range len(asked[0]) {
		if c := asked[0][i]; !tokenByte[c] && c != ',' && c != ' ' {
			return requestHeaders
		}
	}
	return asked[0]
}

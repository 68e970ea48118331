package router

import (
	"net/http"

	"gatehouse/auth"
)

// healthz says that the process answers, and nothing else.
func (d *Door) healthz(v *visit, r *http.Request) { v.text(http.StatusOK, "ok\n") }

// readyz says whether new sessions can be served.
func (d *Door) readyz(v *visit, r *http.Request) {
	if d.draining.Load() || d.cfg.Ready != nil && !d.cfg.Ready() {
		v.text(http.StatusServiceUnavailable, "not ready\n")
		return
	}
	v.text(http.StatusOK, "ok\n")
}

func (v *visit) text(status int, s string) {
	h := v.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	v.WriteHeader(status)
	v.Write([]byte(s))
}

// notFound is the answer for every path that is not served, those below
// /.well-known/ included: clients probe many, and take any other answer for a
// server that has what they look for.
func (d *Door) notFound(v *visit, r *http.Request) {
	v.refuse(&refusal{kind: kindNotFound, reason: "no such path"})
}

// unknownMethod is the answer to methods that HTTP does not know.
func (d *Door) unknownMethod(v *visit, r *http.Request) {
	allowed, ok := d.allows[r.URL.Path]
	if !ok {
		d.notFound(v, r)
		return
	}
	v.refuse(&refusal{kind: kindMethod, reason: "method not served here", allow: allowed})
}

// document is one metadata document at one path.
type document struct {
	path string
	body []byte
}

// documents returns the metadata documents and where they lie: each at the path
// that RFC 9728 section 3.1 makes of its resource, and the first one at the root
// as well, because clients look in both places.
func (d *Door) documents() []document {
	var out []document
	for i, s := range d.servers {
		if s.document == nil {
			continue
		}
		if i == 0 && s.metadata != auth.WellKnown {
			out = append(out, document{auth.WellKnown, s.document})
		}
		out = append(out, document{s.metadata, s.document})
	}
	return out
}

// serve answers GET and HEAD, whatever the client says it accepts.
func (d document) serve(v *visit, r *http.Request) {
	h := v.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cache-Control", "public, max-age=300")
	v.json(http.StatusOK, d.body)
}

func (d document) options(v *visit, r *http.Request) {
	h := v.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
	h.Set("Allow", "GET, HEAD, OPTIONS")
	v.empty(http.StatusNoContent)
}

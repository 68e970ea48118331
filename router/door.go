// Package router is HTTP in and HTTP out: the routes, the order of the checks
// that a request passes before anything is started for it, and the wording of
// every refusal. What a request may reach is decided here; who it speaks for is
// the auth package's to say, and what a message does is the session package's.
package router

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"gatehouse/auth"
	"gatehouse/auth/audit"
	"gatehouse/session"
)

// Config is what a Door is made of.
type Config struct {
	// Loopback says that nobody is asked for a token, so that only this machine
	// may call: see Door.local.
	Loopback bool
	Servers  []Server
	// AllowedOrigins may call from web pages, beside those on loopback names:
	// scheme://host[:port], as browsers write it.
	AllowedOrigins []string
	// AdvertiseMetadata is whether the resources' metadata documents are served
	// and named in challenges.
	AdvertiseMetadata bool
	// MaxBody is how many bytes a message may have.
	MaxBody  int64
	Sessions *session.Table
	// Ready reports whether tokens can be judged and workers started; nil: always.
	Ready func() bool
	Audit audit.Log
	// Trace shows every message; nil: off.
	Trace *audit.Trace
}

// Server is one MCP endpoint. Its place in Config.Servers is the number by which
// the monitor knows it.
type Server struct {
	// Path is served with and without a slash at its end.
	Path string
	Gate auth.Gate
	// Resource is not used in loopback mode.
	Resource auth.Resource
}

// server is a Server with what can be prepared for it.
type server struct {
	index     uint16
	path      string
	gate      auth.Gate
	word      auth.Challenge
	missing   []string // the challenge for a request without a token
	metadata  string   // path of its own document, as routed; empty: none
	document  []byte
	protected bool // false in loopback mode: there is nothing to challenge for
}

// Door is the handler of all requests. Make one with New.
type Door struct {
	cfg      Config
	servers  []*server
	routes   http.Handler
	direct   map[string]http.Handler // the plain paths, the whole way in; for usual methods
	allows   map[string]string       // path to Allow, for methods that HTTP does not know
	pace     pace
	draining atomic.Bool
}

// New returns the door of the given servers. The error says which setting can't be.
func New(cfg Config) (*Door, error) {
	switch {
	case cfg.Sessions == nil:
		return nil, errors.New("make the door: no session table")
	case len(cfg.Servers) == 0:
		return nil, errors.New("make the door: no server")
	case cfg.MaxBody <= 0:
		return nil, errors.New("make the door: no limit for bodies")
	}
	d := &Door{cfg: cfg, direct: map[string]http.Handler{}, allows: map[string]string{}, pace: usual}
	for i, s := range cfg.Servers {
		p, err := prepare(uint16(i), s, cfg)
		if err != nil {
			return nil, fmt.Errorf("make the door: server %s: %w", s.Path, err)
		}
		d.servers = append(d.servers, p)
	}
	routes, err := d.route()
	if err != nil {
		return nil, fmt.Errorf("make the door: %w", err)
	}
	d.routes = routes
	return d, nil
}

func prepare(index uint16, s Server, cfg Config) (*server, error) {
	switch {
	case s.Gate == nil:
		return nil, errors.New("no gate")
	case !strings.HasPrefix(s.Path, "/") || strings.ContainsAny(s.Path, "{}*?#%"):
		return nil, errors.New("the path must begin with a slash and be plain")
	}
	p := &server{index: index, path: s.Path, gate: s.Gate, protected: !cfg.Loopback}
	if cfg.Loopback {
		return p, nil
	}
	p.word.Scopes = s.Resource.Scopes
	if cfg.AdvertiseMetadata {
		var err error
		if p.word.MetadataURL, err = s.Resource.MetadataURL(); err != nil {
			return nil, err
		}
		if p.metadata, err = s.Resource.MetadataPath(); err != nil {
			return nil, err
		}
		if p.metadata, err = routed(p.metadata); err != nil {
			return nil, err
		}
		if p.document, err = s.Resource.Document(); err != nil {
			return nil, err
		}
	}
	p.missing = []string{p.word.Missing()}
	return p, nil
}

// routed is an escaped path as requests for it are routed: without escapes, but as it was
// written where that is not the usual way (see url.URL.RawPath).
func routed(path string) (string, error) {
	u, err := url.ParseRequestURI(path)
	switch {
	case err != nil:
		return "", err
	case strings.ContainsAny(u.Path, "{}* \t"): // the router's own signs
		return "", errors.New("the resource's path must be plain")
	case u.RawPath != "":
		return u.RawPath, nil
	}
	return u.Path, nil
}

// challenge adds the WWW-Authenticate field to a refusal.
func (s *server) challenge(h http.Header, code, description string) {
	if code == "" || !s.protected {
		return
	}
	value := s.missing
	if code != noError {
		value = []string{s.word.Error(code, description)}
	}
	h["WWW-Authenticate"] = value // the usual spelling, which net/http's is not
}

// public answers anybody.
type public func(v *visit, r *http.Request)

// protected answers a caller whom the server's gate let in.
type protected func(d *Door, v *visit, r *http.Request, s *server, c auth.Caller)

// route is the whole way in: what every request passes, and where it can go.
// Between the path and a protected handler stand the method and the gate, in
// that order; the handler's own checks follow (see Door.post).
func (d *Door) route() (http.Handler, error) {
	r := chi.NewRouter()
	way := chi.Middlewares{
		d.audited,   // outermost: every answer gets its line
		d.local,     // loopback mode: Host and peer
		d.origin,    // web pages
		d.preflight, // their browsers' questions
	}
	r.Use(way...)
	var taken error
	serve := func(path string, h http.Handler, allowed string) {
		if d.allows[path] != "" {
			taken = fmt.Errorf("path %s is taken twice", path)
			return
		}
		d.allows[path] = allowed // for unknownMethod
		r.Handle(path, h)
		d.direct[path] = way.Handler(h)
	}
	open := func(path string, methods map[string]public) { serve(path, d.open(methods), allow(methods)) }
	guarded := func(path string, s *server, methods map[string]protected) {
		serve(path, d.guarded(s, methods), allow(methods))
	}

	open("/healthz", map[string]public{"GET": d.healthz, "HEAD": d.healthz})
	open("/readyz", map[string]public{"GET": d.readyz, "HEAD": d.readyz})
	for _, doc := range d.documents() {
		open(doc.path, map[string]public{"GET": doc.serve, "HEAD": doc.serve, "OPTIONS": doc.options})
	}
	for _, s := range d.servers {
		endpoint := map[string]protected{"POST": (*Door).post, "GET": (*Door).listen, "DELETE": (*Door).end}
		guarded(s.path, s, endpoint)
		if s.path != "/" {
			guarded(strings.TrimSuffix(s.path, "/")+"/", s, endpoint)
		}
	}
	r.NotFound(public(d.notFound).ServeHTTP)
	r.MethodNotAllowed(public(d.unknownMethod).ServeHTTP)
	return r, taken
}

// ServeHTTP lets a request in. Our paths have no variables, so that the router has
// nothing to say about a path that is written plainly; it would copy the request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawPath == "" && (r.Method == http.MethodPost || r.Method == http.MethodGet || r.Method == http.MethodDelete) {
		if h := d.direct[r.URL.Path]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
	}
	d.routes.ServeHTTP(w, r)
}

// ServeHTTP implements http.Handler inside the chain, where the writer is the visit.
func (h public) ServeHTTP(w http.ResponseWriter, r *http.Request) { h(w.(*visit), r) }

// open is a path whose methods answer anybody.
func (d *Door) open(methods map[string]public) http.Handler {
	allowed := allow(methods)
	return public(func(v *visit, r *http.Request) {
		h, ok := methods[r.Method]
		if !ok {
			v.refuse(&refusal{kind: kindMethod, reason: "method not served here", allow: allowed})
			return
		}
		h(v, r)
	})
}

// guarded is a path whose methods answer those whom the server's gate lets in.
func (d *Door) guarded(s *server, methods map[string]protected) http.Handler {
	allowed := allow(methods)
	return public(func(v *visit, r *http.Request) {
		h, ok := methods[r.Method]
		if !ok {
			v.refuseMethod(allowed)
			return
		}
		var c auth.Caller
		if v.admit(r, s, &c) {
			h(d, v, r, s, c)
		}
	})
}

// What a guarded path asks and refuses is apart from it, and not inlined, so that its
// stack is not held by each stream that waits below it (TestStackOfAWaitingStream).

//go:noinline
func (v *visit) refuseMethod(allowed string) {
	v.refuse(&refusal{kind: kindMethod, reason: "method not served here", allow: allowed})
}

// admit asks the server's gate; without its leave the request is refused.
//
//go:noinline
func (v *visit) admit(r *http.Request, s *server, c *auth.Caller) bool {
	caller, refused := s.gate.Admit(r.Context(), r.Header)
	if refused != nil {
		v.line.Principal = refused.Principal
		v.refuse(fromGate(s, refused))
		return false
	}
	v.line.Principal = caller.Principal
	*c = caller
	return true
}

// audited gives a request its visit and writes its line, and stands between a
// fault of ours and the client.
func (d *Door) audited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := visits.Get().(*visit)
		v.begin(w, r, d.pace, d.cfg.Trace)
		defer func() {
			fault := recover()
			if fault != nil && fault != http.ErrAbortHandler {
				v.line.Kind, v.line.Reason = "panic", fmt.Sprintf("%v\n%s", fault, debug.Stack())
				if !v.wrote {
					v.refuse(&refusal{kind: kindInternal, reason: v.line.Reason})
					fault = nil
				}
			}
			v.line.At = time.Now()
			v.line.Duration = v.line.At.Sub(v.start)
			d.cfg.Audit.Request(&v.line)
			v.forget()
			visits.Put(v)
			if fault != nil {
				panic(http.ErrAbortHandler) // the response is torn: tear the stream too
			}
		}()
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// Where Content-Length stood beside it, net/http has dropped that; what
			// a proxy before us took for the next request must not be one.
			v.Header().Set("Connection", "close")
		}
		if body, ok := w.(deadliner); ok && r.ProtoMajor == 1 && r.ContentLength != 0 {
			// A body that no handler reads is read by net/http before the answer goes out.
			body.SetReadDeadline(v.start.Add(v.pace.body))
		}
		next.ServeHTTP(v, r)
	})
}

// Drain has new sessions refused and readiness turn false. It can't be undone.
func (d *Door) Drain() { d.draining.Store(true) }

package issuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gatehouse/auth/keys"
	"gatehouse/auth/token"
)

const (
	maxDiscovery = 1 << 20 // bytes

	doingDiscovery = "read discovery document"
	doingSet       = "read key set"
	doingFile      = "read key set file"
)

// Result is a key set with what came along.
type Result struct {
	Keys    []token.Key // at least one
	LeftOut []string    // keys that were not taken and why: a few lines, cut, for the log
	JWKSURL string      // where the set was fetched; empty for a file
	MaxAge  time.Duration
	HasAge  bool      // the answer's Cache-Control has MaxAge
	Date    time.Time // the issuer's clock by the answer's Date; zero without
}

// Fetcher fetches one issuer's keys. It is not safe for concurrent use.
type Fetcher struct {
	src  Source
	base http.RoundTripper
	// pinned is the key set's URL once it is known. Discovery is done again
	// after a failure, and may name another path then but no other origin.
	pinned  *url.URL
	suspect bool // the last fetch from pinned failed
}

// NewFetcher returns a Fetcher for a valid source.
func NewFetcher(s Source) (*Fetcher, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	base, err := newTransport(s)
	if err != nil {
		return nil, err
	}
	f := &Fetcher{src: s, base: base}
	if s.JWKSURL != "" {
		if f.pinned, err = s.allowed(s.JWKSURL); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Fetch gets the current key set. It takes at most 5 s a request and makes two
// at most, redirects within the origin aside. The error is always an *Error.
func (f *Fetcher) Fetch(ctx context.Context) (Result, error) {
	if f.src.JWKSFile != "" {
		return readFile(f.src.JWKSFile)
	}
	undiscovered := f.discover(ctx)
	if f.pinned == nil {
		return Result{}, undiscovered
	}
	r, err := f.fetchSet(ctx)
	f.suspect = err != nil
	if err == nil {
		return r, nil
	}
	if undiscovered != nil {
		return Result{}, undiscovered // what the operator has to look at first
	}
	return Result{}, err
}

// discover finds the key set's URL when it isn't known or did not answer. It
// leaves a known one in place when it fails.
func (f *Fetcher) discover(ctx context.Context) error {
	if f.src.JWKSURL != "" || f.pinned != nil && !f.suspect {
		return nil
	}
	doc, err := f.readDiscovery(ctx)
	if err != nil {
		return err
	}
	if doc.Issuer != string(f.src.Issuer) {
		return &Error{Doing: doingDiscovery, Health: keys.HealthIssuer, Found: printable(doc.Issuer)}
	}
	u, err := f.src.allowed(doc.JWKSURI)
	switch {
	case err != nil:
		return &Error{Doing: doingDiscovery, Health: keys.HealthInsecure}
	case f.pinned != nil && origin(u) != origin(f.pinned):
		return &Error{Doing: doingDiscovery, Health: keys.HealthMoved}
	}
	f.pinned = u
	return nil
}

// document is what we use of the discovery document. The algorithms that it
// lists are not: those are the configuration's.
type document struct {
	Issuer  string `json:"issuer"`
	JWKSURI string `json:"jwks_uri"`
}

// readDiscovery fetches the document with go-oidc and reads it again from its
// raw bytes, with exact and unique names, which go-oidc does not ask for.
func (f *Fetcher) readDiscovery(ctx context.Context) (document, error) {
	x := &exchange{base: f.base, limit: maxDiscovery}
	ctx = oidc.ClientContext(ctx, x.client())
	if f.src.DiscoveryURL != "" {
		// go-oidc would compare the document's issuer with the URL that it was
		// fetched from, which is another one here on purpose. discover compares
		// it with the configured issuer in both cases.
		ctx = oidc.InsecureIssuerURLContext(ctx, string(f.src.Issuer))
	}
	p, err := oidc.NewProvider(ctx, f.src.discoveryBase())
	var mismatch *oidc.IssuerMismatchError
	switch {
	case errors.As(err, &mismatch):
		return document{}, &Error{Doing: doingDiscovery, Health: keys.HealthIssuer, Found: printable(mismatch.Discovered)}
	case err != nil:
		return document{}, failure(doingDiscovery, err, x)
	}
	var raw jsontext.Value
	if err := p.Claims(&raw); err != nil {
		return document{}, failure(doingDiscovery, errMalformed, x)
	}
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return document{}, failure(doingDiscovery, errMalformed, x)
	}
	return doc, nil
}

// fetchSet gets the key set from the pinned URL.
func (f *Fetcher) fetchSet(ctx context.Context) (Result, error) {
	x := &exchange{base: f.base, limit: token.MaxJWKSBytes}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.pinned.String(), nil)
	if err != nil {
		return Result{}, failure(doingSet, err, x)
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	resp, err := x.client().Do(req)
	if err != nil {
		return Result{}, failure(doingSet, err, x)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Result{}, failure(doingSet, fmt.Errorf("status %d", resp.StatusCode), x)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Result{}, failure(doingSet, err, x)
	}
	r, err := parseSet(doingSet, body)
	if err != nil {
		return Result{}, err
	}
	r.JWKSURL = f.pinned.String()
	r.MaxAge, r.HasAge = maxAge(resp.Header)
	r.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	return r, nil
}

// parseSet reads a key set; one without a usable key is an error.
func parseSet(doing string, body []byte) (Result, error) {
	ks, dropped, err := token.ParseJWKSReport(body)
	if err == nil && len(ks) > 0 {
		return Result{Keys: ks, LeftOut: few(dropped)}, nil
	}
	e := &Error{Doing: doing, Health: keys.HealthMalformed}
	if v := jsontext.Value(body); v.IsValid() && v.Kind() == '{' {
		e.Health, e.LeftOut = keys.HealthNoKey, few(dropped)
	}
	return Result{}, e
}

// maxAge reads max-age of Cache-Control (RFC 9111 section 5.2.2.1). With
// no-cache or no-store the answer says nothing about how long it lasts.
func maxAge(h http.Header) (d time.Duration, ok bool) {
	for part := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "=")
		switch name {
		case "no-cache", "no-store":
			return 0, false
		case "max-age":
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err == nil && !ok {
				d, ok = time.Duration(n)*time.Second, true
			}
		}
	}
	return d, ok
}

// readFile reads a key set file. Who can write it, or put another into its place, can
// forge tokens: it is root's or our own, and only its owner may write it.
func readFile(name string) (Result, error) {
	fail := func(detail string) (Result, error) {
		return Result{}, &Error{Doing: doingFile, Health: keys.HealthFile, Detail: detail}
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fail("it does not exist")
	case errors.Is(err, os.ErrPermission):
		return fail("no permission to read it")
	case err != nil:
		return fail("it can't be opened")
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil || !st.Mode().IsRegular():
		return fail("it is no regular file")
	case st.Sys().(*syscall.Stat_t).Uid != 0 && int(st.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return fail("it belongs to another account")
	case st.Mode().Perm()&0o022 != 0:
		return fail("it is writable by its group or by others")
	}
	body, err := io.ReadAll(io.LimitReader(f, token.MaxJWKSBytes+1))
	switch {
	case err != nil:
		return fail("it can't be read")
	case len(body) > token.MaxJWKSBytes:
		return fail("it is larger than 256 KiB")
	}
	return parseSet(doingFile, body)
}

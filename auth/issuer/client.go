package issuer

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	// requestTimeout is for one request, from the name's resolution to the last
	// byte of the body.
	requestTimeout = 5 * time.Second

	maxHeader    = 32 << 10
	maxRedirects = 3
)

// newTransport returns a transport for one source. It keeps no connection, uses
// no proxy whatever the environment says, and asks for no compression.
func newTransport(s Source) (*http.Transport, error) {
	pool, err := s.pool()
	if err != nil {
		return nil, err
	}
	// A transport goes on with a connection when the request that wanted it is over:
	// what hangs before the first byte of a request has to end by itself.
	dial := &net.Dialer{Timeout: requestTimeout}
	if s.demo() {
		dial.ControlContext = onlyLoopback
	}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dial.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
		TLSHandshakeTimeout:    requestTimeout,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}, nil
}

// onlyLoopback keeps a demo issuer's cleartext on this machine whatever its name
// resolves to.
func onlyLoopback(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !ap.Addr().Unmap().IsLoopback() {
		return errNotLocal
	}
	return nil
}

// exchange is one request with its redirects: a round tripper that bounds the
// body and remembers what the answer was, because the errors of those who read
// it through an http.Client don't keep that apart.
type exchange struct {
	base  http.RoundTripper
	limit int64 // bytes of body

	status   int  // of the last answer, 0 for none
	overflow bool // the body was larger than limit
	complete bool // the body was read to its end
}

// client returns the http.Client of this exchange.
func (x *exchange) client() *http.Client {
	return &http.Client{Transport: x, CheckRedirect: checkRedirect, Timeout: requestTimeout}
}

// RoundTrip implements http.RoundTripper.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	x.status, x.complete = 0, false
	resp, err := x.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.status = resp.StatusCode
	resp.Body = &boundedBody{x: x, body: resp.Body, left: x.limit}
	return resp, nil
}

// checkRedirect follows a redirect within one origin only.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || origin(r.URL) != origin(via[0].URL) {
		return errRedirect
	}
	return nil
}

// boundedBody fails a read beyond the limit instead of ending quietly, so that a
// cut document is never taken for a whole one.
type boundedBody struct {
	x    *exchange
	body io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.x.overflow = true
		return 0, errTooLarge
	}
	if err == io.EOF {
		b.x.complete = true
	}
	return n, err
}

func (b *boundedBody) Close() error { return b.body.Close() }

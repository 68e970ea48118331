// Package login is the client's side of signing in: from a server's URL alone to
// an access token that stays fresh for as long as the issuer allows. It follows
// the server's challenge to its metadata document (RFC 9728) and on to the
// issuer, signs a person in with a browser (OAuth 2.1 section 4.1, RFC 8252) or
// with a code on another device (RFC 8628), both with PKCE, and keeps the refresh
// token in a file of its own for each server.
package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	// DefaultClient is the client that is asked with where the issuer registers
	// nobody: setup-oidc-users.sh makes it.
	DefaultClient = "mcp-cli"

	offline = "offline_access" // the scope that makes a sign-in last

	// bodyLimit bounds each document that is read, in bytes.
	bodyLimit = 1 << 20

	// requestTimeout is for one request with its answer.
	requestTimeout = 30 * time.Second
)

// Client signs in at one server. Server, HTTP, Store and Say are required.
type Client struct {
	Server string // the MCP endpoint, as the person types it
	Store  Store
	HTTP   *http.Client

	// ClientID is a client that the issuer knows. Empty: the one of the last
	// sign-in, else registration where it is offered (RFC 7591), else
	// DefaultClient.
	ClientID string
	// Issuer chooses among several issuers of a server. Empty: the first.
	Issuer string
	// Online asks for no offline_access: the sign-in ends with the issuer's own
	// session.
	Online bool

	// Renew makes Token get a new token even if the last one is fresh.
	Renew bool

	Open func(address string) error // shows an address in a browser; nil: the person does it
	Say  func(line string)          // tells the person something
	Now  func() time.Time           // nil: time.Now
}

// ErrSignIn is what an error of [Client.Token] is when only a new sign-in helps.
var ErrSignIn = errors.New("sign in again")

func (c *Client) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// SignIn signs a person in, with device by a code on another device, and keeps
// what came of it. It replaces an earlier sign-in at the same server.
func (c *Client) SignIn(ctx context.Context, device bool) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	unlock, err := c.Store.lock(ctx, c.Server)
	if err != nil {
		return err
	}
	old, err := c.Store.read(c.Server)
	unlock()
	if err != nil && !errors.Is(err, errNone) {
		return err
	}
	var e *entry
	if device {
		e, err = c.byDevice(ctx, d, old)
	} else {
		e, err = c.byBrowser(ctx, d, old)
	}
	if err != nil {
		return err
	}
	// The person took their time: only now is the lock held for writing.
	if unlock, err = c.Store.lock(ctx, c.Server); err != nil {
		return err
	}
	defer unlock()
	return c.Store.write(e)
}

// scopes is what to ask for: what the challenge says, and offline_access where
// the issuer has it, so that the sign-in lasts.
func (c *Client) scopes(d *discovered) []string {
	out := slices.DeleteFunc(slices.Clone(d.scopes), func(s string) bool { return s == offline })
	if !c.Online && (slices.Contains(d.scopes, offline) || slices.Contains(d.metadata.ScopesSupported, offline)) {
		out = append(out, offline)
	}
	return out
}

// origin is scheme, host and port of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"
)

// discovered is what a server and its issuer say about themselves.
type discovered struct {
	resource string // the server's resource identifier
	issuer   string
	scopes   []string // what the server wants a token to have
	endpoint oauth2.Endpoint
	metadata metadata
}

// metadata is what is used of the issuer's document (RFC 8414 section 2).
type metadata struct {
	Issuer           string   `json:"issuer"`
	Authorization    string   `json:"authorization_endpoint"`
	Token            string   `json:"token_endpoint"`
	Device           string   `json:"device_authorization_endpoint"`
	Registration     string   `json:"registration_endpoint"`
	Revocation       string   `json:"revocation_endpoint"`
	ScopesSupported  []string `json:"scopes_supported"`
	ChallengeMethods []string `json:"code_challenge_methods_supported"`
	IssParameter     bool     `json:"authorization_response_iss_parameter_supported"`
}

// document is a protected resource's metadata document (RFC 9728 section 2).
type document struct {
	Resource string   `json:"resource"`
	Issuers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// discover goes from the server's URL over its challenge and its metadata
// document to the issuer's configuration.
func (c *Client) discover(ctx context.Context) (*discovered, error) {
	server, err := checkURL(c.Server)
	if err != nil {
		return nil, err
	}
	ch, err := c.challenge(ctx)
	if err != nil {
		return nil, err
	}
	doc, err := c.document(ctx, server, ch)
	if err != nil {
		return nil, err
	}
	d := &discovered{resource: doc.Resource, scopes: ch.scopes}
	if len(d.scopes) == 0 {
		d.scopes = doc.Scopes
	}
	switch {
	case len(doc.Issuers) == 0:
		return nil, fmt.Errorf("the server at %s names no issuer in its metadata document", c.Server)
	case c.Issuer == "":
		d.issuer = doc.Issuers[0]
	case !slices.Contains(doc.Issuers, c.Issuer):
		return nil, fmt.Errorf("the server at %s takes no tokens of %s, only of %s", c.Server, c.Issuer, plain(strings.Join(doc.Issuers, ", ")))
	default:
		d.issuer = c.Issuer
	}
	return d, c.configuration(ctx, d)
}

// configuration reads the issuer's own document.
func (c *Client) configuration(ctx context.Context, d *discovered) error {
	at, err := checkURL(d.issuer)
	if err != nil {
		return fmt.Errorf("the issuer of %s: %w", c.Server, err)
	}
	if d.metadata, err = c.issuersDocument(ctx, at, d.issuer); err != nil {
		return fmt.Errorf("read the configuration of the issuer %s: %s%s", d.issuer, plain(err.Error()), tlsHint(err))
	}
	if !slices.Contains(d.metadata.ChallengeMethods, "S256") {
		return fmt.Errorf("the issuer %s does not offer PKCE with S256 (code_challenge_methods_supported), without which nobody should sign in", d.issuer)
	}
	d.endpoint = oauth2.Endpoint{AuthURL: d.metadata.Authorization, TokenURL: d.metadata.Token, DeviceAuthURL: d.metadata.Device,
		AuthStyle: oauth2.AuthStyleInParams} // public clients have no secret to put anywhere else
	return d.checkEndpoints()
}

// issuersDocument finds an issuer's document in one of its places. It has to name the
// issuer that was asked for, byte for byte (RFC 8414 section 3.3).
func (c *Client) issuersDocument(ctx context.Context, at *url.URL, issuer string) (metadata, error) {
	var tried []error
	for _, place := range issuersPlaces(at) {
		var m metadata
		err := c.getJSON(ctx, place, &m)
		if err == nil && m.Issuer == issuer {
			return m, nil
		}
		if _, ok := errors.AsType[*url.Error](err); ok {
			return m, err // there is nobody to ask for another
		}
		if err == nil {
			err = fmt.Errorf("%s names the issuer %q", place, m.Issuer)
		}
		tried = append(tried, err)
	}
	return metadata{}, errors.Join(tried...)
}

// issuersPlaces are where an issuer's document can lie, in the order in which a client
// has to look (MCP 2025-11-25, authorization; RFC 8414 sections 3.1 and 5).
func issuersPlaces(issuer *url.URL) []string {
	const oidc = "/.well-known/openid-configuration"
	host, path := origin(issuer), strings.TrimSuffix(issuer.EscapedPath(), "/")
	places := []string{host + "/.well-known/oauth-authorization-server" + path, host + oidc + path}
	if path != "" {
		places = append(places, host+path+oidc)
	}
	return places
}

// checkEndpoints wants TLS wherever a code or a token goes (OAuth 2.1 section 1.5).
// The address that a browser is started with is among them: it is the issuer's word,
// and the issuer is the server's.
func (d *discovered) checkEndpoints() error {
	for _, e := range []struct{ name, at string }{
		{"authorization_endpoint", d.endpoint.AuthURL}, {"token_endpoint", d.endpoint.TokenURL},
		{"device_authorization_endpoint", d.endpoint.DeviceAuthURL}, {"revocation_endpoint", d.metadata.Revocation},
	} {
		if e.at == "" {
			continue // it is missed where it is needed
		}
		if _, err := checkURL(e.at); err != nil {
			return fmt.Errorf("the %s of the issuer %s: %w (behind a proxy an issuer has to be told its public address)", e.name, d.issuer, err)
		}
	}
	return nil
}

// checkURL takes https, and http on this machine.
func checkURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("%q: want a whole URL, such as https://mcp.example.com/mcp", raw)
	}
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return nil, fmt.Errorf("%s: want https; http is for this machine only", raw)
	}
	return u, nil
}

// challenged is what the server's 401 said (RFC 6750 section 3, RFC 9728 section 5.1).
type challenged struct {
	metadataURL string
	scopes      []string
}

// challenge asks the server for something without a token.
func (c *Client) challenge(ctx context.Context) (challenged, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Server, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return challenged{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return challenged{}, fmt.Errorf("ask %s: %w%s", c.Server, err, tlsHint(err))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized:
	case http.StatusNotFound:
		return challenged{}, fmt.Errorf("%s is no MCP endpoint (404): the path is part of the URL, usually /mcp", c.Server)
	default:
		if resp.StatusCode == http.StatusBadRequest && req.URL.Scheme == "http" { // what a TLS port answers
			return challenged{}, fmt.Errorf("%s answers %s: write https:// if it is a server with TLS", c.Server, plain(resp.Status))
		}
		return challenged{}, fmt.Errorf("%s answers %s without asking for a token: no sign-in is needed there, or it is no MCP endpoint", c.Server, plain(resp.Status))
	}
	for _, v := range resp.Header.Values("WWW-Authenticate") {
		if p, ok := bearerParams(v); ok {
			return challenged{p["resource_metadata"], strings.Fields(p["scope"])}, nil
		}
	}
	return challenged{}, nil
}

// document reads the server's metadata document, where the challenge says or else
// where RFC 9728 section 3.1 puts it or at the root, and checks that it is the server's.
func (c *Client) document(ctx context.Context, server *url.URL, ch challenged) (document, error) {
	var doc document
	places := []string{ch.metadataURL}
	if ch.metadataURL == "" {
		const root = "/.well-known/oauth-protected-resource"
		places = []string{origin(server) + root + strings.TrimSuffix(server.EscapedPath(), "/"), origin(server) + root}
	}
	u, err := checkURL(places[0])
	if err != nil {
		return doc, fmt.Errorf("the server's resource_metadata: %w", err)
	}
	if origin(u) != origin(server) {
		return doc, fmt.Errorf("the server at %s calls itself %s: use the URL with that name", c.Server, origin(u))
	}
	for _, at := range places {
		doc = document{}
		if err = c.getJSON(ctx, at, &doc); err == nil {
			break
		}
	}
	if err != nil {
		return doc, fmt.Errorf("read the server's metadata document: %w\nA server for given tokens only may not advertise one (http.advertise_metadata); then sign-in is not possible from here", err)
	}
	if doc.Resource != c.Server {
		return doc, fmt.Errorf("the server at %s calls itself %q: use exactly that URL (RFC 9728 section 3.3)", c.Server, doc.Resource)
	}
	return doc, nil
}

// getJSON reads one JSON document.
func (c *Client) getJSON(ctx context.Context, at string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	status, body, err := c.do(req)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answers %d", at, status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// do sends a request and reads the answer, up to bodyLimit.
func (c *Client) do(req *http.Request) (status int, body []byte, err error) {
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, bodyLimit+1))
	if err == nil && len(body) > bodyLimit {
		err = errors.New("the answer is too large")
	}
	return resp.StatusCode, bytes.TrimSpace(body), err
}

// bearerParams reads the parameters of a Bearer challenge. Quoted strings have no
// escapes there that matter to us (RFC 6750 section 3 forbids quotation marks and
// backslashes in what we read).
func bearerParams(v string) (map[string]string, bool) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(v), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, false
	}
	params := map[string]string{}
	for rest = strings.TrimLeft(rest, " ,"); rest != ""; rest = strings.TrimLeft(rest, " ,") {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		var value string
		if after, ok = strings.CutPrefix(after, `"`); ok {
			value, rest, _ = strings.Cut(after, `"`)
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := params[name]; !twice {
			params[name] = strings.TrimSpace(value)
		}
	}
	return params, true
}

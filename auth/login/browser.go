package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
)

// callbackPath is where the browser brings the code on this machine.
const callbackPath = "/callback"

// returned is what the browser brought back.
type returned struct {
	code string
	err  error
}

// byBrowser signs in with a browser on this machine (RFC 8252 section 7.3).
func (c *Client) byBrowser(ctx context.Context, d *discovered, old *entry) (*entry, error) {
	ln, err := c.listen(old)
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	defer ln.Close()
	redirect := "http://" + ln.Addr().String() + callbackPath
	as, err := c.identify(ctx, d, old, redirect)
	if err != nil {
		return nil, err
	}
	conf := &oauth2.Config{ClientID: as.id, Endpoint: d.endpoint, RedirectURL: redirect, Scopes: c.scopes(d)}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	address := conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", d.resource))

	got := make(chan returned, 1)
	srv := &http.Server{Handler: c.callback(d, state, got), ReadHeaderTimeout: 10 * time.Second}
	go srv.Serve(ln)
	defer func() {
		shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		srv.Shutdown(shut) // the person reads our last page
	}()
	if c.Open == nil || c.Open(address) != nil {
		c.Say("Open this address in a browser on this machine to sign in:\n\n  " + address + "\n")
	} else {
		c.Say("A browser opens for you to sign in. If it does not:\n\n  " + address + "\n")
	}
	var r returned
	select {
	case r = <-got:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the sign-in: %w", ctx.Err())
	}
	if r.err != nil {
		return nil, r.err
	}
	tok, err := conf.Exchange(c.oauth(ctx), r.code, oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", d.resource))
	if err != nil {
		return nil, refused("get the token", err)
	}
	return c.newEntry(d, conf, as, tok)
}

// listen takes the port of the last sign-in where it is free, because a registered
// client may come back to no other.
func (c *Client) listen(old *entry) (net.Listener, error) {
	if old != nil && c.ClientID == "" {
		if u, err := url.Parse(old.Redirect); err == nil && u.Host != "" {
			if ln, err := net.Listen("tcp4", u.Host); err == nil {
				return ln, nil
			}
		}
	}
	return net.Listen("tcp4", "127.0.0.1:0")
}

// callback takes the one answer that carries our state.
func (c *Client) callback(d *discovered, state string, got chan<- returned) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			page(w, http.StatusBadRequest, "This is not the sign-in that was asked for. Nothing was done.")
			return
		}
		out := returned{code: q.Get("code"), err: answered(d, q)}
		text := "Signed in. You can close this page."
		if out.err != nil {
			text = "Not signed in: " + out.err.Error()
		}
		page(w, http.StatusOK, text)
		select {
		case got <- out:
		default: // the second time
		}
	})
	return mux
}

// answered judges the issuer's answer (RFC 6749 section 4.1.2, RFC 9207 section 2.4).
func answered(d *discovered, q url.Values) error {
	iss := q.Get("iss")
	switch {
	case iss != "" && iss != d.issuer, iss == "" && d.metadata.IssParameter:
		return fmt.Errorf("the answer came from another issuer than %s; nothing was done", d.issuer)
	case q.Get("error") != "":
		return refused("sign in", &oauth2.RetrieveError{ErrorCode: q.Get("error"), ErrorDescription: q.Get("error_description")})
	case q.Get("code") == "":
		return errors.New("the issuer sent neither a code nor an error")
	}
	return nil
}

func page(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!doctype html><title>Gatehouse</title><p>%s</p>\n", html.EscapeString(text))
}
